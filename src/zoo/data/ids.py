"""Token ids on disk and what is known of them: pieces of fields, lengths, and the ids of special tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PICTURE, LABEL = "image", "label"
WORDS, TAGS = "words", "tags"
QUESTION, CONTEXT, ANSWERS = "question", "context", "answers"
CHOICES = "choices"
MESSAGES = "messages"
PROMPT = "prompt"
NOT_TEXT = (PICTURE, LABEL, TAGS, ANSWERS)  # columns that hold no text
# columns whose rows hold a list of texts; elsewhere a list is several answers to one question
LISTS = (WORDS, CHOICES, MESSAGES)
Ids = NDArray[np.int64]
Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class Roles:
    """Token ids of the roles that templates and masking use; None where the tokenizer has no such token.

    Its fields that are ids name all roles, in the order of a trained tokenizer's ids.
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
    sentinels: tuple[int, ...] = ()  # what stands for the first missing span of a text, for the second one …

    def id(self, role: str) -> int:
        """The token id of a role.

        Raises:
            ValueError: the tokenizer has no such token.
        """
        token: int | None = getattr(self, role)
        if token is None:
            has = ", ".join(name for name in ROLES if getattr(self, name) is not None)
            raise ValueError(f"tokenizer: no token for '{role}', which the objective needs; it has: {has}")
        return int(token)

    @cached_property
    def text(self) -> Ids:
        """Every id that is neither a role's nor a sentinel's."""
        roles = [token for name in ROLES if (token := getattr(self, name)) is not None]
        return np.setdiff1d(np.arange(self.vocab_size, dtype=np.int64), [*roles, *self.sentinels])


ROLES = tuple(field.name for field in fields(Roles) if field.name not in ("vocab_size", "continues", "sentinels"))
NO_ROLES = Roles(0, 0, None, None, None, None, None, None)  # where no token is read or written


class Piece(NamedTuple):
    """Tokens start:stop of one field of the cache (offsets into that field's flat array of ids)."""

    field: str
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start

    def first(self, tokens: int) -> "Piece":
        """Its first tokens; it has at least so many."""
        field, start, stop = self
        return self if start + tokens == stop else Piece(field, start, start + tokens)


Read = Callable[[Piece], NDArray[Any]]  # token ids, or the bytes of a picture


class StoredFields(NamedTuple):
    """What the token store keeps of each document for one form of example.

    A column of a list has a unit for each of its entries, also for one without a token, so that entry k is unit k.

    Args:
        names: the columns that the form reads, in its order; of a picture its number is kept.
        predicted: those that a model may be asked to predict; only their bytes count in bits per byte.
        sentences: whether each text is split into sentences.
        language: whose rules and abbreviations split them; None: one rule for all scripts.
        lists: those of `names` that hold a list of texts; each is encoded for itself and is a unit.
        words: those of `names` that hold a list of words; they are encoded as one text, with spaces between them, and
            each word is a unit, whose ids are the tokens from where it begins to where the next one does.
        numbers: further columns, which hold a list of whole numbers a document: the numbers are kept as they are.
        answers: further columns, each with the text column that its answers stand in: of each answer, which is a text
            and the character that it begins with, the first token and the one behind the last are kept, counted from
            the beginning of the document's text. So a document has two numbers for each of its answers, or none.
        even: those of `lists` that must have equally many entries in all rows, each with what a task says where they
            need not. It decides which rows are refused, and nothing of what is kept.
    """

    names: tuple[str, ...]
    predicted: tuple[str, ...] = ()
    sentences: bool = False
    language: str | None = None
    lists: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    even: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, plain: Sequence[Any]) -> "StoredFields":
        """The fields as JSON gives them back: lists for tuples."""
        return cls(*map(as_tuples, plain))

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it reads."""
        return (*self.names, *self.numbers, *(name for name, _ in self.answers))

    @property
    def decisive(self) -> tuple[Any, ...]:
        """What of it decides the content of a shard."""
        return tuple(value for name, value in self._asdict().items() if name != "even")


def as_tuples(value: Any) -> Any:
    """A value with tuples for its lists, however deep."""
    return tuple(map(as_tuples, value)) if isinstance(value, list | tuple) else value


Label = int | float | tuple[int, ...]  # a document's class, its number, or its classes


class Lengths(NamedTuple):
    """What planning may know of a cached split: offsets only, never a token.

    Args:
        offsets: by field, where each unit begins in the flat ids (n_units + 1 numbers). A unit is a document, a
            sentence where `sentences` is given, or an entry of a list in the fields of `lists`. Columns of numbers are
            fields too: a document is one unit of theirs.
        sentences: where each document's sentences begin among the units (n_documents + 1); None unless texts are split.
        labels: one class a document, -1 where unknown; a number, NaN where unknown; or a tuple of classes, (-1,) where
            unknown. None where there are no labels.
        lists: by field that holds lists, where each document's entries begin among the units (n_documents + 1).
    """

    offsets: dict[str, NDArray[np.int64]]
    sentences: NDArray[np.int64] | None = None
    labels: Any = None
    lists: dict[str, NDArray[np.int64]] = {}

    @property
    def documents(self) -> int:
        if self.sentences is not None:
            return len(self.sentences) - 1
        return len(next(iter((*self.lists.values(), *self.offsets.values())))) - 1

    def span(self, field: str, document: int) -> Piece:
        """All tokens of a document in one field."""
        offsets, units = self.offsets[field], self.lists.get(field)
        if units is None:  # one stretch: looking up each number takes half of the time of planning
            start, stop = offsets[document : document + 2].tolist()
            return Piece(field, start, stop)
        first, last = units[document : document + 2].tolist()
        return Piece(field, int(offsets[first]), int(offsets[last]))

    def spans(self, field: str, documents: Sequence[int]) -> tuple[Ids, Ids]:
        """Where the tokens of some documents begin in the field's flat ids, and where they end."""
        offsets, units = self.offsets[field], self.lists.get(field)
        first, behind = list(documents), [document + 1 for document in documents]
        if units is not None:
            first, behind = units[first].tolist(), units[behind].tolist()
        return offsets[first], offsets[behind]

    def entries(self, field: str, document: int) -> list[Piece]:
        """The tokens of each entry of a document's list; an entry may have none."""
        first, last = self.lists[field][document : document + 2]
        borders = self.offsets[field][first : last + 1].tolist()
        return [Piece(field, start, stop) for start, stop in zip(borders, borders[1:], strict=False)]

    def borders(self, field: str, document: int) -> Ids:
        """Where a document's sentences begin, and where the last one ends; empty sentences are left out."""
        assert self.sentences is not None
        first, last = self.sentences[document], self.sentences[document + 1]
        offsets = self.offsets[field][first : last + 1]
        found: Ids = offsets[np.append(True, offsets[1:] != offsets[:-1])]
        return found

    def label(self, document: int) -> Label:
        found = -1 if self.labels is None else self.labels[document]
        return found.item() if isinstance(found, np.generic) else found
