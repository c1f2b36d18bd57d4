"""Compiled blocks on a pretended GPU: prints how many graphs those of each kind of model have, and where one broke."""

from collections.abc import Callable
from functools import partialmethod
from typing import Any

import load  # noqa: F401 - the device, before torch
import torch
from packed_rows import CUDA, DROPPING, ROWS, learn, read
from torch import nn
from torch._dynamo import guards
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily

from zoo.blocks.backends import flex
from zoo.models import attention_backend
from zoo.models.attention_backend import attentions
from zoo.models.kinds.part import Part
from zoo.models.model import Model
from zoo.models.settings import load_settings
from zoo.training.devices.attention_backend import use_backends
from zoo.training.devices.compiling import compile_blocks
from zoo.training.settings import Training

modes: list[FakeTensorMode] = []


def traced(graph: Callable[..., Any], inputs: object) -> Callable[..., Any]:
    """Stands in for what compiles a graph: it runs as it is."""

    def run(*given: Any) -> Any:
        with modes[-1]:
            return graph(*given)

    return run


def apart(call: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled call outside of the mode of fake tensors, in which nothing is compiled."""

    def run(*given: Any, **named: Any) -> Any:
        with unset_fake_temporarily():
            return call(*given, **named)

    return run


flex.compiled = lambda function, graphs, **options: function  # no compiler for a GPU that is not there
torch.cuda.get_device_capability = lambda device=None: (9, 0)  # which only a driver knows
nn.Module.compile = partialmethod(nn.Module.compile, backend=traced)  # type: ignore[method-assign,assignment]
torch.set_default_dtype(torch.bfloat16)
guards.profile_guard_manager = lambda *given: 0.0  # it empties the processor's caches to time what nobody reads
attention_backend.missing_for = lambda device: None  # what compiles for a GPU is wherever there is one
FAMILIES = ("gpt-modern-nano", "bert-nano", "captioner-transformer-nano", "t5-nano")
WITHOUT_GRADIENTS = ("gpt-modern-nano", "t5-nano", "gpt2-nano", "transformer-nano")  # every kind of block is in one
BIASED = [(("dropout",), 0.0), (("decoder", "position"), "alibi")]
SHORT = [[[1, 2, 1, 2], [2, 2, 1, 1], [1, 1, 1]], [[2, 1, 2, 1, 2], [1, 1, 2], [2, 2, 2, 1, 1]]]  # two batches
CASES = [*((name, [DROPPING], [ROWS]) for name in FAMILIES), ("gpt2-nano", BIASED, [ROWS])]
CASES += [("transformer-nano", [DROPPING], SHORT)] * 2
for number, (name, changes, batches) in enumerate(CASES):
    recomputed = number == len(CASES) - 1
    torch._dynamo.reset()
    counters.clear()
    with FakeTensorMode() as mode:
        modes.append(mode)
        with CUDA:
            model = Model(load_settings(name, changes))
        use_backends(model, Training(precision="bfloat16"), CUDA)
        for part in model.modules():
            if isinstance(part, Part):  # recomputed blocks prepare nothing beforehand
                part.checkpointing = recomputed
        compile_blocks(model)
        for block in model.modules():
            if block._compiled_call_impl is not None:
                block._compiled_call_impl = apart(block._compiled_call_impl)
        for rows in batches:
            learn(model.train(), rows)
            if name in WITHOUT_GRADIENTS and not recomputed:  # without gradients nothing is
                with torch.no_grad():
                    read(model.eval(), rows)
    kinds = sorted({type(attention.backend).__name__ for attention in attentions(model)})
    breaks = sum(counters["graph_break"].values())
    about = name + ", short documents" * (batches is SHORT) + ", recomputed" * recomputed
    print(f"{about}: {counters['stats']['unique_graphs']} graphs by {', '.join(kinds)}, {breaks} breaks")
