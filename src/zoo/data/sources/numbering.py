"""Labels of rows, and tags of their words: collected as they are written, then read as numbers."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from zoo.data.columns.choices import settle_choices
from zoo.data.columns.columns import Column
from zoo.data.columns.labels import DIFFERENT, LabelReader
from zoo.data.columns.lists import refuse_no_tags
from zoo.data.columns.values import absent
from zoo.data.formats.format import Row
from zoo.data.ids import LABEL, TAGS, Label
from zoo.data.sources.checking import listed, refuse_half, settled_rows
from zoo.data.sources.part import SourcePart


def number_labels(
    row: Row, numbers: Mapping[tuple[str, str], Label] | None, reader: type[LabelReader]
) -> dict[str, Any]:
    """A row with its label, or its tags, as numbers.

    Args:
        numbers: as `SplitReader.find_numbers` gives them; None: the row has its own.
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
    """What tells labels apart that JSON writes alike or not at all."""
    return type(value).__name__, str(value)


def storable(rows: Iterator[dict[str, Any]], part: SourcePart) -> Iterator[dict[str, Any]]:
    """Rows whose labels a store can keep as they are written; what they stand for is found out later.

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


def refuse_many(count: int, place: Callable[[], str]) -> None:
    """Raise a ValueError where a column of labels holds so many different values that they cannot be classes.

    Args:
        place: names the place; may read files, so it is asked for a refusal alone.
    """
    if count > DIFFERENT:
        said = (
            f"more than {DIFFERENT:,} different labels, too many for classes; if they are numbers, set 'labels: number'"
        )
        raise ValueError(f"{place()}: {said}")


def labels_of(
    part: SourcePart, columns: Mapping[str, Column], entries: Callable[[Any], Sequence[Any]]
) -> list[tuple[object, int, int | None]]:
    """Each different label, or tag of words, of a part, and the row and the entry where it stands first.

    Args:
        columns: input -> column, of the labels or tags, and of choices, which may say what a label stands for.
        entries: of a row's label.
    """
    first: dict[tuple[str, str], tuple[object, int, int | None]] = {}
    name = TAGS if TAGS in columns else LABEL

    def settle(row: dict[str, Any]) -> None:
        settle_choices(row)
        if name == TAGS and absent(row[TAGS]):  # whether a row may hide its tags is checked later
            row[TAGS] = []
        if name == TAGS:
            refuse_no_tags(row[TAGS])
        for text in listed(row[name]):
            if isinstance(text, str):
                refuse_half(text, name)

    for number, row in enumerate(settled_rows(part, columns, settle), 1):
        found: Iterable[tuple[int | None, object]] = (
            enumerate(row[TAGS], 1) if name == TAGS else ((None, each) for each in entries(row[LABEL]))
        )
        for entry, value in found:
            first.setdefault(label_key(value), (value, number, entry))
        refuse_many(len(first), partial(part.where, number))
    return list(first.values())
