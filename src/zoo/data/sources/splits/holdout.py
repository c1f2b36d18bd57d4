"""Holds rows of train out for validation: by a hash of each row or, of a single text, its end."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from zoo.data.columns.pictures import stored_bytes
from zoo.data.formats.format import Row
from zoo.data.ids import PICTURE
from zoo.data.sources.checking import AssignedRow, as_list, text_columns
from zoo.data.sources.file_cache import remember
from zoo.data.sources.origin import TRAIN, VALIDATION
from zoo.data.sources.part import SourcePart

ONE_TEXT = -1.0  # `at` of rows of a source's only text, which is cut into train and validation


def find_threshold(share: float, rows: Callable[[], Iterable[AssignedRow]]) -> tuple[float | None, int]:
    """The validation share, or the smallest hash of a row with texts if that is larger; stops once it is known.

    Args:
        rows: reads the rows of train; called again if none of them has text in every column.

    Returns:
        The threshold, None if every row would be held out; and the number of rows that were read for it.
    """
    for every in (True, False):  # the second time since a column that no form reads may be blank in all rows
        least, most, count = 1.0, 0.0, 0
        for count, assigned in enumerate(rows(), 1):
            if has_text(assigned, every):
                least, most = min(least, assigned.at), max(most, assigned.at)
            if least <= share < most or assigned.at == ONE_TEXT:
                return share, count
        if most > max(share, least):
            return max(share, least), count
    return None, count


def has_text(assigned: AssignedRow, every: bool) -> bool:
    """Whether a row can be held out: a row whose texts are blank yields no document.

    Args:
        every: whether each text column must have text, or only one of them: a form may read fewer columns.
    """
    columns = [as_list(assigned.row[name]) for name in text_columns(assigned.row)]
    filled = [any(text.strip() for text in texts) for texts in columns]
    return all(filled) if every else any(filled)


def hold_out(
    part: SourcePart, rows: Iterator[dict[str, Any]], validation_share: float, threshold: float, alone: bool
) -> Iterator[AssignedRow]:
    """Yield rows with their split, train or validation, by a hash of each; of a single text, the end is validation.

    Args:
        validation_share: fraction of a single text that becomes validation.
        threshold: rows whose hash is at most this are held out.
        alone: whether the part is the only one of the split.
    """
    # two rows show whether the split is a single text
    first, second = next(rows, None), next(rows, None)
    early = [row for row in (first, second) if row is not None]
    one = alone and (second is None or part.is_one_text)
    if one and first is not None and list(first) == ["text"] and isinstance(first["text"], str):
        whole = len(first["text"]) if second is None else count_characters(part)
        yield from cut_text(chain(early, rows), int(whole * (1 - validation_share)))
        return
    for number, row in enumerate(chain(early, rows), 1):
        at = hash_fraction(split_key(row, part, number))
        yield AssignedRow(TRAIN if at > threshold else VALIDATION, number, row, at)


def count_characters(part: SourcePart) -> int:
    """The number of characters of a part that is a single text, stored as several rows."""
    return int(remember(["characters", part.digest], lambda: sum(len(row["text"]) for row in part.rows(["text"]))))


def cut_text(rows: Iterable[dict[str, Any]], left: int) -> Iterator[AssignedRow]:
    """Yield the rows of a single text with their split: its first `left` characters are train, the rest validation."""
    for number, row in enumerate(rows, 1):
        text = row["text"]
        if left or number == 1:
            yield AssignedRow(TRAIN, number, {"text": text[:left]}, ONE_TEXT)
        if left < len(text):
            yield AssignedRow(VALIDATION, number, {"text": text[left:]}, ONE_TEXT)
        left = max(0, left - len(text))


def split_key(row: Row, part: SourcePart, number: int) -> str:
    """The text whose hash decides a row's split: of its image if it has one, else its texts, else its number."""
    texts = tuple(row[name] for name in text_columns(row))
    return image_hash(row, part, number) or str(texts or number)


def image_hash(row: Row, part: SourcePart, number: int) -> str:
    """A hash of a row's image; '' if it has none."""
    if PICTURE not in row:
        return ""
    try:
        stored = stored_bytes(row[PICTURE], part.folder, "")
    except ValueError:  # again, for the message: finding where a row is may read its files, so only on error
        stored = stored_bytes(row[PICTURE], part.folder, part.where(number))
    return hashlib.sha256(stored).hexdigest()


def hash_fraction(document: str) -> float:
    """A hash of a text, as a number from 0 to 1."""
    return int.from_bytes(hashlib.sha256(document.encode()).digest()[:8], "big") / 2**64
