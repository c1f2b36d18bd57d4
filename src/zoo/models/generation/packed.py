"""Products of matrices with few vectors, as generation needs them: of one laid out for it, where that is faster.

One vector in float32 may do without: see `vector.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import TypeGuard

import torch
from torch import Tensor, nn

from zoo.blocks.activation import GELU, GELUTanh, SiLU
from zoo.blocks.attention import ProjectedAttention
from zoo.blocks.feed_forward import MLP, GatedMLP
from zoo.devices.precision import has_bfloat16
from zoo.models.generation.laid import Laid
from zoo.models.generation.vector import vector_product
from zoo.models.heads.head import Head
from zoo.models.heads.scores import Scores
from zoo.models.model import Model

LinearMap = nn.Linear | Scores  # W x + b: a layer, or what a head says before it is multiplied out
Map = Callable[..., Tensor]  # what a module computes
AfterProduct = tuple[str, str]  # a function that oneDNN applies to a product, and its form
NOTHING: AfterProduct = ("none", "")
# oneDNN's relu makes 0 of what is not a number, and nobody would learn that weights are damaged
AFTER: dict[type[nn.Module], AfterProduct] = {
    GELU: ("gelu", "none"),
    GELUTanh: ("gelu", "tanh"),
    SiLU: ("swish", ""),
}

SMALL = 2**16  # numbers of matrices in float32
alone = RLock()  # what stands in a model's place of its maps is the model's, not a thread's
inside: set[int] = set()  # the models, by id, that multiply so now; whoever holds `alone` looks


class Product:
    """Linear maps of the same vectors as one product, whose matrix is laid out when several vectors first need that.

    Args:
        maps: all with a bias, or all without.
        after: what is applied to the product before it is rounded.
    """

    def __init__(self, *maps: LinearMap, after: AfterProduct = NOTHING) -> None:
        self.weights, self.after = [linear.weight for linear in maps], after
        self.widths = [len(weight) for weight in self.weights]
        biases = [linear.bias.detach() for linear in maps if linear.bias is not None]
        self.bias: Tensor | None = torch.cat(biases) if biases else None
        self.laid: Tensor | None = None
        found = [vector_product(linear.weight, linear.bias) for linear in maps] if after == NOTHING else []
        self.of_one = [product for product in found if product is not None]

    def each(self, x: Tensor) -> Sequence[Tensor]:
        """What each of the maps says."""
        if self.of_one and x.numel() == x.shape[-1]:
            return [product(x) for product in self.of_one]
        if self.laid is None:
            self.laid = Laid.of(self.weights).matrix
        said = multiply(x, self.laid, self.bias, self.after)
        return torch.split(said, self.widths, dim=-1) if len(self.widths) > 1 else (said,)

    def __call__(self, x: Tensor) -> Tensor:
        """What the only one of them says."""
        (said,) = self.each(x)
        return said


class Together:
    """Linear maps of the same vectors: the one that is asked first multiplies for all."""

    def __init__(self, *maps: nn.Linear) -> None:
        self.product = Product(*maps)
        self.read: Tensor | None = None
        self.parts: Sequence[Tensor] = ()

    def part(self, number: int) -> Map:
        """What one of the maps says."""

        def take(x: Tensor) -> Tensor:
            if x is not self.read:
                self.read, self.parts = x, self.product.each(x)
            return self.parts[number]

        return take


def multiply(x: Tensor, laid: Tensor, bias: Tensor | None, after: AfterProduct = NOTHING) -> Tensor:
    """A product with a matrix that was laid out."""
    function, form = after
    return torch.ops.mkldnn._linear_pointwise.default(x, laid, bias, function, [], form)


def gains(*weights: Tensor) -> bool:
    """Whether products of few vectors with these matrices, one below the other, become faster.

    On processors that multiply bfloat16, float32 is asked for where every bit counts, and stays as it is. On others it
    is what is fast. There a product with 1 to 32 vectors takes 0.4 to 0.9 of the time of MKL's, which torch calls; one
    of GPT-2's table of tokens 0.3 to 0.6; and one with a single vector less than that: see `vector.py`. Small matrices
    gain nothing: starting oneDNN's kernel takes 20 microseconds, and MKL's 5.
    """
    enough = weights[0].dtype != torch.float32 or sum(weight.numel() for weight in weights) > SMALL
    return enough and all(may_gain(weight) for weight in weights)


def may_gain(weight: Tensor) -> bool:
    """Whether kernels for few vectors take this matrix, and are meant for its dtype on this processor."""
    if weight.device.type != "cpu" or not weight.is_contiguous() or weight.is_inference():
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    # autocast would have another precision than that of the matrix
    return weight.dtype == torch.float32 and packs_float32() and not torch.is_autocast_enabled("cpu")


@cache
def packs_float32() -> bool:
    """Whether float32 is what this processor multiplies fastest, by kernels of oneDNN that were measured."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512") and not has_bfloat16(torch.device("cpu"))


def is_plain(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Whether it is a linear map that does nothing else."""
    return isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward


def replacements(model: Model) -> dict[nn.Module, Map]:
    """What computes in the place of each linear map, and of each head; of an attention to its own input at once."""
    found: dict[nn.Module, Map] = {head: logits_of(head) for head in model.heads.values() if isinstance(head, Head)}
    for module in model.modules():
        if isinstance(module, ProjectedAttention) and not module.crosses:
            maps = [linear for linear in (module.query, module.key, module.value) if is_plain(linear)]
            alike = len(maps) == 3 and len({linear.bias is None for linear in maps}) == 1
            if alike and gains(*(linear.weight for linear in maps)):
                together = Together(*maps)
                found |= {linear: together.part(number) for number, linear in enumerate(maps)}
        elif isinstance(module, MLP | GatedMLP) and type(module) in (MLP, GatedMLP):  # a subclass may do something else
            found |= activated(module)
        elif is_plain(module) and gains(module.weight) and module not in found:
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
        if not gains(scores.weight):
            return scores.logits()
        if product is None or product.weights[0] is not scores.weight:
            product = Product(scores)
        return product(scores.states)

    return forward


@contextmanager
def packed(model: Model) -> Iterator[None]:
    """Let a model multiply by the fastest products of few vectors; threads that share it write one after the other.

    Within another one of the same model it does nothing, so whoever writes batch after batch has the matrices looked at
    once: they do not change in between.
    """
    with alone:
        if id(model) in inside:
            yield
            return
        replaced = replacements(model)
        for module, forward in replaced.items():  # what an instance has itself is found before what its class has
            module.__dict__["forward"] = forward
        inside.add(id(model))
        try:
            yield
        finally:
            inside.remove(id(model))
            for module in replaced:
                del module.__dict__["forward"]
