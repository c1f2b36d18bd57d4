"""Slot `score`: the attention score of a query and a key. The model supplies their widths d_query and d_key."""

import math
from abc import ABC
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.registry import Choice, Slot, refuse_below

Queries = Float[Tensor, "*batch queries d_query"]
Keys = Float[Tensor, "*batch keys d_key"]
TransformedQueries = Float[Tensor, "*batch queries width"]
TransformedKeys = Float[Tensor, "*batch keys width"]


class Score(nn.Module, ABC):
    """Transforms queries and keys separately, then scores every query against every key.

    Keys are transformed once, when a memory is read, however many queries follow. All heads of a layer share the
    score's parameters; heads differ by the projections before it.

    Attributes:
        scale: the score is the inner product of transformed queries and keys times this, which fused kernels compute;
            None: the score is computed by `compare`.
    """

    scale: float | None = 1.0

    def transform_queries(self, queries: Queries) -> TransformedQueries:
        """Transform queries for `compare`."""
        return queries

    def transform_keys(self, keys: Keys) -> TransformedKeys:
        """Transform keys for `compare`."""
        return keys

    def compare(self, queries: TransformedQueries, keys: TransformedKeys) -> Float[Tensor, "*batch queries keys"]:
        """Compute the scores of transformed queries and keys."""
        assert self.scale is not None
        return (queries * self.scale) @ keys.transpose(-1, -2)


scores: Slot[Score] = Slot("score")
ScoreOption = Annotated[str | Choice[Score], scores]


def refuse_unequal(name: str, d_query: int, d_key: int) -> None:
    """Check that queries and keys have an inner product.

    Raises:
        ValueError: their widths differ.
    """
    if d_query != d_key:
        problem = f"score '{name}': queries are {d_query} wide, keys {d_key}, which have no inner product"
        raise ValueError(f"{problem}; choose bilinear or additive, or make them equally wide")


@scores.register("scaled_dot")
class ScaledDot(Score):
    """q'k / sqrt(d_key), which keeps the softmax away from regions where its gradient vanishes.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
    """

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        refuse_unequal("scaled_dot", d_query, d_key)
        self.scale = 1 / math.sqrt(d_key)


@scores.register("dot")
class Dot(Score):
    """q'k.

    Source: Luong et al. 2015, arXiv:1508.04025, equation 8 (dot); T5 (Raffel et al. 2020, arXiv:1910.10683).
    """

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        refuse_unequal("dot", d_query, d_key)


@scores.register("bilinear")
class Bilinear(Score):
    """q'W k, with a learned W.

    Source: Luong et al. 2015, arXiv:1508.04025, equation 8 (general).
    """

    def __init__(self, d_query: int, d_key: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_query, d_key, bias=False)  # its weight is W'

    def transform_queries(self, queries: Queries) -> TransformedQueries:
        return self.query(queries)


@scores.register("additive")
class Additive(Score):
    """v'tanh(W q + U k), a perceptron with one hidden layer.

    Source: Bahdanau et al. 2015, arXiv:1409.0473, section A.1.2.

    Args:
        d_hidden: width of the hidden layer; None: d_key.
    """

    def __init__(self, d_query: int, d_key: int, *, d_hidden: int | None = None) -> None:
        super().__init__()
        refuse_below(1, d_hidden=d_hidden)
        self.scale = None
        d_hidden = d_hidden or d_key
        self.query = nn.Linear(d_query, d_hidden, bias=False)
        self.key = nn.Linear(d_key, d_hidden, bias=False)
        self.weigh = nn.Linear(d_hidden, 1, bias=False)

    def transform_queries(self, queries: Queries) -> TransformedQueries:
        return self.query(queries)

    def transform_keys(self, keys: Keys) -> TransformedKeys:
        return self.key(keys)

    def compare(self, queries: TransformedQueries, keys: TransformedKeys) -> Float[Tensor, "*batch queries keys"]:
        hidden = torch.tanh(queries[..., :, None, :] + keys[..., None, :, :])
        scored: Tensor = self.weigh(hidden)
        return scored.squeeze(-1)
