"""Labels of rows, and tags of their words: collected as they are written, then read as numbers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zoo.data.columns.labels import DIFFERENT, LabelReader
from zoo.data.formats.format import Row
from zoo.data.ids import LABEL, TAGS, Label
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


def refuse_many(count: int, place: str) -> None:
    """Raise a ValueError where a column of labels holds so many different values that they cannot be classes."""
    if count > DIFFERENT:
        said = f"more than {DIFFERENT:,} different labels, which are no classes; numbers are 'labels: number'"
        raise ValueError(f"{place}: {said}")


def labels_of(
    part: SourcePart, column: str, tags: bool, entries: Callable[[Any], Sequence[Any]]
) -> list[tuple[object, int, int | None]]:
    """Each different label, or tag of words, of a part, and the row and the entry where it stands first.

    Args:
        entries: of a row's label.
    """
    first: dict[tuple[str, str], tuple[object, int, int | None]] = {}
    for number, row in enumerate(part.rows([column]), 1):
        if column not in row:
            raise ValueError(f"{part.line(number)}: column '{column}' is missing")
        value = row[column]
        if not tags:
            for each in entries(value):
                first.setdefault(label_key(each), (each, number, None))
            refuse_many(len(first), part.where(number))
            continue
        for entry, tag in enumerate(value if isinstance(value, list) else [], 1):
            if isinstance(tag, str | int):  # anything else is refused with its row
                first.setdefault(label_key(tag), (tag, number, entry))
        refuse_many(len(first), part.where(number))
    return list(first.values())
