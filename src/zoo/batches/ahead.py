"""Build micro-batches ahead of the steps that need them, in a thread or in worker processes."""

import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from zoo.batches.collate import MicroBatch
from zoo.batches.feed import Feed
from zoo.batches.order import split_rows
from zoo.strict_yaml import Tree

FILE_LIMIT = 65_536  # open files that `raise_file_limit` asks the system for
STEPS_AHEAD = 2  # steps that each worker process builds ahead
CHECK_EVERY = 0.5  # seconds after which a worker process looks again whether its training process lives


class Step(NamedTuple):
    """The data of one optimizer step for one training process.

    Args:
        parts: its micro-batches.
        position: the data position after the step, as a checkpoint stores it.
    """

    parts: list[MicroBatch]
    position: Tree


@dataclass
class FailedStep:
    """An exception raised while a step was built; the loop raises it unchanged, where DataLoader would wrap it."""

    error: Exception


@dataclass
class StepDataset(IterableDataset[Any]):
    """The next steps of a feed, as one training process reads them.

    Each worker process plans all rows, so that it knows where every step begins, but builds only the micro-batches of
    its own steps. Workers exchange neither plans nor rows.

    Args:
        steps: number of optimizer steps.
        batch: rows per step, over all training processes.
        micro_batch: rows per micro-batch, at most this process's share of the batch; None: the whole share.
        process, processes: the rank of this training process, and how many there are.
    """

    feed: Feed
    steps: int
    batch: int
    micro_batch: int | None
    process: int
    processes: int

    def __iter__(self) -> Iterator[Step | FailedStep]:
        worker = get_worker_info()
        first, every = (0, 1) if worker is None else (worker.id, worker.num_workers)
        most = -(-self.batch // self.processes)  # this process's share; a larger micro-batch only adds empty rows
        size = most if self.micro_batch is None else min(self.micro_batch, most)
        try:
            for step in range(self.steps):
                rows = self.feed.take(self.batch)
                if step % every == first:
                    mine = split_rows(rows, self.process, self.processes, size)
                    yield Step([self.feed.collate(part, size) for part in mine], self.feed.position)
        except Exception as error:
            yield FailedStep(error)


def build_ahead(steps: StepDataset, pin: bool = False, workers: int = 0) -> Generator[Step, None, None]:
    """Yield the steps, each built while earlier ones are computed.

    Args:
        pin: put the tensors into pinned memory, so that copies to a GPU overlap with computation.
        workers: worker processes that take turns building steps; 0: a thread builds one step ahead.
    """
    if workers:
        raise_file_limit()
    loader = DataLoader(
        steps,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=STEPS_AHEAD if workers else None,
        # a forked worker inherits the feed and its memory maps, so nothing needs to be pickled
        multiprocessing_context=multiprocessing.get_context("fork") if workers else None,
        worker_init_fn=partial(start_worker, os.getpid()) if workers else None,
        generator=torch.Generator(),  # for worker seeds, so that they do not consume the global generator
        collate_fn=identity,
    )

    def build(found: StepIterator) -> Step:
        step = next(found)
        if isinstance(step, FailedStep):
            raise step.error
        return step._replace(parts=[part.pin_memory() for part in step.parts]) if pin else step

    # contexts close in reverse order: the thread ends before the loader that it reads from
    with closing(StepIterator(loader)) as found, ThreadPoolExecutor(1, thread_name_prefix="zoo-feed") as thread:
        ahead = thread.submit(build, found)
        for left in range(steps.steps - 1, -1, -1):
            step = ahead.result()
            if left:  # there is nothing to build after the last step
                ahead = thread.submit(build, found)
            yield step


def raise_file_limit() -> None:
    """Raise this process's limit of open files: each tensor from a worker process holds a file descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILE_LIMIT if hard == resource.RLIM_INFINITY else min(hard, FILE_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS refuses some limits below the hard limit that it reports
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class StepIterator:
    """An iterator over the steps of a loader; `close` ends the loader's worker processes."""

    def __init__(self, loader: "DataLoader[Any]") -> None:
        self.steps: Iterator[Step | FailedStep] | None = iter(loader)

    def __next__(self) -> Step | FailedStep:
        assert self.steps is not None
        try:
            return next(self.steps)
        except (OSError, EOFError) as error:  # not an error in a step: that arrives as `FailedStep`
            problem = f"a process that builds batches (DataLoader worker) failed: {error!r}"
            raise RuntimeError(f"{problem}; was it killed for lack of memory?") from error

    def close(self) -> None:
        steps, self.steps = self.steps, None
        # The loader's iterator ends its workers when it is garbage-collected, but the traceback of an error (a worker
        # was killed) can keep it alive. The other workers would then hold the run folder's lock, which they inherited.
        if steps is not None and hasattr(steps, "_shutdown_workers"):
            steps._shutdown_workers()


def identity(step: Any) -> Any:
    """Return a step unchanged: it is already a batch."""
    return step


def start_worker(parent: int, worker: int) -> None:
    """Prepare a worker process: the training process, its parent, alone decides when it ends."""
    ignore_signals()
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()


def end_with(parent: int) -> None:
    """End this process soon after its parent, the training process, was killed.

    It has inherited the run folder's lock. DataLoader's own check takes 5 seconds, and never ends a worker whose pipe
    is full, since nobody reads what it has built; the run could not be resumed then.
    """
    while os.getppid() == parent:
        time.sleep(CHECK_EVERY)
    os._exit(1)


def ignore_signals() -> None:
    """Ignore signals sent to the process group: the training process saves its state and then ends its workers."""
    signal.set_wakeup_fd(-1)  # inherited: the training process would take a worker's signal for its own
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
