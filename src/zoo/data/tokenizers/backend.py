"""Reads tokenizer.json with the `tokenizers` library, after refusing whatever could exhaust time or memory."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Backend

from zoo.data.ids import Ids
from zoo.data.tokenizers.charsmap import check_charsmaps
from zoo.data.tokenizers.patterns import check_patterns
from zoo.strict_json import parse_json

MOST_IDS = 2**24  # no real vocabulary comes near; a larger id is damage, and would size arrays and embeddings
logger = logging.getLogger(__name__)


def read_backend(content: bytes, place: str) -> Backend:
    """The library's tokenizer from the content of a tokenizer.json; dropout is switched off.

    Raises:
        ValueError: the file is damaged, or could take unbounded time or memory.
    """
    spec = parse_json(content, place)
    model = spec.get("model")
    if not isinstance(model, Mapping):
        raise ValueError(f"{place}: not a tokenizer: it has no model")
    vocabulary, added = model.get("vocab"), spec.get("added_tokens")
    # checked before the library reads it, which takes memory for every id up to the largest when it writes it again
    if isinstance(vocabulary, Mapping):
        check_ids(vocabulary, place)
    if isinstance(added, list):
        check_ids({str(token.get("content")): token.get("id") for token in added if isinstance(token, Mapping)}, place)
    check_patterns(spec, place)
    check_charsmaps(spec, place)
    with explain_failure(place):
        backend = Backend.from_str(content.decode())
    if model.get("dropout"):
        logger.warning(
            "%s: dropout %s is switched off: with it, the ids of a text would be random", place, model["dropout"]
        )
        backend.model.dropout = None
    return backend


def check_ids(vocabulary: Mapping[str, Any], place: str) -> None:
    """Raise a ValueError if an id is larger than any real vocabulary needs."""
    largest = max((i for i in vocabulary.values() if isinstance(i, int)), default=0)
    if largest >= MOST_IDS:
        raise ValueError(f"{place}: token id {largest} is out of range; allowed: below {MOST_IDS}")


def check_reads(backend: Backend, place: str) -> None:
    """Encode a short text, alone and as a pair.

    Raises:
        ValueError: the tokenizer fails, as one does that has no token for unknown words and does not know this one.
    """
    unknown = "unknown words need a token, unk_token or unk_id, that is in its vocabulary"
    with explain_failure(place, f"its tokenizer cannot read a text; {unknown}"):
        backend.encode("a")
        backend.encode("a", "a")


def encode_plainly(backend: Backend, texts: Sequence[str]) -> list[Ids]:
    """The ids of each text, without special tokens."""
    encodings = backend.encode_batch_fast(texts, add_special_tokens=False)
    return [np.array(encoding.ids, dtype=np.int64) for encoding in encodings]


@contextmanager
def explain_failure(place: str, problem: str = "not a tokenizer") -> Iterator[None]:
    """Turn whatever the library raises into a ValueError.

    It raises plain Exception for a malformed file. A panic of its Rust code is a BaseException whose class cannot be
    imported.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise ValueError(f"{place}: {problem}: {error}") from None
