"""Columns of lists, words with their tags and choices: checked, and tags as numbers."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from datasets import Dataset

from zoo.data.ids import CHOICES, TAGS, WORDS
from zoo.data.sources.labels import Labels, absent

BATCH = 1000


class Where(Protocol):
    """Where a row stands, counted from 0, and perhaps the entry of a list in it, as messages say it."""

    def __call__(self, row: int, entry: int | None = None) -> str: ...


def check_lists(data: Dataset, where: Where) -> None:
    """Check words, tags and choices.

    Raises:
        ValueError: a list of words is none, words and tags are not equally many, or choices are fewer than two or
            empty.
    """
    if WORDS in data.column_names:
        for row, words in enumerate(each(data, WORDS)):
            if not is_list(words, str):
                raise ValueError(f"{where(row)}: '{WORDS}' must be a list of texts, got {words!r:.80}")
    if WORDS in data.column_names and TAGS in data.column_names:
        for row, (words, tags) in enumerate(zip(each(data, WORDS), each(data, TAGS), strict=True)):
            check_tags(words, tags, where(row))
    if CHOICES in data.column_names:
        for row, choices in enumerate(each(data, CHOICES)):
            if not is_list(choices, str) or len(choices) < 2:
                raise ValueError(f"{where(row)}: '{CHOICES}' must be a list of at least two texts, got {choices!r:.80}")
            if empty := [number for number, text in enumerate(choices, 1) if not text.strip()]:
                raise ValueError(f"{where(row)}: choice {empty[0]} of {len(choices)} is empty")


def is_list(value: Any, *kinds: type) -> bool:
    """Whether a value is a list of nothing but these kinds; a truth value is no number."""
    return isinstance(value, list) and all(isinstance(one, kinds) and not isinstance(one, bool) for one in value)


def check_tags(words: Sequence[str], tags: Any, place: str) -> None:
    """Raise a ValueError where the tags are not one for each word."""
    if absent(tags):  # which is refused later, unless it is a test split's
        return
    if not is_list(tags, str, int):
        raise ValueError(f"{place}: '{TAGS}' must be a list of texts or whole numbers, got {tags!r:.80}")
    if len(tags) != len(words):
        raise ValueError(f"{place}: {len(words)} words, but {len(tags)} tags; every word needs one")


def each(data: Dataset, column: str) -> Iterator[Any]:
    """The values of a column, read in batches."""
    for batch in data.select_columns([column]).iter(BATCH):
        yield from batch[column]


def number_tags(data: Dataset, labels: Labels, where: Where, hides: bool) -> list[list[int]]:
    """Each row's tags as numbers.

    Args:
        hides: whether a row may keep its tags to itself, which gives each of its words -1.

    Raises:
        ValueError: a tag that is none of the labels.
    """
    found = []
    for row, (words, tags) in enumerate(zip(each(data, WORDS), each(data, TAGS), strict=True)):
        if hides and absent(tags):
            found.append([-1] * len(words))
            continue
        if absent(tags):
            raise ValueError(f"{where(row)}: the words have no tags")
        known = [-1 if hides and absent(tag) else labels.index.get(str(tag), -2) for tag in tags]
        if -2 in known:
            wrong = known.index(-2)
            labels.read(tags[wrong], where(row, wrong))
        found.append(known)
    return found
