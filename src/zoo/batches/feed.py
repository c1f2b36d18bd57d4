"""The rows that the training loop reads, and the position in the data."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from zoo.batches.collate import MicroBatch, collate
from zoo.batches.order import Examples, PackedRow
from zoo.strict_yaml import Tree


class Cursor(NamedTuple):
    """A position in the data: the next row is number `row` of window `window` of epoch `epoch`.

    Args:
        seen: chained SHA-256 of the names (epoch, document, number) of all examples read so far, in order. Two runs on
            the same data with equal hashes have read the same examples in the same order.
    """

    epoch: int = 0
    window: int = 0
    row: int = 0
    seen: str = ""


class Feed:
    """The rows of a run, epoch after epoch. Every process iterates over all rows; `split_rows` picks its own."""

    def __init__(self, examples: Examples) -> None:
        self.examples = examples
        self.go_to(Cursor())

    @property
    def position(self) -> Tree:
        """The data position, as a checkpoint stores it."""
        return {**self.cursor._asdict(), "order": self.examples.order_version}

    def seek(self, position: Tree) -> None:
        """Continue from a `position`. Only one window is planned again, however far into the data it is.

        Raises:
            ValueError: the data has no such window or row, or the position is from another version of the order.
        """
        refuse_order(position, self.examples.order_version)
        self.go_to(Cursor(**{key: value for key, value in position.items() if key != "order"}))

    def go_to(self, cursor: Cursor) -> None:
        """Go to a cursor and plan its window.

        Raises:
            ValueError: the data has no such window or row.
        """
        if not 0 <= cursor.window < self.examples.window_count or cursor.epoch < 0:
            raise ValueError(f"data position {cursor[:3]}: the data has {self.examples.window_count} windows")
        self.cursor, self.window = cursor, self.examples.rows(cursor.epoch, cursor.window)
        if not 0 <= cursor.row <= len(self.window):
            raise ValueError(f"data position {cursor[:3]}: that window has {len(self.window)} sequences")

    def take(self, n: int) -> list[PackedRow]:
        """Return the next n rows, across windows and epochs.

        Raises:
            ValueError: a whole epoch has no example.
        """
        taken: list[PackedRow] = []
        empty = 0
        while len(taken) < n:
            epoch, window, row, seen = self.cursor
            found = self.window[row : row + n - len(taken)]
            for packed in found:
                seen = sha256(f"{seen}{packed.names}".encode()).hexdigest()
            taken += found
            self.cursor = Cursor(epoch, window, row + len(found), seen)
            if len(taken) < n:
                last = window + 1 == self.examples.window_count
                self.go_to(Cursor(epoch + last, 0 if last else window + 1, 0, seen))
                empty = 0 if self.window else empty + 1
                if empty >= 2 * self.examples.window_count:  # these contain one whole epoch
                    raise ValueError("data: no document is long enough for an example")
        return taken

    def rows_taken(self, position: Tree) -> dict[str, float]:
        """Return the log line's entries `rows/NAME`: the rows taken from each mixed source; {} for a single source."""
        return {}

    def collate(self, rows: Sequence[PackedRow], micro_batch: int) -> MicroBatch:
        """Build rows into a micro-batch, with empty rows added up to `micro_batch`."""
        return collate(rows, self.examples, micro_batch)


def refuse_order(position: Tree, version: int) -> None:
    """Refuse a position that another version of the data order has saved.

    Raises:
        ValueError: the versions differ.
    """
    if (found := position.get("order", version)) != version:
        raise ValueError(f"data position: from version {found} of the data order, but this zoo has version {version}")
