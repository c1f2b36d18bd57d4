"""A cache holds the last positions that fit, each in its slot, whatever the steps and the order of rows."""

import pytest
import torch

from zoo.blocks.rows.cache import MIN_GROWTH, Cache, KeysValues


def places(start: int, stop: int, rows: int = 2) -> KeysValues:
    """Keys and values whose numbers are their positions; rows differ by 100."""
    at = torch.arange(start, stop).float()[None, None, :, None] + 100 * torch.arange(rows)[:, None, None, None]
    return KeysValues(at.expand(-1, 1, -1, 2), at.expand(-1, 1, -1, 3))


def filled(room: int, sizes: list[int], grows: bool = False) -> Cache:
    cache, start = Cache.of(places(0, 1), room, torch.float64, grows), 0
    for size in sizes:
        cache.write(places(start, start + size), cache.slots(start, size), start + size)
        start += size
    return cache


def test_slots_hold_the_last_positions_that_fit():
    assert filled(4, [2, 1]).read().keys[0, 0, :, 0].tolist() == [0, 1, 2]
    assert filled(4, [2, 1, 3]).read().keys[0, 0, :, 0].tolist() == [4, 5, 2, 3]
    assert filled(4, [9]).read().values[1, 0, :, 0].tolist() == [108, 105, 106, 107]


def test_what_is_kept_and_new_positions_stand_in_their_order():
    memory = filled(4, [6]).concatenate(places(6, 8), 6)
    assert memory.keys[0, 0, :, 0].tolist() == [2, 3, 4, 5, 6, 7] and memory.values.dtype == torch.float64


def test_a_cache_grows_and_a_wider_one_stays():
    cache = filled(3, [3]).with_capacity(5)
    cache.write(places(3, 4), cache.slots(3, 1), 4)
    assert cache.read().keys[1, 0, :, 0].tolist() == [100, 101, 102, 103]
    assert cache.room == 5 and cache.with_capacity(2) is cache


def test_rows_are_taken_again_and_again():
    cache = filled(4, [3])
    for rows in ([1, 1, 0], [2, 0, 0], [0, 2, 1], [1]):
        expected = cache.read().keys[rows].clone()
        cache = cache.select_rows(torch.tensor(rows))
        assert torch.equal(cache.read().keys, expected)


def test_fewer_rows_stand_in_the_tensors_of_more():
    one = filled(4, [3]).select_rows(torch.tensor([0, 1, 1]))
    cache = one.select_rows(torch.arange(3))
    known = {x.data_ptr() for x in (*one.tensors, *cache.tensors)}
    for rows in ([2, 0], [1, 1], [0], [0]):
        expected = cache.read().values[rows].clone()
        cache = cache.select_rows(torch.tensor(rows))
        assert torch.equal(cache.read().values, expected) and len(cache.tensors[0]) == len(rows)
        assert known >= {x.data_ptr() for x in cache.tensors}


@pytest.mark.parametrize("room", [40, 100, 500])
def test_a_growing_cache_holds_the_same_with_zeros_behind_it(room: int):
    sizes = [3, *[1] * 38, 30, 1, 1, 250, 1]
    parts, whole = filled(room, sizes, grows=True), filled(room, sizes)
    slots, known = parts.read().keys.shape[2], whole.read().keys.shape[2]
    assert known <= slots <= min(room, known + max(MIN_GROWTH, known // 8)) and parts.room == room
    for found, expected in zip(parts.read(), whole.read(), strict=True):
        assert torch.equal(found[:, :, :known], expected) and not found[:, :, known:].any() and found.is_contiguous()


def test_a_growing_cache_keeps_its_shape_with_all_its_slots():
    parts, whole = filled(50, [3], grows=True), filled(50, [3])
    for cache in (parts, whole):
        cache.fix_shape()
    assert torch.equal(parts.read().keys, whole.read().keys) and parts.filled == 50


def test_rows_of_a_growing_cache_are_taken_with_the_zeros_behind_them():
    cache = filled(200, [3], grows=True)
    for at, rows in enumerate([[1, 1, 0], [2, 0, 0], [0, 2, 1], [1]] * 12, start=3):
        rows = [row % len(cache.tensors[0]) for row in rows]
        expected = cache.read().keys[rows].clone()
        cache = cache.select_rows(torch.tensor(rows)).with_capacity(200)
        assert torch.equal(cache.read().keys, expected)
        cache.write(places(at, at + 1, len(rows)), cache.slots(at, 1), at + 1)
        assert cache.filled == at + 1 and not cache.read().values[:, :, at + 1 :].any()
