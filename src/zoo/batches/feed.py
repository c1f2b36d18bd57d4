"""What the loop is fed: each step's rows as micro-batches, built while the step before is computed."""

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import NamedTuple

from zoo.batches.collate import MicroBatch, collate
from zoo.batches.order import Examples, PackedRow, share
from zoo.config import Tree


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
        return self.cursor._asdict()

    def seek(self, position: Tree) -> None:
        """Go on from a `position`; one window is planned again, wherever it stands.

        Raises:
            ValueError: the data has no such window or row.
        """
        self.move(Cursor(**position))

    def move(self, cursor: Cursor) -> None:
        if not 0 <= cursor.window < self.examples.windows or cursor.epoch < 0:
            raise ValueError(f"data position {cursor[:3]}: the data has {self.examples.windows} windows")
        self.cursor, self.window = cursor, self.examples.rows(cursor.epoch, cursor.window)
        if not 0 <= cursor.row <= len(self.window):
            raise ValueError(f"data position {cursor[:3]}: that window has {len(self.window)} rows")

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
                if empty > self.examples.windows:
                    raise ValueError("data: no document is long enough for an example")
        return taken

    def collate(self, rows: Sequence[PackedRow], micro_batch: int) -> MicroBatch:
        """Some of the rows as a micro-batch of a fixed number of rows."""
        return collate(rows, self.examples, micro_batch)


def build_ahead(
    feed: Feed, steps: int, batch: int, micro_batch: int | None, process: int, processes: int, pin: bool = False
) -> Generator[tuple[list[MicroBatch], Tree], None, None]:
    """For each step, this process's micro-batches, and where the data stands after them; built one step ahead.

    Args:
        batch: rows of a step over all processes.
        micro_batch: rows of a micro-batch; None: this process's whole share.
        pin: lay them into memory from which a GPU copies by itself, beside what it computes.
    """
    size = -(-batch // processes) if micro_batch is None else micro_batch

    def build() -> tuple[list[MicroBatch], Tree]:
        mine = share(feed.take(batch), process, processes, size)
        parts = [feed.collate(part, size) for part in mine]
        return [part.pinned() for part in parts] if pin else parts, feed.position

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="zoo-feed") as worker:
        ahead = worker.submit(build)
        for left in range(steps - 1, -1, -1):
            step = ahead.result()
            if left:  # nothing is built behind the last step
                ahead = worker.submit(build)
            yield step
