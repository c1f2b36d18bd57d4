"""Examples: planned from lengths alone, built from token ids, then annotated by the objectives."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.data.ids import Ids, Label, Picture, Piece


class ExamplePlan(NamedTuple):
    """A planned example, before any token is read. A tuple, since creating a frozen dataclass is three times slower.

    Args:
        document: index of its document in the split; (document, number) identifies the example.
        number: index of the example among those of its document.
        length: tokens in the row that the head scores, special tokens included.
        source_length: tokens in the source row; 0 if there is no source.
        pieces: the pieces to read from the store, in the order of the form's template.
        label: a class, a number or several classes; -1: unlabeled.
        final: whether the document ends with this example; false for all but the last part of a cut text.
        truncated: how much of the document was left out, in tokens or the form's own unit (`Form.truncation_unit`).
    """

    document: int
    number: int
    length: int
    source_length: int = 0
    pieces: tuple[Piece, ...] = ()
    label: Label = -1
    final: bool = True
    truncated: int = 0


@dataclass(slots=True)
class Example:
    """Token ids with annotations per position; objectives add scored positions and targets.

    Args:
        tokens: the stream that the head scores.
        is_text: per position, whether it is text (True) or a special token of the template (False).
        next_tokens: per position, the next token that a causal model should predict; -1: nothing is predicted.
        summary: the position that represents the document; negative values count from its end.
        label: as in `ExamplePlan`.
        segments: 0 or 1 per position; None: the form has no segments.
        source: the encoder's tokens; None: the model has one stream, or reads an image.
        picture: the image that the model reads, bytes of shape (channels, height, width); None: no image.
        marked: the positions that have an annotation in the data, such as the first token of each word; None: none.
        truth: the annotation of each marked position, or what the form puts there instead (see `Span`).
        draws: per position, a random number from 0 to 2^31 - 1, by which a generator samples there; None: unused.
        documents: lengths of the documents of the example, which lie back to back (tokens); empty: one document.
        places, targets: per head, the scored positions and their targets; filled in by the objectives.
    """

    tokens: Ids
    is_text: NDArray[np.bool_]
    next_tokens: Ids
    summary: int = 0
    label: Label = -1
    segments: Ids | None = None
    source: Ids | None = None
    picture: Picture | None = None
    draws: Ids | None = None
    documents: tuple[int, ...] = ()
    marked: Ids | None = None
    truth: Ids | None = None
    places: dict[str, Ids] = field(default_factory=dict)
    targets: dict[str, Ids] = field(default_factory=dict)

    @property
    def prompt(self) -> Ids:
        """The tokens that the model is given before it generates the example's last predicted text."""
        unasked = np.flatnonzero(self.next_tokens < 0)
        # up to and with the position whose next token is the first of the last predicted text
        return self.tokens[: (int(unasked[-1]) + 1 if len(unasked) else 0) + 1]

    @property
    def summaries(self) -> Ids:
        """The summary position of each of its documents."""
        sizes = np.array(self.documents or [len(self.tokens)], dtype=np.int64)
        found: Ids = np.cumsum([0, *sizes[:-1]]) + self.summary % sizes
        return found

    def split(self) -> list[Ids]:
        """The tokens of each of its documents."""
        return np.split(self.tokens, np.cumsum(self.documents)[:-1]) if self.documents else [self.tokens]
