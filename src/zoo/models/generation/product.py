"""Products of matrices with few vectors, as generation needs them, by the fastest kernels for that."""

from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor, nn

from zoo.devices.precision import has_bfloat16
from zoo.models.generation.reordered import ReorderedMatrix
from zoo.models.generation.vector import vector_product
from zoo.models.heads.scores import Scores

LinearMap = nn.Linear | Scores  # W x + b: a layer, or a head's logits before they are multiplied out
Forward = Callable[..., Tensor]  # the `forward` of a module
FusedActivation = tuple[str, str]  # a function that oneDNN fuses into a product, and its variant
NO_ACTIVATION: FusedActivation = ("none", "")
MAX_UNREORDERED = 2**16  # elements: float32 matrices up to this size are not worth reordering


class Product:
    """Several linear maps of the same vectors as one product; its matrix is reordered when several vectors first come.

    Args:
        maps: all with a bias, or all without.
        after: the function applied to the product before it is rounded.
    """

    def __init__(self, *maps: LinearMap, after: FusedActivation = NO_ACTIVATION) -> None:
        self.weights, self.after = [linear.weight for linear in maps], after
        self.widths = [len(weight) for weight in self.weights]
        biases = [linear.bias.detach() for linear in maps if linear.bias is not None]
        self.bias: Tensor | None = torch.cat(biases) if biases else None
        self.reordered: Tensor | None = None
        found = [vector_product(linear.weight, linear.bias) for linear in maps] if after == NO_ACTIVATION else []
        self.vector_products = [product for product in found if product is not None]

    def outputs(self, x: Tensor) -> Sequence[Tensor]:
        """Return the output of each map for inputs (*places, d_in)."""
        if self.vector_products and x.numel() == x.shape[-1]:
            return [product(x) for product in self.vector_products]
        if self.reordered is None:
            self.reordered = ReorderedMatrix.of(self.weights).matrix
        stacked = multiply(x, self.reordered, self.bias, self.after)
        return torch.split(stacked, self.widths, dim=-1) if len(self.widths) > 1 else (stacked,)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the output of the only map."""
        (output,) = self.outputs(x)
        return output


class SharedProduct:
    """Linear maps of the same vectors, such as query, key and value: the first one called multiplies for all."""

    def __init__(self, *maps: nn.Linear) -> None:
        self.product = Product(*maps)
        self.input: Tensor | None = None
        self.outputs: Sequence[Tensor] = ()

    def forward_of(self, number: int) -> Forward:
        """Return the function that computes one of the maps."""

        def take(x: Tensor) -> Tensor:
            if x is not self.input:
                self.input, self.outputs = x, self.product.outputs(x)
            return self.outputs[number]

        return take


def multiply(x: Tensor, reordered: Tensor, bias: Tensor | None, after: FusedActivation = NO_ACTIVATION) -> Tensor:
    """Return x W' + b, with W reordered for oneDNN, and apply `after`."""
    function, form = after
    return torch.ops.mkldnn._linear_pointwise.default(x, reordered, bias, function, [], form)


def is_faster(*weights: Tensor) -> bool:
    """Whether products of few vectors with these stacked matrices become faster.

    On processors that multiply bfloat16, a user chooses float32 to have every bit, so its kernels stay. On others
    float32 is the fast dtype. There a product with 1 to 32 vectors takes 0.4 to 0.9 of the time of MKL, which torch
    calls; with GPT-2's token table 0.3 to 0.6; with a single vector less than that: see `vector.py`. Small matrices
    gain nothing: starting oneDNN's kernel takes 20 microseconds, MKL's 5.
    """
    enough = weights[0].dtype != torch.float32 or sum(weight.numel() for weight in weights) > MAX_UNREORDERED
    return enough and all(may_be_faster(weight) for weight in weights)


def may_be_faster(weight: Tensor) -> bool:
    """Whether the kernels for few vectors accept this matrix, and gain in its dtype on this processor."""
    if weight.device.type != "cpu" or not weight.is_contiguous() or weight.is_inference():
        return False
    if torch.is_autocast_enabled("cpu"):  # autocast casts weights or inputs; these kernels cast nothing
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32 and prefers_reordered_float32()


@cache
def prefers_reordered_float32() -> bool:
    """Whether float32 is this processor's fastest dtype, and oneDNN's kernels were measured for it (AVX2, AVX512)."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512") and not has_bfloat16(torch.device("cpu"))
