"""What an example is: planned from lengths alone, built from token ids, annotated by the objectives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Picture = NDArray[np.uint8]
ROLES = ("pad", "unk", "start", "end", "separator", "extract", "mask")


@dataclass(frozen=True)
class Roles:
    """Token ids of the roles that templates and masking use; None where the tokenizer has no such token."""

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


class Piece(NamedTuple):
    """Tokens start:stop of one field of the cache (offsets into that field's flat array of ids)."""

    field: str
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Plan:
    """An example before a token of it is read.

    Args:
        document: its document's number in the cache; (document, number) names the example.
        number: which example of that document.
        length: places it takes in the row that the head scores, special tokens included.
        source_length: places it takes in the source row; 0 where there is none.
        pieces: what to read, in the order that the form's template wants.
        label: its class; -1 where there is none.
        final: whether the document ends with this example (a cut text ends only once).
        truncated: tokens of the document that this example had to leave out.
    """

    document: int
    number: int
    length: int
    source_length: int = 0
    pieces: tuple[Piece, ...] = ()
    label: int = -1
    final: bool = True
    truncated: int = 0


@dataclass(slots=True)
class Example:
    """Token ids with what is known of each place; objectives add places and targets.

    Args:
        tokens: the stream that the head scores.
        ordinary: by place, whether it holds text (True) or a token of the template (False).
        following: by place, the token to be predicted next in a causal stream; -1 where there is none.
        summary: the place that stands for the whole document (a negative one counts from the end).
        segments: 0 or 1 by place; None where the form has no segments.
        source: the encoder's tokens; None where the model has one stream, or reads a picture.
        picture: what the model reads first, bytes (channels, height, width); None where it reads no picture.
        places, targets: by head, the scored places and what stands there; filled in by the objectives.
    """

    tokens: Ids
    ordinary: NDArray[np.bool_]
    following: Ids
    summary: int = 0
    label: int = -1
    segments: Ids | None = None
    source: Ids | None = None
    picture: Picture | None = None
    places: dict[str, Ids] = field(default_factory=dict)
    targets: dict[str, Ids] = field(default_factory=dict)


Read = Callable[[Piece], NDArray[Any]]  # token ids, or the bytes of a picture


NO_ROLES = Roles(0, 0, *[None] * 6)  # where no token is read or written


class Lengths(NamedTuple):
    """What planning may know of a cached split: offsets only, never a token.

    Args:
        offsets: by field, where each unit begins in the flat ids (n_units + 1 numbers). A unit is a document, or a
            sentence where `sentences` is given.
        sentences: where each document's sentences begin among the units (n_documents + 1); None unless the form is
            `sentences`.
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
