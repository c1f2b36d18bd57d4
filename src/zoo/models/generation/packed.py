"""Matrices laid out for products with few rows, as generation needs them, where that makes them faster."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.weak import WeakTensorKeyDictionary

from zoo.models.model import Model

SAMPLE = 64  # numbers of a matrix that are compared with what was laid out


class Packed(Tensor):
    """A matrix in bfloat16 with a copy of it, made when first multiplied by, in the order of oneDNN's kernel.

    A product with 1 to 16 rows takes half of the time that torch's takes, which brings the matrix into that order anew
    for every product. torch.compile's products on a CPU are the same two calls.
    """

    laid: Tensor | None
    version: int
    sample: Tensor

    @staticmethod
    def of(weight: Tensor) -> "Packed":
        """A matrix, as it is now."""
        packed = weight.detach().as_subclass(Packed)
        packed.laid, packed.version, packed.sample = None, weight._version, sample_of(weight).clone()
        return packed

    def is_still(self, weight: Tensor) -> bool:
        """Whether a matrix has not changed; what is written through `.data` changes no version, but the sample."""
        return (
            self.version == weight._version
            and self.data_ptr() == weight.data_ptr()
            and torch.equal(self.sample, sample_of(weight))
        )

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is F.linear and isinstance(args[1], Packed):
            x, weight, bias = (*args, None)[:3]
            return torch.ops.mkldnn._linear_pointwise.default(x, weight.lay(), bias, "none", [], "")
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def lay(self) -> Tensor:
        """The copy."""
        if self.laid is None:
            with torch._C.DisableTorchFunctionSubclass():
                self.laid = torch.ops.mkldnn._reorder_linear_weight(self)
        return self.laid


known: MutableMapping[Tensor, Packed] = WeakTensorKeyDictionary()  # what was laid out for a matrix, while that lives


def sample_of(weight: Tensor) -> Tensor:
    """A few of its numbers."""
    flat = weight.detach().flatten()
    return flat[:: max(1, len(flat) // SAMPLE)]


def gains(weight: Tensor) -> bool:
    """Whether a product with few rows becomes faster."""
    fits = weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and weight.is_contiguous()
    return bool(fits and not weight.is_inference() and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def packed_of(weight: Tensor) -> Packed:
    """What was laid out for this matrix, or is now."""
    found = known.get(weight)
    if found is None or not found.is_still(weight):
        known[weight] = found = Packed.of(weight)
    return found


@contextmanager
def packed(model: Model) -> Iterator[None]:
    """Let a model multiply by packed matrices, those of its linear maps and its token vectors."""
    modules: list[nn.Linear | nn.Embedding] = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if model.decoder is not None and model.decoder.embeddings is not None:
        modules.append(model.decoder.embeddings.tokens)
    modules = [module for module in modules if gains(module.weight)]
    for module in modules:  # what an instance has itself is found before its parameters
        module.__dict__["weight"] = packed_of(module.weight)
    try:
        yield
    finally:
        for module in modules:
            module.__dict__.pop("weight", None)
