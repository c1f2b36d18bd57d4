"""Several linear maps of the same vectors."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


def project(x: Float[Tensor, "*places d_model"], maps: Sequence[nn.Module]) -> list[Float[Tensor, "*places _"]]:
    """What each of some linear maps makes of the same vectors.

    In training on a GPU this is one product by all of their weights. The GPU takes as long for it, but the CPU, which
    may be what a step waits for, starts fewer kernels (docs/benchmarks.md, "What ran"). In inference it would take
    longer to lay the weights side by side than to read them.
    """
    if not (x.is_cuda and torch.is_grad_enabled() and are_plain(maps)):
        return [one(x) for one in maps]
    weights, biases = ([getattr(one, name) for one in maps] for name in ("weight", "bias"))
    bias = None if biases[0] is None else torch.cat(biases)
    return list(torch.split(F.linear(x, torch.cat(weights), bias), [len(weight) for weight in weights], -1))


def are_plain(maps: Sequence[nn.Module]) -> bool:
    """Whether modules are linear maps and no more, all with a bias or none, all of them trained or none.

    LoRA is a hook that does more; accelerate, which brings weights from elsewhere, puts another `forward` in place.
    """
    kinds = set()
    for one in maps:
        hooks = one._forward_hooks, one._forward_pre_hooks, one._backward_hooks, one._backward_pre_hooks
        if type(one).forward is not nn.Linear.forward or "forward" in one.__dict__ or any(hooks):
            return False
        kinds.add((one.bias is None, one.weight.requires_grad))
    return len(kinds) == 1
