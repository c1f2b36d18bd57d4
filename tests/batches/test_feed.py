"""Claims about the thread that builds the next step."""

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from zoo.batches.feed import Feed, build_ahead
from zoo.batches.order import PackedRow


class Empty:
    """Examples that fill windows of two rows with nothing."""

    windows = 10

    def rows(self, epoch: int, window: int) -> list[PackedRow]:
        return [PackedRow(epoch, ())] * 2


class Slow(Feed):
    """A feed whose micro-batches take a while."""

    def collate(self, rows: Sequence[PackedRow], micro_batch: int) -> Any:
        time.sleep(0.2)


def test_no_thread_builds_a_step_after_the_end():
    with closing(build_ahead(Slow(Empty()), 5, 2, None, 0, 1)) as steps:  # type: ignore[arg-type]
        next(steps)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("zoo-feed")]


def test_nothing_is_built_behind_the_last_step():
    feed = Slow(Empty())  # type: ignore[arg-type]
    found = [position["window"] for _, position in build_ahead(feed, 3, 2, None, 0, 1)]
    assert len(found) == 3 and feed.position["window"] == found[-1]
