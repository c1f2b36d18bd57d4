"""Claims about the thread that builds the next step."""

import threading
import time
from collections.abc import Sequence
from typing import Any

from zoo.batches.feed import Feed, Steps
from zoo.batches.order import Cursor, PackedRow


class Rows:
    """A stream of empty rows."""

    position = Cursor()

    def take(self, n: int) -> list[PackedRow]:
        return [PackedRow(0, ())] * n


def slow(rows: Sequence[PackedRow], micro_batch: int) -> Any:
    time.sleep(0.2)


def test_no_thread_builds_a_step_after_the_end():
    with Steps(Feed(Rows(), slow), 2, None, 0, 1) as steps:  # type: ignore[arg-type]
        steps.take(last=False)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("zoo-feed")]
