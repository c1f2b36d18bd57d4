"""How close generated texts come to their references, over the whole corpus, as sacrebleu counts it."""

from itertools import zip_longest

from evaluate.info import Value
from sacrebleu.metrics import BLEU, CHRF

from zoo.metrics.metric import Metric, metrics


class TextMetric(Metric):
    """A metric of texts, each with a list of references (which may differ in length)."""

    higher_is_better = True
    needs = "texts"
    inputs = {"predictions": Value("string"), "references": [Value("string")]}


@metrics.register("bleu")
class Bleu(TextMetric):
    """Corpus BLEU, 0 to 100, with sacrebleu's own tokenizer (13a), case kept.

    Source: Papineni et al. 2002; Post 2018, arXiv:1804.08771.
    """

    def measure(self, predictions: list[str], references: list[list[str]]) -> float:
        return float(BLEU().corpus_score(predictions, streams(references)).score)


@metrics.register("chrf")
class Chrf(TextMetric):
    """Corpus chrF, 0 to 100: F2 of character n-grams up to 6, whitespace left out.

    Source: Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation".
    """

    def measure(self, predictions: list[str], references: list[list[str]]) -> float:
        return float(CHRF().corpus_score(predictions, streams(references)).score)


def streams(references: list[list[str]]) -> list[list[str | None]]:
    """References by position instead of by example, as sacrebleu takes them; None where an example has fewer.

    Raises:
        ValueError: an example has no reference.
    """
    bare = next((i for i, texts in enumerate(references) if not texts), None)
    if bare is not None:
        raise ValueError(f"references[{bare}]: an example needs at least one reference")
    return [list(stream) for stream in zip_longest(*references)]
