"""Strict JSON: refuses what Python's json accepts silently, such as NaN and repeated keys."""

import json
import math
from collections import Counter
from typing import Any


def parse_json(data: bytes | str, place: str) -> dict[str, Any]:
    """Parse one JSON object without NaN, infinities (Python reads `1e999` as one) and repeated keys.

    Raises:
        ValueError: the data is not such an object, or is nested too deeply; the message begins with `place`.
    """
    try:
        tree = json.loads(data, object_pairs_hook=refuse_twice, parse_constant=refuse_constant, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: not JSON: {error}") from None
    if not isinstance(tree, dict):
        raise ValueError(f"{place}: expected a JSON object, got {tree!r:.80}")
    return tree


def refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"the key '{next(name for name in counts if counts[name] > 1)}' is written twice")
    return tree


def refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word} is too large for a number")
    return number
