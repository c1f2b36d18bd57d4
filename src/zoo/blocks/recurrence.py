"""Slot `cell`: how a state takes in the next vector. Supplied: d_input, d_state, whether both directions are read."""

from abc import ABC
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from zoo.blocks.rows.documents import Documents
from zoo.registry import Choice, Slot

States = Float[Tensor, "vectors rows d_state"]


class Cell(nn.Module, ABC):
    """One layer of recurrence, by torch's kernels: whole sequences, or one vector more.

    Class attributes:
        Kernel: torch's module.
        n_vectors: vectors that make up a state; the first one is what others see of it.
    """

    Kernel: ClassVar[Callable[..., nn.RNNBase]]
    n_vectors: ClassVar[int] = 1

    def __init__(self, d_input: int, d_state: int, bidirectional: bool) -> None:
        super().__init__()
        self.d_state = d_state
        self.kernel = type(self).Kernel(d_input, d_state, batch_first=True, bidirectional=bidirectional)
        for name, parameter in self.kernel.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)

    def split(self, state: States) -> Tensor | tuple[Tensor, ...]:
        """A state as torch's kernel takes it."""
        return state.contiguous()  # cuDNN refuses any other

    def join(self, state: Any) -> States:
        """A state as torch's kernel returns it, as one tensor."""
        return state

    def start(self, x: Float[Tensor, "rows *any"]) -> States:
        """The state before the first vector, of the inputs' type."""
        return x.new_zeros(self.n_vectors, len(x), self.d_state)

    def run(
        self, steps: Float[Tensor, "places d_input"], sizes: Sequence[int], state: States | None = None
    ) -> Float[Tensor, "places states"]:
        """The states along sequences, of both directions side by side.

        Args:
            steps: as `Sequences.to_steps` gives them.
            sizes: how many sequences have each step.
        """
        return self.compute(PackedSequence(steps, torch.tensor(sizes, device="cpu")), state)[0].data

    def forward(
        self, x: Float[Tensor, "batch length d_input"], documents: Documents
    ) -> Float[Tensor, "batch length states"]:
        """The states along rows; they start anew with each document, and are 0 where there is none."""
        if documents.whole:
            return self.compute(x)[0]
        sequences = documents.sequences()
        return sequences.to_rows(self.run(sequences.to_steps(x), sequences.sizes))

    def step(self, x: Float[Tensor, "rows d_input"], state: States) -> States:
        """The state after one vector more."""
        return self.join(self.compute(x[:, None], state.to(x.dtype))[1])

    def compute(self, x: Tensor | PackedSequence, state: States | None = None) -> tuple[Any, Any]:
        """The states along sequences, and the last ones, as torch's kernel returns them."""
        if not becomes_float16(x):
            return self.kernel(x, None if state is None else self.split(state))
        dtype = next(self.kernel.parameters()).dtype  # float32, but where FSDP puts a block together in bfloat16
        with torch.autocast("cuda", enabled=False):
            return self.kernel(x.to(dtype), None if state is None else self.split(state.to(dtype)))


cells: Slot[Cell] = Slot("cell")
CellOption = Annotated[str | Choice[Cell], cells]


def becomes_float16(x: Tensor | PackedSequence) -> bool:
    """Whether autocast would give cuDNN's recurrent kernels float16 where bfloat16 is asked for.

    Autocast has no other dtype for them, and without a scale for the loss small gradients would become 0.
    """
    return x.is_cuda and torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") != torch.float16


def hold(state: States, new: States, there: Bool[Tensor, " rows"]) -> States:
    """The new state in rows that took in a vector, the old one in the others."""
    return torch.where(there[None, :, None], new, state.to(new.dtype))


@cells.register("gru")
class GRU(Cell):
    """Two gates: one forgets the state inside the candidate, one mixes state and candidate.

    Source: Cho et al. 2014, arXiv:1406.1078, equations 5 to 8; the forgetting gate acts behind the state's matrix, as
    in torch and cuDNN.
    """

    Kernel = nn.GRU


@cells.register("lstm")
class LSTM(Cell):
    """A state behind three gates: input, forget, output. The forget gate starts open (bias 1).

    Source: Hochreiter & Schmidhuber 1997; Gers et al. 2000 (forget gate); Jozefowicz et al. 2015, section 2.2 (its
    bias).
    """

    Kernel = nn.LSTM
    n_vectors = 2

    def __init__(self, d_input: int, d_state: int, bidirectional: bool) -> None:
        super().__init__(d_input, d_state, bidirectional)
        for name, parameter in self.kernel.named_parameters():
            if "bias_ih" in name:
                nn.init.ones_(parameter.data[d_state : 2 * d_state])

    def split(self, state: States) -> tuple[Tensor, ...]:
        return state[:1].contiguous(), state[1:].contiguous()

    def join(self, state: Any) -> States:
        return torch.cat(state)


@cells.register("vanilla")
class Vanilla(Cell):
    """tanh(W x + U h + b).

    Source: Elman 1990, "Finding structure in time".
    """

    Kernel = nn.RNN
