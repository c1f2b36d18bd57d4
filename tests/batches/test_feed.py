"""Claims about the thread that builds the next step."""

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.batches.collate import MicroBatch
from zoo.batches.feed import Feed, build_ahead
from zoo.batches.order import PackedRow
from zoo.blocks.documents import Documents


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


class Whole(Feed):
    """A feed whose micro-batches hold a tensor wherever one may be."""

    def collate(self, rows: Sequence[PackedRow], micro_batch: int) -> MicroBatch:
        numbers = torch.ones(2, 3, dtype=torch.long)
        documents = Documents.packed([[3], [3]], numbers)
        inputs: Any = {"tokens": numbers + 1, "documents": documents, "places": {"head": torch.arange(4)}}
        return MicroBatch(inputs, {"causal_lm": numbers + 2}, [], 6, 1.0)


def test_all_that_a_gpu_reads_is_pinned_by_the_thread_that_builds_it(monkeypatch: pytest.MonkeyPatch):
    pinned: list[Tensor] = []

    def pin(tensor: Tensor) -> Tensor:
        assert threading.current_thread().name.startswith("zoo-feed")
        pinned.append(tensor.clone())
        return pinned[-1]

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    (((part,), _),) = build_ahead(Whole(Empty()), 1, 2, None, 0, 1, True)  # type: ignore[arg-type]
    borders = part.inputs["documents"].borders
    found = [part.inputs["tokens"], part.inputs["documents"].numbers, borders.queries, borders.keys]
    found += [part.inputs["places"]["head"], part.targets["causal_lm"]]
    assert {id(tensor) for tensor in found} == {id(tensor) for tensor in pinned} and len(found) == len(pinned)
    fresh = Whole(Empty()).collate([], 2)  # type: ignore[arg-type]
    assert torch.equal(part.inputs["tokens"], fresh.inputs["tokens"])
