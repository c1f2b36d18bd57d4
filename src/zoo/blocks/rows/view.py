"""What attention needs beside queries, keys and values: masks, positions, and a recorder of attention weights."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zoo.blocks.position import Heads, Position, Rotations
from zoo.blocks.rows.cache import RowIndex
from zoo.blocks.rows.documents import Borders, Documents, SharedCache


class Visibility(SharedCache):
    """Which keys each query may attend to, in one forward pass of one stack.

    A query sees the keys of its own document (0 is none), not later than itself if causal, and at distances below the
    layer's window. Order and distance are those of indices in the row: within a document, these differ as positions do.

    Args:
        queries, keys: the documents of the queries' and of the keys' batch.
        start: index of the first query in its row; a tensor if reading it would make the host wait for the device.
        causal: whether a query sees only keys at or before its own index.
        key_places: index of each key in its row; None: 0, 1, 2, …
    """

    def __init__(
        self,
        queries: Documents,
        keys: Documents,
        start: int | RowIndex = 0,
        causal: bool = False,
        key_places: Int[Tensor, " keys"] | None = None,
    ) -> None:
        super().__init__()
        self.queries, self.keys, self.start, self.causal, self.key_places = queries, keys, start, causal, key_places
        self.whole = queries.whole and keys.whole

    @property
    def n_keys(self) -> int:
        """Number of keys per row."""
        return self.keys.numbers.shape[1]

    def places(self) -> tuple[Int[Tensor, " queries"], Int[Tensor, " keys"]]:
        """Indices of the queries and of the keys in their rows."""
        return self.cached("places", self.build_places)

    def build_places(self) -> tuple[Int[Tensor, " queries"], Int[Tensor, " keys"]]:
        queries = self.queries.numbers
        at = self.start + torch.arange(queries.shape[1], device=queries.device)
        return at, torch.arange(self.n_keys, device=queries.device) if self.key_places is None else self.key_places

    def broadcast_places(self) -> tuple[Int[Tensor, "1 queries 1"], Int[Tensor, "1 1 keys"]]:
        """The same indices, shaped to broadcast; compare them: int64 differences take 8 times the memory of a mask."""
        queries, keys = self.places()
        return queries[None, :, None], keys[None, None]

    def recent(self, room: int) -> "Visibility":
        """Visibility of one query on a ring buffer of the last `room` tokens: index p of the row is key p % room."""
        last, slots = self.places()[0], torch.arange(room, device=self.keys.numbers.device)
        places = last - (last - slots) % room  # in each slot the latest index that maps to it; negative: never written
        known = self.keys.numbers.index_select(1, places.clamp_min(0)).where(places >= 0, 0)
        return Visibility(self.queries, Documents(known, self.keys.whole), self.start, self.causal, places)

    def last(self, n: int) -> "Visibility":
        """The same queries with the last n keys only."""
        keys, places = Documents(self.keys.numbers[:, -n:], self.keys.whole), self.places()[1][-n:]
        return Visibility(self.queries, keys, self.start, self.causal, places)

    def reach(self, window: int | None) -> tuple[int | None, int | None]:
        """How many tokens back and ahead a query sees in its document; None: to the document's end."""
        far = None if window is None else window - 1
        return far, 0 if self.causal else far

    def causal_only(self, window: int | None) -> bool:
        """Whether a causal mask is all that is needed, so that kernels can use `is_causal` instead of a mask tensor."""
        square = self.queries.numbers.shape[1] == self.n_keys
        return self.whole and self.causal and window is None and square

    def borders(self) -> tuple[Borders, Borders] | None:
        """Document borders of the queries' and of the keys' batch, in the same order; None: unknown."""
        if self.whole:
            return Borders.of_whole(self.queries.numbers), Borders.of_whole(self.keys.numbers)
        mine, theirs = self.queries.borders, self.keys.borders
        return None if mine is None or theirs is None else (mine, theirs)

    def mask(self, window: int | None) -> Bool[Tensor, "rows 1 queries keys"] | None:
        """Boolean mask, True where a query may see a key; None: all see all. `rows` is 1 if all rows have one mask."""
        return self.cached(("mask", window), lambda: self.build_mask(window))

    def build_mask(self, window: int | None) -> Bool[Tensor, "rows 1 queries keys"] | None:
        parts = []
        n, n_keys = self.queries.numbers.shape[1], self.n_keys
        if self.causal and n > 1:
            queries, keys = self.broadcast_places()
            parts.append(queries >= keys)
        if window is not None and max(n, n_keys) > window:
            queries, keys = self.broadcast_places()
            parts += [queries - window < keys, queries + window > keys]
        if not self.whole:
            mine, theirs = self.queries.numbers, self.keys.numbers
            parts.append((mine[:, :, None] == theirs[:, None, :]) & (mine > 0)[:, :, None])
        if not parts:
            return None
        allowed = parts[0]
        for part in parts[1:]:
            allowed = allowed & part
        return allowed[:, None]

    def sees_no_key(self, window: int | None) -> Bool[Tensor, "rows 1 queries 1"] | None:
        """True for queries that see no key; None: there is no mask."""
        allowed = self.mask(window)
        return None if allowed is None else self.cached(("sees_no_key", window), lambda: ~allowed.any(-1, keepdim=True))


