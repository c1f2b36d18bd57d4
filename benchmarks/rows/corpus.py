"""Endless streams of texts, and corpora of any size made from them."""

import io
import json
import lzma
import random
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import zstandard

WIKIPEDIA = "wikipedia_en/train.jsonl.xz"
REVIEWS = ("imdb/train.jsonl.xz", "imdb/test.jsonl.xz")
UNIQUE_MEGABYTES = 130  # of `texts_once`, in millions of characters
DRAWN_ARTICLES = 1000  # articles that the endless streams draw from
SHARES = dict.fromkeys([f"{name}.jsonl" for name in "abcde"], 0.14) | {"f.jsonl.zst": 0.15, "g.txt": 0.15}
LINE_SHARES = {"a.txt": 0.2, "b.txt": 0.2, "c.txt": 0.2, "d.txt": 0.2, "e.txt.zst": 0.1, "f.jsonl": 0.1}
Texts = Callable[[Path], Iterator[str]]


def articles(data: Path) -> Iterator[str]:
    """Yield the articles, each once: 68 MB."""
    return read_texts(data / WIKIPEDIA)


def texts_once(data: Path) -> Iterator[str]:
    """Yield the articles, then film reviews, each once: 134 MB."""
    return chain(articles(data), *(read_texts(data / name) for name in REVIEWS))


def texts_at_most_once(data: Path, megabytes: int) -> Iterator[str]:
    """Yield articles and reviews, each once, with as many altered ones between them as `megabytes` needs."""
    altered, characters_due = altered_texts(data), 0.0
    for text in texts_once(data):
        yield text
        characters_due += len(text) * (megabytes / UNIQUE_MEGABYTES - 1)
        while characters_due > 0:
            yield (other := next(altered))
            characters_due -= len(other)


def read_texts(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"]


def altered_texts(data: Path) -> Iterator[str]:
    """Yield altered articles endlessly: the end of an article from a random position, with random words appended."""
    generator = random.Random(0)
    texts = list(islice(articles(data), DRAWN_ARTICLES))
    words = " ".join(texts[:50]).split()
    while True:
        text = generator.choice(texts)
        yield f"{text[generator.randrange(len(text)) :]} {' '.join(generator.choices(words, k=20))}\n"


def short_lines(data: Path) -> Iterator[str]:
    """Yield lines of 3 to 12 words endlessly: consecutive words of an article; half the lines end in a random word."""
    generator = random.Random(0)
    texts = [text.split() for text in islice(articles(data), DRAWN_ARTICLES)]
    while True:
        words = generator.choice(texts)
        at, count = generator.randrange(len(words) - 11), generator.randint(3, 11)
        more = generator.choices(words, k=at % 2)
        yield f"{' '.join([*words[at : at + count], *more])}\n"


def new_words(data: Path) -> Iterator[str]:
    """Yield lines of 12 words of Korean film reviews endlessly; 30 % of the words join the halves of two words."""
    generator = random.Random(0)
    with lzma.open(data / "nsmc/ratings_train.txt.xz", "rt", encoding="utf-8") as lines:
        words = [word for line in lines for word in line.split("\t")[1].split()]
    while True:
        pairs = zip(generator.choices(words, k=12), generator.choices(words, k=12), strict=True)
        joined = (a if generator.random() > 0.3 else a[: len(a) // 2 + 1] + b[len(b) // 2 :] for a, b in pairs)
        yield f"{' '.join(joined)}\n"


def write_corpus(folder: Path, texts: Iterator[str], megabytes: int, shares: dict[str, float]) -> int:
    """Write a corpus in several files; returns its bytes of text."""
    folder.mkdir()
    total = 0
    for name, share in shares.items():
        with (folder / name).open("wb") as raw:
            stream: Any = zstandard.ZstdCompressor().stream_writer(raw) if name.endswith(".zst") else raw
            with io.TextIOWrapper(stream, "utf-8") as file:
                bytes_left = int(megabytes * 1_000_000 * share)
                while bytes_left > 0 and (text := next(texts, None)) is not None:
                    written = text if ".txt" in name else json.dumps({"text": text}, ensure_ascii=False) + "\n"
                    file.write(written)
                    bytes_left -= len(written.encode())
                    total += len(written.encode())
    return total
