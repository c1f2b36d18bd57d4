"""A stranger's safetensors header is refused quickly and in few words, whatever it claims."""

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from zoo.hub.sources.headers import read_header

HUGE = 9007199254740993


def written(folder: Path, header: dict[str, Any]) -> Path:
    """A safetensors file with a header and 8 bytes."""
    text = json.dumps(header).encode()
    path = folder / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    return path


def entry(shape: list[int], dtype: str = "F32", end: int = 8) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}


@pytest.mark.parametrize("shape", [[HUGE] * 40_000, [10**4000] * 1_600, [1] * 40_000, [2] + [1] * 40_000, [0, HUGE]])
def test_a_shape_that_no_file_holds_is_refused_quickly_and_not_repeated(tmp_path: Path, shape: list[int]):
    path = written(tmp_path, {"w": entry(shape)})
    begun = perf_counter()
    with pytest.raises(
        ValueError, match="is not safetensors, or damaged|'w' has 40001 axes; allowed: at most 8"
    ) as caught:
        read_header(path)
    assert len(str(caught.value)) < len(str(path)) + 200 and perf_counter() - begun < 2


def test_a_name_of_a_tensor_that_fills_a_screen_is_not_repeated(tmp_path: Path):
    path = written(tmp_path, {"w" * 100_000: entry([2])})
    with pytest.raises(ValueError, match="a tensor's name has 100000 characters; allowed: at most 300") as caught:
        read_header(path)
    assert len(str(caught.value)) < len(str(path)) + 200


HOLES = {"a": ([1], 0, 4), "b": ([1], 8, 12)}
SHARED = {"a": ([2], 0, 8), "b": ([2], 0, 8)}
BEYOND = {"a": ([4], 0, 16)}


@pytest.mark.parametrize("places", [HOLES, SHARED, BEYOND])
def test_bytes_that_are_read_twice_or_never_or_are_not_there_are_refused(tmp_path: Path, places: dict[str, Any]):
    header = {n: {"dtype": "F32", "shape": s, "data_offsets": [a, b]} for n, (s, a, b) in places.items()}
    with pytest.raises(ValueError, match="is not safetensors, or damaged"):
        read_header(written(tmp_path, header))


def test_what_fits_is_read(tmp_path: Path):
    assert read_header(written(tmp_path, {"w": entry([2, 1])}))["w"].shape == (2, 1)
