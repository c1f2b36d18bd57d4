"""Rows that repeat others, exactly and almost."""

from collections import Counter
from pathlib import Path

import pytest

from zoo.data.sources.checking import AssignedRow
from zoo.data.sources.part import Table
from zoo.data.sources.repeated import duplicates, repeats
from zoo.data.sources.repeated.duplicates import ComparedPart, RowMarks, compared_rows
from zoo.data.sources.repeated.repeats import Repeats, RowPlace, code_of
from zoo.data.tokenizers.word_cache import MULTIPLIER
from zoo.survey import near
from zoo.survey.near import NearDuplicates, shingles

WORDS = [f"word{i}" for i in range(60)]
TEXT = " ".join(WORDS)
CHANGED = " ".join([*WORDS[:59], "other"])


def test_rows_are_compared_within_a_split_and_across_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "WAITING", 3)
    rows = [("a", 0), ("b", 0), ("a", 0), ("c", 1), ("a", 1), ("a", 1), ("d", 0), ("c", 2), ("e", 2)]
    found = Repeats(tmp_path)
    for number, (text, split) in enumerate(rows, 1):
        found.add(code_of(text), RowPlace(split, 0, number))
    repetition = found.find(3)
    assert repetition.within == {0: 1, 1: 1, 2: 0}
    assert repetition.across == {(0, 1): 2, (0, 2): 0, (1, 2): 1}
    assert Counter(len({place.split for place in group}) for group in repetition.shown) == {2: 2}


def test_rows_without_a_text_repeat_nothing() -> None:
    part = Table("a.tsv", "digest", ["image"], dict)
    rows = [
        AssignedRow("train", 1, {"image": b"a"}),
        AssignedRow("train", 2, {"text": " "}),
        AssignedRow("validation", 3, {"text": "x"}),
    ]
    found = compared_rows(ComparedPart(part, [], lambda: iter(rows), lambda row: True))
    assert [(row.number, row.text) for row in found] == [(1, None), (2, None), (3, "x")]


def test_marks_of_a_part_are_read_page_after_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "PAGE", 2)
    (tmp_path / "marks").write_bytes(b"\xff\x01\x00\x80\xff")
    marks = RowMarks(tmp_path / "marks", 1, 4)
    assert [number for number in range(1, 40) if number in marks] == [1, 24]


def test_lines_that_are_repeated_often_take_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "ENTRIES", 50)
    found = Repeats(tmp_path)
    for number in range(1, 1001):
        text = "a text" if number % 10 else f"text {number}"
        found.add(code_of(text), RowPlace(number > 900, number // 500, number))
    found.flush()
    assert max(len(entries) for entries, _ in found.buckets()) < 60
    repetition = found.find(2)
    assert repetition.within == {0: 809, 1: 89} and repetition.across == {(0, 1): 90}
    assert repetition.shown == [[RowPlace(0, 0, 1), RowPlace(1, 1, 999)]]


def test_white_space_tells_no_texts_apart(tmp_path: Path) -> None:
    found = Repeats(tmp_path)
    found.add(code_of("one two"), RowPlace(0, 0, 1))
    found.add(code_of(" one\n two "), RowPlace(0, 3, 7))
    repetition = found.find(1)
    assert repetition.within == {0: 1}
    assert repetition.shown == [[RowPlace(0, 0, 1), RowPlace(0, 3, 7)]]


def test_nothing_repeats_in_no_rows(tmp_path: Path) -> None:
    assert Repeats(tmp_path).find(2).within == {0: 0, 1: 0}


def test_almost_equal_texts_are_found_and_others_are_not() -> None:
    found = NearDuplicates()
    for number, text in enumerate([TEXT, " ".join(WORDS[::-1]), CHANGED, TEXT]):
        found.add(text, code_of(text), RowPlace(number // 2, 0, number))
    result = found.find()
    assert result is not None
    assert (result["looked_at"], result["rows"], result["across_splits"]) == (3, 1, 1)
    assert [place.row for place in result["shown"][0][:2]] == [0, 2]


def test_the_sample_is_bounded_and_does_not_depend_on_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "ROWS", 10)
    texts, kept = [f"{TEXT} {i}" for i in range(50)], []
    for order in (texts, texts[::-1]):
        found = NearDuplicates()
        for number, text in enumerate(order):
            found.add(text, code_of(text), RowPlace(0, 0, number))
        kept.append(set(found.kept))
    assert kept[0] == kept[1] and 0 < len(kept[0]) <= 10


def hash_of(run: str) -> int:
    """The high half of a polynomial of a run's characters, multiplied once more."""
    power = sum((ord(c) + 1) * MULTIPLIER**place for place, c in enumerate(run))
    return power * MULTIPLIER % 2**64 >> 32


def test_a_text_that_does_not_part_its_words_is_compared_by_characters() -> None:
    assert shingles(["今天天气很好我们去公园吧他说走吧"])[0] == hash_of("今天天气很好我们去公")


def test_runs_that_differ_in_their_first_character_alone_have_other_hashes() -> None:
    assert len({hash_of(f"{letter}one two three four five") for letter in WORDS[0]}) == len(set(WORDS[0]))


@pytest.mark.parametrize("words", [["a"], ["é", "bb"] * 4, ["국어", "x\x1cy", "🙂"] * 900], ids=len)
def test_each_run_of_words_has_its_hash(words: list[str]) -> None:
    kept = words[: near.WORDS]
    runs = [" ".join(kept[i : i + 5]) for i in range(max(1, len(kept) - 4))]
    assert shingles(words) == [hash_of(run) for run in runs]


def test_without_datasketch_nothing_is_said_of_near_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "MinHash", None)
    found = NearDuplicates()
    found.add(TEXT, code_of(TEXT), RowPlace(0, 0, 1))
    assert found.find() is None


def test_a_long_text_has_the_code_of_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = code_of(TEXT)
    monkeypatch.setattr(repeats, "PART", 20)
    assert code_of(TEXT) == code_of(TEXT.replace(" ", "  \n")) == code_of(f" {TEXT}\n") == whole
    assert code_of(CHANGED) != whole
