"""Cells and the mixer of them: against torch.nn's modules, document by document, and position by position."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from zoo.blocks.attention import FullAttention
from zoo.blocks.mixer import mixers, select_rows
from zoo.blocks.recurrence import cells
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import View

EXACT = {"rtol": 1e-12, "atol": 1e-12}
THEIRS: dict[str, type[nn.RNNBase]] = {"gru": nn.GRU, "lstm": nn.LSTM, "vanilla": nn.RNN}
DOCUMENTS = torch.tensor([[0, 1, 1, 1, 2, 0], [1, 1, 2, 2, 2, 2]])


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("name", cells.names())
def test_a_cell_runs_along_each_document_as_torchs_module_does(name: str, both: bool):
    torch.manual_seed(0)
    cell, theirs = cells.build(name, 3, 4, both).double(), THEIRS[name](3, 4, batch_first=True, bidirectional=both)
    theirs.double().load_state_dict(cell.kernel.state_dict())
    x, expected = randn(2, 6, 3), torch.zeros(2, 6, 8 if both else 4, dtype=torch.float64)
    for row, number in ((0, 1), (0, 2), (1, 1), (1, 2)):
        places = DOCUMENTS[row] == number
        expected[row, places] = theirs(x[row : row + 1, places])[0][0]
    torch.testing.assert_close(cell(x, Documents(DOCUMENTS)), expected, **EXACT)


@pytest.mark.parametrize("name", cells.names())
def test_steps_of_a_cell_are_its_run(name: str):
    torch.manual_seed(0)
    cell, x = cells.build(name, 3, 4, False).double(), randn(2, 6, 3)
    state, seen = cell.start(x), []
    for at in range(6):
        state = cell.step(x[:, at], state)
        seen.append(state[0])
    torch.testing.assert_close(torch.stack(seen, 1), cell(x, Documents.of(None, x)), **EXACT)


def test_rows_without_documents_give_zeros_and_gradients_of_zero():
    cell = cells.build("gru", 3, 4, True)
    out = cell(torch.randn(2, 5, 3), Documents(torch.zeros(2, 5, dtype=torch.long)))
    out.sum().backward()
    assert not out.any() and not any(p.grad is None or p.grad.any() for p in cell.parameters())


@pytest.mark.parametrize(
    "choice",
    [
        *({"name": "recurrent", "cell": cell, "d_state": 5} for cell in cells.names()),
        {"name": "convolution"},
        {"name": "convolution", "kernel": 3, "dilation": 2, "depthwise": True},
        {"name": "convolution", "kernel": 1},
    ],
    ids=str,
)
def test_a_state_is_held_where_there_is_no_document(choice: dict[str, Any]):
    """Wherever positions of document 0 stand, before the text or amid it, and whatever they hold."""
    torch.manual_seed(0)
    mixer = mixers.build(choice, 6, True, lambda: FullAttention(6, 1)).double()
    x, there = randn(2, 9, 6), torch.tensor([[0, 0, 1, 1, 0, 1, 1, 0, 1], [1] * 9])
    state, said = None, []
    for new in (slice(0, 1), slice(1, 5), slice(5, 9)):
        mixed, state = mixer.step(x[:, new], View.of(Documents(there[:, new])), state)
        said.append(mixed)
    for row in range(2):
        text = x[row : row + 1, there[row] > 0]
        expected = mixer(text, View.of(Documents.of(None, text), causal=True))[0]
        torch.testing.assert_close(torch.cat(said, dim=1)[row, there[row] > 0], expected, **EXACT)


@pytest.mark.parametrize("choice", [{"name": "recurrent", "cell": "lstm"}, {"name": "convolution", "kernel": 3}])
def test_reordered_rows_go_on_where_their_parents_were(choice: dict[str, Any]):
    torch.manual_seed(0)
    mixer = mixers.build(choice, 6, True, lambda: FullAttention(6, 1)).double()
    rows = torch.tensor([2, 2, 0])
    x, ones = randn(3, 5, 6), torch.ones(3, 5, dtype=torch.long)
    _, state = mixer.step(x[:, :4], View.of(Documents(ones[:, :4])), None)
    last, _ = mixer.step(x[rows, 4:], View.of(Documents(ones[:, 4:])), select_rows(state, rows))
    torch.testing.assert_close(last, mixer(x, View.of(Documents(ones)))[rows, 4:], **EXACT)


def test_a_state_without_width_is_refused():
    with pytest.raises(ValueError, match=r"d_state must be at least 1, got 0"):
        mixers.build({"name": "recurrent", "d_state": 0}, 6, True, lambda: FullAttention(6, 1))


def test_the_forget_gate_begins_open():
    kernel = cells.build("lstm", 3, 2, False).kernel
    assert (kernel.bias_ih_l0 + kernel.bias_hh_l0).tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


class OnGPU(Tensor):
    """A tensor that says that it lies on a GPU."""

    is_cuda = True


@pytest.fixture
def autocast() -> Iterator[Callable[[torch.dtype], None]]:
    """What turns autocast on for GPUs; `torch.autocast` leaves it off where there is none."""

    def to(dtype: torch.dtype) -> None:
        torch.set_autocast_enabled("cuda", True)
        torch.set_autocast_dtype("cuda", dtype)

    before = torch.get_autocast_dtype("cuda")
    yield to
    torch.set_autocast_dtype("cuda", before)
    torch.set_autocast_enabled("cuda", False)


@pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda'")
@pytest.mark.parametrize("name", cells.names())
@pytest.mark.parametrize(("dtype", "kept"), [(torch.bfloat16, torch.float32), (torch.float16, torch.float64)])
def test_autocast_to_bfloat16_leaves_a_gpus_kernels_float32(
    name: str, dtype: torch.dtype, kept: torch.dtype, autocast: Any, monkeypatch: pytest.MonkeyPatch
):
    """It would give them float16, whose small gradients are 0 without a scale for the loss."""
    cell, seen = cells.build(name, 3, 4, False), list[tuple[torch.dtype, bool]]()

    def kernel(x: Any, state: Any = None) -> Any:
        vectors = () if state is None else state if isinstance(state, tuple) else (state,)
        places = x.data if isinstance(x, PackedSequence) else x
        seen.extend((given.dtype, torch.is_autocast_enabled("cuda")) for given in (places, *vectors))
        return x, state

    monkeypatch.setattr(cell.kernel, "forward", kernel)
    x, state = (randn(*shape).as_subclass(OnGPU) for shape in ((2, 5, 3), (cell.n_vectors, 2, 4)))
    autocast(dtype)
    cell.step(x[:, 0], state)
    cell.run(x.flatten(0, 1), [5, 5], state)
    cell(x, Documents.of(None, x))
    assert seen and set(seen) == {(kept, dtype == torch.float16)}


@pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda'")
@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16])
def test_a_gpus_kernels_read_what_their_weights_are(weights: torch.dtype, autocast: Any):
    """FSDP puts a block together in bfloat16."""
    cell, x = cells.build("gru", 3, 4, False).to(weights), randn(2, 5, 3).float().as_subclass(OnGPU)
    autocast(torch.bfloat16)
    assert cell(x, Documents.of(None, x)).dtype == weights
