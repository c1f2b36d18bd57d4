"""The source document that each target sequence reads from a memory, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.blocks.attention import Attention
from zoo.blocks.rows.cache import KeysValues
from zoo.blocks.rows.documents import Documents, positions_of
from zoo.blocks.rows.view import Recorder, View, Visibility
from zoo.models.kinds.part import Memory


@dataclass
class TargetSources:
    """The source document of each target sequence.

    Args:
        summary: one vector per source; zeros where there is no source.
        attended: the sources' states as keys and values, and their positions (1; 0 is padding); None without attention.
        recorder: records the attention weights of every step.
    """

    summary: Float[Tensor, "rows d_memory"]
    attended: tuple[KeysValues, Documents] | None
    recorder: Recorder | None = None

    def __post_init__(self) -> None:
        """Build one view for all steps: the single query of a sequence always sees its whole source."""
        self.view: View | None = None
        if self.attended is not None:
            one = self.summary.new_ones(len(self.summary), 1, dtype=torch.long)
            seen = Visibility(Documents(one, whole=True), self.attended[1])
            self.view = View(seen, recorder=self.recorder)

    def take(self, rows: Int[Tensor, " chosen"] | slice) -> "TargetSources":
        """Return what these sequences read."""
        attended = self.attended
        if attended is not None:
            attended = KeysValues(*(x[rows] for x in attended[0])), attended[1].select_rows(rows)
        return replace(self, summary=self.summary[rows], attended=attended)


def target_sources(memory: Memory, attention: Attention | None, wanted: Sequence[tuple[int, int]]) -> TargetSources:
    """Return what target sequences read.

    Args:
        attention: turns states into keys and values; None: only the summary is read.
        wanted: by target sequence, the row of the memory and the number of the document in it.
    """
    documents, summaries = memory.documents, memory.summaries()
    sequences = documents.sequences()
    at = {(span.row, span.number): n for n, span in enumerate(sequences.spans)}
    chosen = [at.get(one, -1) for one in wanted]
    if documents.whole and chosen == list(range(len(memory.states))):  # nothing to gather
        return TargetSources(summaries, None if attention is None else (attention.read(memory.states), documents))
    index = sequences.on_device(chosen)  # -1: there is no such document
    summary = summaries[index].masked_fill((index < 0)[:, None], 0.0)
    if attention is None:
        return TargetSources(summary, None)
    lengths = sequences.on_device([0 if n < 0 else sequences.spans[n].length for n in chosen])
    # `sizes` has an entry per time step, so there are as many as the longest sequence has tokens
    there = torch.arange(len(sequences.sizes), device=lengths.device) < lengths[:, None]
    return TargetSources(summary, (attention.read(sequences.padded(memory.states)[index]), Documents(there.long())))


def spread_to_rows(
    weights: Float[Tensor, "batch length heads longest"], documents: Int[Tensor, "batch length"], memory: Memory
) -> Float[Tensor, "batch heads length memory"]:
    """Spread weights over the positions of each target's source document to the positions of the memory's row."""
    keys = memory.documents.numbers
    at = positions_of(keys).clamp_max(weights.shape[-1] - 1)
    spread = weights.gather(3, at[:, None, None].expand(*weights.shape[:3], -1))
    same = (documents[:, :, None] == keys[:, None]) & (documents > 0)[:, :, None]
    return spread.masked_fill(~same[:, :, None], 0.0).transpose(1, 2)
