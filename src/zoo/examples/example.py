"""What an example is: planned from lengths alone, built from token ids, annotated by the objectives."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.data.ids import Ids, Label, Picture, Piece


class ExamplePlan(NamedTuple):
    """An example before a token of it is read. A tuple: a dataclass that is frozen takes three times as long to make.

    Args:
        document: its document's number in the cache; (document, number) names the example.
        number: which example of that document.
        length: places it takes in the row that the head scores, special tokens included.
        source_length: places it takes in the source row; 0 where there is none.
        pieces: what to read, in the order that the form's template wants.
        label: its class, its number or its classes; -1 where there is none.
        final: whether the document ends with this example (a cut text ends only once).
        truncated: how much of the document this example had to leave out: tokens, or what the form counts.
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
    """Token ids with what is known of each place; objectives add places and targets.

    Args:
        tokens: the stream that the head scores.
        ordinary: by place, whether it holds text (True) or a token of the template (False).
        following: by place, the token to be predicted next in a causal stream; -1 where there is none.
        summary: the place that stands for the whole document (a negative one counts from the end).
        segments: 0 or 1 by place; None where the form has no segments.
        source: the encoder's tokens; None where the model has one stream, or reads a picture.
        picture: what the model reads first, bytes (channels, height, width); None where it reads no picture.
        marked: the places that the form singles out, and `truth`: what the data says of each of them; None where the
            form marks none.
        draws: by place, a number from 0 to 2^31 - 1, which decides what a model draws there; None: it draws nothing.
        documents: tokens of each document that it is made of, one after the other; none: it is one document.
        places, targets: by head, the scored places and what stands there; filled in by the objectives.
    """

    tokens: Ids
    ordinary: NDArray[np.bool_]
    following: Ids
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
        """The tokens that are read before the last predicted text is written, up to the one that its first follows."""
        unasked = np.flatnonzero(self.following < 0)
        return self.tokens[: (int(unasked[-1]) + 1 if len(unasked) else 0) + 1]

    @property
    def summaries(self) -> Ids:
        """The place that stands for each of its documents."""
        sizes = np.array(self.documents or [len(self.tokens)], dtype=np.int64)
        found: Ids = np.cumsum([0, *sizes[:-1]]) + self.summary % sizes
        return found

    def split(self) -> list[Ids]:
        """The tokens of each of its documents."""
        return np.split(self.tokens, np.cumsum(self.documents)[:-1]) if self.documents else [self.tokens]
