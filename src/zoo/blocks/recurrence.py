"""Slot `cell`: how a recurrent state is updated. The model supplies d_input, d_state and bidirectional."""

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
    """One recurrent layer on torch's kernels, for whole sequences or a single step.

    Class attributes:
        Kernel: the torch module.
        n_vectors: number of vectors in a state (2 for an LSTM); the first one is the output.
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
        """Convert a state to the form that torch's kernel takes."""
        return state.contiguous()  # cuDNN requires it

    def join(self, state: Any) -> States:
        """Convert a state returned by torch's kernel to one tensor."""
        return state

    def start(self, x: Float[Tensor, "rows *any"]) -> States:
        """The initial state: zeros, in the dtype of the inputs."""
        return x.new_zeros(self.n_vectors, len(x), self.d_state)

    def run(
        self, steps: Float[Tensor, "places d_input"], sizes: Sequence[int], state: States | None = None
    ) -> Float[Tensor, "places states"]:
        """Return the state after each token of packed sequences; both directions are concatenated.

        Args:
            steps: the vectors in PackedSequence order, as `Sequences.to_steps` returns them.
            sizes: number of sequences at each time step (torch's `batch_sizes`).
            state: the initial state; None: zeros.
        """
        return self.compute(PackedSequence(steps, torch.tensor(sizes, device="cpu")), state)[0].data

    def forward(
        self, x: Float[Tensor, "batch length d_input"], documents: Documents
    ) -> Float[Tensor, "batch length states"]:
        """Return the state after each position of the rows; it restarts at each document and is 0 at padding."""
        if documents.whole:
            return self.compute(x)[0]
        sequences = documents.sequences()
        return sequences.to_rows(self.run(sequences.to_steps(x), sequences.sizes))

    def step(self, x: Float[Tensor, "rows d_input"], state: States) -> States:
        """Return the state after one more vector per row."""
        return self.join(self.compute(x[:, None], state.to(x.dtype))[1])

    def compute(self, x: Tensor | PackedSequence, state: States | None = None) -> tuple[Any, Any]:
        """Run torch's kernel; return its outputs and its final state."""
        if not becomes_float16(x):
            return self.kernel(x, None if state is None else self.split(state))
        dtype = next(self.kernel.parameters()).dtype  # float32, except where FSDP gathers a block in bfloat16
        with torch.autocast("cuda", enabled=False):
            return self.kernel(x.to(dtype), None if state is None else self.split(state.to(dtype)))


cells: Slot[Cell] = Slot("cell")
CellOption = Annotated[str | Choice[Cell], cells]


def becomes_float16(x: Tensor | PackedSequence) -> bool:
    """Whether autocast would run cuDNN's recurrent kernels in float16 although another dtype is set.

    Autocast always casts them to float16, in which small gradients underflow without loss scaling.
    """
    return x.is_cuda and torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") != torch.float16


def keep_at_padding(state: States, new: States, there: Bool[Tensor, " rows"]) -> States:
    """Return the new state in rows that read a token (`there`), the old one in the others."""
    return torch.where(there[None, :, None], new, state.to(new.dtype))


@cells.register("gru")
class GRU(Cell):
    """Gated recurrent unit: a reset gate inside the candidate, and an update gate that mixes state and candidate.

    Source: Cho et al. 2014, arXiv:1406.1078, equations 5 to 8; the reset gate is applied after the state's matrix, as
    in torch and cuDNN.
    """

    Kernel = nn.GRU


@cells.register("lstm")
class LSTM(Cell):
    """Long short-term memory: a cell state with input, forget and output gates. The forget gate starts open (bias 1).

    Source: Hochreiter & Schmidhuber 1997; Gers et al. 2000 (forget gate); Jozefowicz et al. 2015, section 2.2 (its
    bias).
    """

    Kernel = nn.LSTM
    n_vectors = 2

    def __init__(self, d_input: int, d_state: int, bidirectional: bool) -> None:
        super().__init__(d_input, d_state, bidirectional)
        for name, parameter in self.kernel.named_parameters():
            if "bias_ih" in name:  # torch's gates are in the order input, forget, cell, output
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
