"""The order of very many documents: a permutation for every size, in long pieces, found by number."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from zoo.batches import permutation
from zoo.batches.permutation import BLOCK, LARGEST_TABLE, POOL, count_windows, permute, shuffled_documents, window_of
from zoo.data.ids import Ids

WINDOW = 1024


def test_the_formula_permutes_any_size():
    for size in range(1, 300):
        assert sorted(permute(np.arange(size, dtype=np.uint64), size, 0, size).tolist()) == list(range(size))


def test_neighbors_are_parted_and_each_epoch_and_seed_parts_them_otherwise():
    size = 10_000
    found = [permute(np.arange(size, dtype=np.uint64), size, *key).astype(np.int64) for key in ((0, 0), (0, 1), (1, 0))]
    for places in found:
        assert abs(np.corrcoef(places[:-1], places[1:])[0, 1]) < 0.05
        assert len(np.unique(np.diff(places))) > size // 2  # an affine formula has few
    assert all((one == other).mean() < 0.01 for one, other in pairwise(found))


@pytest.mark.parametrize("documents", [LARGEST_TABLE + 1, LARGEST_TABLE + BLOCK * POOL + 700])
def test_the_windows_of_an_epoch_hold_each_document_once(documents: int):
    windows = [window_of(3, 1, documents, n, WINDOW) for n in range(count_windows(documents, WINDOW))]
    assert all(len(window) for window in windows)
    assert np.array_equal(np.sort(np.concatenate(windows)), np.arange(documents))


def test_the_formula_is_over_no_more_numbers_than_it_needs(monkeypatch: pytest.MonkeyPatch):
    """Of another width it would give another order."""
    halves, encipher = dict[int, int](), permutation.encipher
    for size in (1, 4, 5, 16, 17):

        def measured(numbers: Ids, half: int, keys: Ids, size: int = size) -> Ids:
            halves[size] = half
            return encipher(numbers, half, keys)

        monkeypatch.setattr(permutation, "encipher", measured)
        permute(np.zeros(1, dtype=np.uint64), size, 0, 0)
    assert halves == {1: 1, 4: 1, 5: 2, 16: 2, 17: 3}


def test_up_to_a_size_all_documents_are_permuted_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(permutation, "LARGEST_TABLE", 3000)
    assert np.array_equal(window_of(3, 1, 3000, 1, WINDOW), shuffled_documents(3, 1, 3000)[WINDOW : 2 * WINDOW])
    assert count_windows(3000, WINDOW) == 3


def test_a_window_of_a_billion_documents_takes_little_memory_and_few_long_pieces():
    documents = 10**9
    permutation.mixed_pool.cache_clear()
    tracemalloc.start()
    found = window_of(0, 5, documents, count_windows(documents, WINDOW) - 2, WINDOW)
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    assert len(found) == WINDOW and len(np.unique(found // BLOCK)) <= POOL


def test_small_windows_of_very_many_documents_hold_each_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(permutation, "LARGEST_TABLE", 1000)
    documents = 5 * BLOCK * POOL + 700
    windows = [window_of(3, 1, documents, n, 64) for n in range(count_windows(documents, 64))]
    assert max(map(len, windows)) == 64
    assert np.array_equal(np.sort(np.concatenate(windows)), np.arange(documents))


def test_a_mixture_permutes_each_of_its_sources_once_an_epoch(monkeypatch: pytest.MonkeyPatch):
    made: list[object] = []
    draw = permutation.keyed
    monkeypatch.setattr(permutation, "keyed", lambda *key: made.append(key) or draw(*key))
    permutation.shuffled_documents.cache_clear()
    for number in range(10):
        for source in range(12):
            window_of(source, 0, 20_000, number, WINDOW)
    assert len(made) == 12
    assert shuffled_documents(0, 0, 20_000).nbytes == 4 * 20_000
