"""Several linear layers applied to the same input, such as queries, keys and values."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from zoo.devices.compiling import is_transformed
from zoo.devices.large_products import is_slow_gradient, write_weight_gradient_
from zoo.devices.precision import dtype_of_products


class UsesFastLayers:
    """Mixin of modules with linear layers.

    Attributes:
        fast_layers: on a CPU with AMX, lay matrices out for the gradients of large weights; false: torch's own layers.
    """

    fast_layers = True


Vectors = Float[Tensor, "*places d_model"]
Mapped = Float[Tensor, "*places _"]


def project(x: Vectors, maps: Sequence[nn.Module], fast: bool = True) -> list[Mapped]:
    """Apply each of several linear layers to the same vectors.

    In training on a GPU this is one product with the concatenated weights. That takes the GPU as long, but the CPU,
    which may be the bottleneck, launches fewer kernels (docs/benchmarks.md, "What ran"). In inference, concatenating
    the weights would take longer than separate products save.
    """
    if not (x.is_cuda and torch.is_grad_enabled() and are_plain(maps)):
        return project_each(x, maps, fast)
    weights, biases = ([getattr(one, name) for one in maps] for name in ("weight", "bias"))
    bias = None if biases[0] is None else torch.cat(biases)
    return list(torch.split(F.linear(x, torch.cat(weights), bias), [len(weight) for weight in weights], -1))


def project_each(x: Vectors, maps: Sequence[nn.Module], fast: bool = True) -> list[Mapped]:
    """Apply each layer with a matrix product of its own.

    Autocast would cast the vectors once per layer and keep every copy for the backward pass. On a CPU they are cast
    once; on a GPU, where the saving has not been measured, autocast does its usual casts.
    """
    dtype, changed = dtype_of_products(x), torch.compiler.is_compiling() or is_transformed()
    if dtype == x.dtype or x.device.type != "cpu" or changed or not are_plain(maps):
        return [project_one(x, one, fast) for one in maps]
    copies = CastOnce.apply(x, dtype, len(maps))  # type: ignore[no-untyped-call]
    return [project_one(copy, one, fast) for one, copy in zip(maps, copies, strict=True)]


def project_one(x: Vectors, layer: nn.Module, fast: bool = True) -> Mapped:
    """Apply a linear layer, with a faster product for its weight's gradient where there is one and `fast` allows it."""
    mapped: Tensor
    # `is_grad_enabled` first: the rest takes microseconds, which add up in generation, layer by layer, token by token
    if fast and torch.is_grad_enabled() and has_slow_gradient(x, layer):
        mapped = LargeLinear.apply(x, layer.weight, layer.bias, dtype_of_products(x))  # type: ignore[no-untyped-call]
    else:
        mapped = layer(x)
    return mapped


def has_slow_gradient(x: Vectors, layer: nn.Module) -> bool:
    """Whether torch computes the gradient of a linear layer's weight slower than `LargeLinear` does."""
    weight: Tensor | None = getattr(layer, "weight", None)
    if weight is None or not weight.requires_grad or torch.compiler.is_compiling() or is_transformed():
        return False
    slow = is_slow_gradient(x[..., 0].numel(), weight.numel(), x.device, dtype_of_products(x))
    return slow and are_plain([layer])


class LargeLinear(torch.autograd.Function):
    """x W^T + b in a narrower dtype, as autocast computes it, with `write_weight_gradient_` for the gradient of W."""

    @staticmethod
    def forward(ctx: Any, x: Vectors, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Mapped:
        narrow, w = x.to(dtype), weight.to(dtype)
        ctx.save_for_backward(narrow, w)
        ctx.dtypes = x.dtype, weight.dtype, None if bias is None else bias.dtype
        return F.linear(narrow, w, None if bias is None else bias.to(dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Mapped) -> tuple[Tensor | None, ...]:
        (x, weight), (x_dtype, weight_dtype, bias_dtype) = ctx.saved_tensors, ctx.dtypes
        rows, of_x, of_weight, of_bias = gradient.reshape(-1, len(weight)), None, None, None
        if ctx.needs_input_grad[0]:
            of_x = (rows @ weight).view(x.shape).to(x_dtype)
        if ctx.needs_input_grad[1]:
            of_weight = torch.empty_like(weight, dtype=weight_dtype)
            write_weight_gradient_(of_weight, rows, x.reshape(-1, x.shape[-1]))
        if ctx.needs_input_grad[2]:
            of_bias = rows.sum(0).to(bias_dtype)
        return of_x, of_weight, of_bias, None


class CastOnce(torch.autograd.Function):
    """Cast vectors to a narrower dtype once and return several views of the result.

    Their gradients are summed in the wider dtype; if all layers read one tensor, autograd would round each partial sum
    to the narrower dtype.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype, count: int) -> tuple[Tensor, ...]:
        ctx.dtype = x.dtype
        narrow = x.to(dtype)
        return tuple(narrow.detach() for _ in range(count))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        # the order in which autograd would add them: the last layer's gradient first
        last, *others = reversed(gradients)
        total = last.to(ctx.dtype)
        for one in others:
            total += one
        return total, None, None


def are_plain(maps: Sequence[nn.Module]) -> bool:
    """Whether all modules are plain linear layers, all or none with a bias, all or none of them trainable."""
    kinds = set()
    for one in maps:
        if type(one).forward is not nn.Linear.forward or is_wrapped(one):
            return False
        kinds.add((one.bias is None, one.weight.requires_grad))
    return len(kinds) == 1


def is_wrapped(module: nn.Module) -> bool:
    """Whether calling a module does more than its class's `forward`: it has hooks, or `forward` is replaced.

    LoRA adds hooks; accelerate replaces `forward` to load offloaded weights.
    """
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return is_patched(module) or any(hooks)


def is_patched(module: nn.Module) -> bool:
    """Whether this one module has another `forward` than its class's.

    A copy that was made while a thread generated with the original holds its class's as an attribute.
    """
    if "forward" not in module.__dict__:
        return False
    return getattr(module.__dict__["forward"], "__func__", None) is not type(module).forward
