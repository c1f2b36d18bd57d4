"""Slot `backend`: kernels that compute attention from queries, keys and values. The model supplies no arguments."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from zoo.blocks.position import Position, positions
from zoo.blocks.rows.view import View
from zoo.blocks.score import Score, scores
from zoo.devices.precision import dtype_of_products
from zoo.registry import Slot


@dataclass(frozen=True)
class Rule:
    """The settings of a layer that the backend must honor.

    Args:
        score: computes scores from queries and keys, after rotation.
        window: a query sees keys at distances below it (tokens); None: all.
        sinks: extra logits per head that take part in the softmax and have no value.
        dropout: fraction of the weights dropped; 0 in evaluation.
        byte_dropout: as in `UsesDropout`.
    """

    score: Score
    window: int | None
    sinks: Float[Tensor, "heads sinks"] | None
    dropout: float
    byte_dropout: bool = True

    def score_obstacle(self) -> str | None:
        """Why inner-product kernels cannot compute its score, worded as in `Backend.obstacle`; None: they can."""
        if self.score.scale is not None:
            return None
        return f"supports only inner products, unlike score '{scores.name_of(self.score)}'"

    def plain_kernel_obstacle(self, position: Position | None) -> str | None:
        """Why kernels of plain softmax(QK') V cannot compute it, worded as in `Backend.obstacle`; None: they can."""
        if self.sinks is not None:
            return "does not support sinks"
        if position is not None and position.biases:
            return f"does not support position '{positions.name_of(position)}', which adds to the scores"
        return self.score_obstacle()


Queries = Float[Tensor, "batch heads queries width"]
Keys = Float[Tensor, "batch kv_heads memory width"]
Values = Float[Tensor, "batch kv_heads memory d_value"]
Heads = Float[Tensor, "batch heads queries d_value"]


class Backend(ABC):
    """Computes attention over whole rows; `Visibility` defines which keys each query sees.

    Recorded attention weights always come from `eager`, and step-by-step decoding always uses `sdpa`.

    Class attributes:
        device: the device type that its kernels need; None: any.
        capability: the lowest CUDA compute capability that its kernels run on.
        narrow: whether its kernels support only bfloat16 and float16.
        compiles: whether its kernel is compiled for each new shape, which pays off only in training.
        rank: of the backends that can compute a layer, the one with the highest rank is the fastest.
    """

    device: ClassVar[str | None] = None
    capability: ClassVar[tuple[int, int]] = (0, 0)
    narrow: ClassVar[bool] = False
    compiles: ClassVar[bool] = False
    rank: ClassVar[int] = 0

    @abstractmethod
    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        """Compute softmax(scores) V under the view's mask and the layer's rule; a query that sees no key gets 0."""

    @abstractmethod
    def prepare(self, view: View, rule: Rule, dtype: torch.dtype) -> None:
        """Compute the masks that layers share before the first layer runs; queries and keys will be of `dtype`."""

    def obstacle(self, rule: Rule, d_key: int, d_value: int, position: Position | None) -> str | None:
        """Why it cannot compute a layer, as a verb phrase for messages ("does not support sinks"); None: it can."""
        return None

    def unfused(self, rule: Rule, device: str) -> str | None:
        """What it computes without a fused kernel on a device type, as a verb phrase for messages; None: nothing."""
        return None


backends: Slot[Backend] = Slot("backend")


def pad_width(x: Float[Tensor, "batch heads length width"], width: int) -> Float[Tensor, "batch heads length wider"]:
    """Pad heads with zeros to at least `width`; unpadded ones are returned as they are, since F.pad would copy them."""
    return F.pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x


def in_one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Cast all tensors to one dtype: autocast's where it is on, else that of the first tensor."""
    dtype = dtype_of_products(tensors[0])
    return tuple(tensor.to(dtype) for tensor in tensors)
