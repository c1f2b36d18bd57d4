"""Keys and values of the places so far, in tensors that are written in place."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

Place = Int[Tensor, ""]  # in a row, known on the device alone
Slots = Int[Tensor, " slots"]
PART = 32  # slots that a cache in parts grows by, at least: fewer would be copied more often, more be read in vain


class KeysValues(NamedTuple):
    """A memory as keys, turned as the score compares them, and values."""

    keys: Float[Tensor, "batch kv_heads memory width"]
    values: Float[Tensor, "batch kv_heads memory d_value"]

    def to(self, dtype: torch.dtype) -> "KeysValues":
        """The same in another dtype."""
        return KeysValues(self.keys.to(dtype), self.values.to(dtype))

    def first(self, places: int) -> "KeysValues":
        """The first places alone."""
        return KeysValues(self.keys.narrow(2, 0, places), self.values.narrow(2, 0, places))


class Cache:
    """Keys and values in tensors with slots for `room` places: place p of a row has slot p % room.

    So a layer with a window needs no more slots than that, and new places take those of the places that it no longer
    sees. The places of a head lie side by side, as products of matrices read them.

    A cache in parts gets its slots as they are needed, some at a time, and is read with the spare ones, which hold
    zeros: oneDNN multiplies whole tensors, and torch would copy the written part of one for every product.

    Args:
        keys, values: one number for each row, head, slot and feature.
        filled: slots that have been written.
        room: slots that a row may come to have, in a cache in parts; None: it has them all.
    """

    def __init__(
        self,
        keys: Float[Tensor, "rows kv_heads slots width"],
        values: Float[Tensor, "rows kv_heads slots d_value"],
        filled: int = 0,
        room: int | None = None,
    ) -> None:
        self.tensors, self.filled = (keys, values), filled
        self.in_parts, self.room = room is not None, keys.shape[2] if room is None else room
        self.spare: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def of(new: KeysValues, room: int, dtype: torch.dtype, in_parts: bool = False) -> "Cache":
        """An empty one for keys and values such as these."""
        slots = 0 if in_parts else room
        keys, values = (x.new_empty(*x.shape[:2], slots, x.shape[3], dtype=dtype) for x in new)
        return Cache(keys, values, room=room if in_parts else None)

    def grown(self, room: int) -> "Cache":
        """The same with at least so many slots; no place has lost its slot yet, or there are as many already."""
        if room <= self.room:
            return self
        if self.in_parts:
            return Cache(*self.tensors, self.filled, room)
        return Cache(*self.extended(room), self.filled)

    def extended(self, slots: int) -> tuple[Tensor, Tensor]:
        """Keys and values with so many slots; in parts, 0 where nothing has been written."""

        def extend(x: Tensor) -> Tensor:
            make = x.new_zeros if self.in_parts else x.new_empty
            wide = make(*x.shape[:2], slots, x.shape[3])
            wide[:, :, : self.filled] = x[:, :, : self.filled]
            return wide

        keys, values = map(extend, self.tensors)
        return keys, values

    def slots(self, start: int | Place, added: int) -> int | Slots:
        """Where so many new places go, from place `start` on; the last of them, where there are more than slots."""
        n = min(added, self.room)
        if n == 1 and isinstance(start, int):
            return (start + added - 1) % self.room
        return (start + torch.arange(added - n, added, device=self.tensors[0].device)) % self.room

    def write(self, new: KeysValues, slots: int | Slots, read: int) -> None:
        """Write the last of new places, one for each slot.

        Args:
            read: places of the row that are read from now on.
        """
        filled = min(read, self.room)
        if filled > self.tensors[0].shape[2]:
            self.tensors, self.spare = self.extended(min(self.room, filled + max(PART, filled // 8))), None
        self.filled = filled
        for tensor, x in zip(self.tensors, new, strict=True):
            if isinstance(slots, int):
                tensor.select(2, slots).copy_(x.select(2, -1))
            else:
                tensor.index_copy_(2, slots, x[:, :, -len(slots) :].to(tensor.dtype))

    def read(self) -> KeysValues:
        """What stands in the slots, in their order; of a cache in parts also the spare ones behind them."""
        return KeysValues(*self.tensors) if self.in_parts else KeysValues(*self.tensors).first(self.filled)

    def settle(self) -> None:
        """Let all slots be read from now on, zeros where nothing has been written."""
        if self.in_parts:
            self.tensors = self.extended(self.room)
        for x in self.tensors:
            x[:, :, self.filled :] = 0.0
        self.filled = self.room

    def followed_by(self, new: KeysValues, start: int | Place) -> KeysValues:
        """The places that still have a slot, in their own order, and new ones from place `start` on."""
        if not self.filled:
            return new
        slots = (start + torch.arange(-self.filled, 0, device=new.keys.device)) % self.room
        old = (x[:, :, slots] for x in self.tensors)
        return KeysValues(*(torch.cat([x, y.to(x.dtype)], dim=2) for x, y in zip(old, new, strict=True)))

    @torch.no_grad()
    def take(self, rows: Int[Tensor, " chosen"]) -> "Cache":
        """These rows, without gradients, which no search needs.

        A cache is continued once: a later call, on this one or on what it returns, writes into its tensors.
        """
        spare, slots = self.spare, self.tensors[0].shape[2]
        if spare is not None and (len(spare[0]) < len(rows) or spare[0].shape[2] != slots):
            spare = None
        # tensors for fewer rows are part of those for more: memory that is new to the process costs more than the copy
        keys, values = (
            x.new_empty(len(rows), *x.shape[1:]) if spare is None else spare[at][: len(rows)]
            for at, x in enumerate(self.tensors)
        )
        kept = slots if self.in_parts else self.filled
        for taken, x in zip((keys, values), self.tensors, strict=True):
            torch.index_select(x.narrow(2, 0, kept), 0, rows, out=taken.narrow(2, 0, kept))
        cache = Cache(keys, values, self.filled, self.room if self.in_parts else None)
        cache.spare = self.tensors
        return cache
