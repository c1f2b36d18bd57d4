"""How well answers are found, as SQuAD's official script counts it: 0 to 100, over the best of each list of answers."""

import re
import string
from abc import abstractmethod
from collections import Counter

from zoo.metrics.metric import Metric, metrics

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """A text in small letters without ASCII's punctuation, without a, an and the, its words one space apart."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


class AnswerMetric(Metric):
    """A metric of answers, each with a list of right ones; a question without an answer has the answer ''.

    Source: Rajpurkar et al. 2016, arXiv:1606.05250, section 6.1, and 2018, arXiv:1806.03822; evaluate-v2.0.py. As
    there, texts of all languages are split at white space, and English articles alone are left out.
    """

    higher_is_better = True
    best = 100.0
    needs = "answers"
    inputs = {"predictions": "string", "references": ["string"]}

    @staticmethod
    @abstractmethod
    def agreement(prediction: str, answer: str) -> float:
        """Of a prediction and one right answer, 0 to 1."""

    def measure(self, predictions: list[str], references: list[list[str]]) -> float:
        total = 0.0
        for prediction, answers in zip(predictions, references, strict=True):
            told = list(filter(normalize, answers)) or [""]  # one of articles and punctuation alone is none
            total += max(self.agreement(prediction, answer) for answer in told)
        return 100 * total / len(predictions)


@metrics.register("exact_match")
class ExactMatch(AnswerMetric):
    """Answers that equal a right one, both normalized; 0 to 100."""

    @staticmethod
    def agreement(prediction: str, answer: str) -> float:
        return float(normalize(prediction) == normalize(answer))


@metrics.register("span/f1")
class AnswerF1(AnswerMetric):
    """The mean F1 of each answer's words with those of the nearest right answer; 0 to 100."""

    @staticmethod
    def agreement(prediction: str, answer: str) -> float:
        predicted, true = normalize(prediction).split(), normalize(answer).split()
        if not predicted or not true:
            return float(predicted == true)
        common = (Counter(predicted) & Counter(true)).total()
        return 2 * common / (len(predicted) + len(true))
