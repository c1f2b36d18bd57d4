"""Documents, not padding: one rule for who may see whom, whatever is padded or packed."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from zoo.blocks.position import Position

T = TypeVar("T")


def positions_of(documents: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
    """Positions that restart at each document; 0 where there is none."""
    places = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    starts = torch.where(begins, places, 0).cummax(dim=1).values
    return torch.where(documents > 0, places - starts, 0)


class Unpacked:
    """The documents of packed rows, each in a row of its own, in reading order.

    Where there is no document at all, one of length 0 stands for it.

    Attributes:
        lengths: of the documents (places).
        rows, numbers: which row each document stands in, and which document of that row it is.
    """

    def __init__(self, documents: Int[Tensor, "batch length"]) -> None:
        self.real = documents > 0
        begins = self.real & (positions_of(documents) == 0)
        order = begins.flatten().cumsum(0) - 1
        self.lengths = torch.bincount(order[self.real.flatten()], minlength=1)
        places = begins.flatten().nonzero()[:, 0]
        places = places if len(places) else places.new_zeros(1)
        self.rows, self.numbers = places // documents.shape[1], documents.flatten()[places]
        longest = max(int(self.lengths.max()), 1)
        self.inside = torch.arange(longest, device=documents.device) < self.lengths[:, None]

    def unpack(self, x: Shaped[Tensor, "batch length *any"]) -> Shaped[Tensor, "documents longest *any"]:
        """A row for each document, zeros after its end."""
        out = x.new_zeros(*self.inside.shape, *x.shape[2:])
        out[self.inside] = x[self.real]
        return out

    def pack(self, x: Shaped[Tensor, "documents longest *any"]) -> Shaped[Tensor, "batch length *any"]:
        """The rows that the documents came from, zeros where there was none."""
        out = x.new_zeros(*self.real.shape, *x.shape[2:])
        out[self.real] = x[self.inside]
        return out

    def sequence(self, x: Float[Tensor, "batch length width"]) -> PackedSequence:
        """The documents as torch's recurrent kernels take them."""
        return sequence(self.unpack(x), self.lengths)

    def from_sequence(self, x: PackedSequence) -> Float[Tensor, "batch length width"]:
        """The rows that the documents came from."""
        return self.pack(pad_packed_sequence(x, batch_first=True, total_length=self.inside.shape[1])[0])


def sequence(x: Float[Tensor, "rows longest width"], lengths: Int[Tensor, " rows"]) -> PackedSequence:
    """Rows of these lengths as torch's recurrent kernels take them."""
    return pack_padded_sequence(x, lengths.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False)


@dataclass
class View:
    """Who may see whom in one pass of one stack.

    A query may see a key of the same document (0 is none), not later than itself in a causal stream, and nearer than
    the layer's window. Places of a row serve for order and distance: inside a document they differ as positions do.

    Args:
        documents: of the queries.
        positions: of the queries, counted inside their documents.
        key_documents: of the keys.
        start: place of the first query among the keys (tokens).
        causal: whether a query sees only keys at or before its own place.
        plain: whether every query and key is known to be of one and the same document.
        stepping: whether the queries are new places of a pass that goes step by step.
        position: where order enters the scores of the layer at hand.
    """

    documents: Int[Tensor, "batch queries"]
    positions: Int[Tensor, "batch queries"]
    key_documents: Int[Tensor, "batch keys"]
    start: int = 0
    causal: bool = False
    plain: bool = False
    stepping: bool = False
    position: Position | None = None
    cache: dict[Any, Any] = field(default_factory=dict)

    def under(self, position: Position) -> "View":
        """The same view for layers with another position; masks stay shared."""
        return replace(self, position=position)

    def afresh(self) -> "View":
        """The same view with nothing computed yet."""
        return replace(self, cache={})

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """What is computed once for all layers."""
        if key not in self.cache:
            self.cache[key] = compute()
        found: T = self.cache[key]
        return found

    def places(self) -> tuple[Int[Tensor, " queries"], Int[Tensor, " keys"]]:
        """Places of the queries and of the keys in the row."""
        device = self.documents.device
        queries = self.start + torch.arange(self.documents.shape[1], device=device)
        return queries, torch.arange(self.key_documents.shape[1], device=device)

    def unpacked(self) -> Unpacked | None:
        """The queries' documents, each in a row of its own; None where every row is one document."""
        return None if self.plain else self.once("unpacked", lambda: Unpacked(self.documents))

    def reach(self, window: int | None) -> tuple[int | None, int | None]:
        """How far a query sees back and ahead in its document (places); None: to its end."""
        far = None if window is None else window - 1
        return far, 0 if self.causal else far

    def mask(self, window: int | None) -> Bool[Tensor, "rows 1 queries keys"] | None:
        """True where a query may see a key; None where all see all. `rows` is 1 where all rows agree."""
        return self.once(("mask", window), lambda: self.build_mask(window))

    def build_mask(self, window: int | None) -> Bool[Tensor, "rows 1 queries keys"] | None:
        parts = []
        queries, keys = self.places()
        distance = queries[:, None] - keys[None, :]
        if self.causal and len(queries) > 1:
            parts.append((distance >= 0)[None])
        if window is not None:
            parts.append((distance.abs() < window)[None])
        if not self.plain:
            same = self.documents[:, :, None] == self.key_documents[:, None, :]
            parts.append(same & (self.documents > 0)[:, :, None])
        if not parts:
            return None
        allowed = parts[0]
        for part in parts[1:]:
            allowed = allowed & part
        return allowed[:, None]

    def causal_only(self, window: int | None) -> bool:
        """Whether causality is the whole rule, so that kernels need no mask."""
        square = self.documents.shape[1] == self.key_documents.shape[1]
        return self.plain and self.causal and window is None and square

    def scores(self, window: int | None) -> Tensor | None:
        """The mask with the position's bias: booleans, or what is added to the scores (-inf: unseen); None: nothing."""
        return self.once(("scores", window, id(self.position)), lambda: self.build_scores(window))

    def build_scores(self, window: int | None) -> Tensor | None:
        allowed = self.mask(window)
        bias = None if self.position is None else self.position.bias(*self.places())
        if bias is None:
            return allowed
        return bias[None] if allowed is None else bias[None].masked_fill(~allowed, -torch.inf)

    def blind(self, window: int | None) -> Bool[Tensor, "rows 1 queries 1"] | None:
        """True where a query sees no key at all; None where every query sees some."""
        return self.once(("blind", window), lambda: self.build_blind(window))

    def build_blind(self, window: int | None) -> Bool[Tensor, "rows 1 queries 1"] | None:
        allowed = self.mask(window)
        return None if allowed is None else ~allowed.any(-1, keepdim=True)

    def opened(self, window: int | None) -> Tensor | None:
        """As `scores`, but queries that see no key see all, so that their softmax is not 0/0."""
        return self.once(("opened", window, id(self.position)), lambda: self.build_opened(window))

    def build_opened(self, window: int | None) -> Tensor | None:
        scores, blind = self.scores(window), self.blind(window)
        if scores is None or blind is None:
            return scores
        return scores | blind if scores.dtype == torch.bool else scores.masked_fill(blind, 0.0)
