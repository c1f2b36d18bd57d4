"""What the token store of a split holds: lengths, unknown tokens, unigram entropy, the strangest documents."""

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.data.ids import MESSAGES, Ids, Lengths
from zoo.data.store.split import Split
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import Form
from zoo.survey.lengths import TOKENS, LengthTally, starts, totals, windows

Counts = NDArray[np.int64]
SHOWN = 3  # documents of each kind of strangeness
SHORTEST = 8  # tokens of a document whose tokens may surprise
BEGINNING = 40  # tokens of a document that are shown


class TokenTally:
    """The tokens of one split, in some of its fields.

    Args:
        form: of the examples that a model reads.

    Attributes:
        fields: those that hold text.
        predicted: the fields whose tokens a model is asked for.
        counts: by token, how often it is written in all fields.
        asked: by token, how often a model is asked for it: in the predicted fields, of conversations in the answers.
        whole: whether no field in particular is predicted, so that all of them are.
    """

    def __init__(self, split: Split, form: Form, tokenizer: Tokenizer) -> None:
        self.split, self.fields, self.tokenizer = split, form.texts, tokenizer
        asked = tuple(field for field in self.fields if field in form.stored.predicted)
        self.predicted, self.whole = asked or self.fields, not asked
        # a source and what is written about it stand in rows of their own; other texts share one, and add up
        parts = [(field,) for field in self.fields] if form.source else [self.fields]
        self.lengths = {" + ".join(part): LengthTally() for part in parts}
        self.counts, self.asked = np.zeros((2, tokenizer.vocab_size), dtype=np.int64)
        for first, last in self.windows():
            for tally, part in zip(self.lengths.values(), parts, strict=True):
                tally.add(totals(split.lengths, part, first, last))
            for field in self.fields:
                for ids, wanted in pieces(split, field, first, last):
                    found = np.bincount(ids, minlength=len(self.counts))
                    self.counts += found
                    if field in self.predicted:
                        self.asked += found if wanted is ids else np.bincount(wanted, minlength=len(found))

    def windows(self) -> Iterator[tuple[int, int]]:
        """All documents in groups; the memory of one is given back before the next one is read."""
        for first, last in windows(self.split.lengths, self.fields):
            yield first, last
            for field in self.fields:
                self.split.release(field, first, last)

    @property
    def tokens(self) -> int:
        return int(self.counts.sum())

    @property
    def unknown(self) -> float | None:
        """The share of tokens that are unknown; None where the tokenizer has no such token."""
        unk = self.tokenizer.roles.unk
        return None if unk is None else int(self.counts[unk]) / max(1, self.tokens)

    def loss(self, costs: NDArray[np.float64]) -> float:
        """The mean cost of this split's tokens that a model is asked for (nats a token)."""
        return float(self.asked @ costs) / max(1, int(self.asked.sum()))

    def strangest(self, costs: NDArray[np.float64]) -> list[dict[str, Any]]:
        """The documents that stand out, with what about them does."""
        unk = self.tokenizer.roles.unk
        unknown = np.arange(len(costs)) == unk if unk is not None else np.zeros(len(costs), dtype=bool)
        found: dict[str, list[tuple[float, int]]] = {}
        for first, last in self.windows():
            size = totals(self.split.lengths, self.fields, first, last)
            counted = np.maximum(size, 1)
            mean = self.sums(costs, first, last) / counted
            enough = size >= SHORTEST
            measures = {
                "most surprising tokens, nats": np.where(enough, mean, -np.inf),
                "least surprising tokens, nats": np.where(enough, -mean, -np.inf),
                "most unknown tokens, share": self.sums(unknown, first, last) / counted,
                "longest, tokens": size.astype(np.float64),
            }
            for why, values in measures.items():
                best = np.argsort(-values, kind="stable")[:SHOWN]
                more = [(float(values[i]), -(first + int(i))) for i in best if np.isfinite(values[i]) and values[i]]
                found[why] = heapq.nlargest(SHOWN, [*found.get(why, []), *more])
        return [self.describe(why, abs(value), -at) for why, best in found.items() for value, at in best]

    def sums(self, values: NDArray[Any], first: int, last: int) -> NDArray[np.float64]:
        """By document, the sum of its tokens' values; in one of more than `TOKENS` the first ones stand for all."""
        total = np.zeros(last - first)
        for field in self.fields:
            borders = starts(self.split.lengths, field, first, last)
            read = min(int(borders[-1] - borders[0]), TOKENS)
            ids = np.asarray(self.split.ids[field][int(borders[0]) : int(borders[0]) + read])
            sums = np.concatenate([[0.0], np.cumsum(values[ids], dtype=np.float64)])
            scale = (borders[-1] - borders[0]) / max(1, read)
            total += np.diff(sums[np.minimum(borders - borders[0], read)]) * scale
        return total

    def describe(self, why: str, value: float, document: int) -> dict[str, Any]:
        """A document for a person to look at."""
        borders = {field: starts(self.split.lengths, field, document, document + 1) for field in self.fields}
        ids = [
            np.asarray(self.split.ids[field][int(first) : min(int(last), int(first) + BEGINNING)]).tolist()
            for field, (first, last) in borders.items()
        ]
        text = " | ".join(self.tokenizer.decode(each) for each in ids)
        return {"why": why, "value": value, "place": self.where(document), "text": " ".join(text.split())}

    def where(self, document: int) -> str:
        """Where the row of a document stands."""
        part = self.split.held[self.split.shard_of(document)].part
        return part.where(int(self.split.kept[document]) + 1)


def costs_of(counts: Counts) -> NDArray[np.float64]:
    """By token, what a model that knows how often each is written pays for it (nats); all were seen once more."""
    costs: NDArray[np.float64] = -np.log((counts + 1) / (counts.sum() + len(counts)))
    return costs


def of_answers(lengths: Lengths, first: int, last: int) -> NDArray[np.bool_]:
    """By token of some conversations, whether it stands in a turn of the assistant: in every second one."""
    units: Ids = np.asarray(lengths.lists[MESSAGES][first : last + 1])
    borders: Ids = np.asarray(lengths.offsets[MESSAGES][int(units[0]) : int(units[-1]) + 1])
    turns = np.arange(len(borders) - 1) - np.repeat(units[:-1] - units[0], units[1:] - units[:-1])
    return np.repeat(turns % 2 == 1, borders[1:] - borders[:-1])


def pieces(split: Split, field: str, first: int, last: int) -> Iterator[tuple[Ids, Ids]]:
    """The ids of some documents, so many at a time that they fit into memory, and those that a model may be asked for.

    Of conversations these are the answers' ids, of all else the same ones.
    """
    borders = starts(split.lengths, field, first, last)
    begin, end = int(borders[0]), int(borders[-1])
    answered = of_answers(split.lengths, first, last) if field == MESSAGES else None
    for start in range(begin, end, TOKENS):
        ids = np.asarray(split.ids[field][start : min(start + TOKENS, end)])
        yield ids, ids if answered is None else ids[answered[start - begin :][: len(ids)]]
