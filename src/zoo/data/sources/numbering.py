"""Labels of rows, and tags of their words: collected as they are written, then read as numbers."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from zoo.data.columns.choices import settle_choices
from zoo.data.columns.columns import Column, read_input, stored_columns
from zoo.data.columns.labels import DIFFERENT, LabelReader
from zoo.data.columns.lists import refuse_no_tags
from zoo.data.columns.values import absent
from zoo.data.formats.format import Row
from zoo.data.ids import LABEL, TAGS, Label
from zoo.data.sources.checking import listed, refuse_half
from zoo.data.sources.part import SourcePart


def number_labels(
    row: Row, numbers: Mapping[tuple[str, str], Label] | None, reader: type[LabelReader]
) -> dict[str, Any]:
    """A row with its label, or its tags, as numbers; None: it has them already."""
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
        said = f"more than {DIFFERENT:,} different labels, which are no classes; numbers are 'labels: number'"
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
    stored = stored_columns(columns.values(), part.columns)
    for number, given in enumerate(part.rows(stored), 1):
        try:
            row = {name: read_input(given, name, column) for name, column in columns.items()}
            settle_choices(row)
            if TAGS in row and not absent(row[TAGS]):
                refuse_no_tags(row[TAGS])
            name = TAGS if TAGS in row else LABEL
            for text in listed(row[name]):
                if isinstance(text, str):
                    refuse_half(text, name)
        except KeyError as missing:
            raise ValueError(f"{part.line(number)}: column {missing} is missing") from None
        except ValueError as problem:
            raise ValueError(f"{part.line(number)}: {problem}") from None
        value = row[TAGS] if TAGS in row else row[LABEL]
        if TAGS not in row:
            for each in entries(value):
                first.setdefault(label_key(each), (each, number, None))
            refuse_many(len(first), partial(part.where, number))
            continue
        for entry, tag in enumerate([] if absent(value) else value, 1):  # a row that hides its tags is checked later
            first.setdefault(label_key(tag), (tag, number, entry))
        refuse_many(len(first), partial(part.where, number))
    return list(first.values())
