"""Metrics of generated texts against references, over the whole corpus, most of them computed by sacrebleu."""

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any, ClassVar

from sacrebleu.metrics import BLEU, CHRF

from zoo.metrics.metric import Metric, metrics


class TextMetric(Metric):
    """A metric of texts, each with a list of references (not all with the same number).

    Class attributes:
        counter: makes the sacrebleu metric that computes it.
    """

    higher_is_better = True
    best = 100.0
    needs = "texts"
    inputs = {"predictions": "string", "references": ["string"]}
    counter: ClassVar[Callable[[], Any]]

    def measure(self, predictions: list[str], references: list[list[str]]) -> float:
        return float(type(self).counter().corpus_score(predictions, transpose_references(references)).score)


@metrics.register("bleu")
class Bleu(TextMetric):
    """Corpus BLEU, 0 to 100, with sacrebleu's own tokenizer (13a), case kept.

    Source: Papineni et al. 2002; Post 2018, arXiv:1804.08771.
    """

    counter = BLEU


# Corpus BLEU of n-grams up to `longest` words, 0 to 100, lower-cased as is usual for captions; 13a tokens.
# Source: Papineni et al. 2002; Xu et al. 2015, arXiv:1502.03044, section 5 (BLEU-1 to 4), here with the brevity
# penalty, which they leave out.
for longest in range(1, 5):

    @metrics.register(f"bleu-{longest}")
    class BleuUpTo(TextMetric):
        __doc__ = "BLEU of words." if longest == 1 else f"BLEU of n-grams of 1 to {longest} words."
        # force: sacrebleu would warn of the space before the full stop in captions
        counter = partial(BLEU, max_ngram_order=longest, lowercase=True, force=True)


@metrics.register("chrf")
class Chrf(TextMetric):
    """Corpus chrF, 0 to 100: F2 of character n-grams up to 6, whitespace left out.

    Source: Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation".
    """

    counter = CHRF


@metrics.register("sequence_accuracy")
class SequenceAccuracy(TextMetric):
    """Share of texts that equal one of their references exactly, 0 to 1."""

    best = 1.0

    def measure(self, predictions: list[str], references: list[list[str]]) -> float:
        pairs = zip(predictions, references, strict=True)
        return sum(said in known for said, known in pairs) / len(predictions)


def transpose_references(references: list[list[str]]) -> list[list[str | None]]:
    """Transpose references for sacrebleu: by position instead of by example; None where an example has fewer.

    Raises:
        ValueError: an example has no reference.
    """
    bare = next((i for i, texts in enumerate(references) if not texts), None)
    if bare is not None:
        raise ValueError(f"references[{bare}]: an example needs at least one reference")
    return [list(stream) for stream in zip_longest(*references)]
