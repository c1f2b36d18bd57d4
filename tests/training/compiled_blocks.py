"""Train with compiled blocks, and validate rows of other shapes; prints the graphs that each pass cost.

A process of its own: in tests every shape is checked, which torch's compiler cannot read.
"""

import logging
import tempfile
from collections.abc import Callable
from functools import partialmethod
from typing import Any

import torch
from functorch.compile import nop
from tiny import alone, settings
from torch import distributed, nn
from torch._dynamo import guards
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch.nn.parallel import DistributedDataParallel

from zoo.blocks.rows.documents import Documents
from zoo.devices import compiling
from zoo.models.create import create_model
from zoo.models.model import Model
from zoo.training.learner import Learner

by_torch = nn.Module.compile
nn.Module.compile = partialmethod(by_torch, backend="eager")  # traced, then run as it is
guards.profile_guard_manager = lambda *given: 0.0  # it empties the processor's caches to time what nobody reads
LENGTH = 8
PACKED = [[3, 2], [8], []]
graphs = 0


def read(model: nn.Module, rows: list[list[int]], length: int = LENGTH) -> None:
    """A pass over rows of documents so long, backward too where gradients are kept."""
    numbers = [[k for k, n in enumerate(row, 1) for _ in range(n)] + [0] * (length - sum(row)) for row in rows]
    tokens, documents = torch.ones(len(rows), length, dtype=torch.long), Documents.packed(rows, torch.tensor(numbers))
    states = model(tokens, tokens, documents, documents).states
    if torch.is_grad_enabled():
        states.square().sum().backward()


def tell(what: str) -> None:
    global graphs
    print(f"{what}: {counters['stats']['unique_graphs'] - graphs}")
    graphs = counters["stats"]["unique_graphs"]


model: Model = create_model("transformer-nano", dropout=0.0).initialize(0)
learner = Learner(model, settings(compile=True), alone())
read(learner.wrapped, PACKED)
tell("the first step")
read(learner.wrapped, [[1] * 5, [7], [4, 4]])
tell("other documents")
with learner.published_model() as shown:
    for length in (5, 6, 7):
        read(shown, [[2, 1], [length]], length)
        read(shown, [[length]] * length, length)
tell("validations")
read(learner.wrapped, PACKED)
tell("a step after them")
print("blocks that are compiled:", sum(module._compiled_call_impl is not None for module in model.modules()))
print("room:", torch._dynamo.config.recompile_limit)

counters.clear()
graphs = 0
dropping: Model = create_model("bert-nano", dropout=0.5).initialize(0)
learner = Learner(dropping, settings(compile=True, precision="bfloat16"), alone())
with learner.autocast():
    for last in (4, 5, 6):  # the positions that heads read are others in every step
        places = {name: torch.tensor([0, last, last + 8]) for name in dropping.heads}
        said = learner.wrapped(torch.ones(2, LENGTH, dtype=torch.long), places=places)
        torch.stack([logits.sum() for logits in said.heads.values()]).sum().backward()
tell("with dropout, and places that heads read")
print("breaks of a graph:", sum(counters["graph_break"].values()))

counters.clear()
graphs = 0
model = create_model("transformer-nano", dropout=0.0).initialize(0)
read(Learner(model, settings(compile=True, checkpointing=True), alone()).wrapped, PACKED)
tell("with activations computed again")

parts = []


def counted(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Stands in for what compiles a graph, or each part of one that was cut."""
    parts.append(graph)
    return graph.forward


nn.Module.compile = partialmethod(by_torch, backend=counted)
with tempfile.TemporaryDirectory() as folder:
    distributed.init_process_group("gloo", store=distributed.FileStore(f"{folder}/store", 1), rank=0, world_size=1)
    large: Model = create_model("gpt2-nano", d_model=256, dropout=0.0)  # its blocks are larger than DDP's first bucket
    exchanging = DistributedDataParallel(Learner(large, settings(compile=True), alone()).wrapped)
    exchanging(torch.ones(2, LENGTH, dtype=torch.long)).logits.sum().backward()
    distributed.destroy_process_group()
print("graphs where gradients are exchanged in buckets:", len(parts))


def refusing(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Stands in for a compiler that fails."""
    raise RuntimeError("no kernels for you\nand much more")


def gradients(learner: Learner) -> list[torch.Tensor]:
    """Of a step and another one."""
    for rows in (PACKED, [[1] * 5, [7], [4, 4]]):
        read(learner.wrapped, rows)
    return [parameter.grad for parameter in learner.model.parameters() if parameter.grad is not None]


class Told(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


expected = gradients(Learner(create_model("transformer-nano", dropout=0.0).initialize(0), settings(), alone()))
compiling.logger.addHandler(told := Told())
compiles_one = iter([aot_autograd(fw_compiler=nop)])  # a block's graph, and fails at the next
for backend, again in (
    (refusing, False),
    (aot_autograd(fw_compiler=nop, bw_compiler=refusing), False),
    (lambda graph, inputs: next(compiles_one, refusing)(graph, inputs), True),
):
    torch._dynamo.reset()
    compiling.failures.clear()
    told.said.clear()
    nn.Module.compile = partialmethod(by_torch, backend=backend)
    asked = settings(compile=True, checkpointing=again)
    learner = Learner(create_model("transformer-nano", dropout=0.0).initialize(0), asked, alone())
    same = all(map(torch.equal, gradients(learner), expected))
    print(f"the same gradients: {same};", *told.said)
