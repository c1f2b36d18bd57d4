"""Published word vectors as the start of a model's token vectors."""

import os
from pathlib import Path

import pytest

from zoo.models.vectors import is_number, lines, read_vectors

FOLDER = Path(os.environ.get("ZOO_DATA", Path(__file__).parents[3] / "shared" / "data")) / "word_vectors"
FILES = sorted(p for p in FOLDER.glob("*") if p.suffix in (".txt", ".vec")) if FOLDER.is_dir() else []


@pytest.mark.skipif(not FILES, reason=f"no word vectors in text form under {FOLDER}")
def test_common_words_are_found_in_published_vectors():
    for path in FILES:
        words = [next(word for n, word, values in lines(path) if n == k) for k in (2, 4)]
        width = next(len([v for v in values if is_number(v)]) for n, _, values in lines(path) if n == 2)
        assert set(read_vectors(path, width, set(words))) == set(words)
