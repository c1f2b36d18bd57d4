"""A training step of each nano model, and with each optimizer, on a pretended GPU; prints what they did as JSON."""

import json
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import load  # noqa: F401 - the device, before torch
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils.rnn import PackedSequence
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.batches.collate import MicroBatch
from zoo.blocks.position import Rotary
from zoo.blocks.rows.documents import Documents
from zoo.inference.loaded import model_traits
from zoo.models.create import list_models
from zoo.models.kinds.part import CHANNELS
from zoo.models.model import Model
from zoo.models.settings import Sets, load_settings
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import objectives
from zoo.registry import Choice
from zoo.training.learner import Learner
from zoo.training.meter import Tally
from zoo.training.optimizers.optimizer import optimizers
from zoo.training.settings import Training
from zoo.training.step import take_step
from zoo.training.supervision.processes import Processes

CUDA, ROWS, LENGTH, SCORED = torch.device("cuda"), 3, 9, 4


def ones(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.long, device="cpu")


def packed(length: int) -> Documents:
    """Rows as collating lays them: with two documents and empty positions, with one, and empty; of a picture each."""
    rows = [[length]] * ROWS if length == 1 else [[5, length - 7], [length], []]
    numbers = [[k for k, n in enumerate(row, 1) for _ in range(n)] + [0] * (length - sum(row)) for row in rows]
    return Documents.packed(rows, torch.tensor(numbers, device="cpu"))


def batch(model: Model, mixture: Mixture) -> MicroBatch:
    """Packed rows as training has them: on the CPU, from where the step copies them."""
    given: dict[str, Any] = {"tokens": ones(ROWS, LENGTH), "documents": packed(LENGTH)}
    size = None if model.encoder is None else model.encoder.image_size
    pictures = None if size is None else torch.zeros(ROWS, CHANNELS, size, size, dtype=torch.uint8, device="cpu")
    if model.encoder is not None and model.decoder is not None:
        given["source"] = ones(ROWS, LENGTH) if pictures is None else pictures
        given["source_documents"] = packed(LENGTH if pictures is None else 1)
    elif pictures is not None:
        given |= {"tokens": pictures, "documents": packed(1)}
    chosen = mixture.capacities(LENGTH)  # the heads that score some positions
    given["places"] = {head: ones(SCORED) for head in chosen}
    if mixture.draws:
        given["draws"] = ones(ROWS, LENGTH)
    targets = {
        name: ones(SCORED) if head in chosen else ones(ROWS, LENGTH) for head, name in mixture.names_by_head.items()
    }
    return MicroBatch(given, targets, [(0, 0, 0)], ROWS * LENGTH, 1.0)


