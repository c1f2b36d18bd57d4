"""What each of many target sequences reads of a memory, step by step."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.blocks.attention import Attention
from zoo.blocks.cache import KeysValues
from zoo.blocks.documents import Documents, Unpacked, positions_of
from zoo.blocks.view import Recorder, View, Visibility
from zoo.models.kinds.part import Memory


@dataclass
class SourceReading:
    """The source document of each target sequence.

    Args:
        summary: one vector for the whole document, zeros where there is none.
        attended: its states as keys and values, and the places that hold it (1); None where they are not attended to.
        recorder: of the weights of every step.
    """

    summary: Float[Tensor, "rows d_memory"]
    attended: tuple[KeysValues, Documents] | None
    recorder: Recorder | None = None

    def __post_init__(self) -> None:
        """The one query of each sequence sees all of its source: the view serves for all steps."""
        self.view: View | None = None
        if self.attended is not None:
            one = self.summary.new_ones(len(self.summary), 1, dtype=torch.long)
            seen = Visibility(Documents(one, whole=True), self.attended[1])
            self.view = View(seen, recorder=self.recorder)

    def take(self, rows: Int[Tensor, " chosen"] | slice) -> "SourceReading":
        """What these sequences read."""
        attended = self.attended
        if attended is not None:
            attended = KeysValues(*(x[rows] for x in attended[0])), attended[1].take(rows)
        return replace(self, summary=self.summary[rows], attended=attended)


def whole_source(memory: Memory, attention: Attention | None) -> SourceReading:
    """What target sequences read that are the rows of the memory, each of which is one document without gaps."""
    attended = None if attention is None else (attention.read(memory.states), memory.documents)
    return SourceReading(memory.summaries()[:, 1], attended)


def source_of(
    memory: Memory, attention: Attention | None, rows: Int[Tensor, " sequences"], numbers: Int[Tensor, " sequences"]
) -> SourceReading:
    """What target sequences read: each one the document of this number in this row of the memory."""
    summaries = memory.summaries()
    known = numbers.where(numbers < summaries.shape[1], 0)  # 0: there is no such document
    summary = summaries[rows, known]
    if attention is None:
        return SourceReading(summary, None)
    unpacked = Unpacked(memory.documents.numbers)
    order = known.new_full(summaries.shape[:2], -1)
    order[unpacked.rows, unpacked.numbers] = torch.arange(len(unpacked.rows), device=known.device)
    order[:, 0] = -1
    chosen = order[rows, known]
    there = unpacked.inside[chosen] & (chosen >= 0)[:, None]
    return SourceReading(summary, (attention.read(unpacked.unpack(memory.states)[chosen]), Documents(there.long())))


def in_rows(
    weights: Float[Tensor, "batch length heads longest"], documents: Int[Tensor, "batch length"], memory: Memory
) -> Float[Tensor, "batch heads length memory"]:
    """Weights over the places of each one's source document, as weights over the places of the memory's row."""
    keys = memory.documents.numbers
    at = positions_of(keys).clamp_max(weights.shape[-1] - 1)
    spread = weights.gather(3, at[:, None, None].expand(*weights.shape[:3], -1))
    same = (documents[:, :, None] == keys[:, None]) & (documents > 0)[:, :, None]
    return spread.masked_fill(~same[:, :, None], 0.0).transpose(1, 2)
