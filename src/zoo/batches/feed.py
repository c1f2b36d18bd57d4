"""What the loop is fed: the rows of a run, and where the data stands."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from zoo.batches.collate import MicroBatch, collate
from zoo.batches.order import Examples, PackedRow
from zoo.strict_yaml import Tree


class Cursor(NamedTuple):
    """Where the data stands: the next row is number `row` of a window of an epoch.

    Args:
        seen: a hash of every example so far, in their order: two runs with the same one were trained on the same.
    """

    epoch: int = 0
    window: int = 0
    row: int = 0
    seen: str = ""


class Feed:
    """The rows of a run, epoch after epoch: every process walks the same ones and takes its share of them."""

    def __init__(self, examples: Examples) -> None:
        self.examples = examples
        self.move(Cursor())

    @property
    def position(self) -> Tree:
        """Where the data stands, as a checkpoint holds it."""
        return {**self.cursor._asdict(), "order": self.examples.order}

    def seek(self, position: Tree) -> None:
        """Go on from a `position`; one window is planned again, wherever it stands.

        Raises:
            ValueError: the data has no such window or row, or another version of zoo ordered it.
        """
        refuse_order(position, self.examples.order)
        self.move(Cursor(**{key: value for key, value in position.items() if key != "order"}))

    def move(self, cursor: Cursor) -> None:
        if not 0 <= cursor.window < self.examples.windows or cursor.epoch < 0:
            raise ValueError(f"data position {cursor[:3]}: the data has {self.examples.windows} windows")
        self.cursor, self.window = cursor, self.examples.rows(cursor.epoch, cursor.window)
        if not 0 <= cursor.row <= len(self.window):
            raise ValueError(f"data position {cursor[:3]}: that window has {len(self.window)} sequences")

    def take(self, n: int) -> list[PackedRow]:
        """The next n rows, across windows and epochs.

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
                last = window + 1 == self.examples.windows
                self.move(Cursor(epoch + last, 0 if last else window + 1, 0, seen))
                empty = 0 if self.window else empty + 1
                if empty >= 2 * self.examples.windows:  # wherever they begin, a whole epoch is among them
                    raise ValueError("data: no document is long enough for an example")
        return taken

    def taken(self, position: Tree) -> dict[str, float]:
        """By the name of a mixed source, how many of its rows were taken up to a position; none of a single source."""
        return {}

    def collate(self, rows: Sequence[PackedRow], micro_batch: int) -> MicroBatch:
        """Some of the rows as a micro-batch of a fixed number of rows."""
        return collate(rows, self.examples, micro_batch)


def refuse_order(position: Tree, version: int) -> None:
    """Refuse a position in data that were ordered in another way.

    Raises:
        ValueError: it is of another version of the order.
    """
    if (found := position.get("order", version)) != version:
        raise ValueError(f"data position: from version {found} of the data order, but this zoo has version {version}")
