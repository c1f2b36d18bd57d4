"""Claims about the thread, or the processes, that build the next steps."""

import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from zoo.batches import ahead
from zoo.batches.ahead import FILE_LIMIT, StepDataset, StepIterator, build_ahead
from zoo.batches.collate import MicroBatch
from zoo.batches.feed import Feed
from zoo.batches.order import PackedRow, split_rows
from zoo.blocks.rows.documents import Documents


class Empty:
    """Examples that fill windows of two rows with nothing."""

    window_count, order_version = 10, 1

    def rows(self, epoch: int, window: int) -> list[PackedRow]:
        return [PackedRow(epoch, ())] * 2


class Slow(Feed):
    """A feed whose micro-batches take a while."""

    def collate(self, rows: Sequence[PackedRow], micro_batch: int) -> Any:
        time.sleep(0.2)


def test_no_thread_builds_a_step_after_the_end():
    with closing(build_ahead(StepDataset(Slow(Empty()), 5, 2, None, 0, 1))) as steps:  # type: ignore[arg-type]
        next(steps)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("zoo-feed")]


def test_nothing_is_built_behind_the_last_step():
    feed = Slow(Empty())  # type: ignore[arg-type]
    found = [position["window"] for _, position in build_ahead(StepDataset(feed, 3, 2, None, 0, 1))]
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
    (((part,), _),) = build_ahead(StepDataset(Whole(Empty()), 1, 2, None, 0, 1), pin=True)  # type: ignore[arg-type]
    borders = part.inputs["documents"].borders
    found = [part.inputs["tokens"], part.inputs["documents"].numbers, borders.queries, borders.keys]
    found += [part.inputs["places"]["head"], part.targets["causal_lm"]]
    assert {id(tensor) for tensor in found} == {id(tensor) for tensor in pinned} and len(found) == len(pinned)
    fresh = Whole(Empty()).collate([], 2)  # type: ignore[arg-type]
    assert torch.equal(part.inputs["tokens"], fresh.inputs["tokens"])


class Named(Feed):
    """A feed whose micro-batches say which rows they are of, and which process built them; one step cannot be built."""

    def __init__(self, examples: Any, broken: int = -1) -> None:
        self.broken = broken
        super().__init__(examples)

    def collate(self, rows: Sequence[PackedRow], micro_batch: int) -> Any:
        if self.cursor.row == 1 and self.cursor.window == self.broken:
            raise ValueError("data: this step is broken")
        return MicroBatch({"tokens": torch.arange(3)}, {}, [(self.cursor.window, self.cursor.row, os.getpid())], 3, 1.0)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more processes than the machine has cores
@pytest.mark.parametrize("workers", [1, 3])
def test_processes_build_the_steps_of_one_in_their_order(workers: int):
    alone = [step for step in build_ahead(StepDataset(Named(Empty()), 7, 3, None, 0, 1))]  # type: ignore[arg-type]
    found = [step for step in build_ahead(StepDataset(Named(Empty()), 7, 3, None, 0, 1), workers=workers)]  # type: ignore[arg-type]
    assert [step.position for step in found] == [step.position for step in alone]
    names = [[part.examples[0] for part in step.parts] for step in found]
    assert [[name[:2] for name in step] for step in names] == [
        [part.examples[0][:2] for part in step.parts] for step in alone
    ]
    builders = {name[2] for step in names for name in step}
    assert len(builders) == workers and os.getpid() not in builders
    assert not multiprocessing.active_children()


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_an_error_of_a_process_that_builds_is_raised_as_it_is():
    steps = build_ahead(StepDataset(Named(Empty(), 4), 7, 3, None, 0, 1), workers=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^data: this step is broken$"):
        list(steps)
    assert not multiprocessing.active_children()


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_where_one_process_that_builds_is_killed_all_end():
    """Also while somebody holds the error, as the command line does until it has said what was wrong."""
    steps = build_ahead(StepDataset(Named(Empty()), 10**6, 3, None, 0, 1), workers=2)  # type: ignore[arg-type]
    next(steps)
    os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="DataLoader worker") as error, closing(steps):
        for _ in steps:
            pass
    left = multiprocessing.active_children()
    for process in left:
        process.kill()
    assert error.tb is not None and not left


