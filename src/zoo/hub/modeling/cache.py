"""What a decoder remembers between steps, in the form in which transformers hands it around."""

from typing import Any

from torch import Tensor
from transformers import Cache

from zoo.models.kinds.part import Decoder, Memory


class StateCache(Cache):  # type: ignore[misc]
    """The state of a decoder of ours, whatever it consists of: keys and values, a recurrent state, last places.

    Args:
        rows: sequences that are continued side by side.
        memory: what an encoder made of their sources.
    """

    is_compileable = False  # a state may grow with each step
    # Of no layers at all transformers 5.24 takes all to be linear, and `generate` reads again what is remembered.
    is_linear = (False,)

    def __init__(self, decoder: Decoder, rows: int, memory: Memory | None) -> None:
        super().__init__(layers=[])  # theirs would hold keys and values layer by layer
        self.decoder, self.length = decoder, 0
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
        self.decoder.reorder(self.state, beam_idx, beam_idx)  # `generate` repeats the memory for every beam

    def crop(self, *_: Any) -> None:
        """A state cannot forget what it has read.

        Raises:
            ValueError: always.
        """
        raise ValueError("this cache cannot be cropped to fewer tokens; start again without a cache")

    # The base class does these layer by layer, and there are none: it would change nothing, without a word.
    batch_select_indices = reorder_cache
    reset = batch_repeat_interleave = crop
