"""Texts, images and rows on which a model and its export must agree."""

import base64
import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from zoo.data.ids import Roles
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.template import Template, overhead, roles_of
from zoo.hub.exporting.trained_model import TrainedModel
from zoo.hub.targets.declare.target import NativeClass

TEXTS = (
    "A small boy in a red shirt kicks a ball.",
    "The quick brown fox jumps over the lazy dog, twice: once in 1923 and again (they say) in 2017!",
    "Zwei Männer stehen am Herd und bereiten Essen zu. 아이가 공을 찬다.",
    "return sorted(names, key=len)[:3]  # the three shortest",
    "Yes.",
)
PAIRS = ((TEXTS[0], TEXTS[4]), (TEXTS[4], TEXTS[1]))
PROMPTS = 3  # the number of rows, the first ones, that serve as prompts for generation
SPACES = ("", " ", "  ", "\t", "\n", "\u00a0", "\u200b")
# what tokenizers treat specially: case, accents composed or not, scripts, symbols, numbers, URLs, joined emoji
ODD_STRINGS = (
    *"don't I'LL naïve nai\u0308ve İstanbul straße ﬁne ½ 3.14159 1,000,000 U.S.A. $5 50%".split(),
    *"-- … ' \" ( ] \\ <b> x_1 https://a.example/b?c=d#e me@example.org".split(),
    *"日本語 한국어 Ελλάδα Россия العربية हिन्दी ไทย ١٢٣ 🙂 👩\u200d👩\u200d👧".split(),
)
N_TEXTS = 1000
LENGTHS = (11, 25, 30, 17, 3)  # of rows of random ids, if there is no tokenizer
# (Pillow mode, width, height): tall, wide and square, smaller and larger than models read, gray, transparent, palette
IMAGES = (("RGB", 40, 30), ("RGB", 17, 41), ("L", 23, 23), ("RGBA", 31, 20), ("P", 12, 12), ("RGB", 96, 96))
LONGEST = 64  # tokens per row: enough for every tensor to have an effect, and affordable with large models


@dataclass(frozen=True)
class SampleRow:
    """One document: the tokens that the model reads, and its source if the model has an encoder and a decoder.

    Args:
        image: an image file in base64 if the model reads images, in place of the source or of the tokens.
        labels: by the argument of the class that takes them.
    """

    tokens: list[int]
    segments: list[int]
    source: list[int]
    image: str = ""
    labels: dict[str, Any] = field(default_factory=dict)


def sample_rows(trained: TrainedModel, native: NativeClass, longest: int) -> list[SampleRow]:
    """Rows of different lengths: texts, pairs, random ids up to `longest` tokens; images if it reads them."""
    traits, limit = trained.traits, min(longest, LONGEST)
    files = sample_images() if traits.image_size is not None else []
    if not traits.has_text:
        return [SampleRow([0], [], [], file) for file in files]  # an image is one position of its row
    texts, roles = [*encode(trained), random_ids(trained, limit, 0)], trained.roles
    if traits.source:
        start, targets = roles.id("start"), [*texts[1:-1], texts[0], texts[-1]]
        if files:
            return [SampleRow([start, *ids][:limit], [], [], file) for file, ids in zip(files, targets, strict=True)]
        sources = [fill_template(roles, native.text, [ids], limit) for ids in texts]
        return [
            SampleRow([start, *ids][:limit], [], source.tokens) for source, ids in zip(sources, targets, strict=True)
        ]
    rows = [fill_template(roles, native.text, [ids], limit) for ids in texts]
    if native.pair and limit >= overhead(native.pair):
        numbers = [[TEXTS.index(text) for text in pair] for pair in PAIRS]
        rows += [fill_template(roles, native.pair, [texts[i] for i in pair], limit) for pair in numbers]
    return rows[: len(rows) // native.choices * native.choices] if native.choices else rows


def encode(trained: TrainedModel) -> list[list[int]]:
    """The ids of the sample texts; without a tokenizer, random ids."""
    if trained.tokenizer is None:
        return [random_ids(trained, length, length) for length in LENGTHS]
    return [ids.tolist() for ids in trained.tokenizer.encode(TEXTS)]


def random_ids(trained: TrainedModel, length: int, seed: int) -> list[int]:
    """Random ids that both the encoder and the decoder know, special tokens excluded."""
    ids = trained.roles.ordinary_ids
    found: list[int] = np.random.default_rng(seed).choice(ids[ids < trained.vocab_size], length).tolist()
    return found


def sample_images() -> list[str]:
    """PNG files in base64, of different sizes and modes: a color gradient with noise."""
    generator, found = np.random.default_rng(0), []
    for mode, width, height in IMAGES:
        slope = np.linspace(0, 200, width)[None, :, None] * np.linspace(0.2, 1, height)[:, None, None]
        pixels = (slope + generator.integers(0, 55, (height, width, 4))).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).convert(mode).save(file, "PNG")
        found.append(base64.b64encode(file.getvalue()).decode())
    return found


def sample_texts(tokenizer: Tokenizer) -> list[str]:
    """Texts of up to 29 words or tokens: the sample texts, their words mixed with odd strings, and random tokens.

    Some of them spell a special token.
    """
    generator = np.random.default_rng(0)
    words = np.array([*" ".join(TEXTS).split(), *SPACES, *ODD_STRINGS, *tokenizer.role_tokens.values()], dtype=object)
    found = list(TEXTS)
    for number in range(N_TEXTS - len(TEXTS)):
        size = int(generator.integers(30))
        if number % 2:
            found.append(tokenizer.decode(generator.choice(tokenizer.roles.ordinary_ids, size).tolist()))
        else:
            found.append((" " if number % 4 else "").join(generator.choice(words, size)))
    return found


def fill_template(roles: Roles, template: Template, texts: list[list[int]], limit: int) -> SampleRow:
    """Fill a template with ids, each text cut to an equal share of what the limit leaves."""
    room = max(0, limit - overhead(template)) // len(texts)
    pieces = iter(texts)
    tokens_of = {role: [] if (token := getattr(roles, role)) is None else [token] for role in roles_of(template)}
    parts = [next(pieces)[:room] if role is None else tokens_of[role] for role in template]
    segments = [int(place > 2) for place, part in enumerate(parts) for _ in part]
    return SampleRow([token for part in parts for token in part], segments, [])
