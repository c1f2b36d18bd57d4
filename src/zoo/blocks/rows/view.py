"""What attention knows beside queries, keys and values: who may see whom, where order enters, and who looks on."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zoo.blocks.position import Heads, Position, Turns
from zoo.blocks.rows.cache import Place
from zoo.blocks.rows.documents import Borders, Computed, Documents


class Visibility(Computed):
    """Who may see whom in one pass of one stack.

    A query may see a key of the same document (0 is none), not later than itself in a causal stream, and nearer than
    the layer's window. Places of a row serve for order and distance: inside a document they differ as positions do.

    Args:
        queries, keys: the documents of both sides.
        start: place of the first query in the row (tokens); a tensor, where the host is not to know it.
        causal: whether a query sees only keys at or before its own place.
        key_places: of the keys in the row; None: from 0 on.
    """

    def __init__(
        self,
        queries: Documents,
        keys: Documents,
        start: int | Place = 0,
        causal: bool = False,
        key_places: Int[Tensor, " keys"] | None = None,
    ) -> None:
        super().__init__()
        self.queries, self.keys, self.start, self.causal, self.key_places = queries, keys, start, causal, key_places
        self.whole = queries.whole and keys.whole

    @property
    def n_keys(self) -> int:
        """How many keys there are."""
        return self.keys.numbers.shape[1]

    def places(self) -> tuple[Int[Tensor, " queries"], Int[Tensor, " keys"]]:
        """Places of the queries and of the keys in the row."""
        return self.once("places", self.build_places)

    def build_places(self) -> tuple[Int[Tensor, " queries"], Int[Tensor, " keys"]]:
        queries = self.queries.numbers
        at = self.start + torch.arange(queries.shape[1], device=queries.device)
        return at, torch.arange(self.n_keys, device=queries.device) if self.key_places is None else self.key_places

    def sides(self) -> tuple[Int[Tensor, "1 queries 1"], Int[Tensor, "1 1 keys"]]:
        """The places, to be compared: their differences would take eight times the memory of a mask."""
        queries, keys = self.places()
        return queries[None, :, None], keys[None, None]

    def recent(self, room: int) -> "Visibility":
        """Of one query on the last `room` places of its row, of which place p is key p % room."""
        last, slots = self.places()[0], torch.arange(room, device=self.keys.numbers.device)
        places = last - (last - slots) % room
        known = self.keys.numbers.index_select(1, places.clamp_min(0)).where(places >= 0, 0)
        return Visibility(self.queries, Documents(known, self.keys.whole), self.start, self.causal, places)

    def last(self, n: int) -> "Visibility":
        """On the last n keys alone."""
        keys, places = Documents(self.keys.numbers[:, -n:], self.keys.whole), self.places()[1][-n:]
        return Visibility(self.queries, keys, self.start, self.causal, places)

    def reach(self, window: int | None) -> tuple[int | None, int | None]:
        """How far a query sees back and ahead in its document (places); None: to its end."""
        far = None if window is None else window - 1
        return far, 0 if self.causal else far

    def causal_only(self, window: int | None) -> bool:
        """Whether causality is the whole rule, so that kernels need no mask."""
        square = self.queries.numbers.shape[1] == self.n_keys
        return self.whole and self.causal and window is None and square

    def borders(self) -> tuple[Borders, Borders] | None:
        """Of queries and keys, in the same order; None: nobody who laid the rows knows them."""
        if self.whole:
            return Borders.of_whole(self.queries.numbers), Borders.of_whole(self.keys.numbers)
        mine, theirs = self.queries.borders, self.keys.borders
        return None if mine is None or theirs is None else (mine, theirs)

    def mask(self, window: int | None) -> Bool[Tensor, "rows 1 queries keys"] | None:
        """True where a query may see a key; None where all see all. `rows` is 1 where all rows agree."""
        return self.once(("mask", window), lambda: self.build_mask(window))

    def build_mask(self, window: int | None) -> Bool[Tensor, "rows 1 queries keys"] | None:
        parts = []
        n, n_keys = self.queries.numbers.shape[1], self.n_keys
        if self.causal and n > 1:
            queries, keys = self.sides()
            parts.append(queries >= keys)
        if window is not None and max(n, n_keys) > window:
            queries, keys = self.sides()
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

    def blind(self, window: int | None) -> Bool[Tensor, "rows 1 queries 1"] | None:
        """True where a query sees no key at all; None where every query sees some."""
        allowed = self.mask(window)
        return None if allowed is None else self.once(("blind", window), lambda: ~allowed.any(-1, keepdim=True))


class Recorder:
    """The attention weights of a stack, layer by layer.

    Attention writes them, the stack says where a layer ends; so a layer without attention has None, and nothing between
    the two needs to know that somebody looks on.
    """

    def __init__(self) -> None:
        self.layers: list[Float[Tensor, "batch heads queries keys"] | None] = []
        self.written: Tensor | None = None

    def write(self, weights: Float[Tensor, "batch heads queries keys"]) -> None:
        """What the attention of the layer at hand weighs."""
        self.written = weights

    def end_layer(self) -> None:
        """What comes next belongs to the next layer."""
        self.layers.append(self.written)
        self.written = None


class View(Computed):
    """What the attention of a layer knows beside its inputs; layers with the same position share one.

    Args:
        visibility: who may see whom.
        position: where order enters queries, keys and scores.
        recorder: where attention writes its weights, which then are those of backend `eager`; None: nobody asks.
        room: places that a row may come to have, where it is read step by step; None: as many as there are keys.
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
        """Of queries on keys, or on their own places, without positions."""
        return View(Visibility(queries, keys or queries, causal=causal))

    @property
    def documents(self) -> Documents:
        """The documents of the queries; in a layer that mixes its own places, of the keys too."""
        return self.visibility.queries

    def afresh(self) -> "View":
        """The same view with nothing computed yet."""
        seen = self.visibility
        return self.on(Visibility(seen.queries, seen.keys, seen.start, seen.causal, seen.key_places))

    def recent(self, room: int) -> "View":
        """Of one query on the last `room` places, as `Visibility.recent`."""
        if self.visibility.n_keys <= room:
            return self
        return self.once(("recent", room), lambda: self.on(self.visibility.recent(room)))

    def last(self, n: int) -> "View":
        """On the last n keys alone."""
        return self if n == self.visibility.n_keys else self.once(("last", n), lambda: self.on(self.visibility.last(n)))

    def on(self, visibility: Visibility) -> "View":
        """The same with another visibility."""
        return View(visibility, self.position, self.recorder, self.room)

    def end_layer(self) -> None:
        """Tell the recorder, where there is one, that a layer of the stack ends."""
        if self.recorder is not None:
            self.recorder.end_layer()

    def turns(self, dtype: torch.dtype) -> Turns | None:
        """What queries and keys of this dtype are turned by; None: they are not."""
        position = self.position
        if position is None or not position.rotates:
            return None
        return self.once(("turns", dtype), lambda: position.turns(self.documents.positions, dtype))

    def rotate(self, heads: Heads) -> Heads:
        """Turn queries or keys of the view's own places."""
        turns = self.turns(heads.dtype)
        return heads if self.position is None or turns is None else self.position.rotate(heads, turns)

    def scores(self, window: int | None) -> Tensor | None:
        """The mask with the position's bias: booleans, or what is added to the scores (-inf: unseen); None: nothing."""
        return self.once(("scores", window), lambda: self.build_scores(window))

    def build_scores(self, window: int | None) -> Tensor | None:
        allowed = self.visibility.mask(window)
        bias = None if self.position is None else self.position.bias(*self.visibility.places())
        if bias is None:
            return allowed
        return bias[None] if allowed is None else bias[None].masked_fill(~allowed, -torch.inf)

    def addends(self, window: int | None, dtype: torch.dtype) -> Tensor | None:
        """`scores` as numbers that are added: of booleans, kernels would make these anew in each layer."""
        scores = self.scores(window)
        if scores is None or scores.requires_grad:  # gradients of the layers are added up as wide as the bias is
            return None if scores is None else scores.to(dtype)
        return self.once(("addends", window, dtype), lambda: as_addends(scores, dtype))

    def opened(self, window: int | None) -> Tensor | None:
        """As `scores`, but queries that see no key see all, so that their softmax is not 0/0."""
        return self.once(("opened", window), lambda: self.build_opened(window))

    def build_opened(self, window: int | None) -> Tensor | None:
        scores, blind = self.scores(window), self.visibility.blind(window)
        if scores is None or blind is None:
            return scores
        return scores | blind if scores.dtype == torch.bool else scores.masked_fill(blind, 0.0)


def as_addends(scores: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask, or what is added to the scores, as numbers to be added, in rows that kernels of GPUs need not copy."""
    if scores.dtype != torch.bool:
        return scores.to(dtype)
    wide = scores.new_zeros(*scores.shape[:-1], -(-scores.shape[-1] // 8) * 8, dtype=dtype)  # they begin at eights
    return wide[..., : scores.shape[-1]].masked_fill_(~scores, -torch.inf)
