"""Rows as forms read them: texts are checked, train is separated from held-out rows, and train has one text per row."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from zoo.data.columns.answers import normalize_answers
from zoo.data.columns.choices import normalize_choices
from zoo.data.columns.columns import Column, read_input, stored_columns
from zoo.data.columns.lists import check_lists
from zoo.data.columns.messages import normalize_messages
from zoo.data.columns.pictures import bytes_or_path
from zoo.data.formats.format import Row
from zoo.data.ids import LISTS, NOT_TEXT, PICTURE
from zoo.data.sources.origin import TRAIN
from zoo.data.sources.part import SourcePart


class AssignedRow(NamedTuple):
    """A row and its split.

    Args:
        number: of the row in its part, from 1.
        at: a hash of the row's content, from 0 to 1: rows with the smallest ones are held out.
    """

    split: str
    number: int
    row: Row
    at: float = 1.0


def text_columns(names: Iterable[str]) -> list[str]:
    """The columns that hold texts or lists of texts."""
    return [name for name in names if name not in NOT_TEXT]


def texts_in(row: Row) -> list[str]:
    """The texts of a row, including those in lists."""
    return [text for name in text_columns(row) for text in as_list(row[name])]


def as_list(value: Any) -> list[Any]:
    """The value itself if it is a list, else a list of it."""
    return value if isinstance(value, list) else [value]


def checked_rows(
    part: SourcePart, chosen: Mapping[str, Column], hides: bool, unread: frozenset[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a part, checked, with their columns named by input.

    Args:
        chosen: input -> column.
        hides: whether rows may withhold their tags.
        unread: columns that no row may have: they are missing in the first row, so later values would be ignored.

    Raises:
        ValueError: a column is missing, or was missing before, or a text is not a text or a list of texts.
    """
    texts, kinds = text_columns(chosen), dict[str, type]()

    def normalize(row: dict[str, Any]) -> None:
        normalize_messages(row)
        normalize_choices(row)
        for name in texts:
            check_text(row[name], name)
            if kinds.setdefault(name, type(row[name])) is not type(row[name]):
                kind = "a list of texts" if kinds[name] is list else "a text"
                raise ValueError(f"'{name}' must be {kind}, as in the rows before, got {row[name]!r:.80}")
        check_lists(row, hides)
        normalize_answers(row)
        if PICTURE in row:
            bytes_or_path(row[PICTURE])  # raises an error for any other value

    return normalized_rows(part, chosen, normalize, unread)


def normalized_rows(
    part: SourcePart,
    chosen: Mapping[str, Column],
    normalize: Callable[[dict[str, Any]], None],
    unread: frozenset[str] = frozenset(),
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a part, with their columns named by input; an error names the line of its row.

    Args:
        normalize: converts a row, in place, to what forms read, and checks it.
        chosen, unread: as in `checked_rows`.
    """
    stored = stored_columns(chosen.values(), part.columns)
    for number, given in enumerate(part.rows(stored), 1):
        try:
            if not unread.isdisjoint(given):
                refuse_late(unread, given)
            row = {name: read_input(given, name, column) for name, column in chosen.items()}
            normalize(row)
        except KeyError as missing:
            raise ValueError(f"{part.line(number)}: column {missing} is missing") from None
        except ValueError as problem:
            raise ValueError(f"{part.line(number)}: {problem}") from None
        yield row


def refuse_late(unread: Collection[str], given: Row) -> None:
    """Raise a ValueError that names the column which the first row lacks."""
    column = next(name for name in given if name in unread)
    raise ValueError(
        f"column '{column}' is missing in the first row, so it would not be read; "
        "give every row the same columns, or name those to read under 'columns'"
    )


def check_text(value: Any, name: str) -> None:
    """Raise a ValueError if a value is not a text or a list of texts, or has a lone surrogate."""
    several = isinstance(value, list) and (value or name in LISTS)
    for number, text in enumerate(value if several else [value], start=1):
        if not isinstance(text, str):
            entry = f": entry {number}" if several else ""
            raise ValueError(f"'{name}'{entry} must be a text, got {text!r:.200}")
        refuse_surrogates(text, name)


def refuse_surrogates(text: str, name: str) -> None:
    """Raise a ValueError if a text has a lone surrogate, which JSON can encode and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"character {error.start + 1} is a lone surrogate"
        raise ValueError(f"'{name}': {half}; expected text in UTF-8") from None


def expand_texts(rows: Iterable[AssignedRow], place: str) -> Iterator[AssignedRow]:
    """Yield one row per text for rows of train with a list of texts; in other splits, drop blank texts from lists.

    Raises:
        ValueError: a row of train has lists of texts in two columns.
    """
    for assigned in rows:
        lists = [n for n in text_columns(assigned.row) if n not in LISTS and isinstance(assigned.row[n], list)]
        if not lists:
            yield assigned
        elif assigned.split != TRAIN:
            filled = {name: [text for text in assigned.row[name] if text.strip()] or [""] for name in lists}
            yield assigned._replace(row={**assigned.row, **filled})
        elif len(lists) > 1:
            raise ValueError(f"{place}: only one column may hold lists of texts, got {' and '.join(lists)}")
        else:
            for text in assigned.row[lists[0]]:
                yield assigned._replace(row={**assigned.row, lists[0]: text})
