"""Make a model fast for generation: linear layers and heads use the best CPU kernels for few vectors per product."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from zoo.blocks.activation import GELU, GELUTanh, SiLU
from zoo.blocks.attention import ProjectedAttention
from zoo.blocks.feed_forward import MLP, GatedMLP
from zoo.blocks.projections import is_patched
from zoo.models.generation.product import Forward, FusedActivation, Product, SharedProduct, is_faster
from zoo.models.heads.head import Head
from zoo.models.model import Model

# Activations that oneDNN fuses into a product. Not relu: oneDNN's turns NaN into 0, which would hide damaged weights.
FUSED_ACTIVATIONS: dict[type[nn.Module], FusedActivation] = {
    GELU: ("gelu", "none"),
    GELUTanh: ("gelu", "tanh"),
    SiLU: ("swish", ""),
}
lock = RLock()  # one thread at a time may replace the `forward` of a model's modules
fast_models: dict[int, "FastModel"] = {}  # by id: the models that generate fast now; used only while holding `lock`


class FastModel(NamedTuple):
    """A model that generates fast now.

    Args:
        thread: the one that generates.
        added: per module, the attributes that it has meanwhile.
    """

    thread: int
    added: dict[nn.Module, dict[str, Any]]

    def restore(self) -> None:
        """Remove the attributes."""
        for module, attributes in self.added.items():
            for name, value in attributes.items():
                if module.__dict__.get(name) is value:  # keep what has replaced it in the meantime
                    del module.__dict__[name]


class ForThisThread:
    """A `forward` for the thread that made it; others, which may share the module, use its own one."""

    def __init__(self, module: nn.Module, forward: Forward) -> None:
        self.module, self.own, self.forward, self.thread = module, module.forward, forward, get_ident()

    def __call__(self, *given: Any, **named: Any) -> Any:
        return (self.forward if get_ident() == self.thread else self.own)(*given, **named)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[nn.Module, str]]:
        """A copy of the module, made by another thread meanwhile, computes by itself: from its own weights."""
        return getattr, (self.module, "forward")


def start_fork() -> None:
    """Prepare a forked process: a thread that generated and held the lock is not in it, so nobody would clean up."""
    global lock
    lock = RLock()
    for number, model in list(fast_models.items()):
        if model.thread != get_ident():
            fast_models.pop(number).restore()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=start_fork)


def is_plain(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether a module is an `nn.Linear` that computes by `nn.Linear`'s own `forward`."""
    return isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward and not is_patched(module)


def replacements(model: Model) -> dict[nn.Module, Forward]:
    """Return the function that replaces the `forward` of each linear layer, head and fused activation.

    The query, key and value maps of a self-attention share one product.
    """
    heads = (head for head in model.heads.values() if isinstance(head, Head) and not is_patched(head))
    found: dict[nn.Module, Forward] = {head: logits_of(head) for head in heads}
    # A head's last layer is multiplied by the head's own replacement. With a replaced `forward`, `Scores.from_linear`
    # would no longer take it for a plain linear map.
    scoring = {module for head in found for module in head.modules()}
    for module in model.modules():
        if isinstance(module, ProjectedAttention) and not module.crosses:
            maps = [linear for linear in (module.query, module.key, module.value) if is_plain(linear)]
            alike = len(maps) == 3 and len({linear.bias is None for linear in maps}) == 1
            if alike and is_faster(*(linear.weight for linear in maps)):
                shared = SharedProduct(*maps)
                found |= {linear: shared.forward_of(number) for number, linear in enumerate(maps)}
        elif isinstance(module, MLP | GatedMLP) and type(module) in (MLP, GatedMLP):  # subclasses may differ
            found |= fuse_activation(module)
        elif is_plain(module) and is_faster(module.weight) and module not in found and module not in scoring:
            found[module] = Product(module)
    return found


def fuse_activation(module: MLP | GatedMLP) -> dict[nn.Module, Forward]:
    """Return replacements that fuse an activation into the linear map before it; empty where that is not possible.

    Only in bfloat16: the fused product is rounded once instead of twice, and float32 results must keep every bit. A
    hook between the two prevents it, since the hook must see the value that is passed.
    """
    before = module.gate if isinstance(module, GatedMLP) else module.up
    after = FUSED_ACTIVATIONS.get(type(module.activation))
    hooks = before._forward_hooks or module.activation._forward_pre_hooks or module.activation._forward_hooks
    faster = is_plain(before) and before.weight.dtype == torch.bfloat16 and is_faster(before.weight)
    if after is None or hooks or is_patched(module.activation) or not faster:
        return {}
    return {before: Product(before, after=after), module.activation: lambda x: x}


def logits_of(head: Head) -> Forward:
    """Return a replacement for a head's `forward`, which computes its logits by a `Product` if that is faster."""
    product: Product | None = None

    def forward(states: Tensor, token_embeddings: Tensor) -> Tensor:
        nonlocal product
        scores = head.score(states, token_embeddings)
        if scores.map is not None or not is_faster(scores.weight):
            return scores.logits()
        if product is None or product.weights[0] is not scores.weight:
            product = Product(scores)
        return product(scores.states)

    return forward


def submodules_from_getattr(module: nn.Module) -> dict[str, nn.Module]:
    """Return the submodules that torch finds only in `__getattr__`, after the normal attribute lookup has failed.

    Not the parameters: FSDP and accelerate replace those while a module computes.
    """
    named = module._modules.items()
    return {name: part for name, part in named if part is not None and not hasattr(type(module), name)}


@contextmanager
def fast_generation(model: Model) -> Iterator[None]:
    """Speed a model up for generation inside this context, which one thread at a time may enter.

    Products use the fastest kernels for few vectors. Submodules become instance attributes, since a small model looks
    them up hundreds of times per step.

    Inside another context of the same model it does nothing. So a caller that generates several batches in one outer
    context has the matrices checked only once: they do not change in between.
    """
    with lock:
        if id(model) in fast_models:
            yield
            return
        # attributes of an instance are found before those of its class
        added: dict[nn.Module, dict[str, Any]] = {module: submodules_from_getattr(module) for module in model.modules()}
        for module, forward in replacements(model).items():
            added[module]["forward"] = ForThisThread(module, forward)
        fast_models[id(model)] = FastModel(get_ident(), added)
        for module, attributes in added.items():
            module.__dict__.update(attributes)
        try:
            yield
        finally:
            fast_models[id(model)].restore()
            del fast_models[id(model)]
