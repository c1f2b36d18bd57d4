"""Form `sentences`: pairs of consecutive or unrelated segments of text, for next_sentence."""

from typing import NamedTuple

import numpy as np

from zoo.data.ids import Ids, Lengths, Piece, StoredFields
from zoo.examples.example import ExamplePlan
from zoo.examples.form import Form, Limits, ModelTraits, forms
from zoo.examples.randomness import Purpose, keyed
from zoo.examples.template import ENCODED_PAIR, overhead

IS_NEXT, IS_OTHER = 0, 1  # classes of next-sentence prediction, numbered as in BERT's published heads


class Segment(NamedTuple):
    """A segment of text: tokens start:stop of a document.

    Args:
        begins_inside: whether it begins within a sentence.
        continues: whether the document continues after it.
    """

    start: int
    stop: int
    begins_inside: bool
    continues: bool

    @property
    def length(self) -> int:
        return self.stop - self.start


@forms.register("sentences")
class Sentences(Form):
    """[CLS] A [SEP] B [SEP]: B follows A in half of the pairs and comes from another document in the others.

    As in BERT, A and B are filled with consecutive sentences up to the maximum length, B begins at a sentence, and if B
    is drawn from another document, the text after A is used in the next pair. Unlike BERT, no text is discarded: a full
    pair is cut at a token, and the rest begins the next pair; a single sentence is split into A and B at a token. A
    drawn B has the length of the true one, or ends with a sentence if the true one does, so that length and cuts hardly
    reveal the label. A single last token of a document is left out and counted.
    Source: Devlin et al. 2019, arXiv:1810.04805, appendix A.2; google-research/bert, create_pretraining_data.py.

    Args:
        order: predict sentence order: the other half of the pairs are B and A swapped, instead of A and a drawn B (Lan
            et al. 2020, ALBERT, arXiv:1909.11942, section 3.1). Then all text is used, one document is enough, and a
            pair is cut at a sentence end unless fewer than two fit.
    """

    stored = StoredFields(("text",), predicted=("text",), sentences=True)
    min_length = 5
    template = ENCODED_PAIR

    def __init__(self, traits: ModelTraits, whole: bool, *, order: bool = False) -> None:
        super().__init__(traits, whole)
        self.order = order

    def plan(self, lengths: Lengths, document: int, epoch: int, seed: int, limits: Limits) -> list[ExamplePlan]:
        generator = keyed(Purpose.PLAN, seed, epoch, document)
        room = limits.longest - overhead(ENCODED_PAIR)
        borders = lengths.sentence_bounds("text", document)
        at, end = int(borders[0]), int(borders[-1])
        plans: list[ExamplePlan] = []
        while end - at >= 2:
            first, second = next_pair(borders, at, self.room(borders, at, room), generator)
            pieces, label = (first, Piece("text", second.start, second.stop)), IS_NEXT
            at = second.stop
            negative = generator.random() < 0.5
            if negative and self.order:
                pieces, label = pieces[::-1], IS_OTHER
            elif negative:
                other = draw_other(lengths, document, second, room - first.length, generator)
                pieces, label = (first, other), IS_OTHER
                at = first.stop
            length = sum(piece.length for piece in pieces) + overhead(ENCODED_PAIR)
            plans.append(ExamplePlan(document, len(plans), length, pieces=pieces, label=label))
        if plans and at < end:
            plans[-1] = plans[-1]._replace(truncated=end - at)
        return plans

    def room(self, borders: Ids, at: int, room: int) -> int:
        """Maximum length of the next pair; with `order` it ends with a sentence, since a cut would reveal the order."""
        if not self.order:
            return room
        ends = between(borders, at + 1, at + room)
        return int(ends[-1]) - at if len(ends) > 1 else room


def between(borders: Ids, first: int, last: int) -> Ids:
    """The borders from `first` to `last`, both included."""
    start, stop = borders.searchsorted((first, last + 1))
    return borders[start:stop]


def next_pair(borders: Ids, at: int, room: int, generator: np.random.Generator) -> tuple[Piece, Segment]:
    """Draw A, from offset `at` on, and the segment that follows it in the document; together at most `room` tokens.

    They meet at the end of a sentence: a random one that leaves a whole sentence on each side, else any, else at a
    random token.
    """
    stop = min(at + room, int(borders[-1]))
    goes_on = bool(stop < borders[-1])
    for meeting in (between(borders, at, stop)[1:-1], between(borders, at + 1, stop - 1)):
        if len(meeting):
            middle = int(meeting[generator.integers(len(meeting))])
            return Piece("text", at, middle), Segment(middle, stop, False, goes_on)
    middle = int(generator.integers(at + 1, stop))
    return Piece("text", at, middle), Segment(middle, stop, True, goes_on)


def draw_other(lengths: Lengths, document: int, like: Segment, room: int, generator: np.random.Generator) -> Piece:
    """Draw a segment of another document that begins and ends like `like`, with about its length, at most `room`."""
    other = int(generator.integers(lengths.documents - 1))  # any document but this one: see the next line
    borders = lengths.sentence_bounds("text", other + (other >= document))
    # sentences followed by enough text
    behind = np.arange(min(borders.searchsorted(borders[-1] - like.length, "right"), len(borders) - 1))
    # a true B that ends with a sentence begins with one that fits; cutting a drawn one would reveal it
    whole = behind if like.continues else np.flatnonzero(np.diff(borders[: len(behind) + 1]) <= room)
    choice = next((sentences for sentences in (whole, behind) if len(sentences)), np.array([0]))
    sentence = int(choice[generator.integers(len(choice))])
    start, stop = int(borders[sentence]), int(borders[sentence + 1])
    if like.begins_inside and stop - start >= 2:
        start = int(generator.integers(start + 1, stop))
    ends = between(borders, start + 1, start + room)
    if like.continues or not len(ends):
        return Piece("text", start, min(start + like.length, int(borders[-1])))
    return Piece("text", start, int(ends[np.argmin(np.abs(ends - start - like.length))]))
