"""A generation step as one CUDA graph, so that one call launches its many small kernels."""

import logging
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

logger = logging.getLogger(__name__)
WARM = 1  # uncaptured steps before the capture, which load its kernels: as in torch/_inductor/cudagraph_trees.py
PAYS = 16  # steps that must remain: capturing one takes as long as a few uncaptured ones
# Steps that must remain for finished rows to leave the batch. That costs two uncaptured steps and a new capture, as
# long as dozens of replays, while a replay with half the rows takes at least half as long. Not measured yet.
FEWER_ROWS_PAY = 128
Given = tuple[Tensor | None, ...]
failures: list[str] = []  # reasons of failed captures; after one, torch may be unable to capture in this process


def captures(device: torch.device, steps: int) -> bool:
    """Whether generation of this many steps uses CUDA graphs on a device."""
    return device.type == "cuda" and steps >= WARM + PAYS and not failures


def most_that_stay(rows: int, steps: int) -> int:
    """Return the most rows that may remain when finished rows leave a captured step; 0: all leave together at the end.

    Args:
        steps: number of steps that remain.
    """
    return rows // 2 if steps >= FEWER_ROWS_PAY else 0


class Recording(NamedTuple):
    """A captured step, with the tensors that every replay reads its arguments from and writes its result to."""

    graph: torch.cuda.CUDAGraph
    given: Given
    said: Tensor


class CapturedStep:
    """A function of tensors (or None) that is captured as a CUDA graph after its first call and replayed from then on.

    Everything else that it reads or writes must keep its address and shape as long as the arguments keep their shapes;
    when those change, warm-up and capture start over. The warm-up call is a normal step on a side stream, as torch's
    notes on CUDA graphs demand. Capturing computes nothing. A result is valid until the next call.

    Args:
        steps: the most calls there will be.
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
        """Run a step uncaptured, on the side stream."""
        here, aside = torch.cuda.current_stream(self.device), stream_of(self.device)
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            said = self.step(*given)
        here.wait_stream(aside)
        return said

    def capture(self, given: Given) -> None:
        """Capture a step; if that fails, log the reason once and never try again in this process."""
        aside, graph = stream_of(self.device), torch.cuda.CUDAGraph()
        places = tuple(None if x is None else x.clone() for x in given)
        try:
            # Where a capture fails, `torch.cuda.graph` does not leave its stream: the outer context does. With
            # thread_local, other threads, such as one that pins batches, may go on using CUDA.
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
    """Return the side stream: one for all steps of a process, since torch keeps freed memory per stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@cache
def tell(reason: str) -> None:
    """Log, once per reason, that generation is slower than it could be."""
    logger.info("generation runs without a CUDA graph and is slower: %s", reason)
