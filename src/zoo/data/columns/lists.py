"""Columns of lists, words with their tags and choices: checked."""

from collections.abc import Sequence
from typing import Any

from zoo.data.columns.values import absent, is_letter, position_of
from zoo.data.ids import CHOICES, LABEL, TAGS, WORDS
from zoo.registry import counted

MOST_CHOICES = 64


def check_lists(row: dict[str, Any], hides: bool = False) -> None:
    """Check words, tags and choices.

    Args:
        hides: whether a row may keep its tags to itself; each of its words then has the tag None.

    Raises:
        ValueError: a list of words is none, words and tags are not equally many, or choices are fewer than two or
            empty.
    """
    if WORDS in row and not is_list(row[WORDS], str):
        raise ValueError(f"'{WORDS}' must be a list of texts, got {row[WORDS]!r:.80}")
    if WORDS in row and TAGS in row:
        check_tags(row[WORDS], row[TAGS], hides)
    if WORDS in row and hides and absent(row.get(TAGS)):
        row[TAGS] = [None] * len(row[WORDS])
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


def is_list(value: Any, *kinds: type) -> bool:
    """Whether a value is a list of nothing but these kinds; a truth value is no number."""
    return isinstance(value, list) and all(isinstance(one, kinds) and not isinstance(one, bool) for one in value)


def check_tags(words: Sequence[str], tags: Any, hides: bool) -> None:
    """Raise a ValueError where the tags are not one for each word."""
    if absent(tags) and hides:
        return
    if absent(tags):
        raise ValueError("the words have no tags")
    refuse_no_tags(tags)
    if len(tags) != len(words):
        raise ValueError(f"{counted(len(words), 'word')}, but {counted(len(tags), 'tag')}; every word needs one")


def refuse_no_tags(tags: Any) -> None:
    """Raise a ValueError where the tags of a row are no list of tags."""
    if not is_list(tags, str, int):
        raise ValueError(f"'{TAGS}' must be a list of texts or whole numbers, got {tags!r:.80}")
