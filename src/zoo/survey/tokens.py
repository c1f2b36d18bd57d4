"""Statistics of a split's tokens: lengths, unknown tokens, unigram entropy, the most unusual documents."""

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.data.ids import MESSAGES, Ids, Lengths
from zoo.data.store.split import Split
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import Form
from zoo.survey.lengths import TOKENS, LengthTally, document_lengths, document_offsets, document_ranges

Counts = NDArray[np.int64]
SHOWN = 3  # documents shown for each measure
SHORTEST = 8  # tokens; the mean cost of a shorter document says little
BEGINNING = 40  # tokens of a document that are shown


class TokenTally:
    """Token counts of one split, over the fields that hold text.

    Args:
        form: the form of the examples made from the split.

    Attributes:
        fields: names of the fields that hold text.
        predicted: fields whose tokens are targets.
        counts: (vocab_size,) occurrences of each token in all fields.
        target_counts: (vocab_size,) the same as a target; in conversations only the assistant's turns count.
        whole: whether the form names no predicted field, so that all fields are.
        lengths: field name (names joined by " + " if the fields share a row) -> its document lengths.
    """

    def __init__(self, split: Split, form: Form, tokenizer: Tokenizer) -> None:
        self.split, self.fields, self.tokenizer = split, form.texts, tokenizer
        asked = tuple(field for field in self.fields if field in form.stored.predicted)
        self.predicted, self.whole = asked or self.fields, not asked
        # source and target have rows of their own; all other fields share one row, so their lengths add up
        parts = [(field,) for field in self.fields] if form.source else [self.fields]
        self.lengths = {" + ".join(part): LengthTally() for part in parts}
        self.counts, self.target_counts = np.zeros((2, tokenizer.vocab_size), dtype=np.int64)
        for first, last in self.document_ranges():
            for tally, part in zip(self.lengths.values(), parts, strict=True):
                tally.add(document_lengths(split.lengths, part, first, last))
            for field in self.fields:
                for ids, wanted in id_chunks(split, field, first, last):
                    found = np.bincount(ids, minlength=len(self.counts))
                    self.counts += found
                    if field in self.predicted:
                        self.target_counts += found if wanted is ids else np.bincount(wanted, minlength=len(found))

    def document_ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of documents as `lengths.document_ranges`, and release the memory of each before the next."""
        for first, last in document_ranges(self.split.lengths, self.fields):
            yield first, last
            for field in self.fields:
                self.split.release(field, first, last)

    @property
    def tokens(self) -> int:
        return int(self.counts.sum())

    @property
    def unknown(self) -> float | None:
        """The share of unknown tokens; None if the tokenizer has no unknown token."""
        unk = self.tokenizer.roles.unk
        return None if unk is None else int(self.counts[unk]) / max(1, self.tokens)

    def loss(self, costs: NDArray[np.float64]) -> float:
        """The mean of `costs`, shape (vocab_size,), over this split's target tokens (nats per token)."""
        return float(self.target_counts @ costs) / max(1, int(self.target_counts.sum()))

    def most_unusual(self, costs: NDArray[np.float64]) -> list[dict[str, Any]]:
        """The `SHOWN` most extreme documents by mean token cost (both ends), unknown tokens and length."""
        unk = self.tokenizer.roles.unk
        unknown = np.arange(len(costs)) == unk if unk is not None else np.zeros(len(costs), dtype=bool)
        found: dict[str, list[tuple[float, int]]] = {}
        for first, last in self.document_ranges():
            size = document_lengths(self.split.lengths, self.fields, first, last)
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
                # minus the document's number: of equal values, `nlargest` then keeps the earlier documents
                best = np.argsort(-values, kind="stable")[:SHOWN]
                more = [(float(values[i]), -(first + int(i))) for i in best if np.isfinite(values[i]) and values[i]]
                found[why] = heapq.nlargest(SHOWN, [*found.get(why, []), *more])
        return [self.describe(why, abs(value), -at) for why, best in found.items() for value, at in best]

    def sums(self, values: NDArray[Any], first: int, last: int) -> NDArray[np.float64]:
        """For each document in first:last, the sum of its tokens' `values`, shape (vocab_size,).

        For a document of more than `TOKENS` tokens, the sum is extrapolated from its first `TOKENS`.
        """
        total = np.zeros(last - first)
        for field in self.fields:
            borders = document_offsets(self.split.lengths, field, first, last)
            read = min(int(borders[-1] - borders[0]), TOKENS)
            ids = np.asarray(self.split.ids[field][int(borders[0]) : int(borders[0]) + read])
            sums = np.concatenate([[0.0], np.cumsum(values[ids], dtype=np.float64)])
            scale = (borders[-1] - borders[0]) / max(1, read)
            total += np.diff(sums[np.minimum(borders - borders[0], read)]) * scale
        return total

    def describe(self, why: str, value: float, document: int) -> dict[str, Any]:
        """A document as JSON values: the measure and its value, the row's location and the beginning of its text."""
        borders = {field: document_offsets(self.split.lengths, field, document, document + 1) for field in self.fields}
        ids = [
            np.asarray(self.split.ids[field][int(first) : min(int(last), int(first) + BEGINNING)]).tolist()
            for field, (first, last) in borders.items()
        ]
        text = " | ".join(self.tokenizer.decode(each) for each in ids)
        return {"why": why, "value": value, "place": self.where(document), "text": " ".join(text.split())}

    def where(self, document: int) -> str:
        """The file and line of a document's row."""
        part = self.split.shard_sources[self.split.shard_of(document)].part
        return part.where(int(self.split.row_numbers[document]) + 1)


def unigram_costs(counts: Counts) -> NDArray[np.float64]:
    """The cost of each token under a unigram model with add-one smoothing, -log p (nats); shape (vocab_size,)."""
    costs: NDArray[np.float64] = -np.log((counts + 1) / (counts.sum() + len(counts)))
    return costs


def in_answers(lengths: Lengths, first: int, last: int) -> NDArray[np.bool_]:
    """For each token of conversations first:last, whether it is in an assistant's turn: every second turn."""
    units: Ids = np.asarray(lengths.lists[MESSAGES][first : last + 1])
    borders: Ids = np.asarray(lengths.offsets[MESSAGES][int(units[0]) : int(units[-1]) + 1])
    turns = np.arange(len(borders) - 1) - np.repeat(units[:-1] - units[0], units[1:] - units[:-1])
    return np.repeat(turns % 2 == 1, borders[1:] - borders[:-1])


def id_chunks(split: Split, field: str, first: int, last: int) -> Iterator[tuple[Ids, Ids]]:
    """Yield the ids of documents first:last in chunks of at most `TOKENS`, each with those that may be targets.

    In conversations those are the ids of the assistant's turns, else the same array.
    """
    borders = document_offsets(split.lengths, field, first, last)
    begin, end = int(borders[0]), int(borders[-1])
    answered = in_answers(split.lengths, first, last) if field == MESSAGES else None
    for start in range(begin, end, TOKENS):
        ids = np.asarray(split.ids[field][start : min(start + TOKENS, end)])
        yield ids, ids if answered is None else ids[answered[start - begin :][: len(ids)]]
