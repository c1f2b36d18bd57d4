"""The key/value cache: keys and values of the tokens so far, in tensors that are written in place."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

RowIndex = Int[Tensor, ""]  # index in the row, kept on the device so that the host need not wait for it
Slots = Int[Tensor, " slots"]
# slots that a growing cache grows by, at least: fewer mean more copies, more mean that more zeros are read
MIN_GROWTH = 32


class KeysValues(NamedTuple):
    """Keys and values of a memory; the keys are already rotated and transformed as the score compares them."""

    keys: Float[Tensor, "batch kv_heads memory width"]
    values: Float[Tensor, "batch kv_heads memory d_value"]

    def to(self, dtype: torch.dtype) -> "KeysValues":
        """Return both in another dtype."""
        return KeysValues(self.keys.to(dtype), self.values.to(dtype))

    def first(self, places: int) -> "KeysValues":
        """Return the first `places` keys and values, without a copy."""
        return KeysValues(self.keys.narrow(2, 0, places), self.values.narrow(2, 0, places))


class Cache:
    """A ring buffer of keys and values with `room` slots per row: the token at index p of the row has slot p % room.

    A layer with a window thus needs only as many slots as its window, and new tokens overwrite those that it no longer
    sees. The slots of a head are adjacent in memory, as matrix products read them.

    A growing cache allocates its slots as they are needed and is read with the unwritten ones, which hold zeros:
    oneDNN multiplies whole tensors, and torch would copy the written part for every product.

    Args:
        keys, values: the buffers.
        filled: number of slots that have been written.
        room: the most slots per row that a growing cache may grow to; None: all slots are allocated.
    """

    def __init__(
        self,
        keys: Float[Tensor, "rows kv_heads slots width"],
        values: Float[Tensor, "rows kv_heads slots d_value"],
        filled: int = 0,
        room: int | None = None,
    ) -> None:
        self.tensors, self.filled = (keys, values), filled
        self.grows, self.room = room is not None, keys.shape[2] if room is None else room
        self.spare: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def of(new: KeysValues, room: int, dtype: torch.dtype, grows: bool = False) -> "Cache":
        """An empty cache with the shapes and device of `new`, in `dtype`, with `room` slots per row."""
        slots = 0 if grows else room
        keys, values = (x.new_empty(*x.shape[:2], slots, x.shape[3], dtype=dtype) for x in new)
        return Cache(keys, values, room=room if grows else None)

    def with_capacity(self, room: int) -> "Cache":
        """Return a cache with at least `room` slots; to grow, no token may have been overwritten yet."""
        if room <= self.room:
            return self
        if self.grows:
            return Cache(*self.tensors, self.filled, room)
        return Cache(*self.extended(room), self.filled)

    def extended(self, slots: int) -> tuple[Tensor, Tensor]:
        """Copy keys and values to tensors with `slots` slots; a growing cache has zeros in the unwritten ones."""

        def extend(x: Tensor) -> Tensor:
            make = x.new_zeros if self.grows else x.new_empty
            wide = make(*x.shape[:2], slots, x.shape[3])
            wide[:, :, : self.filled] = x[:, :, : self.filled]
            return wide

        keys, values = map(extend, self.tensors)
        return keys, values

    def slots(self, start: int | RowIndex, added: int) -> int | Slots:
        """Slots of `added` new tokens from index `start` of the row on; of more tokens than slots, the last `room`."""
        n = min(added, self.room)
        if n == 1 and isinstance(start, int):
            return (start + added - 1) % self.room
        return (start + torch.arange(added - n, added, device=self.tensors[0].device)) % self.room

    def write(self, new: KeysValues, slots: int | Slots, read: int) -> None:
        """Write the last of the new tokens, one per slot.

        Args:
            slots: as `slots` returns them.
            read: length of the row with the new tokens.
        """
        filled = min(read, self.room)
        if filled > self.tensors[0].shape[2]:
            self.tensors, self.spare = self.extended(min(self.room, filled + max(MIN_GROWTH, filled // 8))), None
        self.filled = filled
        for tensor, x in zip(self.tensors, new, strict=True):
            if isinstance(slots, int):
                tensor.select(2, slots).copy_(x.select(2, -1))
            else:
                tensor.index_copy_(2, slots, x[:, :, -len(slots) :].to(tensor.dtype))

    def read(self) -> KeysValues:
        """Return the written slots in slot order; a growing cache returns all that are allocated."""
        return KeysValues(*self.tensors) if self.grows else KeysValues(*self.tensors).first(self.filled)

    def fix_shape(self) -> None:
        """Make `read` return all `room` slots from now on, zeros in the unwritten ones, so that shapes stay fixed."""
        if self.grows:
            self.tensors = self.extended(self.room)
        for x in self.tensors:
            x[:, :, self.filled :] = 0.0
        self.filled = self.room

    def concatenate(self, new: KeysValues, start: int | RowIndex) -> KeysValues:
        """Concatenate the cached tokens, in the row's order, with new ones that begin at index `start` of the row."""
        if not self.filled:
            return new
        slots = (start + torch.arange(-self.filled, 0, device=new.keys.device)) % self.room
        old = (x[:, :, slots] for x in self.tensors)
        return KeysValues(*(torch.cat([x, y.to(x.dtype)], dim=2) for x, y in zip(old, new, strict=True)))

    @torch.no_grad()
    def select_rows(self, rows: Int[Tensor, " chosen"]) -> "Cache":
        """Select rows (beams), without gradients.

        Use only the returned cache afterwards: its next `select_rows` writes into this cache's tensors.
        """
        spare, slots = self.spare, self.tensors[0].shape[2]
        if spare is not None and (len(spare[0]) < len(rows) or spare[0].shape[2] != slots):
            spare = None
        # reuse the other buffer, or a part of it for fewer rows: fresh memory costs more than the copy (page faults)
        keys, values = (
            x.new_empty(len(rows), *x.shape[1:]) if spare is None else spare[at][: len(rows)]
            for at, x in enumerate(self.tensors)
        )
        kept = slots if self.grows else self.filled
        for taken, x in zip((keys, values), self.tensors, strict=True):
            torch.index_select(x.narrow(2, 0, kept), 0, rows, out=taken.narrow(2, 0, kept))
        cache = Cache(keys, values, self.filled, self.room if self.grows else None)
        cache.spare = self.tensors
        return cache
