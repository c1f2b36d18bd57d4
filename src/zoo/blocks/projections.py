"""Several linear maps of the same vectors."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.devices.compiling import is_transformed
from zoo.devices.precision import dtype_of_products

Vectors = Float[Tensor, "*places d_model"]
Mapped = Float[Tensor, "*places _"]


def project(x: Vectors, maps: Sequence[nn.Module]) -> list[Mapped]:
    """What each of some linear maps makes of the same vectors.

    In training on a GPU this is one product by all of their weights. The GPU takes as long for it, but the CPU, which
    may be what a step waits for, starts fewer kernels (docs/benchmarks.md, "What ran"). In inference it would take
    longer to lay the weights side by side than to read them.
    """
    if not (x.is_cuda and torch.is_grad_enabled() and are_plain(maps)):
        return project_each(x, maps)
    weights, biases = ([getattr(one, name) for one in maps] for name in ("weight", "bias"))
    bias = None if biases[0] is None else torch.cat(biases)
    return list(torch.split(F.linear(x, torch.cat(weights), bias), [len(weight) for weight in weights], -1))


def project_each(x: Vectors, maps: Sequence[nn.Module]) -> list[Mapped]:
    """The same by a product for each map.

    Autocast would cast the vectors once for each of them, and keep every copy for the backward pass. On a CPU they are
    cast once. A GPU's autocast stays as it is: nobody has measured there what that saves.
    """
    dtype, changed = dtype_of_products(x), torch.compiler.is_compiling() or is_transformed()
    if dtype == x.dtype or x.device.type != "cpu" or changed or not are_plain(maps):
        return [one(x) for one in maps]
    copies = Casts.apply(x, dtype, len(maps))  # type: ignore[no-untyped-call]
    return [one(copy) for one, copy in zip(maps, copies, strict=True)]


class Casts(torch.autograd.Function):
    """The same vectors in a narrower dtype, several times; the gradients of all are added up in the wider one.

    They share memory. One tensor for all readers would do as well, but autograd would round each sum of their gradients
    to the narrower dtype.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype, count: int) -> tuple[Tensor, ...]:
        ctx.dtype = x.dtype
        narrow = x.to(dtype)
        return tuple(narrow.detach() for _ in range(count))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        # in the order in which autograd adds up what several readers return: the last one's first
        last, *others = reversed(gradients)
        total = last.to(ctx.dtype)
        for one in others:
            total += one
        return total, None, None


def are_plain(maps: Sequence[nn.Module]) -> bool:
    """Whether modules are linear maps and no more, all with a bias or none, all of them trained or none."""
    kinds = set()
    for one in maps:
        if type(one).forward is not nn.Linear.forward or does_more(one):
            return False
        kinds.add((one.bias is None, one.weight.requires_grad))
    return len(kinds) == 1


def does_more(module: nn.Module) -> bool:
    """Whether something is done beside a module's own forward pass, or in its place, when it is called.

    LoRA is a hook that does more; accelerate, which brings weights from elsewhere, puts another `forward` in place.
    """
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return "forward" in module.__dict__ or any(hooks)
