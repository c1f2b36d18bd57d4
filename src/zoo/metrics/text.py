"""How close generated texts come to their references, over the whole corpus, as sacrebleu counts it."""

from abc import ABC
from itertools import zip_longest
from typing import ClassVar

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


class BleuOf(TextMetric, ABC):
    """Corpus BLEU of n-grams up to a length, 0 to 100, in lower case as captions are scored; 13a tokens.

    Source: Papineni et al. 2002; Xu et al. 2015, arXiv:1502.03044, section 5 (BLEU-1 to 4), here with the penalty for
    brevity, which they leave out.

    Class attributes:
        longest: of the n-grams (words).
    """

    longest: ClassVar[int]

    def measure(self, predictions: list[str], references: list[list[str]]) -> float:
        # force: captions have a space before their full stop, which sacrebleu would warn of
        counter = BLEU(max_ngram_order=self.longest, lowercase=True, force=True)
        scored = counter.corpus_score(predictions, streams(references))
        return float(scored.score)


@metrics.register("bleu-1")
class Bleu1(BleuOf):
    """Words."""

    longest = 1


@metrics.register("bleu-2")
class Bleu2(BleuOf):
    """Words and pairs of them."""

    longest = 2


@metrics.register("bleu-3")
class Bleu3(BleuOf):
    """Up to three words in a row."""

    longest = 3


@metrics.register("bleu-4")
class Bleu4(BleuOf):
    """Up to four words in a row."""

    longest = 4


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
