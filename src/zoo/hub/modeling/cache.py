"""What a decoder remembers between steps, in the form in which transformers hands it around."""

from typing import Any

import torch
from torch import Tensor
from transformers import Cache

from zoo.models.kinds.part import Decoder, Memory


class StateCache(Cache):  # type: ignore[misc]
    """The state of a decoder of ours, whatever it consists of: keys and values, a recurrent state, last places.

    Args:
        rows: sequences that are carried on side by side.
        memory: what an encoder made of their sources.
    """

    is_compileable = False

    def __init__(self, decoder: Decoder, rows: int, memory: Memory | None) -> None:
        super().__init__(layers=[])
        self.decoder, self.rows, self.length = decoder, rows, 0
        self.state = decoder.start(rows, memory)

    def step(self, tokens: Tensor, documents: Tensor | None) -> Tensor:
        """The states of new tokens."""
        states: Tensor = self.decoder.step(tokens, documents, self.state)
        self.length += tokens.shape[1]
        return states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many places were read, padding included."""
        return self.length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Continue with these rows (beams)."""
        self.decoder.reorder(self.state, beam_idx)
        self.rows = len(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Continue with these rows."""
        self.reorder_cache(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Continue with each row several times."""
        device = self.decoder.embeddings.tokens.weight.device if self.decoder.embeddings is not None else None
        self.reorder_cache(torch.arange(self.rows, device=device).repeat_interleave(repeats))

    def crop(self, *_: Any) -> None:
        """A state cannot forget what it has read.

        Raises:
            ValueError: always.
        """
        raise ValueError("a model in zoo's shell cannot go back to fewer tokens; start again without past_key_values")

    def reset(self) -> None:
        """As `crop`."""
        self.crop()
