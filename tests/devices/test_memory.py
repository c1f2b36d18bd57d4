"""Claims about memory: glibc takes the settings, other C libraries are left alone."""

import gc
import platform
import weakref
from collections.abc import Sequence
from unittest.mock import Mock

import pytest
import torch

from zoo.devices import memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not glibc")
def test_glibc_agrees_to_map_large_blocks_and_to_keep_them():
    assert memory.map_large_blocks() and memory.keep_large_blocks()


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("", ""))
    assert not memory.keep_large_blocks() and not memory.map_large_blocks()


@pytest.mark.parametrize(("library", "calls"), [("glibc", [0]), ("", [])])
def test_only_glibcs_heaps_are_trimmed(library: str, calls: list[int], monkeypatch: pytest.MonkeyPatch):
    trimmed: list[int] = []
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: (library, ""))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: Mock(malloc_trim=trimmed.append))
    memory.trim_heap()
    assert trimmed == calls


@pytest.mark.parametrize("setting", ["map_large_blocks", "keep_large_blocks"])
def test_where_glibc_refuses_the_threshold_nothing_is_set(setting: str, monkeypatch: pytest.MonkeyPatch):
    asked = []

    class Old:
        def mallopt(self, parameter: int, value: int) -> int:
            asked.append(parameter)
            return int(parameter != memory.M_MMAP_THRESHOLD or value <= 1 << 25)

    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("glibc", "2.17"))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: Old())
    assert not getattr(memory, setting)() and asked == [memory.M_MMAP_THRESHOLD]


def test_a_batch_that_memory_does_not_hold_is_halved_and_so_are_those_after_it(caplog: pytest.LogCaptureFixture):
    asked = []

    def work(batch: Sequence[int]) -> int:
        asked.append(len(batch))
        if len(batch) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return sum(batch)

    assert sum(memory.map_batches(range(11), 8, work)) == sum(range(11))
    assert asked == [8, 4, 2, 2, 2, 2, 2, 1]
    assert [record.args for record in caplog.records] == [(8, 4), (4, 2)]


def test_a_single_item_that_memory_does_not_hold_is_an_error_that_says_what_to_do():
    def work(batch: Sequence[int]) -> int:
        raise MemoryError

    with pytest.raises(RuntimeError, match="^out of memory with a batch of 1; choose --device cpu. MemoryError$"):
        list(memory.map_batches([1, 2], 2, work))


def test_another_error_of_a_batch_is_passed_on():
    def work(batch: Sequence[int]) -> int:
        raise RuntimeError("expected 3 axes")

    with pytest.raises(RuntimeError, match="^expected 3 axes$"):
        list(memory.map_batches([1, 2], 2, work))


def test_devices_and_libraries_say_in_their_own_words_that_memory_is_full():
    for words in (
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`",
        "CUDA driver error: out of memory",
        "Triton Error [CUDA]: out of memory",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "MPS backend out of memory (MPS allocated: 8.00 GiB, other allocations: 1.00 GiB, max allowed: 9.07 GiB).",
        "Invalid buffer size: 64.00 GiB",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    ):
        assert memory.is_out_of_memory(RuntimeError(words))
    assert not memory.is_out_of_memory(RuntimeError("CUDA error: invalid configuration argument"))


class Node:
    """An object that may refer to itself."""

    def __init__(self) -> None:
        self.own: Node | None = None


def loop() -> "weakref.ref[Node]":
    """An object that only the garbage collector can free."""
    node = Node()
    node.own = node
    return weakref.ref(node)


def test_the_collector_leaves_imports_alone_and_frees_what_came_later():
    gc.unfreeze()  # another test may have trained
    memory.freeze_imports.cache_clear()
    memory.freeze_imports()
    aside = gc.get_freeze_count()
    assert aside > 10_000
    later = loop()
    memory.freeze_imports()
    assert gc.get_freeze_count() <= aside  # some are freed, since nothing refers to them any more
    gc.collect()
    assert later() is None
