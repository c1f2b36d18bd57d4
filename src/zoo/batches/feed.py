"""What the loop is fed: each step's rows as micro-batches, built while the step before is computed."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256

from zoo.batches.collate import MicroBatch, collate
from zoo.batches.order import Cursor, Examples, PackedRow, RowStream, share
from zoo.config import Tree


@dataclass
class Feed:
    """Rows in their order, and how some of them become a micro-batch of a fixed number of rows.

    Args:
        seen: a hash of every example so far, in their order: two runs with the same one were trained on the same.
    """

    rows: RowStream
    collate: Callable[[Sequence[PackedRow], int], MicroBatch]
    seen: str = ""

    @staticmethod
    def of(examples: Examples) -> "Feed":
        """The feed of a split's examples."""
        return Feed(RowStream(examples), lambda rows, micro_batch: collate(rows, examples, micro_batch))

    def take(self, n: int) -> list[PackedRow]:
        """The next n rows."""
        rows = self.rows.take(n)
        for row in rows:
            examples = [(row.epoch, plan.document, plan.number) for plan in row.plans]
            self.seen = sha256(f"{self.seen}{examples}".encode()).hexdigest()
        return rows

    @property
    def position(self) -> Tree:
        """Where the data stands."""
        return {**self.rows.position._asdict(), "seen": self.seen}

    def seek(self, position: Tree) -> None:
        """Go on from a `position`."""
        self.seen = position.get("seen", "")
        self.rows.seek(Cursor(position["epoch"], position["window"], position["row"]))


Step = tuple[list[MicroBatch], Tree]  # one step's micro-batches for this process, and where the data stands after them


class Steps:
    """The micro-batches of one step after the other, one step ahead of the loop.

    Args:
        batch: rows of a step over all processes.
        micro_batch: rows of a micro-batch; None: this process's whole share.
    """

    def __init__(self, feed: Feed, batch: int, micro_batch: int | None, process: int, processes: int) -> None:
        self.feed, self.batch = feed, batch
        self.micro_batch = -(-batch // processes) if micro_batch is None else micro_batch
        self.process, self.processes = process, processes
        self.worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zoo-feed")
        self.ahead: Future[Step] | None = None

    def build(self) -> Step:
        rows = self.feed.take(self.batch)
        position = self.feed.position
        mine = share(rows, self.process, self.processes, self.micro_batch)
        return [self.feed.collate(part, self.micro_batch) for part in mine], position

    def take(self, last: bool) -> Step:
        """The next step's micro-batches.

        Args:
            last: whether no step follows, so that nothing is built ahead.
        """
        step = self.build() if self.ahead is None else self.ahead.result()
        self.ahead = None if last else self.worker.submit(self.build)
        return step

    def __enter__(self) -> "Steps":
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.shutdown(wait=True, cancel_futures=True)