@pytest.mark.parametrize("error", [ConnectionResetError(104, "Connection reset by peer"), EOFError()], ids=repr)
def test_a_process_that_was_killed_while_it_handed_a_step_over_is_told_of(error: Exception):
    """The kill may come before torch has looked whether its processes live."""
    found = StepIterator(iter(Mock(side_effect=error), None))  # type: ignore[arg-type]
    with pytest.raises(
        RuntimeError, match=r"\(DataLoader worker\) failed: (ConnectionReset|EOF)Error\(.*was it killed"
    ):
        next(found)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_processes_that_build_go_on_where_a_signal_is_for_the_whole_group():
    steps = build_ahead(StepDataset(Named(Empty()), 9, 3, None, 0, 1), workers=1)  # type: ignore[arg-type]
    next(steps)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(multiprocessing.active_children()[0].pid or 0, number)
    assert len(list(steps)) == 8


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ((1024, 20_000), [20_000]),
        ((1024, resource.RLIM_INFINITY), [FILE_LIMIT]),
        ((20_000, 20_000), []),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), []),
    ],
)
@pytest.mark.parametrize("refuses", [False, True])
def test_files_may_be_open_for_what_processes_build(
    limits: tuple[int, int], wanted: list[int], refuses: bool, monkeypatch: pytest.MonkeyPatch
):
    asked = []

    def set_limit(kind: int, both: tuple[int, int]) -> None:
        asked.append(both)
        if refuses:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits)
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    steps = StepDataset(Named(Empty()), 2, 3, None, 0, 1)  # type: ignore[arg-type]
    assert len(list(build_ahead(steps, workers=1))) == 2
    assert asked == [(most, limits[1]) for most in wanted]


@pytest.mark.parametrize(("micro_batch", "processes", "sizes"), [(64, 1, [5]), (5, 2, [3]), (2, 1, [2, 2, 1])])
def test_a_micro_batch_is_no_larger_than_the_share_of_a_process(micro_batch: int, processes: int, sizes: list[int]):
    seen: list[tuple[int, int]] = []

    class Noted(Feed):
        """A feed that notes how many rows a micro-batch has, and is padded to."""

        def collate(self, rows: Sequence[PackedRow], micro_batch: int) -> Any:
            seen.append((len(rows), micro_batch))

    list(build_ahead(StepDataset(Noted(Empty()), 1, 5, micro_batch, 0, processes)))  # type: ignore[arg-type]
    assert [rows for rows, _ in seen] == sizes and {size for _, size in seen} == {max(sizes)}


def test_processes_see_disjoint_rows_whose_union_is_the_single_processes():
    rows = [PackedRow(number, ()) for number in range(11)]
    shares = [[row for part in split_rows(rows, process, 2, 3) for row in part] for process in range(2)]
    assert shares == [rows[0::2], rows[1::2]]


def test_every_process_has_equally_many_parts():
    rows = [PackedRow(number, ()) for number in range(7)]
    parts = [split_rows(rows, process, 3, 2) for process in range(3)]
    assert [[len(part) for part in mine] for mine in parts] == [[2, 1], [2, 0], [2, 0]]


def test_building_ahead_takes_no_random_number_of_the_training():
    before = torch.get_rng_state()
    list(build_ahead(StepDataset(Named(Empty()), 1, 2, None, 0, 1)))  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_worker_whose_training_process_was_killed_ends(monkeypatch: pytest.MonkeyPatch):
    parents, ended = iter([7, 7, 1]), []
    monkeypatch.setattr(ahead, "CHECK_EVERY", 0.0)
    monkeypatch.setattr(ahead.os, "getppid", lambda: next(parents))
    monkeypatch.setattr(ahead.os, "_exit", ended.append)
    ahead.end_with(7)
    assert ended == [1] and next(parents, None) is None
