"""F1 of the spans that tags mark."""

import warnings
from collections.abc import Sequence

from zoo.metrics.metric import Metric, metrics
from zoo.wording import first_few

PREFIXES = ("B-", "I-", "E-", "S-", "L-", "U-")
SAME_PREFIXES = {"L-": "E-", "U-": "S-"}  # BILOU's prefixes of a span's last word, and of a one-word span


@metrics.register("tagging/f1")
class SpanF1(Metric):
    """F1 of spans over all sentences, as seqeval's `f1_score`; a span is correct if its boundaries and type are.

    BILOU's L- and U- are read as E- and S-, which mean the same: seqeval would take both for the middle of a span.

    Source: Tjong Kim Sang & De Meulder 2003, section 3 (conlleval); Nakayama 2018, github chakki-works/seqeval.
    """

    higher_is_better = True
    best = 1.0
    needs = "tags"
    inputs = {"predictions": ["string"], "references": ["string"]}
    library = "seqeval.metrics:f1_score"

    def obstacle(self, labels: Sequence[str]) -> str | None:
        odd = [label for label in labels if label != "O" and label[:2] not in PREFIXES]
        if not odd:
            return None
        return f"it counts spans, so it needs tags such as B-place, I-place and O; got {first_few(odd)}; try accuracy"

    def measure(self, predictions: list[list[str]], references: list[list[str]]) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about splits without any span, whose F1 is 0
            return float(self.count(as_iobes(references), as_iobes(predictions)))


def as_iobes(sentences: list[list[str]]) -> list[list[str]]:
    """Rewrite BILOU's L- and U- as the E- and S- that seqeval reads."""
    return [[SAME_PREFIXES.get(tag[:2], tag[:2]) + tag[2:] for tag in tags] for tags in sentences]
