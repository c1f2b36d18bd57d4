"""Metrics of extracted answers as in SQuAD's official script: 0 to 100, each against the nearest reference answer."""

import re
import string
from abc import abstractmethod
from collections import Counter

from zoo.metrics.metric import Metric, metrics

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lower-case a text, remove ASCII punctuation and the articles a, an and the, and collapse white space."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


class AnswerMetric(Metric):
    """A metric of answers, each with a list of reference answers; a question without an answer has the answer ''.

    Source: Rajpurkar et al. 2016, arXiv:1606.05250, section 6.1, and 2018, arXiv:1806.03822; evaluate-v2.0.py. As
    there, texts of all languages are split at white space, and only English articles are removed.
    """

    higher_is_better = True
    best = 100.0
    needs = "answers"
    inputs = {"predictions": "string", "references": ["string"]}

    @staticmethod
    @abstractmethod
    def agreement(prediction: str, answer: str) -> float:
        """Score a prediction against one reference answer, 0 to 1."""

    def measure(self, predictions: list[str], references: list[list[str]]) -> float:
        total = 0.0
        for prediction, answers in zip(predictions, references, strict=True):
            told = list(filter(normalize, answers)) or [""]  # as in the script, '' replaces empty references
            total += max(self.agreement(prediction, answer) for answer in told)
        return 100 * total / len(predictions)


@metrics.register("exact_match")
class ExactMatch(AnswerMetric):
    """Share of answers that equal a reference answer, both normalized; 0 to 100."""

    @staticmethod
    def agreement(prediction: str, answer: str) -> float:
        return float(normalize(prediction) == normalize(answer))


@metrics.register("span/f1")
class AnswerF1(AnswerMetric):
    """The mean F1 of each answer's words against those of the nearest reference answer; 0 to 100."""

    @staticmethod
    def agreement(prediction: str, answer: str) -> float:
        predicted, true = normalize(prediction).split(), normalize(answer).split()
        if not predicted or not true:
            return float(predicted == true)
        common = (Counter(predicted) & Counter(true)).total()
        return 2 * common / (len(predicted) + len(true))
