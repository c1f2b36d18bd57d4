"""A generation step as one CUDA graph, so that one call launches its many small kernels."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

logger = logging.getLogger(__name__)
WARMUP_STEPS = 1  # uncaptured steps first, which load the kernels: as in torch/_inductor/cudagraph_trees.py
MIN_STEPS_TO_CAPTURE = 16  # steps that must remain: capturing one takes as long as a few uncaptured ones
# Steps that must remain for finished rows to leave the batch. That costs two uncaptured steps and a new capture, as
# long as dozens of replays, while a replay with half the rows takes at least half as long. Not measured yet.
MIN_STEPS_TO_RECAPTURE = 128
Inputs = tuple[Tensor | None, ...]
failures: list[str] = []  # reasons of failed captures; after one, torch may be unable to capture in this process


def uses_cuda_graphs(device: torch.device, steps: int) -> bool:
    """Whether generation of this many steps uses CUDA graphs on a device."""
    return device.type == "cuda" and steps >= WARMUP_STEPS + MIN_STEPS_TO_CAPTURE and not failures


def max_remaining_rows(rows: int, steps: int) -> int:
    """Return the most rows that may remain when finished rows leave a captured step; 0: all leave together at the end.

    Args:
        steps: number of steps that remain.
    """
    return rows // 2 if steps >= MIN_STEPS_TO_RECAPTURE else 0


class Recording(NamedTuple):
    """A captured step, with the tensors that every replay reads its arguments from and writes its result to."""

    graph: torch.cuda.CUDAGraph
    inputs: Inputs
    output: Tensor


class CapturedStep:
    """A function of tensors (or None) that is captured as a CUDA graph after its first call and replayed from then on.

    Everything else that it reads or writes must keep its address and shape as long as the arguments keep their shapes;
    when those change, warm-up and capture start over. The warm-up call is a normal step on a side stream, as torch's
    notes on CUDA graphs demand. Capturing computes nothing. A result is valid until the next call.

    Args:
        steps: the most calls there will be.
    """

    def __init__(self, step: Callable[..., Tensor], device: torch.device, steps: int) -> None:
        self.step, self.device, self.steps_left, self.steps_run = step, device, steps, 0
        self.shapes: list[torch.Size | None] = []
        self.recording: Recording | None = None

    def __call__(self, *given: Tensor | None) -> Tensor:
        shapes = [None if x is None else x.shape for x in given]
        if shapes != self.shapes:
            self.shapes, self.steps_run, self.recording = shapes, 0, None
        if self.recording is None and self.steps_run >= WARMUP_STEPS and self.steps_left >= MIN_STEPS_TO_CAPTURE:
            self.capture(given)
        self.steps_left, self.steps_run = self.steps_left - 1, self.steps_run + 1
        if self.recording is None:
            return self.run(given)
        for place, x in zip(self.recording.inputs, given, strict=True):
            if place is not None and x is not None:
                place.copy_(x)
        self.recording.graph.replay()
        return self.recording.output

    def run(self, given: Inputs) -> Tensor:
        """Run a step uncaptured, on the side stream."""
        here, aside = torch.cuda.current_stream(self.device), side_stream(self.device)
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            output = self.step(*given)
        here.wait_stream(aside)
        return output

    def capture(self, given: Inputs) -> None:
        """Capture a step; if that fails, log the reason once and never try again in this process."""
        aside, graph, pool = side_stream(self.device), torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        places = tuple(None if x is None else x.clone() for x in given)
        try:
            with capturing(graph, pool, aside):
                output = self.step(*places)
        except RuntimeError as error:
            self.steps_left = 0
            failures.append(str(error.__context__ or error).partition("\n")[0])
            log_once(failures[-1])
            clean_up_capture(graph, pool, aside)
        else:
            self.recording = Recording(graph, places, output)


@contextmanager
def capturing(graph: torch.cuda.CUDAGraph, pool: Any, stream: torch.cuda.Stream) -> Iterator[None]:
    """Context in which the work of this thread is captured on a stream.

    Args:
        pool: handle of the memory pool that the captured work allocates from.
    """
    # If a capture fails, `torch.cuda.graph` does not leave its stream: the outer context does. With thread_local, other
    # threads, such as one that pins batches, may go on using CUDA.
    with torch.cuda.stream(stream):
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            yield


def clean_up_capture(graph: torch.cuda.CUDAGraph, pool: Any, stream: torch.cuda.Stream) -> None:
    """Undo what a failed capture leaves behind: torch 2.11 raises its error before it has cleaned up.

    As long as the allocator believes that a capture is underway, it frees no tensor that another stream has used, such
    as a batch (https://github.com/pytorch/pytorch/pull/180395). As long as the random generator believes it, dropout
    raises an error; only the end of a capture that succeeds changes that.
    """
    with suppress(RuntimeError):  # raised by a later torch, which has cleaned up
        graph.reset()
        torch._C._cuda_endAllocateToPool(stream.device.index, pool)
        torch._C._cuda_releasePool(stream.device.index, pool)
    with suppress(RuntimeError), capturing(torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle(), stream):
        torch.zeros(1, device=stream.device)


@cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the side stream: one for all steps of a process, since torch keeps freed memory per stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@cache
def log_once(reason: str) -> None:
    """Log, once per reason, that generation is slower than it could be."""
    logger.info("generation runs without a CUDA graph and is slower: %s", reason)
