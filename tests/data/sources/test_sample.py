"""Texts that a tokenizer is trained on: all of a small source, a share of a large one that nobody's order changes."""

from itertools import product
from typing import Any

import pytest
from written_rows import Given, reader

from zoo.data.sources import sample
from zoo.data.sources.rows import SplitRows
from zoo.data.sources.sample import sample_texts, word_pattern

TEXTS = [f"text {number} of many" for number in range(400)]


def split(**columns: list[Any]) -> SplitRows:
    return SplitRows(reader(Given(train=columns, validation=columns)), "train")


def test_a_small_source_is_taken_whole_column_after_column() -> None:
    found = sample_texts(split(source=["a", "b"], target=["c", "dd"]))
    assert found.texts == ["a", "b", "c", "dd"] and found.characters == found.seen == 5
    assert sample_texts(split(words=[["ab", "c"]], tags=[["N", "V"]])).texts == ["ab c"]


@pytest.mark.parametrize("texts", [TEXTS, TEXTS * 3], ids=["different", "repeated"])
def test_a_sample_fits_and_does_not_depend_on_the_order(texts: list[str]) -> None:
    most = sum(map(len, texts)) // 3
    one, other = sample_texts(split(text=texts), most), sample_texts(split(text=texts[::-1]), most)
    assert sorted(one.texts) == sorted(other.texts) and most // 3 < one.characters <= most
    assert one.seen == sum(map(len, texts)) and one.characters == sum(map(len, one.texts))


def test_short_texts_are_bounded_by_their_number_and_equal_ones_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "ROWS", 100)
    found = sample_texts(split(text=[*TEXTS, *["same"] * 300, ""])).texts
    assert 25 < len(set(found)) <= 100 and "" not in found and found.count("same") in (0, 300)
    assert len(sample_texts(split(text=["a", "b"] * 300)).texts) == 600


def test_texts_of_many_different_words_are_bounded_by_those(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "WORDS_SIZE", 800)
    found = sample_texts(split(text=[*TEXTS, "은는"])).texts
    words = {word for text in found for word in text.split()}
    assert 400 < sum(len(word.encode()) for word in words) <= 800
    assert len(sample_texts(split(text=["the same words"] * 300)).texts) == 300


@pytest.mark.parametrize(
    "letters",
    ["\u0915\u093f\u0928\u0940", "\u0e01\u0e34\u0e19\u0e35", "a\u00d7b\u2192"],
    ids=["Hindi", "Thai", "symbols"],
)
def test_words_are_not_cut_at_marks_and_symbols(letters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "WORDS_SIZE", 2000)
    words = ["".join(drawn) for drawn in product(letters, repeat=5)]  # made of few pieces, each new to a trainer
    found = sample_texts(split(text=words)).texts
    assert 500 < sum(len(word.encode()) for word in found) <= 2000


def test_words_are_apart_from_punctuation() -> None:
    found = word_pattern().findall("don't (\u0939\u093f\u0928)_x, \u300c\u672c\u5f53\uff1f\u300d\u3068!?!")
    apart = [
        "don",
        "'",
        "t",
        "(",
        "\u0939\u093f\u0928",
        ")_",
        "x",
        ",",
        "\u300c",
        "\u672c\u5f53",
        "\uff1f\u300d",
        "\u3068",
        "!?!",
    ]
    assert found == apart


def test_more_rows_leave_what_was_chosen_of_the_others() -> None:
    most = sum(map(len, TEXTS)) // 3
    before, after = set(sample_texts(split(text=TEXTS[:300]), most).texts), sample_texts(split(text=TEXTS), most).texts
    assert {text for text in after if text in TEXTS[:300]} <= before


def test_one_huge_text_is_sampled_in_pieces_that_end_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "LONG", 50)
    text = "".join(f"line {number}\n" for number in range(100)) + "x" * 120
    whole = sample_texts(SplitRows(reader(Given(train={"text": [text, "b"]}, validation={"text": ["a"]})), "train"))
    assert "".join(whole.texts) == text + "b" and all(len(piece) <= 50 for piece in whole.texts)
    assert all(piece.endswith("\n") for piece in whole.texts[:10])
    for most in (100, 300):
        assert 0 < sample_texts(split(text=[text, "b"]), most).characters <= most
