"""A step of generation as one CUDA graph, so that its many small kernels are started with one call."""

import logging
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

logger = logging.getLogger(__name__)
WARM = 1  # steps before one is captured, which load its kernels: as in torch/_inductor/cudagraph_trees.py
PAYS = 16  # steps that must be left: capturing one takes as long as a few uncaptured ones
# Steps that must be left for rows to leave. Then two steps are taken uncaptured and one is captured anew, as long as
# dozens of replays, while a replay of half the rows takes at least half as long. Not measured yet.
FEWER_ROWS_PAY = 128
Given = tuple[Tensor | None, ...]
failures: list[str] = []  # why steps could not be captured; torch may not be able to capture any more after one


def captures(device: torch.device, steps: int) -> bool:
    """Whether so many steps are captured on a device."""
    return device.type == "cuda" and steps >= WARM + PAYS and not failures


def most_that_stay(rows: int, steps: int) -> int:
    """How many rows may be left when those that have ended leave a captured step; 0: all leave together, at the end.

    Args:
        steps: that are left.
    """
    return rows // 2 if steps >= FEWER_ROWS_PAY else 0


class Recording(NamedTuple):
    """A captured step: what it reads, and what it writes, always in the same tensors."""

    graph: torch.cuda.CUDAGraph
    given: Given
    said: Tensor


class CapturedStep:
    """A function of tensors (or None) that is captured once it has run, and replayed from then on.

    All that it reads and writes beside its arguments must keep place and shape as long as the arguments keep their
    shapes; when those change, all begins again. The run before it is captured is a step like any other, on a stream
    aside, as torch's notes on CUDA graphs demand. Capturing computes nothing. What is returned lasts until the next
    call.

    Args:
        steps: how many calls there will be, at most.
    """

    def __init__(self, step: Callable[..., Tensor], device: torch.device, steps: int) -> None:
        self.step, self.device, self.left, self.ran = step, device, steps, 0
        self.shapes: list[torch.Size | None] = []
        self.recording: Recording | None = None

    def __call__(self, *given: Tensor | None) -> Tensor:
        shapes = [None if x is None else x.shape for x in given]
        if shapes != self.shapes:
            self.shapes, self.ran, self.recording = shapes, 0, None
        if self.recording is None and self.ran >= WARM and self.left >= PAYS:
            self.capture(given)
        self.left, self.ran = self.left - 1, self.ran + 1
        if self.recording is None:
            return self.run(given)
        for place, x in zip(self.recording.given, given, strict=True):
            if place is not None and x is not None:
                place.copy_(x)
        self.recording.graph.replay()
        return self.recording.said

    def run(self, given: Given) -> Tensor:
        """Take a step as it is."""
        here, aside = torch.cuda.current_stream(self.device), stream_of(self.device)
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            said = self.step(*given)
        here.wait_stream(aside)
        return said

    def capture(self, given: Given) -> None:
        """Capture a step, or say why that cannot be done, and never try again in this process."""
        aside, graph = stream_of(self.device), torch.cuda.CUDAGraph()
        places = tuple(None if x is None else x.clone() for x in given)
        try:
            # the outer context leaves the stream, which the inner one does not where it fails; other threads, such as
            # one that pins batches, may go on
            with (
                torch.cuda.stream(aside),
                torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"),
            ):
                said = self.step(*places)
        except RuntimeError as error:
            self.left = 0
            failures.append(str(error.__context__ or error).partition("\n")[0])
            tell(failures[-1])
        else:
            self.recording = Recording(graph, places, said)


@cache
def stream_of(device: torch.device) -> torch.cuda.Stream:
    """The stream aside: one for all steps of a process, since torch keeps free memory by stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@cache
def tell(reason: str) -> None:
    """Say once that generation is slower than it could be."""
    logger.info("generation runs without a CUDA graph and is slower: %s", reason)
