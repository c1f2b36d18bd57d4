"""Token vectors from a word2vec, GloVe or fastText text file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from zoo.disk import is_file
from zoo.models.model import Model

LARGEST = torch.finfo(torch.float32).max


def refuse_missing(path: Path) -> None:
    """Check that a file of vectors exists.

    Raises:
        ValueError: it does not.
    """
    if not is_file(path):
        raise ValueError(f"embeddings.vectors: {path}: no such file")


def read_vectors(path: Path, width: int, wanted: set[str]) -> dict[str, Tensor]:
    """Read the vectors of the wanted words from a text file.

    Each line has a word and its numbers, separated by spaces; the first may be `words width`. numpy.loadtxt reads
    neither words with spaces nor broken UTF-8, and holds all words in memory.

    Raises:
        ValueError: no such file, a line that is not a vector, or vectors of another width than the model's.
    """
    refuse_missing(path)
    found: dict[str, Tensor] = {}
    for number, word, values in lines(path):
        if len(values) > width and not all(map(is_number, values[:-width])):  # some files have words with spaces
            word, values = " ".join([word, *values[:-width]]), values[-width:]
        if len(values) != width:
            problem = f"vectors are {len(values)} wide, the model {width}: --set d_model={len(values)}"
            if not values or not is_number(values[-1]):
                problem = "expected a word and its numbers, separated by spaces"
            raise ValueError(f"embeddings.vectors: {path}:{number}: {problem}")
        if word in wanted and word not in found:
            if not all(map(is_number, values)):
                problem = f"'{word}' must be followed by finite numbers only"
                raise ValueError(f"embeddings.vectors: {path}:{number}: {problem}")
            found[word] = torch.tensor([float(value) for value in values])
    return found


def is_number(text: str) -> bool:
    """Whether a text is a number in the range of float32."""
    try:
        return abs(float(text)) <= LARGEST
    except ValueError:
        return False


def lines(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Yield line number, word and its numbers as texts; skip a header, a first line of two numbers."""
    # published files have words in broken UTF-8: with a replacement character they match no token
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            word, *values = line.rstrip("\n").rstrip(" ").split(" ")
            if number == 1 and len(values) == 1 and word.isdecimal():
                continue
            yield number, word, values


def start_from_vectors(model: Model, path: Path, words: Sequence[str | None]) -> tuple[int, int]:
    """Copy a file's vectors into the token vectors; return how many tokens were found, and how many are words.

    A word is also looked up in lower case. Other tokens keep their initial vectors.

    Args:
        words: the word of each token id; None where the token is not a word.
    """
    known = {token: word for token, word in enumerate(words) if word}
    wanted = {form for word in known.values() for form in (word, word.lower())}
    found: set[int] = set()
    for table in token_tables(model):
        vectors = read_vectors(path, table.shape[1], wanted)
        with torch.no_grad():
            for token, word in known.items():
                vector = vectors.get(word, vectors.get(word.lower()))
                if vector is not None:
                    table[token] = vector
                    found.add(token)
    return len(found), len(known)


def token_tables(model: Model) -> list[Tensor]:
    """Return the model's matrices of token vectors; a matrix that two parts share appears once."""
    tables = [part.embeddings.tokens.weight for part in model.parts if part.embeddings is not None]
    return list({id(table): table for table in tables}.values())
