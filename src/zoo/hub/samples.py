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
PROMPTS = 3  # the first rows, of text, are what generating starts from
SPACES = ("", " ", "  ", "\t", "\n", "\u00a0", "\u200b")
# what tokenizers treat apart: cases, accents in two spellings, scripts, signs, numbers, addresses
ODD = (
    *"don't I'LL naïve nai\u0308ve İstanbul straße ﬁne ½ 3.14159 1,000,000 U.S.A. $5 50%".split(),
    *"-- … ' \" ( ] \\ <b> x_1 https://a.example/b?c=d#e me@example.org".split(),
    *"日本語 한국어 Ελλάδα Россия العربية हिन्दी ไทย ١٢٣ 🙂 👩\u200d👩\u200d👧".split(),
)
LINES = 1000
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


def lines(tokenizer: Tokenizer) -> list[str]:
    """Texts of 0 to 30 words and tokens: the sample texts, mixtures of words with odd ones, and the vocabulary's own.

    Some spell a special token.
    """
    generator = np.random.default_rng(0)
    words = np.array([*" ".join(TEXTS).split(), *SPACES, *ODD, *tokenizer.role_tokens.values()], dtype=object)
    found = list(TEXTS)
    for number in range(LINES - len(TEXTS)):
        size = int(generator.integers(30))
        if number % 2:
            found.append(tokenizer.decode(generator.choice(tokenizer.roles.text, size).tolist()))
        else:
            found.append((" " if number % 4 else "").join(generator.choice(words, size)))
    return found


def lay_out(tokenizer: Tokenizer, template: Template, texts: list[list[int]], limit: int) -> Row:
    """Ids in a template, each text cut to its share of what the limit leaves."""
    room = max(0, limit - overhead(template)) // len(texts)
    pieces = iter(texts)
    known = {role: [tokenizer.vocabulary[token]] for role, token in tokenizer.role_tokens.items()}
    parts = [next(pieces)[:room] if role is None else known.get(role, []) for role in template]
    segments = [int(place > 2) for place, part in enumerate(parts) for _ in part]
    return Row([token for part in parts for token in part], segments, [])
