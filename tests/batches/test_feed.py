"""Claims about the thread that builds the next step."""

import threading
import time
from typing import Any
from unittest.mock import Mock

from zoo.batches.feed import build_ahead
from zoo.batches.order import PackedRow


def test_no_thread_builds_a_step_after_the_end():
    def slow(*_: Any) -> None:
        time.sleep(0.2)

    feed = Mock(take=lambda n: [PackedRow(0, ())] * n, collate=slow)
    steps = build_ahead(feed, 3, 2, None, 0, 1)
    next(steps)
    steps.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("zoo-feed")]
