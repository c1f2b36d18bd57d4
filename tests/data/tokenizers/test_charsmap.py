"""Maps of characters that would stop the tokenizer in the middle of a text are refused; those that work are not."""

import base64
import struct
import tracemalloc

import numpy as np
import pytest
from tokenizers import normalizers

from zoo.data.tokenizers.charsmap import check_charsmaps


def charsmap(units: dict[int, int], texts: bytes, size: int = 512) -> bytes:
    array = np.zeros(size, dtype="<u4")
    for place, unit in units.items():
        array[place] = unit
    return struct.pack("<I", array.nbytes) + array.tobytes() + texts


def unit(offset: int, label: int = 0, leaf: bool = False) -> int:
    return offset << 10 | leaf << 8 | label


A = ord("a")
TEXTS = b"y\x00x\x00"
# the root leads to 256, "a" from there to a leaf at 7, where the number of the text "x" stands
BELOW = {256 ^ A: unit(A ^ 256 ^ 7, A, leaf=True), 7: 2 | 1 << 31}
WHOLE = charsmap({0: unit(256)} | BELOW, TEXTS)
TIMES_256 = 1 << 9


def check(content: bytes) -> None:
    check_charsmaps(
        {"normalizer": {"normalizers": [{"precompiled_charsmap": base64.b64encode(content).decode()}]}}, "t"
    )


@pytest.mark.parametrize("root", [unit(256), unit(1) | TIMES_256], ids=["near", "far"])
def test_a_map_that_works_is_taken_and_works(root: int):
    content = charsmap({0: root} | BELOW, TEXTS)
    check(content)
    assert normalizers.Precompiled(content).normalize_str("abc") == "xbc"


DAMAGED = [
    b"",
    b"\x00\x00\x00\x00",
    charsmap({0: unit(5000)}, TEXTS),
    charsmap({0: unit(20) | TIMES_256}, TEXTS),
    charsmap({0: unit(256), 256 ^ A: unit(4000, A)}, TEXTS),
    charsmap({0: unit(256), 256 ^ A: unit(A ^ 256 ^ 7, A, leaf=True), 7: 9 | 1 << 31}, TEXTS),
    charsmap({0: unit(256), 256 ^ A: unit(A ^ 256 ^ 7, A, leaf=True), 7: 1 | 1 << 31}, "é".encode()),
    charsmap({0: unit(256), 256 ^ A: unit(4000, A)}, b""),
    charsmap({0: unit(256)}, b"\xff\xfe"),
    charsmap({0: unit(1)}, TEXTS, size=200),
]


@pytest.mark.parametrize("content", DAMAGED)
def test_one_that_leads_out_of_itself_is_refused(content: bytes):
    with pytest.raises(ValueError, match="t: the precompiled_charsmap of its normalizer is damaged"):
        check(content)


@pytest.mark.parametrize("value", [3, None, "é", "a"])
def test_what_is_no_map_is_refused(value: object):
    with pytest.raises(ValueError, match="is damaged"):
        check_charsmaps({"normalizer": {"precompiled_charsmap": value}}, "t")


def test_tokenizers_without_a_map_are_taken():
    for spec in ({"normalizer": None}, {"normalizer": {"type": "NFC"}}, []):
        check_charsmaps(spec, "t")


def test_a_large_map_takes_no_more_than_some_times_its_own_memory():
    """255 nodes of 255 children each: all positions of these at once take 140 times as much."""
    size = 1 << 19
    units = {0: unit(256)} | {256 ^ label: unit(256 ^ label ^ 256 * (label + 1), label) for label in range(1, 256)}
    for node in range(2, 257):
        units |= {256 * node ^ label: unit(0, label) for label in range(1, 256)}
    content = charsmap(units, TEXTS, size)
    tracemalloc.start()
    check(content)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 * len(content)


def test_random_damage_never_stops_a_text_that_passed():
    generator = np.random.default_rng(0)
    passed = 0
    for _ in range(300):
        content = bytearray(WHOLE)
        for place in (*generator.integers(4, len(content), 2), 4 + int(generator.integers(4))):
            content[place] = int(generator.integers(256))
        try:
            check(bytes(content))
        except ValueError:
            continue
        passed += 1
        normalizers.Precompiled(bytes(content)).normalize_str("abcaé \x01\x7f zzz a")
    assert passed > 20
