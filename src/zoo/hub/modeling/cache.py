"""The state of a decoder between generation steps, as a transformers cache."""

from typing import Any

from torch import Tensor
from transformers import Cache

from zoo.models.kinds.part import Decoder, Memory


class StateCache(Cache):  # type: ignore[misc]
    """The state of a zoo decoder, whatever it holds: keys and values, a recurrent state, a convolution's last inputs.

    Args:
        rows: number of sequences that are generated side by side.
        memory: the encoder's output for their sources; None in a decoder alone.
    """

    is_compileable = False  # a state may grow with each step
    # transformers 5.24 takes an empty list of layers for all linear, and `generate` then reads cached tokens again.
    is_linear = (False,)

    def __init__(self, decoder: Decoder, rows: int, memory: Memory | None) -> None:
        super().__init__(layers=[])  # transformers' layers would hold keys and values
        self.decoder, self.length = decoder, 0
        self.state = decoder.start(rows, memory)

    def step(self, tokens: Tensor, documents: Tensor | None) -> Tensor:
        """Read new tokens and return their hidden states."""
        states: Tensor = self.decoder.step(tokens, documents, self.state)
        self.length += tokens.shape[1]
        return states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The number of positions read so far, padding included."""
        return self.length

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Continue with these rows, in this order (beam search)."""
        self.decoder.reorder(self.state, beam_idx, beam_idx)  # `generate` repeats the memory for every beam

    def crop(self, *_: Any) -> None:
        """Refuse: a state cannot drop tokens that it has read.

        Raises:
            ValueError: always.
        """
        raise ValueError("this cache cannot be cropped to fewer tokens; start again without a cache")

    # The base class loops over its layers; since there are none, it would silently do nothing.
    batch_select_indices = reorder_cache
    reset = batch_repeat_interleave = crop
