"""The contract of forms: an example is planned from lengths alone, then built from ids with a template."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from zoo.data.formats.format import Row
from zoo.data.ids import LABEL, PICTURE, Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.template import Template, lay_out, roles_of
from zoo.registry import Slot


class ModelTraits(NamedTuple):
    """What the model makes of its tokens, as far as examples depend on it.

    Args:
        causal: whether a place sees the past alone (a decoder) or both sides (an encoder).
        source: whether there is an encoder beside the decoder, with a source to read.
        segments: whether the model tells the two parts of a pair apart by embeddings.
        image_size: side of the pictures that it reads, or that its encoder does (pixels); None: it reads texts only.
    """

    causal: bool
    source: bool = False
    segments: bool = False
    image_size: int | None = None

    @property
    def has_text(self) -> bool:
        """Whether it reads or writes tokens, so that it needs a tokenizer."""
        return self.image_size is None or self.source


class Limits(NamedTuple):
    """The most tokens of one document, special ones included, in the scored stream and in the source.

    Args:
        row: of an example that is made of several documents; they share a row.
    """

    longest: int
    source: int = 0
    row: int = 0


class Form(ABC):
    """How a document of the store becomes examples.

    Class attributes:
        stored: the columns that it reads, and how the token store keeps them.
        smallest: the fewest places in which an example makes sense, or each document of one that is made of several.
        documents: how many documents an example is made of, at least; they share a row.
        source: whether there is a source beside the scored stream.
        writes: whether the model is asked for a text that can be compared with the data's.
        truncates: what plans count that examples have to leave out, as messages say it.
        lengths_tell: whether the lengths of its texts tell which of them are too long; else only plans do.
        goes_on: what happens to a text that several examples hold, as messages say it.

    Args:
        stream: what the model makes of its tokens.
        whole: whether a document must stay one example; too long, it is truncated instead of cut.
    """

    stored: ClassVar[StoredFields]
    smallest: ClassVar[int] = 3
    documents: ClassVar[int] = 1
    source: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    truncates: ClassVar[str] = "tokens"
    lengths_tell: ClassVar[bool] = True
    goes_on: ClassVar[str] = "continued in further examples"

    def __init__(self, stream: ModelTraits, whole: bool) -> None:
        self.stream = stream
        self.whole = whole

    @property
    def pictures(self) -> bool:
        """Whether the model reads a picture first."""
        return PICTURE in self.stored.names

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of text that it reads."""
        return tuple(name for name in self.stored.names if name != PICTURE)

    @property
    @abstractmethod
    def template(self) -> Template:
        """Where its special tokens stand."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that its template writes."""
        return roles_of(self.template)

    @classmethod
    def keep(cls, language: str | None) -> StoredFields:
        """What the store keeps of each document, whose sentences are split by the rules of a language.

        Raises:
            ValueError: a language is named, and the form reads no sentences.
        """
        if language is not None and not cls.stored.sentences:
            raise ValueError(
                f"source.language: {language}: only next_sentence splits texts into sentences; leave it out"
            )
        return cls.stored._replace(language=language)

    @abstractmethod
    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        """The examples of a document in an epoch; what is drawn depends on (seed, epoch, document) alone."""

    def plan_all(
        self, lengths: Lengths, documents: Sequence[int], epoch: int, seed: int, limits: Limits
    ) -> list[ExamplePlan]:
        """The examples of some documents, one after the other; where they take no draws, they may be made together."""
        return [plan for document in documents for plan in self.plan(lengths, document, epoch, seed, limits)]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        """Read the planned pieces and lay them out."""
        return lay_out(self.template, plan, read, roles, self.stream.causal)

    def given(self, row: Row) -> list[Any]:
        """What the model reads of a row of data; a picture is left out."""
        hidden = (PICTURE, *(self.stored.predicted if self.writes else ()))
        return [row[name] for name in self.stored.names if name not in hidden]

    def expected(self, row: Row) -> str | list[str]:
        """What the model should write for a row of data, where it writes: a text, or several of which each is right."""
        (name,) = self.stored.predicted
        found: str | list[str] = row[name]
        return found

    def predicted(self, lengths: Lengths, document: int, row: Row) -> list[tuple[Piece, str]]:
        """Each text of a row that is predicted: all of its tokens, and the text itself."""
        return [(lengths.span(name, document), row[name]) for name in self.stored.predicted]

    def kept(self, plan: ExamplePlan) -> list[Piece]:
        """What an example holds of those texts."""
        return [piece for piece in plan.pieces if piece.field in self.stored.predicted]

    def check(self, limits: Limits) -> None:
        """Refuse limits that leave no room for text.

        Raises:
            ValueError: an example of that length would be template alone.
        """
        given = {"longest": limits.longest}
        if self.source and not self.pictures:  # a picture is one place, whatever the limits are
            given["longest.source"] = limits.source
        for name, value in given.items():
            if value < self.smallest:
                raise ValueError(f"{name}: {value} is too short for an example; it must be at least {self.smallest}")
        if self.documents > 1 and limits.row < self.documents * self.smallest:
            least = f"it must be at least {self.documents * self.smallest}"
            raise ValueError(f"length: {limits.row} is too short for {self.documents} documents; {least}")


forms: Slot[Form] = Slot("form")


def inputs() -> list[str]:
    """The columns that some form or objective reads, each once, in a fixed order."""
    return list(dict.fromkeys([field for name in forms.names() for field in forms[name].stored.columns] + [LABEL]))