class Recorder:
    """Collects the attention weights of a stack, one entry per layer; None for a layer without attention.

    Attention calls `write`, the stack calls `end_layer`; the modules between them need not pass weights along.
    """

    def __init__(self) -> None:
        self.layers: list[Float[Tensor, "batch heads queries keys"] | None] = []
        self.written: Tensor | None = None

    def write(self, weights: Float[Tensor, "batch heads queries keys"]) -> None:
        """Store the weights of the current layer."""
        self.written = weights

    def end_layer(self) -> None:
        """Close the current layer: the next weights belong to the next one."""
        self.layers.append(self.written)
        self.written = None


class View(SharedCache):
    """Everything that a layer's attention needs beside its inputs; layers with the same position module share one.

    Args:
        visibility: which keys each query may attend to.
        position: rotates queries and keys, or adds a bias to the scores; None: attention ignores order.
        recorder: receives the attention weights, which backend `eager` then computes; None: weights are not returned.
        room: the most tokens that a row may grow to in step-by-step decoding; None: the number of keys.
    """

    def __init__(
        self,
        visibility: Visibility,
        position: Position | None = None,
        recorder: Recorder | None = None,
        room: int | None = None,
    ) -> None:
        super().__init__()
        self.visibility, self.position, self.recorder = visibility, position, recorder
        self.room = visibility.n_keys if room is None else room

    @staticmethod
    def of(queries: Documents, keys: Documents | None = None, causal: bool = False) -> "View":
        """View of queries on keys, without positions; None: on the queries' own batch (self-attention)."""
        return View(Visibility(queries, keys or queries, causal=causal))

    @property
    def documents(self) -> Documents:
        """The documents of the queries; in self-attention also those of the keys."""
        return self.visibility.queries

    def without_cache(self) -> "View":
        """Return the same view with empty caches."""
        seen = self.visibility
        return self.with_visibility(Visibility(seen.queries, seen.keys, seen.start, seen.causal, seen.key_places))

    def recent(self, room: int) -> "View":
        """View of a single query on the last `room` tokens, as `Visibility.recent`."""
        if self.visibility.n_keys <= room:
            return self
        return self.cached(("recent", room), lambda: self.with_visibility(self.visibility.recent(room)))

    def last(self, n: int) -> "View":
        """The same queries with the last n keys only."""
        if n == self.visibility.n_keys:
            return self
        return self.cached(("last", n), lambda: self.with_visibility(self.visibility.last(n)))

    def with_visibility(self, visibility: Visibility) -> "View":
        """The same view with another visibility."""
        return View(visibility, self.position, self.recorder, self.room)

    def end_layer(self) -> None:
        """Tell the recorder, if there is one, that a layer of the stack ends."""
        if self.recorder is not None:
            self.recorder.end_layer()

    def rotations(self, dtype: torch.dtype) -> Rotations | None:
        """Rotations (cosines and sines) for queries and keys of this dtype; None: the position does not rotate."""
        position = self.position
        if position is None or not position.rotates:
            return None
        return self.cached(("rotations", dtype), lambda: position.rotations(self.documents.positions, dtype))

    def rotate(self, heads: Heads) -> Heads:
        """Rotate queries, or keys of the same tokens, by their positions."""
        turns = self.rotations(heads.dtype)
        return heads if self.position is None or turns is None else self.position.rotate(heads, turns)

    def mask_and_bias(self, window: int | None) -> Tensor | None:
        """The mask merged with the position's bias: boolean without a bias, else added to the scores (-inf: masked)."""
        return self.cached(("mask_and_bias", window), lambda: self.build_mask_and_bias(window))

    def build_mask_and_bias(self, window: int | None) -> Tensor | None:
        allowed = self.visibility.mask(window)
        bias = None if self.position is None else self.position.bias(*self.visibility.places())
        if bias is None:
            return allowed
        return bias[None] if allowed is None else bias[None].masked_fill(~allowed, -torch.inf)

    def additive_mask(self, window: int | None, dtype: torch.dtype) -> Tensor | None:
        """`mask_and_bias` as an additive float mask: from a boolean one, kernels would make it again in each layer."""
        scores = self.mask_and_bias(window)
        if scores is None or scores.requires_grad:  # not shared: the layers' gradients must add up in the bias's dtype
            return None if scores is None else scores.to(dtype)
        return self.cached(("additive_mask", window, dtype), lambda: to_additive_mask(scores, dtype))

    def nan_free_mask_and_bias(self, window: int | None) -> Tensor | None:
        """`mask_and_bias`, open to queries that see no key: their softmax would be 0/0; the caller zeroes them."""
        return self.cached(("nan_free_mask_and_bias", window), lambda: self.build_nan_free_mask_and_bias(window))

    def build_nan_free_mask_and_bias(self, window: int | None) -> Tensor | None:
        scores, blind = self.mask_and_bias(window), self.visibility.sees_no_key(window)
        if scores is None or blind is None:
            return scores
        return scores | blind if scores.dtype == torch.bool else scores.masked_fill(blind, 0.0)


def to_additive_mask(scores: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a boolean or additive mask to an additive one of `dtype`, in a layout that GPU kernels need not copy."""
    if scores.dtype != torch.bool:
        return scores.to(dtype)
    # rows begin at multiples of 8 numbers, without which sdpa copies the mask for its memory-efficient kernel
    wide = scores.new_zeros(*scores.shape[:-1], -(-scores.shape[-1] // 8) * 8, dtype=dtype)
    return wide[..., : scores.shape[-1]].masked_fill_(~scores, -torch.inf)
