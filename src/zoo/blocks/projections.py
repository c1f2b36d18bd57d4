"""Several linear maps of the same vectors."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


def project(x: Float[Tensor, "*places d_model"], maps: Sequence[nn.Module]) -> list[Float[Tensor, "*places _"]]:
    """What each of some linear maps makes of the same vectors.

    In training on a GPU this is one product by all of their weights: one map alone leaves some of the GPU idle, and the
    CPU, which may be what a step waits for, starts half as many kernels. In inference it would take longer to lay the
    weights side by side than to read them.
    """
    if not (x.is_cuda and torch.is_grad_enabled() and are_plain(maps)):
        return [one(x) for one in maps]
    weights, biases = ([getattr(one, name) for one in maps] for name in ("weight", "bias"))
    bias = None if biases[0] is None else torch.cat(biases)
    return list(torch.split(F.linear(x, torch.cat(weights), bias), [len(weight) for weight in weights], -1))


def are_plain(maps: Sequence[nn.Module]) -> bool:
    """Whether modules are linear maps and no more, all with a bias or none, all of them trained or none."""
    kinds = set()
    for one in maps:
        if type(one).forward is not nn.Linear.forward or one._forward_hooks or one._forward_pre_hooks:
            return False
        kinds.add((one.bias is None, one.weight.requires_grad))
    return len(kinds) == 1
