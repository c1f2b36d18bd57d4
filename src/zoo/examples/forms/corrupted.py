"""Form `corrupted`: the source is a text with missing spans, the target the missing spans."""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from zoo.data.ids import Ids, Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form, Limits, ModelTraits, forms
from zoo.examples.randomness import Purpose, keyed
from zoo.examples.template import CAUSAL_TEXT, cut, predict_next


class Noise(NamedTuple):
    """How much of a text is missing: the number of tokens, and of spans."""

    tokens: int
    spans: int


@forms.register("corrupted")
class Corrupted(Form):
    """A source `x… <0> x… <1> </s>` and a target `<0> y… <1> y… </s>`: each sentinel replaces a span of the other.

    A text longer than an example is cut into several with nothing lost; a single token is left out. As in T5, each
    example begins with text and ends with a missing span; if there is only one span, the text's end is missing.
    Source: Raffel et al. 2020 (T5), arXiv:1910.10683, section 3.1.4; text-to-text-transfer-transformer,
    t5/data/preprocessors.py, `random_spans_noise_mask` (which begins with text and ends with noise).

    Args:
        share: fraction of a text's tokens that are missing.
        mean_span: mean length of a missing span (tokens).
        sentinels: number of sentinel tokens in the tokenizer.
    """

    stored = StoredFields(("text",), predicted=("text",))
    lengths_suffice = False
    source = True
    template = CAUSAL_TEXT

    def __init__(
        self, traits: ModelTraits, whole: bool, *, share: float = 0.15, mean_span: float = 3.0, sentinels: int = 100
    ) -> None:
        super().__init__(traits, whole)
        self.share, self.mean_span, self.sentinels = share, mean_span, sentinels

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        span, generator = lengths.span("text", document), keyed(Purpose.PLAN, seed, epoch, document)
        if span.length < 2:
            return []
        plans: list[ExamplePlan] = []
        room = most_tokens(limits, self.share, self.mean_span)
        for start, stop in cut(span.length, room, generator, first=2, last=2):
            if stop - start < 2:
                continue
            noise = noise_of(stop - start, self.share, self.mean_span)
            borders = span.start + start + spans(stop - start, noise, generator)
            pieces = tuple(Piece("text", a, b) for a, b in pairwise(borders.tolist()))
            plans.append(ExamplePlan(document, len(plans), *places_of(stop - start, noise), pieces))
        return plans

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        pieces = [read(piece) for piece in plan.pieces]
        # sentinel k stands before span k in the target, and in its place in the source; later ones are not used
        sentinels = [np.array([i], dtype=np.int64) for i in roles.sentinels]
        missing = [part for pair in zip(sentinels, pieces[1::2], strict=False) for part in pair]
        kept = [part for pair in zip(pieces[::2], sentinels, strict=False) for part in pair]
        return predict_next(plan, np.concatenate(missing), roles, np.concatenate(kept))

    def check(self, limits: Limits) -> None:
        super().check(limits)
        needed = noise_of(most_tokens(limits, self.share, self.mean_span), self.share, self.mean_span).spans
        if needed > self.sentinels:
            raise ValueError(
                f"longest: an example of {limits.source} tokens has {needed} missing spans, but the tokenizer "
                f"{self.sentinels} sentinels; shorten it, or set sentinels of span_corruption"
            )


def noise_of(length: int, share: float, mean_span: float) -> Noise:
    """How much of a text of `length` tokens is missing: at least one token, and never all."""
    tokens = min(max(round(length * share), 1), length - 1)
    return Noise(tokens, min(max(round(tokens / mean_span), 1), length - tokens))


def places_of(length: int, noise: Noise) -> tuple[int, int]:
    """Lengths of the target and of the source (tokens); each has one sentinel per span, and `</s>`."""
    return noise.tokens + noise.spans + 1, length - noise.tokens + noise.spans + 1


def spans(length: int, noise: Noise, generator: np.random.Generator) -> Ids:
    """Draw the 2 · spans + 1 borders of alternating spans of text and noise, from 0 to `length`."""
    parts = [segments(n, noise.spans, generator) for n in (noise.tokens, length - noise.tokens)]
    return np.cumsum([0, *np.stack([parts[1], parts[0]], axis=1).ravel()])  # text first, as in T5


def segments(items: int, count: int, generator: np.random.Generator) -> Ids:
    """Draw `count` positive lengths that add up to `items`, uniformly over all such sequences."""
    begins = generator.permutation(np.arange(items - 1) < count - 1)  # whether each item but the first begins a part
    return np.bincount(np.cumsum([False, *begins]), minlength=count)


@lru_cache(maxsize=8)
def most_tokens(limits: Limits, share: float, mean_span: float) -> int:
    """The longest text whose source and target fit the limits (tokens)."""
    length = 2
    while True:
        target, source = places_of(length + 1, noise_of(length + 1, share, mean_span))
        if source > limits.source or target > limits.longest:
            return length
        length += 1
