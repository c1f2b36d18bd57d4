"""Attention over packed rows on a pretended GPU, forward and backward: a host read, or a tensor on the CPU, raises."""

from typing import Any

import load  # noqa: F401 - the device, before torch
import torch
from packed_rows import CUDA, DROPPING, LENGTH, learn
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from zoo.blocks.backends import flex
from zoo.blocks.backends.backend import backends
from zoo.models.attention_backend import attentions
from zoo.models.model import Model
from zoo.models.settings import load_settings

GROUPED = (("decoder", "attention"), {"name": "grouped", "n_kv_heads": 2, "window": [3, None]})
CASES = [
    ("varlen", "gpt-modern-nano", [GROUPED, DROPPING]),
    ("varlen", "bert-nano", [DROPPING]),
    ("varlen", "captioner-transformer-nano", [DROPPING]),
    ("flex", "transformer-nano", [(("dropout",), 0.0), (("decoder", "position"), "alibi")]),
    ("sdpa", "gpt-modern-nano", [GROUPED, DROPPING]),
]


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


flexible = flex.flex_attention


def for_all_rows(*tensors: Tensor, **named: Any) -> Any:
    """As torch's, which must not choose its kernel for few queries."""
    assert named["kernel_options"] == {"BACKEND": "TRITON"}
    return flexible(*tensors, **named)


F.scaled_dot_product_attention = noted
flex.flex_attention = for_all_rows
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
