"""Numbers in words: right, different in every split, the same every time."""

import pytest

from zoo.data.builtin.numbers import Numbers, spell
from zoo.data.formats.format import Row


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (407, "four hundred seven"),
        (1000, "one thousand"),
        (21_311, "twenty one thousand three hundred eleven"),
        (999_999, "nine hundred ninety nine thousand nine hundred ninety nine"),
    ],
)
def test_a_number_is_spelled(number: int, words: str) -> None:
    assert spell(number) == words


def test_no_two_numbers_have_the_same_words() -> None:
    assert len({spell(number) for number in range(30_000)}) == 30_000


def read(split: str) -> list[Row]:
    (part,) = Numbers().parts(split)
    return list(part.rows(part.columns))


def test_splits_share_no_number_and_have_their_sizes() -> None:
    sources = {split: [row["source"] for row in read(split)] for split in Numbers().splits()}
    assert {split: len(rows) for split, rows in sources.items()} == {"train": 20_000, "validation": 500, "test": 500}
    assert len({row for rows in sources.values() for row in rows}) == 21_000


def test_the_rows_are_the_same_every_time() -> None:
    rows = read("test")
    assert rows == read("test")
    assert all(spell(int(row["source"].replace(" ", ""))) == row["target"] for row in rows)
