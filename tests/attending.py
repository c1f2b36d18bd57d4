"""Backends whose kernels are a GPU's, on a CPU: `varlen` by its documented formula, `flex` with gradients."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.utils.flop_counter  # registers torch's kernels by name: it must be imported before they are replaced here
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import flex_attention


def varlen_formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: float | None = None,
    window_size_left: int = -1,
    window_size_right: int = -1,
) -> tuple[Tensor, None]:
    """What torch.nn.attention.varlen.varlen_attn documents, and what its kernel demands, sequence by sequence."""
    assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32 and len(cu_seq_q) == len(cu_seq_k) > 1
    assert int(cu_seq_q[-1]) == len(query) and int(cu_seq_k[-1]) == len(key) == len(value)
    assert query.shape[2] == key.shape[2] == value.shape[2] and query.shape[2] % 8 == 0 and query.shape[2] <= 256
    assert query.shape[1] % key.shape[1] == 0
    assert scale is not None and not return_debug_mask
    left, right = window_size_left, window_size_right
    assert is_causal == ((left, right) == (-1, 0))
    said, shared = [], query.shape[1] // key.shape[1]
    for lasts in zip(cu_seq_q, cu_seq_q[1:], cu_seq_k, cu_seq_k[1:], strict=False):
        first_query, end_query, first_key, end_key = (int(last) for last in lasts)
        assert 0 <= end_query - first_query <= max_q and 0 <= end_key - first_key <= max_k
        assert max_q > 1 or end_query > first_query  # Dao-AILab/flash-attention#1537
        q, k, v = query[first_query:end_query], key[first_key:end_key], value[first_key:end_key]
        k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
        # a window is aligned to the last query and the last key
        distance = torch.arange(len(q))[:, None] + len(k) - len(q) - torch.arange(len(k))[None, :]
        hidden = (distance > left) & (left >= 0) | (-distance > right) & (right >= 0)
        scores = torch.einsum("qhd,khd->hqk", q, k) * scale
        weights = functional.dropout(scores.masked_fill(hidden, -torch.inf).softmax(-1), dropout_p)
        said.append(torch.einsum("hqk,khd->qhd", weights, v))
    return torch.cat(said), None


@contextmanager
def gpu_backends_on_the_cpu() -> Iterator[None]:
    """`varlen` by the formula, and `flex` without torch's check that nothing on a CPU needs a gradient.

    The check stands in front of a backward pass in plain torch, which is the formula that the GPU's kernel is made for.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flex_attention, "_validate_device", lambda query, key, value: None)
        patch.setattr(torch.ops.aten, "_flash_attention_forward", varlen_formula)
        yield
