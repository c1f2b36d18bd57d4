"""What one value of a column of labels says."""

from collections.abc import Callable
from typing import Any

MOST_DIGITS = 4_300  # Python's limit, against texts that take long to turn into a number
LARGEST = 3.4028235e38  # which float32, in which numbers are learned, rounds to its largest


def number_of(value: Any) -> float | None:
    """A number that float32 can hold, as files of any program write it; None: it is something else.

    Python alone would also read `1_000` and digits of other scripts, and numbers that training would round to infinity.
    """
    if isinstance(value, bool) or (isinstance(value, str) and ("_" in value or not value.isascii())):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):  # the last of whole numbers with hundreds of digits
        return None
    return number if abs(number) <= LARGEST else None  # which NaN is not


def is_letter(value: Any) -> bool:
    """Whether a value is a capital letter, as choices are lettered."""
    return isinstance(value, str) and len(value) == 1 and "A" <= value <= "Z"


def position_of(value: Any) -> int | None:
    """The position of the choice that a label names by its number, from 0, or by its letter; None: it names none."""
    if is_letter(value):
        return ord(value) - ord("A")
    written = str(value)
    counts = not isinstance(value, bool | float) and is_number(written) and not written.startswith("-")
    return int(written) if counts else None


def split_names(value: Any, where: Callable[[], str]) -> list[str]:
    """The names in a list, or in a text with commas between them.

    Raises:
        ValueError: it is neither.
    """
    names = written_names(value)
    if not are_names(names):
        allowed = "a list of names, or a text with commas between them"
        raise ValueError(f"{where()}: the label must be {allowed} (task.labels: several), got {value!r:.80}")
    return [str(name) for name in names]


def written_names(value: Any) -> Any:
    """The names in a text with commas between them; anything else as it is."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def is_list(value: Any, *kinds: type) -> bool:
    """Whether a value is a list of nothing but these kinds; a truth value is no number."""
    return isinstance(value, list) and all(isinstance(one, kinds) and not isinstance(one, bool) for one in value)


def are_names(value: Any) -> bool:
    """Whether a value is a list of names, which may be whole numbers."""
    return is_list(value, str, int)


def is_number(name: str) -> bool:
    """Whether a name is a whole number; one of more digits than Python reads is a text."""
    digits = name.removeprefix("-")
    return digits.isdecimal() and len(digits) <= MOST_DIGITS


def absent(value: Any) -> bool:
    """Whether a test split writes this where it keeps the answer to itself."""
    return value is None or value in ("", -1, "-1")
