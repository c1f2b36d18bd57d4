"""Build micro-batches ahead of the steps that need them, in a thread or in worker processes."""

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

FILES = 65_536  # open files that `open_many` asks the system for
AHEAD = 2  # steps that each worker process builds ahead


class Step(NamedTuple):
    """The data of one optimizer step for one training process.

    Args:
        parts: its micro-batches.
        position: the data position after the step, as a checkpoint stores it.
    """

    parts: list[MicroBatch]
    position: Tree


@dataclass
class Failed:
    """An exception raised while a step was built; the loop raises it unchanged, where DataLoader would wrap it."""

    error: Exception


@dataclass
class Steps(IterableDataset[Any]):
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

    def __iter__(self) -> Iterator[Step | Failed]:
        worker = get_worker_info()
        first, every = (0, 1) if worker is None else (worker.id, worker.num_workers)
        most = -(-self.batch // self.processes)  # this process's share; a larger micro-batch only adds empty rows
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
    """Yield the steps, each built while earlier ones are computed.

    Args:
        pin: put the tensors into pinned memory, so that copies to a GPU overlap with computation.
        workers: worker processes that take turns building steps; 0: a thread builds one step ahead.
    """
    if workers:
        open_many()
    loader = DataLoader(
        steps,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=AHEAD if workers else None,
        # a forked worker inherits the feed and its memory maps, so nothing needs to be pickled
        multiprocessing_context=multiprocessing.get_context("fork") if workers else None,
        worker_init_fn=leave_signals_alone if workers else None,
        generator=torch.Generator(),  # for worker seeds, so that they do not consume the global generator
        collate_fn=as_it_is,
    )

    def build(found: LoadedSteps) -> Step:
        step = next(found)
        if isinstance(step, Failed):
            raise step.error
        return step._replace(parts=[part.pinned() for part in step.parts]) if pin else step

    # contexts close in reverse order: the thread ends before the loader that it reads from
    with closing(LoadedSteps(loader)) as found, ThreadPoolExecutor(1, thread_name_prefix="zoo-feed") as thread:
        ahead = thread.submit(build, found)
        for left in range(steps.steps - 1, -1, -1):
            step = ahead.result()
            if left:  # there is nothing to build after the last step
                ahead = thread.submit(build, found)
            yield step


def open_many() -> None:
    """Raise this process's limit of open files: each tensor from a worker process holds a file descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # macOS refuses some limits below the hard limit that it reports
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class LoadedSteps:
    """An iterator over the steps of a loader; `close` ends the loader's worker processes."""

    def __init__(self, loader: "DataLoader[Any]") -> None:
        self.steps: Iterator[Step | Failed] | None = iter(loader)

    def __next__(self) -> Step | Failed:
        assert self.steps is not None
        try:
            return next(self.steps)
        except (OSError, EOFError) as error:  # not an error in a step: that arrives as `Failed`
            problem = f"a process that builds batches (DataLoader worker) failed: {error!r}"
            raise RuntimeError(f"{problem}; was it killed for lack of memory?") from error

    def close(self) -> None:
        steps, self.steps = self.steps, None
        # The loader's iterator ends its workers when it is garbage-collected, but the traceback of an error (a worker
        # was killed) can keep it alive. The other workers would then hold the run folder's lock, which they inherited.
        if steps is not None and hasattr(steps, "_shutdown_workers"):
            steps._shutdown_workers()


def as_it_is(step: Any) -> Any:
    """Return a step unchanged: it is already a batch."""
    return step


def leave_signals_alone(worker: int) -> None:
    """Ignore signals sent to the process group: the training process saves its state and then ends its workers."""
    signal.set_wakeup_fd(-1)  # inherited: the training process would take a worker's signal for its own
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
