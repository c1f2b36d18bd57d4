"""A model whose maps and heads multiply few vectors, as generation needs it, by the fastest products for them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock, get_ident
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from zoo.blocks.activation import GELU, GELUTanh, SiLU
from zoo.blocks.attention import ProjectedAttention
from zoo.blocks.feed_forward import MLP, GatedMLP
from zoo.models.generation.product import AfterProduct, Map, Product, Together, gains
from zoo.models.heads.head import Head
from zoo.models.model import Model

# oneDNN's relu makes 0 of what is not a number, and nobody would learn that weights are damaged
AFTER: dict[type[nn.Module], AfterProduct] = {
    GELU: ("gelu", "none"),
    GELUTanh: ("gelu", "tanh"),
    SiLU: ("swish", ""),
}
alone = RLock()  # what stands in the place of a model's maps is of one thread at a time
inside: set[int] = set()  # the models, by id, that multiply so now; whoever holds `alone` looks


def begin_anew() -> None:
    """Let a forked process write: the thread that wrote meanwhile, and would give `alone` back, is not in it."""
    global alone
    alone = RLock()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=begin_anew)


def is_plain(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether it is a linear map that does nothing else."""
    return isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward


def replacements(model: Model) -> dict[nn.Module, Map]:
    """What computes in the place of each linear map, and of each head; of an attention to its own input at once."""
    found: dict[nn.Module, Map] = {head: logits_of(head) for head in model.heads.values() if isinstance(head, Head)}
    # `score` reads the last map of a head; with another `forward` it would pass for more than a product
    scoring = {module for head in found for module in head.modules()}
    for module in model.modules():
        if isinstance(module, ProjectedAttention) and not module.crosses:
            maps = [linear for linear in (module.query, module.key, module.value) if is_plain(linear)]
            alike = len(maps) == 3 and len({linear.bias is None for linear in maps}) == 1
            if alike and gains(*(linear.weight for linear in maps)):
                together = Together(*maps)
                found |= {linear: together.part(number) for number, linear in enumerate(maps)}
        elif isinstance(module, MLP | GatedMLP) and type(module) in (MLP, GatedMLP):  # a subclass may do something else
            found |= activated(module)
        elif is_plain(module) and gains(module.weight) and module not in found and module not in scoring:
            found[module] = Product(module)
    return found


def activated(module: MLP | GatedMLP) -> dict[nn.Module, Map]:
    """What computes in the place of the activation and of the map before it: one product, in bfloat16.

    It is rounded once instead of twice. In float32, where every bit counts, all stays as it is; so it does where a hook
    looks at, or changes, what goes from one to the other.
    """
    before, after = module.gate if isinstance(module, GatedMLP) else module.up, AFTER.get(type(module.activation))
    hooks = before._forward_hooks or module.activation._forward_pre_hooks or module.activation._forward_hooks
    gaining = is_plain(before) and before.weight.dtype == torch.bfloat16 and gains(before.weight)
    if after is None or hooks or not gaining:
        return {}
    return {before: Product(before, after=after), module.activation: lambda x: x}


def logits_of(head: Head) -> Map:
    """What a head says."""
    product: Product | None = None

    def forward(states: Tensor, table: Tensor) -> Tensor:
        nonlocal product
        scores = head.score(states, table)
        if scores.map is not None or not gains(scores.weight):
            return scores.logits()
        if product is None or product.weights[0] is not scores.weight:
            product = Product(scores)
        return product(scores.states)

    return forward


def found_late(module: nn.Module) -> dict[str, nn.Module]:
    """A module's modules, which torch finds by a function of Python, after a lookup in vain.

    Not its parameters: FSDP and accelerate put others in their place while a module computes.
    """
    named = module._modules.items()
    return {name: part for name, part in named if part is not None and not hasattr(type(module), name)}


def for_this_thread(forward: Map, otherwise: Map) -> Map:
    """What computes in a module's place in the thread that writes; others, that read meanwhile, have the module."""
    mine = get_ident()
    return lambda *given, **named: (forward if get_ident() == mine else otherwise)(*given, **named)


@contextmanager
def packed(model: Model) -> Iterator[None]:
    """Let a model multiply by the fastest products of few vectors; threads that share it write one after the other.

    Its modules find their parts as any object finds its attributes, which a small model does hundreds of times a step.

    Within another one of the same model it does nothing, so whoever writes batch after batch has the matrices looked at
    once: they do not change in between.
    """
    with alone:
        if id(model) in inside:
            yield
            return
        # what an instance has itself is found before what its class has
        own: dict[nn.Module, dict[str, Any]] = {module: found_late(module) for module in model.modules()}
        for module, forward in replacements(model).items():
            own[module]["forward"] = for_this_thread(forward, module.forward)
        for module, attributes in own.items():
            module.__dict__.update(attributes)
        inside.add(id(model))
        try:
            yield
        finally:
            inside.remove(id(model))
            for module, attributes in own.items():
                for name, value in attributes.items():
                    if module.__dict__.get(name) is value:  # not what has taken its place meanwhile
                        del module.__dict__[name]
