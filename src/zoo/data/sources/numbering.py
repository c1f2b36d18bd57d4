"""Labels of rows, and tags of their words: collected as they are written, then read as numbers."""

from collections.abc import Mapping
from typing import Any

from zoo.data.formats.format import Row
from zoo.data.ids import LABEL, TAGS, Label
from zoo.data.sources.part import SourcePart


def number_labels(row: Row, numbers: Mapping[tuple[str, str], Label]) -> dict[str, Any]:
    """A row with its label, or its tags, as numbers."""
    changed = dict(row)
    if LABEL in row:
        changed[LABEL] = numbers[label_key(row[LABEL])]
    if TAGS in row:
        changed[TAGS] = [numbers[label_key(tag)] for tag in row[TAGS]]
    return changed


def label_key(value: object) -> tuple[str, str]:
    """What tells labels apart that JSON writes alike or not at all."""
    return type(value).__name__, str(value)


def labels_of(part: SourcePart, column: str, tags: bool) -> list[tuple[object, int, int | None]]:
    """Each different label, or tag of words, of a part, and the row and the entry where it stands first."""
    first: dict[tuple[str, str], tuple[object, int, int | None]] = {}
    for number, row in enumerate(part.rows([column]), 1):
        if column not in row:
            raise ValueError(f"{part.line(number)}: column '{column}' is missing")
        value = row[column]
        if not tags:
            first.setdefault(label_key(value), (value, number, None))
            continue
        for entry, tag in enumerate(value if isinstance(value, list) else [], 1):
            if isinstance(tag, str | int):  # anything else is refused with its row
                first.setdefault(label_key(tag), (tag, number, entry))
    return list(first.values())
