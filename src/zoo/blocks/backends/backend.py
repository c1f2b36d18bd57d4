"""Slot `backend`: what computes attention of given queries, keys and values. Supplied: nothing."""

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
    """What a layer demands of the backend that computes it.

    Args:
        score: of turned queries and keys.
        window: a query sees keys at distances below it; None: all.
        sinks: logits of each head that take part in the softmax and carry no value.
        dropout: share of the weights dropped now.
        byte_dropout: as in `Drops`.
    """

    score: Score
    window: int | None
    sinks: Float[Tensor, "heads sinks"] | None
    dropout: float
    byte_dropout: bool = True

    def other_score(self) -> str | None:
        """What kernels of inner products lack for its score, as `Backend.obstacle` says it; None: nothing."""
        if self.score.scale is not None:
            return None
        return f"supports only inner products, unlike score '{scores.name_of(self.score)}'"

    def beside_products(self, position: Position | None) -> str | None:
        """What kernels of softmax(QK') V alone lack for it, as `Backend.obstacle` says it; None: nothing."""
        if self.sinks is not None:
            return "does not support sinks"
        if position is not None and position.biases:
            return f"does not support position '{positions.name_of(position)}', which adds to the scores"
        return self.other_score()


Queries = Float[Tensor, "batch heads queries width"]
Keys = Float[Tensor, "batch kv_heads memory width"]
Values = Float[Tensor, "batch kv_heads memory d_value"]
Heads = Float[Tensor, "batch heads queries d_value"]


class Backend(ABC):
    """Computes attention over whole rows, by the one rule of `Visibility`.

    Weights that are to be shown are always those of `eager`, and what is read step by step, as in generation, is always
    computed by `sdpa`.

    Class attributes:
        device: the kind of device that has its kernels; None: any.
        capability: the least compute capability of that device.
        narrow: whether its kernels compute in bfloat16 and float16 only.
        compiles: whether its kernel is compiled when a shape is first met, which only training earns back.
        rank: among those that can compute a layer, the highest is the fastest.
    """

    device: ClassVar[str | None] = None
    capability: ClassVar[tuple[int, int]] = (0, 0)
    narrow: ClassVar[bool] = False
    compiles: ClassVar[bool] = False
    rank: ClassVar[int] = 0

    @abstractmethod
    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        """softmax(scores) V under the rule; a query that sees no key gets 0."""

    @abstractmethod
    def prepare(self, view: View, rule: Rule, dtype: torch.dtype) -> None:
        """Compute what layers share of a view, before the first of them asks; queries and keys will be of `dtype`."""

    def obstacle(self, rule: Rule, d_key: int, d_value: int, position: Position | None) -> str | None:
        """What it does not do that a layer demands, as a verb and its object; None: it does all."""
        return None

    def by_formula(self, rule: Rule, device: str) -> str | None:
        """What it computes by the formula on a kind of device, for want of a fast kernel, as a verb and its object."""
        return None


backends: Slot[Backend] = Slot("backend")


def filled(x: Float[Tensor, "batch heads length width"], width: int) -> Float[Tensor, "batch heads length wider"]:
    """Heads filled up with zeros to at least a width; torch would copy what is padded by nothing."""
    return F.pad(x, (0, width - x.shape[-1])) if x.shape[-1] < width else x


def in_one_dtype(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors in the dtype that products of the first one are computed in: that of autocast, else its own."""
    dtype = dtype_of_products(tensors[0])
    return tuple(tensor.to(dtype) for tensor in tensors)
