"""CUDA graphs for a CPU: what a step computes is recorded operation by operation, and replayed on the same tensors."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from zoo.models.generation import captured, generate


def tensors(*found: Any) -> list[Tensor]:
    return [x for x in tree_leaves(found) if isinstance(x, Tensor)]


def aliases(found: Any) -> Any:
    """The same with other tensors on the same numbers."""
    return tree_map_only(Tensor, Tensor.detach, found)


def storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


class Graph(TorchDispatchMode):
    """As torch.cuda.CUDAGraph: the host's numbers are those of the capture, and capturing itself changes no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[tuple[Any, Any, list[Tensor]]] = []
        self.before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self.own: set[int] = set()
        self.replays = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = tensors(args, kwargs)
        for x in given:
            if storage(x) not in self.own and storage(x) not in self.before:
                self.before[storage(x)] = x.untyped_storage(), x.untyped_storage().clone()
        asked = aliases((args, kwargs))  # as they are now: an operation may give a tensor another shape
        said = func(*args, **kwargs)
        self.own |= {storage(x) for x in tensors(said)} - {storage(x) for x in given}
        self.kernels.append((func, asked, tensors(aliases(said))))
        return said

    def end(self) -> None:
        """Undo what was written into tensors that were there before."""
        for place, was in self.before.values():
            place.copy_(was)

    def reset(self) -> None:
        self.kernels.clear()

    def replay(self) -> None:
        self.replays += 1
        for func, asked, places in self.kernels:
            args, kwargs = aliases(asked)
            for place, x in zip(places, tensors(func(*args, **kwargs)), strict=True):
                if place.data_ptr() != x.data_ptr():
                    place.copy_(x)


class Stream:
    """As torch.cuda.Stream, where everything is computed at once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def wait_stream(self, other: "Stream") -> None:
        pass


def captured_on_the_cpu(monkeypatch: pytest.MonkeyPatch, pays: int = 2) -> list[Graph]:
    """Let generation capture its steps here, too; returns the graphs that it will have captured."""
    graphs: list[Graph] = []

    @contextmanager
    def capturing(graph: Graph, **options: Any) -> Iterator[None]:
        with graph:
            yield
        graph.end()
        graphs.append(graph)

    for name, stand_in in (
        ("CUDAGraph", Graph),
        ("graph_pool_handle", object),
        ("graph", capturing),
        ("current_stream", Stream),
        ("stream", lambda stream: nullcontext()),
    ):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):  # torch for CUDA takes no stand-in of a pool
        monkeypatch.setattr(torch._C, name, lambda device, pool: None)
    monkeypatch.setattr(captured, "side_stream", Stream)
    monkeypatch.setattr(captured, "MIN_STEPS_TO_CAPTURE", pays)
    monkeypatch.setattr(generate, "uses_cuda_graphs", lambda device, steps: True)
    return graphs
