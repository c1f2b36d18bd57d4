"""Texts and rows that a model and its export must agree on."""

from dataclasses import dataclass

import numpy as np

from zoo.data.tokenizer import Tokenizer
from zoo.hub.target import NativeClass
from zoo.objectives.template import Template, overhead

TEXTS = (
    "A small boy in a red shirt kicks a ball.",
    "The quick brown fox jumps over the lazy dog, twice: once in 1923 and again (they say) in 2017!",
    "Zwei Männer stehen am Herd und bereiten Essen zu. 아이가 공을 찬다.",
    "return sorted(names, key=len)[:3]  # the three shortest",
    "Yes.",
)
PAIRS = ((TEXTS[0], TEXTS[4]), (TEXTS[4], TEXTS[1]))
LONGEST = 64  # tokens of a row: every kind of tensor acts, and large models stay affordable


@dataclass(frozen=True)
class Row:
    """One document as ids: what the model reads, and what its encoder reads where it has both parts."""

    tokens: list[int]
    segments: list[int]
    source: list[int]


def sample_rows(tokenizer: Tokenizer, chosen: NativeClass, longest: int, both: bool) -> list[Row]:
    """Rows of different length: texts, pairs, and random ids up to `longest` places.

    Args:
        both: whether the model has an encoder and a decoder.
    """
    limit = min(longest, LONGEST)
    texts = [text.tolist() for text in tokenizer.encode(TEXTS)]
    random = np.random.default_rng(0).choice(tokenizer.roles.text, limit).tolist()
    if both:
        start, targets = tokenizer.roles.id("start"), [*texts[1:], texts[0], random]
        sources = [lay_out(tokenizer, chosen.text, [ids], limit) for ids in [*texts, random]]
        return [Row([start, *ids][:limit], [], source.tokens) for source, ids in zip(sources, targets, strict=True)]
    rows = [lay_out(tokenizer, chosen.text, [ids], limit) for ids in [*texts, random]]
    if chosen.pair and limit >= overhead(chosen.pair):
        pairs = [[ids.tolist() for ids in tokenizer.encode(pair)] for pair in PAIRS]
        rows += [lay_out(tokenizer, chosen.pair, pair, limit) for pair in pairs]
    return rows


def lay_out(tokenizer: Tokenizer, template: Template, texts: list[list[int]], limit: int) -> Row:
    """Ids in a template, each text cut to its share of what the limit leaves."""
    room = max(0, limit - overhead(template)) // len(texts)
    pieces = iter(texts)
    parts = [next(pieces)[:room] if role is None else [tokenizer.roles.id(role)] for role in template]
    segments = [int(place > 2) for place, part in enumerate(parts) for _ in part]
    return Row([token for part in parts for token in part], segments, [])
