"""Choices with labels, as in ARC and OpenBookQA: converted to texts, and the row's label to a number."""

from collections.abc import Mapping
from typing import Any

from zoo.data.columns.values import is_absent
from zoo.data.ids import CHOICES, LABEL
from zoo.wording import first_few

ALLOWED = "a list of texts, a map of two lists, 'text' and 'label', or a list of maps of one text and one label"


def normalize_choices(row: dict[str, Any]) -> None:
    """Replace a row's labeled choices by their texts, and its label by the index of the right choice.

    Raises:
        ValueError: a choice lacks its text or its label, or the row's label is not that of exactly one choice.
    """
    if CHOICES not in row or (labeled := read_choices(row[CHOICES])) is None:
        return
    texts, labels = labeled
    row[CHOICES] = texts
    if LABEL in row and not is_absent(row[LABEL]):
        if labels.count(str(row[LABEL])) != 1:
            raise ValueError(f"the label {row[LABEL]!r:.80} must be that of one choice: {first_few(labels)}")
        row[LABEL] = labels.index(str(row[LABEL]))


def read_choices(given: Any) -> tuple[list[Any], list[str]] | None:
    """The texts and the labels of choices; None if the choices have no labels.

    Raises:
        ValueError: there is not one label for each text.
    """
    if isinstance(given, Mapping):
        texts, labels = given.get("text"), given.get("label")
    elif isinstance(given, list) and given and all(isinstance(one, Mapping) for one in given):
        texts, labels = ([one.get(key) for one in given] for key in ("text", "label"))
    else:
        return None
    if not isinstance(texts, list) or not isinstance(labels, list) or len(texts) != len(labels) or None in labels:
        raise ValueError(f"'{CHOICES}' must be {ALLOWED}; got {given!r:.80}")
    return texts, [str(label) for label in labels]
