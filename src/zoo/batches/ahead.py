"""Micro-batches built ahead: while a step is computed, a thread or other processes build the next ones."""

import multiprocessing
import resource
import signal
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from zoo.batches.collate import MicroBatch
from zoo.batches.feed import Feed
from zoo.batches.order import share
from zoo.strict_yaml import Tree

FILES = 65_536  # open at once, where a system allows it
AHEAD = 2  # steps that each process builds ahead


class Step(NamedTuple):
    """What one process reads in a step.

    Args:
        parts: its micro-batches.
        position: where the data stands after the step.
    """

    parts: list[MicroBatch]
    position: Tree


@dataclass
class Failed:
    """An error of a process that builds; the loop raises it as it is, not wrapped in a text of the other process."""

    error: Exception


@dataclass
class Steps(IterableDataset[Any]):
    """The next steps of a feed, as one process of the training reads them.

    Where several processes build, each of them plans all rows, so that it knows where every step begins, and builds the
    micro-batches of its own steps: no plan and no row goes from one to the other.

    Args:
        steps: how many.
        batch: rows of a step over all processes of the training.
        micro_batch: rows of a micro-batch; None, or more than that: this process's whole share.
        process, processes: of the training.
    """

    feed: Feed
    steps: int
    batch: int
    micro_batch: int | None
    process: int
    processes: int

    def __iter__(self) -> Iterator[Step | Failed]:
        worker = get_worker_info()
        first, every = (0, 1) if worker is None else (worker.id, worker.num_workers)
        most = -(-self.batch // self.processes)  # beyond it rows would be empty
        size = most if self.micro_batch is None else min(self.micro_batch, most)
        try:
            for step in range(self.steps):
                rows = self.feed.take(self.batch)
                if step % every == first:
                    mine = share(rows, self.process, self.processes, size)
                    yield Step([self.feed.collate(part, size) for part in mine], self.feed.position)
        except Exception as error:
            yield Failed(error)


def build_ahead(steps: Steps, pin: bool = False, workers: int = 0) -> Generator[Step, None, None]:
    """The steps, each built while those before it are computed.

    Args:
        pin: lay them into memory from which a GPU copies by itself, beside what it computes.
        workers: processes that build them, in turn; 0: a thread builds one step ahead.
    """
    if workers:
        open_many()
    loader = DataLoader(
        steps,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=AHEAD if workers else None,
        # a forked process has the feed as it stands, its memory maps with it, and nothing of it must be pickled
        multiprocessing_context=multiprocessing.get_context("fork") if workers else None,
        worker_init_fn=leave_signals_alone if workers else None,
        generator=torch.Generator(),  # it draws seeds for its processes: not from what initialises models
        collate_fn=as_it_is,
    )

    def build(found: LoadedSteps) -> Step:
        step = next(found)
        if isinstance(step, Failed):
            raise step.error
        return step._replace(parts=[part.pinned() for part in step.parts]) if pin else step

    # the thread ends before what it reads from does
    with closing(LoadedSteps(loader)) as found, ThreadPoolExecutor(1, thread_name_prefix="zoo-feed") as thread:
        ahead = thread.submit(build, found)
        for left in range(steps.steps - 1, -1, -1):
            step = ahead.result()
            if left:  # nothing is built behind the last step
                ahead = thread.submit(build, found)
            yield step


def open_many() -> None:
    """Let this process have many files open, if it may: each tensor that another process built is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class LoadedSteps:
    """The steps of a loader, one after the other; once closed, the loader's processes have ended."""

    def __init__(self, loader: "DataLoader[Any]") -> None:
        self.steps: Iterator[Step | Failed] | None = iter(loader)

    def __next__(self) -> Step | Failed:
        assert self.steps is not None
        try:
            return next(self.steps)
        except (OSError, EOFError) as error:  # what building a step raises comes as `Failed`
            problem = f"a process that builds batches (DataLoader worker) failed: {error!r}"
            raise RuntimeError(f"{problem}; was it killed for lack of memory?") from error

    def close(self) -> None:
        steps, self.steps = self.steps, None
        # The loader's iterator ends its processes when nothing refers to it. The traceback of an error may: that of a
        # process which was killed. Those that are left would keep open what they inherited, for which a run waits.
        if steps is not None and hasattr(steps, "_shutdown_workers"):
            steps._shutdown_workers()


def as_it_is(step: Any) -> Any:
    """A step is a batch already."""
    return step


def leave_signals_alone(worker: int) -> None:
    """A signal to the whole group is for the training process, which ends the others when its state is saved."""
    signal.set_wakeup_fd(-1)  # inherited: a signal here would be taken for one there
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
