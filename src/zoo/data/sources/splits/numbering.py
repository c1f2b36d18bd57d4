"""Labels of rows and tags of words: collected as they are written, then read as numbers."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from zoo.data.columns.choices import normalize_choices
from zoo.data.columns.columns import Column
from zoo.data.columns.labels import DIFFERENT, LabelReader
from zoo.data.columns.lists import refuse_no_tags
from zoo.data.columns.values import is_absent
from zoo.data.formats.format import Row
from zoo.data.ids import LABEL, TAGS, Label
from zoo.data.sources.checking import as_list, normalized_rows, refuse_surrogates
from zoo.data.sources.part import SourcePart


def number_labels(
    row: Row, numbers: Mapping[tuple[str, str], Label] | None, reader: type[LabelReader]
) -> dict[str, Any]:
    """A row with its label, or its tags, as numbers.

    Args:
        numbers: from `SplitReader.find_numbers`; None: the row's label is a number already.
    """
    changed = dict(row)
    if numbers is None:
        return changed
    if LABEL in row:
        changed[LABEL] = reader.join([numbers[label_key(entry)] for entry in reader.entries(row[LABEL])])
    if TAGS in row:
        changed[TAGS] = [numbers[label_key(tag)] for tag in row[TAGS]]
    return changed


def label_key(value: object) -> tuple[str, str]:
    """A key that distinguishes labels, also those that JSON writes alike, such as 1 and "1", or not at all."""
    return type(value).__name__, str(value)


def storable_rows(rows: Iterator[dict[str, Any]], part: SourcePart) -> Iterator[dict[str, Any]]:
    """Yield rows whose labels the store can hold as they are written; they are read as numbers later.

    Raises:
        ValueError: a label is of a type that only Parquet has, such as a date.
    """
    for number, row in enumerate(rows, 1):
        label = row[LABEL]
        if not isinstance(label, str | int | float | None):
            try:
                json.dumps(label)
            except TypeError:
                allowed = "a text, a whole number or a list of names"
                raise ValueError(f"{part.line(number)}: a label must be {allowed}, got {label!r:.80}") from None
        yield row


def read_numbers(
    rows: Iterator[dict[str, Any]], reader: type[LabelReader], part: SourcePart, hides: bool
) -> Iterator[dict[str, Any]]:
    """Yield rows whose labels are numbers, with each label read as a number.

    Args:
        hides: whether labels may be withheld, as in a test split.

    Raises:
        ValueError: a label is not a number.
    """
    labels = reader((), (), names_given=False)
    for number, row in enumerate(rows, 1):
        hidden = hides and reader.hides(row[LABEL])
        label = reader.unknown if hidden else labels.read(row[LABEL], partial(part.line, number))
        yield {**row, LABEL: label}


def refuse_many(count: int, place: Callable[[], str]) -> None:
    """Raise a ValueError if a label column has so many different values that they cannot be classes.

    Args:
        place: returns the location for the message; may read files, so it is called only on error.
    """
    if count > DIFFERENT:
        said = (
            f"more than {DIFFERENT:,} different labels, too many for classes; if they are numbers, set 'labels: number'"
        )
        raise ValueError(f"{place()}: {said}")


def distinct_labels(
    part: SourcePart, columns: Mapping[str, Column], entries: Callable[[Any], Sequence[Any]]
) -> list[tuple[object, int, int | None]]:
    """Each different label, or tag of words, in a part, with the row and the list entry where it first occurs.

    Args:
        columns: input -> column, for the labels or tags, and for choices, which may determine what a label stands for.
        entries: divides a row's label into the values that are read one by one.
    """
    first: dict[tuple[str, str], tuple[object, int, int | None]] = {}
    name = TAGS if TAGS in columns else LABEL

    def normalize(row: dict[str, Any]) -> None:
        normalize_choices(row)
        if name == TAGS and is_absent(row[TAGS]):  # whether a row may withhold its tags is checked later
            row[TAGS] = []
        if name == TAGS:
            refuse_no_tags(row[TAGS])
        for text in as_list(row[name]):
            if isinstance(text, str):
                refuse_surrogates(text, name)

    for number, row in enumerate(normalized_rows(part, columns, normalize), 1):
        found: Iterable[tuple[int | None, object]] = (
            enumerate(row[TAGS], 1) if name == TAGS else ((None, each) for each in entries(row[LABEL]))
        )
        for entry, value in found:
            first.setdefault(label_key(value), (value, number, entry))
        refuse_many(len(first), partial(part.where, number))
    return list(first.values())
