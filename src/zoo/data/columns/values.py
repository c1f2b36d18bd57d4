"""Tests and conversions of single values in label and list columns."""

from collections.abc import Callable
from typing import Any

MOST_DIGITS = 4_300  # Python's limit for int(text), which takes quadratic time
LARGEST = 3.4028235e38  # the largest float32, which is what numbers are trained in


def number_of(value: Any) -> float | None:
    """The value as a number that float32 can hold; None if it is not one.

    Python alone would also read `1_000`, digits of other scripts, bytes, and numbers that float32 rounds to infinity.
    """
    if isinstance(value, bool | bytes) or (isinstance(value, str) and ("_" in value or not value.isascii())):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):  # OverflowError: whole numbers with hundreds of digits
        return None
    return number if abs(number) <= LARGEST else None  # false for NaN


def is_letter(value: Any) -> bool:
    """Whether a value is a single capital letter from A to Z, which can label a choice."""
    return isinstance(value, str) and len(value) == 1 and "A" <= value <= "Z"


def position_of(value: Any) -> int | None:
    """The index of the choice that a label names, by its number from 0 or its letter; None if it is neither."""
    if is_letter(value):
        return ord(value) - ord("A")
    written = str(value)
    counts = not isinstance(value, bool | float) and is_number(written) and not written.startswith("-")
    return int(written) if counts else None


def split_names(value: Any, where: Callable[[], str]) -> list[str]:
    """The names in a list, or in a text with commas between them.

    Raises:
        ValueError: the value is neither.
    """
    names = written_names(value)
    if names is None:
        found = "the row has no label: it is null, or all columns of classes are empty or -1"
        raise ValueError(f"{where()}: {found}; if it has no class, write an empty list, or 0 in each column")
    if not are_names(names):
        allowed = "a list of names, or a text with commas between them"
        raise ValueError(f"{where()}: the label must be {allowed} (task.labels: several), got {value!r:.80}")
    return [str(name) for name in names]


def written_names(value: Any) -> Any:
    """The names in a text with commas between them; any other value unchanged."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def is_list(value: Any, *kinds: type) -> bool:
    """Whether a value is a list of nothing but these types; bools do not count as int."""
    return isinstance(value, list) and all(isinstance(one, kinds) and not isinstance(one, bool) for one in value)


def are_names(value: Any) -> bool:
    """Whether a value is a list of names: texts or whole numbers."""
    return is_list(value, str, int)


def is_number(name: str) -> bool:
    """Whether a name is a whole number, of at most as many digits as Python reads."""
    digits = name.removeprefix("-")
    return digits.isdecimal() and len(digits) <= MOST_DIGITS


def is_absent(value: Any) -> bool:
    """Whether a test split withholds a label or tags by writing this value."""
    return value is None or value in ("", -1, "-1")
