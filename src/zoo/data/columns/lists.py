"""Checks of list columns: words with their tags, and choices."""

from collections.abc import Sequence
from typing import Any

from zoo.data.columns.values import are_names, is_absent, is_letter, is_list, position_of
from zoo.data.ids import CHOICES, LABEL, TAGS, WORDS
from zoo.wording import counted

MOST_CHOICES = 64


def check_lists(row: dict[str, Any], hides: bool) -> None:
    """Check words, tags and choices.

    Args:
        hides: whether a row may withhold its tags; each of its words then gets the tag None.

    Raises:
        ValueError: words are not a list of texts, words and tags differ in number, or there are fewer than two choices,
            too many, or an empty one.
    """
    if WORDS in row:
        words = row[WORDS]
        if not is_list(words, str):
            raise ValueError(f"'{WORDS}' must be a list of texts, got {words!r:.80}")
        if hides and is_absent(row.get(TAGS)):
            row[TAGS] = [None] * len(words)
        elif TAGS in row:
            check_tags(words, row[TAGS])
    if CHOICES in row:
        choices = row[CHOICES]
        if not is_list(choices, str) or not 2 <= len(choices) <= MOST_CHOICES:
            raise ValueError(f"'{CHOICES}' must be a list of 2 to {MOST_CHOICES} texts, got {choices!r:.80}")
        if empty := [number for number, text in enumerate(choices, 1) if not text.strip()]:
            raise ValueError(f"choice {empty[0]} of {len(choices)} is empty")
        label, position = row.get(LABEL), position_of(row.get(LABEL))
        if position is not None and position >= len(choices):
            first = "lettered from A" if is_letter(label) else "counted from 0"
            raise ValueError(f"the label is {label}, but the {len(choices)} choices are {first}")


def check_tags(words: Sequence[str], tags: Any) -> None:
    """Raise a ValueError unless there is one tag for each word."""
    if is_absent(tags):
        raise ValueError("the words have no tags")
    refuse_no_tags(tags)
    if len(tags) != len(words):
        raise ValueError(f"{counted(len(words), 'word')}, but {counted(len(tags), 'tag')}; every word needs one")


def refuse_no_tags(tags: Any) -> None:
    """Raise a ValueError if the tags of a row are not a list of texts or whole numbers."""
    if not are_names(tags):
        raise ValueError(f"'{TAGS}' must be a list of texts or whole numbers, got {tags!r:.80}")
