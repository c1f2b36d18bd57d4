"""Token ids on disk and their metadata: pieces of fields, lengths, and the ids of special tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
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
# columns of lists of texts; in any other column, a list holds alternatives, such as several references
LISTS = (WORDS, CHOICES, MESSAGES)
Ids = NDArray[np.int64]
Picture = NDArray[np.uint8]


@dataclass(frozen=True)
class Roles:
    """Token ids of the roles that templates and masking use; None if the tokenizer has no such token.

    The fields from `pad` to `mask` are the roles, in the order of a trained tokenizer's ids.
    """

    vocab_size: int
    pad: int
    unk: int | None
    start: int | None
    end: int | None
    separator: int | None
    extract: int | None
    mask: int | None
    continues: NDArray[np.bool_] | None = None  # per id: whether the token continues a word (for whole-word masking)
    sentinels: tuple[int, ...] = ()  # T5's tokens for the first masked span of a text, the second one, …

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
    def ordinary_ids(self) -> Ids:
        """All ids that belong to neither a role nor a sentinel."""
        roles = [token for name in ROLES if (token := getattr(self, name)) is not None]
        return np.setdiff1d(np.arange(self.vocab_size, dtype=np.int64), [*roles, *self.sentinels])


ROLES = tuple(field.name for field in fields(Roles) if field.name not in ("vocab_size", "continues", "sentinels"))
NO_ROLES = Roles(0, 0, None, None, None, None, None, None)  # for models without tokens


class Piece(NamedTuple):
    """Tokens start:stop of one field of the cache (offsets into that field's flat array of ids)."""

    field: str
    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start

    def first(self, tokens: int) -> "Piece":
        """Its first tokens; it must have at least this many."""
        field, start, stop = self
        return self if start + tokens == stop else Piece(field, start, start + tokens)


Read = Callable[[Piece], NDArray[Any]]  # token ids, or the pixels of an image


class StoredFields(NamedTuple):
    """What the token store keeps of each document, for one form of example.

    A list column has a unit for each of its entries, even for an entry without tokens: entry k is always unit k.

    Args:
        names: the columns that the form reads, in its order; an image is stored by its number.
        predicted: those that a model may be asked to predict; only their bytes count in bits per byte.
        sentences: whether each text is split into sentences.
        language: the language whose rules and abbreviations split sentences; None: one rule for all scripts.
        lists: those of `names` that hold a list of texts; each text is encoded separately and is a unit.
        words: those of `names` that hold a list of words; they are encoded as one text, joined by spaces, and each word
            is a unit with the tokens from its beginning to that of the next word.
        numbers: further columns with a list of whole numbers per document, which are stored as they are.
        answers: further columns, each with the text column that contains its answers. Of each answer (a text and the
            character at which it begins), its first token and the one after its last are stored, counted from the
            beginning of the document's text: two numbers per answer.
        equal_counts: those of `lists` that must have the same number of entries in all rows, each with the task
            setting that lifts this. It decides which rows are refused, not what is stored.
    """

    names: tuple[str, ...]
    predicted: tuple[str, ...] = ()
    sentences: bool = False
    language: str | None = None
    lists: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    equal_counts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, plain: Sequence[Any]) -> "StoredFields":
        """The fields from their JSON form, which has lists in place of tuples."""
        return cls(*map(as_tuples, plain))

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        return (*self.names, *self.numbers, *(name for name, _ in self.answers))

    @property
    def references(self) -> tuple[str, ...]:
        """The columns in which a list holds several references: those that are predicted from other columns."""
        return self.predicted if set(self.predicted) < set(self.names) else ()

    @property
    def shard_key(self) -> tuple[Any, ...]:
        """The values that determine the content of a shard."""
        return tuple(value for name, value in self._asdict().items() if name != "equal_counts")


def as_tuples(value: Any) -> Any:
    """A value with its lists, at any depth, as tuples."""
    return tuple(map(as_tuples, value)) if isinstance(value, list | tuple) else value


Label = int | float | tuple[int, ...]  # a document's class, its number, or its classes


class Lengths(NamedTuple):
    """What planning of examples may read of a tokenized split: offsets only, no tokens.

    Args:
        offsets: per field, where each unit begins in the flat ids (n_units + 1 numbers). A unit is a document, a
            sentence if `sentences` is given, or an entry of a list in the fields of `lists`. A column of numbers is a
            field too, with one unit per document.
        sentences: where each document's sentences begin among the units (n_documents + 1); None unless texts are split.
        labels: per document, a class, -1 if unknown; a number, NaN if unknown; or a tuple of classes, (-1,) if unknown.
            None if there are no labels.
        lists: per field that holds lists, where each document's entries begin among the units (n_documents + 1).
    """

    offsets: dict[str, NDArray[np.int64]]
    sentences: NDArray[np.int64] | None = None
    labels: Any = None
    lists: dict[str, NDArray[np.int64]] = {}

    @property
    def documents(self) -> int:
        """The number of documents."""
        if self.sentences is not None:
            return len(self.sentences) - 1
        return len(next(iter((*self.lists.values(), *self.offsets.values())))) - 1

    def span(self, field: str, document: int) -> Piece:
        """All tokens of a document in one field."""
        offsets, units = self.offsets[field], self.lists.get(field)
        if units is None:  # one slice: two separate look-ups would take half of the planning time
            start, stop = offsets[document : document + 2].tolist()
            return Piece(field, start, stop)
        first, last = units[document : document + 2].tolist()
        return Piece(field, int(offsets[first]), int(offsets[last]))

    def spans(self, field: str, documents: Sequence[int]) -> tuple[Ids, Ids]:
        """Where the tokens of each document begin in the field's flat ids, and where they end."""
        offsets, units = self.offsets[field], self.lists.get(field)
        first, behind = list(documents), [document + 1 for document in documents]
        if units is not None:
            first, behind = units[first].tolist(), units[behind].tolist()
        return offsets[first], offsets[behind]

    def entries(self, field: str, document: int) -> list[Piece]:
        """The tokens of each entry of a document's list; an entry may have none."""
        first, last = self.lists[field][document : document + 2]
        borders = self.offsets[field][first : last + 1].tolist()
        return [Piece(field, start, stop) for start, stop in pairwise(borders)]

    def sentence_bounds(self, field: str, document: int) -> Ids:
        """Where each of a document's sentences begins, and where the last one ends; empty sentences are left out."""
        assert self.sentences is not None
        first, last = self.sentences[document], self.sentences[document + 1]
        offsets = self.offsets[field][first : last + 1]
        found: Ids = offsets[np.append(True, offsets[1:] != offsets[:-1])]
        return found

    def label(self, document: int) -> Label:
        """The label of a document; -1 if the split has no labels."""
        found = -1 if self.labels is None else self.labels[document]
        return found.item() if isinstance(found, np.generic) else found
