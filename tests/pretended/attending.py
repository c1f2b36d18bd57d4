"""Attention over packed rows on a pretended GPU, forward and backward: a host read, or a tensor on the CPU, raises.

Prints what torch's attention was asked for, and how many graphs compiled blocks have.
"""

from collections.abc import Callable
from functools import partialmethod
from typing import Any

import load  # noqa: F401 - the device, before torch
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.nn import functional as F

from zoo.blocks.backends import flex
from zoo.blocks.backends.backend import backends
from zoo.blocks.rows.documents import Documents
from zoo.models.attention_backend import attentions
from zoo.models.model import Model
from zoo.models.settings import load_settings
from zoo.training.devices.attention_backend import use_backends
from zoo.training.devices.strategy import compile_blocks
from zoo.training.settings import Training

CUDA, LENGTH = torch.device("cuda"), 8
ROWS = [[3, 2], [8], []]
DROPPING = (("dropout",), 0.1)
GROUPED = (("decoder", "attention"), {"name": "grouped", "n_kv_heads": 2, "window": [3, None]})
CASES = [
    ("varlen", "gpt-modern-nano", [GROUPED, DROPPING]),
    ("varlen", "bert-nano", [DROPPING]),
    ("varlen", "captioner-transformer-nano", [DROPPING]),
    ("flex", "transformer-nano", [(("dropout",), 0.0), (("decoder", "position"), "alibi")]),
    ("sdpa", "gpt-modern-nano", [GROUPED, DROPPING]),
]


def learn(model: Model, rows: list[list[int]] = ROWS) -> None:
    """One forward and one backward pass over rows as collating lays them."""
    numbers = [[k for k, n in enumerate(row, 1) for _ in range(n)] for row in rows]
    laid = torch.tensor([row + [0] * (LENGTH - len(row)) for row in numbers])
    documents, tokens = Documents.packed(rows, laid).to(CUDA), torch.ones_like(laid, device=CUDA)
    source = source_documents = None
    if model.encoder is not None and model.decoder is not None:
        source, source_documents = tokens, documents
        if model.encoder.image_size is not None:
            source = model.encoder.blank(1, CUDA).repeat(len(rows), 1, 1, 1)
            one = [[1], [1], []]
            source_documents = Documents.packed(one, torch.tensor([[1], [1], [0]])).to(CUDA)
    scored = {name: torch.zeros(2, dtype=torch.long, device=CUDA) for name in model.heads}
    said = model(tokens, source, documents, source_documents, places=scored).states
    assert said.device.type == "cuda" and said.dtype == torch.get_default_dtype()
    said.float().square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.device.type == "cuda", name


asked: set[str] = set()
fused = F.scaled_dot_product_attention


def noted(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None, *others: Any, **named: Any
) -> Tensor:
    """As torch's; in which dtype and with what, and whether cuDNN may be chosen."""
    said = [str(queries.dtype).removeprefix("torch."), "mask" if mask is not None else "no mask"]
    said += ["fewer keys than queries"] if keys.shape[1] != queries.shape[1] else []
    assert named["enable_gqa"] == (keys.shape[1] != queries.shape[1])
    asked.add(", ".join([*said, "cuDNN" if torch.backends.cuda.cudnn_sdp_enabled() else "no cuDNN"]))
    return fused(queries, keys, values, mask, *others, **named)


F.scaled_dot_product_attention = noted
flex.compiled = lambda function, graphs, **options: function  # no compiler for a GPU that is not there
torch.set_default_dtype(torch.bfloat16)
for backend, name, changes in CASES:
    with FakeTensorMode():
        with CUDA:
            model = Model(load_settings(name, changes))
        for attention in attentions(model):
            attention.backend = backends[backend]()
        learn(model.train())
for dtype in (torch.bfloat16, torch.float32):
    torch.set_default_dtype(dtype)
    with FakeTensorMode():
        with CUDA:
            model = Model(load_settings("gpt-modern-nano"))
        learn(model.train(), [[LENGTH]] * 3)
print("\n".join(sorted(asked)))

F.scaled_dot_product_attention = fused  # what notes cannot be traced
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


torch.cuda.get_device_capability = lambda device=None: (9, 0)  # which only a driver knows
torch.cuda.is_bf16_supported = lambda including_emulation=True: True
nn.Module.compile = partialmethod(nn.Module.compile, backend=traced)  # type: ignore[method-assign,assignment]
torch.set_default_dtype(torch.bfloat16)
for name in ("gpt-modern-nano", "bert-nano", "transformer-nano", "captioner-transformer-nano", "t5-nano"):
    torch._dynamo.reset()
    counters.clear()
    with FakeTensorMode() as mode:
        modes.append(mode)
        with CUDA:
            model = Model(load_settings(name, [DROPPING]))
        use_backends(model, Training(precision="bfloat16"), CUDA)
        compile_blocks(model)
        for block in model.modules():
            if block._compiled_call_impl is not None:
                block._compiled_call_impl = apart(block._compiled_call_impl)
        learn(model.train())
    kinds = sorted({type(attention.backend).__name__ for attention in attentions(model)})
    breaks = sum(counters["graph_break"].values())
    print(f"{name}: {counters['stats']['unique_graphs']} graphs by {', '.join(kinds)}, {breaks} breaks")
