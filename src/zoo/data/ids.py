"""Token ids on disk and what is known of them: pieces of fields, lengths, and the ids of special tokens."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PICTURE, LABEL = "image", "label"  # the two columns that hold no text
Ids = NDArray[np.int64]
Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class Roles:
    """Token ids of the roles that templates and masking use; None where the tokenizer has no such token.

    The fields that are ids are the list of all roles, in the order of a trained tokenizer's ids.
    """

    vocab_size: int
    pad: int
    unk: int | None
    start: int | None
    end: int | None
    separator: int | None
    extract: int | None
    mask: int | None
    continues: NDArray[np.bool_] | None = None  # by id: whether the token continues a word (for whole-word masking)

    def id(self, role: str) -> int:
        """The token id of a role.

        Raises:
            ValueError: the tokenizer has no such token.
        """
        known = {name: getattr(self, name) for name in ROLES}
        if known[role] is None:
            has = ", ".join(name for name, token in known.items() if token is not None)
            raise ValueError(f"tokenizer: it has no token for '{role}', which the objective needs; it has: {has}")
        return int(known[role])

    @cached_property
    def text(self) -> Ids:
        """Every id that is not a role's."""
        roles = [token for name in ROLES if (token := getattr(self, name)) is not None]
        return np.setdiff1d(np.arange(self.vocab_size, dtype=np.int64), roles)


ROLES = tuple(field.name for field in fields(Roles) if field.name not in ("vocab_size", "continues"))
NO_ROLES = Roles(0, 0, *[None] * 6)  # where no token is read or written


class Piece(NamedTuple):
    """Tokens start:stop of one field of the cache (offsets into that field's flat array of ids)."""

    field: str
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


Read = Callable[[Piece], NDArray[Any]]  # token ids, or the bytes of a picture


class StoredFields(NamedTuple):
    """What the token store keeps of each document for one form of example.

    Args:
        names: the columns that the form reads, in its order; of a picture its number is kept.
        predicted: those that a model may be asked to predict; only their bytes count in bits per byte.
        sentences: whether each text is split into sentences.
        language: whose rules and abbreviations split them; None: one rule for all scripts.
    """

    names: tuple[str, ...]
    predicted: tuple[str, ...] = ()
    sentences: bool = False
    language: str | None = None


class Lengths(NamedTuple):
    """What planning may know of a cached split: offsets only, never a token.

    Args:
        offsets: by field, where each unit begins in the flat ids (n_units + 1 numbers). A unit is a document, or a
            sentence where `sentences` is given.
        sentences: where each document's sentences begin among the units (n_documents + 1); None unless texts are split.
        labels: one class a document, -1 where unknown; None where there are no labels.
    """

    offsets: dict[str, NDArray[np.int64]]
    sentences: NDArray[np.int64] | None = None
    labels: NDArray[np.int64] | None = None

    @property
    def documents(self) -> int:
        if self.sentences is not None:
            return len(self.sentences) - 1
        return len(next(iter(self.offsets.values()))) - 1

    def span(self, field: str, document: int) -> Piece:
        """All tokens of a document in one field."""
        offsets = self.offsets[field]
        return Piece(field, int(offsets[document]), int(offsets[document + 1]))

    def borders(self, field: str, document: int) -> Ids:
        """Where a document's sentences begin, and where the last one ends; empty sentences are left out."""
        assert self.sentences is not None
        first, last = self.sentences[document], self.sentences[document + 1]
        return np.unique(self.offsets[field][first : last + 1])

    def label(self, document: int) -> int:
        return -1 if self.labels is None else int(self.labels[document])
