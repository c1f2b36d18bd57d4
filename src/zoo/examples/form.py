"""Base class of forms: a form plans examples from lengths alone, then builds them from token ids with a template."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, NamedTuple

from zoo.data.formats.format import Row
from zoo.data.ids import LABEL, NOT_TEXT, PICTURE, Lengths, Piece, Read, Roles, StoredFields
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.template import Template, fill_template, roles_of
from zoo.registry import Slot


class ModelTraits(NamedTuple):
    """The properties of a model that examples depend on.

    Args:
        causal: whether the scored stream is causal (a decoder) or bidirectional (an encoder).
        source: whether there is an encoder beside the decoder, which reads a source.
        segments: whether the model has segment embeddings for the two parts of a pair.
        image_size: side of the images that it or its encoder reads (pixels); None: it reads text only.
    """

    causal: bool
    source: bool = False
    segments: bool = False
    image_size: int | None = None

    @property
    def has_text(self) -> bool:
        """Whether the model reads or writes text, and so needs a tokenizer."""
        return self.image_size is None or self.source


class Limits(NamedTuple):
    """Maximum lengths of examples (tokens, special ones included).

    Args:
        longest: of a document in the scored stream.
        source: of a document in the source.
        row: of an example that is made of several documents, which share a row.
    """

    longest: int
    source: int = 0
    row: int = 0


class Form(ABC):
    """A form of examples: how a document of the token store becomes examples.

    Class attributes:
        stored: the columns that it reads, and how the token store keeps them.
        min_length: least useful length of an example, or of each of its documents (tokens).
        documents: least number of documents in an example; they share a row.
        source: whether examples have a source beside the scored stream.
        writes: whether the model generates a text that can be compared with the data's.
        truncation_unit: the unit of `ExamplePlan.truncated`, for messages.
        lengths_suffice: whether the lengths of texts alone tell which are too long; else examples must be planned.
        split_phrase: what happens to a text that is split over several examples, for messages.

    Args:
        traits: of the model.
        whole: whether a document must stay one example and is truncated if too long; else it is cut into several.
    """

    stored: ClassVar[StoredFields]
    min_length: ClassVar[int] = 3
    documents: ClassVar[int] = 1
    source: ClassVar[bool] = False
    writes: ClassVar[bool] = False
    truncation_unit: ClassVar[str] = "tokens"
    lengths_suffice: ClassVar[bool] = True
    split_phrase: ClassVar[str] = "continued in further examples"

    def __init__(self, traits: ModelTraits, whole: bool) -> None:
        self.traits = traits
        self.whole = whole

    @property
    def pictures(self) -> bool:
        """Whether examples contain an image."""
        return PICTURE in self.stored.names

    @property
    def texts(self) -> tuple[str, ...]:
        """The text columns that it reads."""
        return tuple(name for name in self.stored.names if name != PICTURE)

    @property
    @abstractmethod
    def template(self) -> Template:
        """The layout of pieces and special tokens."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the special tokens in its template."""
        return roles_of(self.template)

    @classmethod
    def stored_fields_in(cls, language: str | None) -> StoredFields:
        """Return `stored` with the language whose rules split texts into sentences; None: the rule for all scripts.

        Raises:
            ValueError: a language is given, but the form does not split sentences.
        """
        if language is not None and not cls.stored.sentences:
            raise ValueError(
                f"source.language: {language}: only next_sentence splits texts into sentences; leave it out"
            )
        return cls.stored._replace(language=language)

    @classmethod
    def describe_unread(cls, columns: Collection[str]) -> str:
        """A warning if a task names columns of texts that the form does not read; '' if it names none."""
        unread = [name for name in columns if name not in (*NOT_TEXT, *cls.stored.columns)]
        said = f"task.columns: examples are made of {', '.join(cls.stored.columns)} only, but tokenizer, filters and "
        return f"{said}held-out rows also depend on {', '.join(unread)}; name only what you need" if unread else ""

    @abstractmethod
    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        """Plan the examples of a document in an epoch; random draws depend only on (seed, epoch, document)."""

    def plan_all(
        self, lengths: Lengths, documents: Sequence[int], epoch: int, seed: int, limits: Limits
    ) -> list[ExamplePlan]:
        """Plan the examples of several documents, in order; forms without random draws may vectorize this."""
        return [plan for document in documents for plan in self.plan(lengths, document, epoch, seed, limits)]

    def build(self, plan: ExamplePlan, read: Read, roles: Roles) -> Example:
        """Build a planned example: read its pieces and put them into the template."""
        return fill_template(self.template, plan, read, roles, self.traits.causal)

    def model_inputs(self, row: Row) -> list[Any]:
        """The columns of a data row that the model is given as input, without the image."""
        hidden = (PICTURE, *(self.stored.predicted if self.writes else ()))
        return [row[name] for name in self.stored.names if name not in hidden]

    def reference_texts(self, row: Row) -> str | list[str]:
        """The reference text of a data row for forms that write, or several references, each of which is right."""
        (name,) = self.stored.predicted
        found: str | list[str] = row[name]
        return found

    def predicted(self, lengths: Lengths, document: int, row: Row) -> list[tuple[Piece, str]]:
        """The predicted texts of a data row, each as the piece of all its tokens and as a string."""
        return [(lengths.span(name, document), row[name]) for name in self.stored.predicted]

    def predicted_pieces(self, plan: ExamplePlan) -> list[Piece]:
        """The pieces of predicted texts that an example contains; the rest was truncated."""
        return [piece for piece in plan.pieces if piece.field in self.stored.predicted]

    def check(self, limits: Limits) -> None:
        """Refuse limits that leave no room for text.

        Raises:
            ValueError: an example of that length would hold little but special tokens.
        """
        given = {"longest": limits.longest}
        if self.source and not self.pictures:  # an image takes one position, whatever the limits
            given["longest.source"] = limits.source
        for name, value in given.items():
            if value < self.min_length:
                raise ValueError(f"{name}: {value} is too short for an example; it must be at least {self.min_length}")
        if self.documents > 1 and limits.row < self.documents * self.min_length:
            least = f"it must be at least {self.documents * self.min_length}"
            raise ValueError(f"length: {limits.row} is too short for {self.documents} documents; {least}")


forms: Slot[Form] = Slot("form")


def inputs() -> list[str]:
    """All columns that some form or objective reads, without duplicates, in a fixed order."""
    return list(dict.fromkeys([field for name in forms.names() for field in forms[name].stored.columns] + [LABEL]))