class Products(TorchDispatchMode):
    """Notes the dtypes of products of matrices: autocast goes on without a word where it finds no GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        said = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            self.dtypes.add(said.dtype)
        return said


def objectives_of(model: Model) -> Mixture:
    """An objective for each head; where several train one, that for this kind of stream."""
    stream = model_traits(model)
    named = [name for name in objectives.names() if objectives[name].head in model.heads]
    fitting = [name for name in named if not Mixture.parse(name).obstacle(stream)] or named
    return Mixture.parse({name: {} for name in {objectives[name].head: name for name in fitting}.values()})


def step(name: str, optimizer: str = "adamw", changes: Sets = ()) -> str:
    """Take a step; "done", or what went wrong."""
    accelerator = SimpleNamespace(
        num_processes=1, process_index=0, is_main_process=True, device=torch.device("cuda"), backward=Tensor.backward
    )
    accelerator.no_sync = nullcontext
    processes = Processes(cast(Any, accelerator), lambda: None)
    chosen = Choice(optimizers, optimizer)
    settings = Training(steps=2, warmup_steps=0, precision="bfloat16", ema=0.9, optimizer=chosen)
    with torch.device("cuda"):
        model = Model(load_settings(name, changes))  # not initialized: some ways to draw weights look at them
        model.to = lambda device: model  # type: ignore[method-assign,assignment]  # fake weights cannot be exchanged
        learner = Learner(model, settings, processes)
    mixture = objectives_of(model)
    try:
        counts = {name: torch.ones((), dtype=torch.float64, device="cuda") for name in mixture.members}
        tally = Tally(1, counts, {})
        with Products() as products:
            take_step(learner, mixture, [batch(model, mixture)], tally, [0.0, 0.0])
    except Exception as error:
        if "-v" in sys.argv:
            raise
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    still = [name for name, weight in model.named_parameters() if weight not in learner.optimizer.state]
    on = {tensor.device.type for tensor in [*model.parameters(), tally.bad]}
    narrow = torch.bfloat16 in products.dtypes
    return "done" if on == {"cuda"} and narrow and not still else f"on {on}, in {products.dtypes}, not updated: {still}"


def kernel_of_recurrence(kernel: nn.RNNBase, x: PackedSequence | Tensor, state: Any = None) -> Any:
    """Stands in for torch's, which reads the sizes of packed sequences on the CPU, where they are."""
    states = [] if state is None else [state] if isinstance(state, Tensor) else state
    read = torch.stack([one.float().sum() for one in (*kernel.parameters(), *states)]).sum()
    vectors = x if isinstance(x, Tensor) else x.data
    said = (vectors.sum(-1, keepdim=True) * read).expand(*vectors.shape[:-1], kernel.hidden_size)
    said = torch.cat([said, said], dim=-1) if kernel.bidirectional else said
    if isinstance(x, Tensor):
        last = said[None, :, -1]
        return said, last if isinstance(kernel, nn.GRU | nn.RNN) else (last, last)
    assert x.batch_sizes.device.type == "cpu" and x.sorted_indices is None, "they would be sorted on the host"
    return PackedSequence(said, x.batch_sizes), state


def reads() -> list[str]:
    """The ways to read a tensor that do not raise; there must be none, or nothing else here says anything."""
    tensor = torch.ones(2, device="cuda")
    ways = {"item": lambda: tensor[0].item(), "bool": lambda: bool(tensor[0]), "tolist": tensor.tolist}
    silent = []
    for name, way in ways.items():
        try:
            way()
            silent.append(name)
        except Exception:
            pass
    return silent


turns, turned = Rotary.rotations, set[str]()


def noted(position: Rotary, at: Tensor, dtype: torch.dtype) -> Any:
    """As `turns`; for heads of which dtype."""
    turned.add(str(dtype))
    return turns(position, at, dtype)


Rotary.rotations = noted  # type: ignore[method-assign]
SHAPES = torch.library.Library("aten", "IMPL", "Meta")
for silent in ("_fused_sgd_", "record_stream"):
    SHAPES.impl(silent, lambda *given, **named: None)  # they return nothing; torch has no rule that says so
# which only a driver knows; without the second, autocast turns itself off
torch.cuda.get_device_capability = lambda device=None: (9, 0)
torch.cuda.is_available = lambda: True
torch.cuda.is_bf16_supported = lambda including_emulation=True: True
for kind in (nn.GRU, nn.LSTM, nn.RNN):
    kind.forward = kernel_of_recurrence  # type: ignore[method-assign,assignment]
with FakeTensorMode(allow_non_fake_inputs=True):
    one: Sets = [(("decoder", "n_layers"), 1)]  # whose matrices and vectors are of every kind
    others = {optimizer: step("gpt2-nano", optimizer, one) for optimizer in optimizers.names()}
    others["recurrent mixer"] = step("bert-nano", changes=[(("encoder", "mixer"), "recurrent")])
    others["norms of heads"] = step("gpt-modern-nano", changes=[(("decoder", "attention", "qk_norm"), True)])
    done = {**{name: step(name) for name in list_models("*-nano")}, **others}
    print(json.dumps({"reads": reads(), "turned": sorted(turned), **done}))
