"""What each of many target sequences reads of a memory, step by step."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zoo.blocks.attention import Attention, KeysValues
from zoo.blocks.documents import Unpacked, View, positions_of
from zoo.models.kinds.part import Memory


@dataclass
class SourceReading:
    """The source document of each target sequence.

    Args:
        summary: one vector for the whole document, zeros where there is none.
        there: the places that hold it; None: all.
        reading: its states as keys and values; None where they are not attended to.
    """

    summary: Float[Tensor, "rows d_memory"]
    there: Bool[Tensor, "rows memory"] | None
    reading: KeysValues | None
    seen: View | None = field(default=None)

    def take(self, rows: Int[Tensor, " chosen"] | slice) -> "SourceReading":
        """What these sequences read."""
        there = None if self.there is None else self.there[rows]
        reading = None if self.reading is None else KeysValues(self.reading.keys[rows], self.reading.values[rows])
        return SourceReading(self.summary[rows], there, reading)

    def view(self) -> View:
        """One query a sequence, which sees all of its source."""
        if self.seen is None:
            assert self.reading is not None
            queries = torch.ones(len(self.summary), 1, dtype=torch.long, device=self.summary.device)
            keys = queries.expand(-1, self.reading.keys.shape[2]) if self.there is None else self.there.long()
            self.seen = View(queries, torch.zeros_like(queries), keys, plain=self.there is None)
        return self.seen


def whole_source(memory: Memory, attention: Attention | None) -> SourceReading:
    """What target sequences read that are the rows of the memory, each of which is one document without gaps."""
    reading = None if attention is None else attention.read(memory.states, None, None)
    return SourceReading(memory.summaries()[:, 1], None, reading)


def source_of(
    memory: Memory, attention: Attention | None, rows: Int[Tensor, " sequences"], numbers: Int[Tensor, " sequences"]
) -> SourceReading:
    """What target sequences read: each one the document of this number in this row of the memory."""
    summaries = memory.summaries()
    known = numbers.where(numbers < summaries.shape[1], 0)  # 0: there is no such document
    summary = summaries[rows, known]
    if attention is None:
        return SourceReading(summary, None, None)
    unpacked = Unpacked(documents_of(memory))
    order = known.new_full(summaries.shape[:2], -1)
    order[unpacked.rows, unpacked.numbers] = torch.arange(len(unpacked.rows), device=known.device)
    order[:, 0] = -1
    chosen = order[rows, known]
    there = unpacked.inside[chosen] & (chosen >= 0)[:, None]
    return SourceReading(summary, there, attention.read(unpacked.unpack(memory.states)[chosen], None, None))


def documents_of(memory: Memory) -> Int[Tensor, "batch memory"]:
    """Documents of every place, 1 everywhere where they were left out."""
    if memory.documents is not None:
        return memory.documents
    return torch.ones(memory.states.shape[:2], dtype=torch.long, device=memory.states.device)


def in_rows(
    weights: Float[Tensor, "batch length heads longest"], documents: Int[Tensor, "batch length"], memory: Memory
) -> Float[Tensor, "batch heads length memory"]:
    """Weights over the places of each one's source document, as weights over the places of the memory's row."""
    keys = documents_of(memory)
    at = positions_of(keys).clamp_max(weights.shape[-1] - 1)
    spread = weights.gather(3, at[:, None, None].expand(*weights.shape[:3], -1))
    same = (documents[:, :, None] == keys[:, None]) & (documents > 0)[:, :, None]
    return spread.masked_fill(~same[:, :, None], 0.0).transpose(1, 2)
