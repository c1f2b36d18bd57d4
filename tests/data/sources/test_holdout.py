"""Which rows of train are held out: those with the smallest hashes, never all of them, and never only blank ones."""

import pytest

from zoo.data.formats.format import Row
from zoo.data.ids import PICTURE
from zoo.data.sources.checking import AssignedRow
from zoo.data.sources.part import Table
from zoo.data.sources.splits.holdout import ONE_TEXT, find_threshold, hold_out

SHARE = 0.3


def threshold(*rows: tuple[Row, float]) -> tuple[float | None, int]:
    assigned = [AssignedRow("train", number, row, at) for number, (row, at) in enumerate(rows, 1)]
    return find_threshold(SHARE, lambda: assigned)


@pytest.mark.parametrize(
    ("hashes", "expected", "read"),
    [
        ([0.2, 0.6, 0.1], SHARE, 2),  # no further row is read once each split has one
        ([0.6, 0.3, 0.1], SHARE, 2),  # a row whose hash is the share itself is held out
        ([0.6, 0.4, 0.8], 0.4, 3),  # the smallest, if none is as small as the share
        ([0.1, 0.3], None, 2),  # train would have no row
        ([0.4, 0.4], None, 2),
        ([0.6], None, 1),
        ([], None, 0),
    ],
)
def test_rows_up_to_the_share_or_else_the_smallest_are_held_out(
    hashes: list[float], expected: float | None, read: int
) -> None:
    assert threshold(*(({"text": "a", "label": ""}, at) for at in hashes)) == (expected, read)
    assert threshold(*(({PICTURE: b""}, at) for at in hashes)) == (expected, read)


def test_blank_rows_count_for_neither_split() -> None:
    blank: Row = {"text": " "}
    assert threshold((blank, 0.1), ({"text": "a"}, 0.2), (blank, 0.9)) == (None, 3)
    assert threshold((blank, 0.1), ({"text": "a"}, 0.5), ({"text": ["", "b"]}, 0.7)) == (0.5, 3)


def test_a_row_with_a_blank_column_counts_only_if_every_row_has_one() -> None:
    half: Row = {"source": "a", "target": ""}
    assert threshold((half, 0.1), ({"source": "a", "target": "b"}, 0.5), ({"source": "a", "target": "b"}, 0.7)) == (
        0.5,
        3,
    )
    assert threshold((half, 0.5), (half, 0.7)) == (0.5, 2)


def test_a_single_text_is_cut_at_the_share() -> None:
    assert threshold(({"text": " "}, ONE_TEXT), ({"text": "a"}, ONE_TEXT)) == (SHARE, 1)


@pytest.mark.parametrize(("alone", "expected"), [(True, ["abcdefg", "hij"]), (False, ["abcdefghij"])])
def test_only_the_single_row_of_a_whole_split_is_cut(alone: bool, expected: list[str]) -> None:
    part = Table("a.tsv", "", ["text"], lambda: {"text": ["abcdefghij"]})
    assert [one.row["text"] for one in hold_out(part, part.rows(["text"]), SHARE, 0.5, alone)] == expected


def test_of_a_part_without_rows_none_is_held_out() -> None:
    part = Table("a.tsv", "", ["text"], lambda: {"text": []})
    assert list(hold_out(part, part.rows(["text"]), SHARE, 0.5, alone=True)) == []
