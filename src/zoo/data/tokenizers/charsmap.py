"""Checks a tokenizer's precompiled_charsmap: a damaged one makes the library panic in the middle of a text.

The map is a double-array trie from spellings to their replacements. Source: Kudo and Richardson 2018, arXiv:1808.06226,
section 3.3; the layout is that of `spm_precompiled`, which `tokenizers` reads it with.
"""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.data.tokenizers.patterns import maps

BYTES = np.arange(1, 256, dtype=np.int64)
# Bits of a unit. A node's: its byte (0 to 7), whether it has a leaf (8), and the offset of its children (10 to 30,
# times 256 if bit 9 is set). A leaf's: bit 31 is set, and the others are its value, where its text begins.
LABEL, VALUE = (1 << 31) | 0xFF, (1 << 31) - 1
TOGETHER = 1024  # nodes that are followed at once, with 255 possible children each
Integers = NDArray[np.int64]  # units, or indices of units


def check_charsmaps(spec: Any, place: str) -> None:
    """Raise a ValueError if a precompiled_charsmap in a parsed tokenizer.json is damaged."""
    for found in (step["precompiled_charsmap"] for step in maps(spec) if "precompiled_charsmap" in step):
        try:
            whole = is_valid_trie(base64.b64decode(found, validate=True))
        except (ValueError, IndexError, TypeError):  # not base64, or shorter than its header says
            whole = False
        if not whole:
            raise ValueError(f"{place}: the precompiled_charsmap of its normalizer is damaged")


def is_valid_trie(content: bytes) -> bool:
    """Whether every walk through the trie stays inside it and ends at the beginning of a stored text."""
    size = int.from_bytes(content[:4], "little")
    units = np.frombuffer(content[4 : 4 + size], dtype="<u4").astype(np.int64)
    texts = content[4 + size :]
    texts.decode("utf-8")
    begins = np.frombuffer(texts, dtype=np.uint8) & 0xC0 != 0x80  # not inside a UTF-8 character: a text may begin there
    seen = np.zeros(len(units), dtype=bool)
    bases = offsets(units[:1])
    while len(bases):
        following = [bases[:0]]
        for start in range(0, len(bases), TOGETHER):
            found = follow(units, bases[start : start + TOGETHER], begins, seen)
            if found is None:
                return False
            following.append(found)
        bases = np.concatenate(following)
    return len(units) > 0


def follow(units: Integers, bases: Integers, begins: NDArray[np.bool_], seen: NDArray[np.bool_]) -> Integers | None:
    """One step from some nodes of the trie: the bases of their children; None if the step leaves the trie.

    Args:
        begins: per byte of the texts, whether a text may begin there.
        seen: per unit, whether it was visited; updated.
    """
    if int((bases | 255).max()) >= len(units):
        return None
    places = bases[:, None] ^ BYTES  # (nodes, 255): where the child for each byte would be; a child has that byte
    there = places[units[places] & LABEL == BYTES]
    there = np.unique(there[~seen[there]])
    seen[there] = True
    bases = there ^ offsets(units[there])
    leaves = bases[units[there] >> 8 & 1 == 1]  # of the children that have one: the child for byte 0
    if int(leaves.max(initial=0)) >= len(units):
        return None
    at = units[leaves] & VALUE
    led_astray = len(at) > 0 and (int(at.max()) >= len(begins) or not begins[at].all())
    return None if led_astray else bases


def offsets(units: Integers) -> Integers:
    """The offset of each unit's children."""
    return (units >> 10) << ((units & (1 << 9)) >> 6)
