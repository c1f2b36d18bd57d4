"""What several processes count of the rows of a task, put together, against one that counts all."""

import json
import math
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import pytest
from test_survey import look

from zoo.data.sources.repeated.repeats import RowPlace, code_of
from zoo.survey import near, rows
from zoo.survey.guessing import score_guess
from zoo.survey.rows import NumberTally, RowTally, is_empty, label_counts
from zoo.survey.survey import TaskSurvey


def test_large_numbers_that_differ_little_have_their_squared_error() -> None:
    tally = NumberTally()
    for number in range(20):
        tally.add(1.7e9 + number)
    assert (tally.mean, tally.variance) == (1.7e9 + 9.5, pytest.approx(33.25))


def test_numbers_that_were_counted_apart_have_the_same_mean_and_variance_to_the_last_bit() -> None:
    numbers = [0.1 * n for n in range(50)] + [1e6, -1.5, 1e-300, 1e300, 5e-324]
    whole, parts = NumberTally(), [NumberTally(), NumberTally(), NumberTally()]
    for place, number in enumerate(numbers):
        whole.add(number)
        parts[place % 2].add(number)
    for part in json.loads(json.dumps([vars(each) for each in parts[1:]])):
        parts[0].join(NumberTally(**part))
    assert parts[0] == whole and whole.variance == math.inf
    whole.add(math.nan)  # a label that a test split withholds
    assert parts[0] == whole
    assert (whole.count, whole.mean, whole.least) == (55, pytest.approx(1e300 / 55), -1.5)


def test_bytes_are_those_of_a_file_and_characters_those_of_a_text() -> None:
    tally = RowTally()
    tally.add({"text": "é漢 "})
    assert (tally.rows, tally.characters, tally.bytes) == (1, 3, 6)


def test_every_label_is_counted_whichever_process_met_it_first() -> None:
    seen = [RowTally(), RowTally()]
    for number in range(20_000):
        seen[number % 2].add({"text": "a", "label": str(number * 3 // 4)})
    seen[1].add({"text": "a", "label": 0.5})
    whole = RowTally()
    for each in seen:
        whole.join(json.loads(json.dumps(each.plain())))
    assert len(whole.labels) == 15_000 and whole.labels.total() == 20_000 and whole.numbers.mean == 0.5


def test_labels_that_are_known_are_counted_on_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "DIFFERENT", 2)
    tally = RowTally()
    for label in "abcabca":
        tally.add({"text": "a", "label": label})
    assert tally.labels == {"a": 3, "b": 2}


def test_the_split_that_a_model_is_trained_on_is_train_wherever_the_task_names_it() -> None:
    def first(*names: str) -> str:
        return TaskSurvey(Mock(), Mock(), dict.fromkeys(names, Mock()), None).first

    assert first("validation", "train") == "train" and first("validation", "test") == "validation"


def test_near_duplicates_share_four_fifths_of_their_runs_of_words() -> None:
    words = [f"word{number}" for number in range(60)]
    last, two = [*words[:-1], "another"], [word + "s" * (number in (30, 55)) for number, word in enumerate(words)]
    found, expected = near.NearDuplicates(), []
    for number, (split, given) in enumerate([(0, words), (0, last), (1, two), (1, ["first", *words[1:]])], 1):
        text = " ".join(given)
        found.add(text, code_of(text), RowPlace(split, 0, number))
        counts = found.find()
        assert counts is not None
        expected.append((counts["looked_at"], counts["rows"], counts["across_splits"]))
    assert expected == [(1, 0, 0), (2, 1, 0), (3, 1, 0), (4, 2, 1)]


def test_short_texts_are_near_duplicates_by_their_characters() -> None:
    found = near.NearDuplicates()
    for number, text in enumerate(["a fox", "my dogs", "one unbelievable trip", "one unbelievable trips"], 1):
        found.add(text, code_of(text), RowPlace(0, 0, number))
    counts = found.find()
    assert counts is not None and (counts["looked_at"], counts["rows"]) == (4, 1)
    assert [(first.row, second.row) for first, second, _ in counts["shown"]] == [(3, 4)]


def test_texts_of_five_words_or_without_spaces_are_compared_too() -> None:
    found, written = near.NearDuplicates(), "".join(chr(0x4E00 + number) for number in range(200))
    spaced = [" ".join(text[at : at + 40] for at in range(0, 200, 40)) for text in (written, written[:-1] + "\u3042")]
    for number, text in enumerate(["one two three four five", "six seven eight nine ten", *spaced], 1):
        found.add(text, code_of(text), RowPlace(0, 0, number))
    counts = found.find()
    assert counts is not None and (counts["rows"], [two.row for _, two, _ in counts["shown"]]) == (1, [4])
    assert len(near.shingles([f"word{number}" for number in range(9)])) == 9 - near.SHINGLE + 1


def test_a_process_that_read_few_rows_adds_no_more_of_them_to_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "ROWS", 10)
    whole, one, other = near.NearDuplicates(), near.NearDuplicates(), near.NearDuplicates()
    for row in range(60):
        text = f"a text of some words {row}"
        for seen in (whole, one if row < 54 else other):
            seen.add(text, code_of(text), RowPlace(0, 0, row))
    assert one.share < other.share
    other.join([one.plain()])
    found = other.find()
    assert other.kept.keys() == whole.kept.keys() and found is not None and found["looked_at"] == len(whole.kept)


def test_samples_that_were_taken_apart_are_the_sample_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "ROWS", 10)
    whole, one, other = near.NearDuplicates(), near.NearDuplicates(), near.NearDuplicates()
    for row in range(60):
        text = f"a text of some words {row % 50}"
        for seen in (whole, (one, other)[row % 2]):
            seen.add(text, code_of(text), RowPlace(0, row % 2, row))
    found = near.NearDuplicates()
    found.join([json.loads(json.dumps(each.plain())) for each in (other, one)])
    assert (found.share, found.seen) == (whole.share, 60) and 0 < len(found.kept) <= 10
    assert {code: place.row % 50 for code, (place, _) in found.kept.items()} == {
        code: place.row % 50 for code, (place, _) in whole.kept.items()
    }
    one.join([other.plain()])  # of a process that has read rows itself
    assert one.seen == 60 and one.kept.keys() == whole.kept.keys()


def test_labels_are_told_by_name_the_most_frequent_first() -> None:
    tally = RowTally(labels=Counter({"0": 1, "1": 3}))
    assert list(label_counts(tally, ("no", "yes")).items()) == [("yes", 3), ("no", 1)]
    assert label_counts(tally, ("1", "0")) == {"1": 3, "0": 1}  # which are names, and no numbers of names
    assert list(label_counts(RowTally(labels=Counter("bac")), ())) == ["a", "b", "c"]  # whatever order they came in


def test_a_guess_knows_the_frequencies_of_train_and_nothing_of_the_split_that_it_is_scored_on() -> None:
    train = RowTally(labels=Counter({"a": 3, "b": 1}))
    tally, missing = RowTally(labels=Counter({"b": 2, "a": 1})), RowTally(labels=Counter({"a": 1, "c": 1}))
    loss = -(math.log(0.75) + 2 * math.log(0.25)) / 3
    assert score_guess(tally, train, ()) == {"accuracy": pytest.approx(1 / 3), "loss": pytest.approx(loss)}
    assert score_guess(missing, train, ()) == {"accuracy": 0.5, "loss": None}
    assert score_guess(RowTally(labels=Counter({"c": 2})), train, ()) == {}  # none of those known
    assert score_guess(RowTally(labels=Counter({"-1": 5})), train, ()) == {}  # withheld
    partly = RowTally(labels=Counter({"b": 2, "a": 1, "": 3, "-1": 1}))
    assert score_guess(partly, train, ()) == score_guess(tally, train, ())
    assert score_guess(RowTally(labels=Counter({"0": 3, "1": 1})), train, ("a", "b"))["accuracy"] == 0.75
    numbers = [RowTally(), RowTally()]
    for one, values in zip(numbers, ([1.0, 3.0], [5.0, 6.0]), strict=True):
        for value in values:
            one.add({"label": value})
    assert score_guess(numbers[1], numbers[0], ()) == {"mse": (3**2 + 4**2) / 2}
    assert score_guess(RowTally(rows=2), numbers[0], ()) == {}  # all withheld


def test_the_guess_of_a_class_among_several_is_its_share_of_the_rows() -> None:
    tally, other = RowTally(), RowTally()
    for names in (["a", "b"], ["a"], ["a", "b"], []):
        tally.add({"text": "words", "label": names}, several=True)
    other.add({"text": "words", "label": ["a"]}, several=True)
    of_a, classes = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)), ("a", "b", "c")  # no row has the third
    assert score_guess(tally, tally, classes) == {"loss": pytest.approx((of_a + math.log(2)) / 3)}
    assert score_guess(other, tally, classes) == {"loss": pytest.approx((math.log(2) - math.log(0.75)) / 3)}
    assert score_guess(other, other, ("a",)) == {"loss": 0.0}  # every row has it, as predicted


def test_tags_count_as_labels_and_questions_without_an_answer_are_counted() -> None:
    tally = RowTally()
    tally.add({"words": ["birds", "sing", "songs"], "tags": ["N", "V", "N"]})
    for answers in ([], ["a"], []):
        tally.add(
            {"question": "which", "context": "a b", "answers": {"text": answers, "answer_start": [0] * len(answers)}}
        )
    assert tally.labels == {"N": 2, "V": 1} and (tally.rows, tally.unanswered) == (4, 2)


def test_a_row_of_a_picture_alone_is_not_empty() -> None:
    assert not is_empty({"image": b"a"}) and is_empty({"text": "a", "pair": " "}) and not is_empty({"text": ["", "a"]})


def test_the_sentinels_of_a_task_are_tokens_of_the_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "validation")}
    for path in files.values():
        Path(path).write_text(json.dumps({"text": "abab"}))
    objective = {"span_corruption": {"sentinels": 5}}
    tree = {"objective": objective, "source": {"files": files}, "tokenizer": {"name": "characters"}, "length": 16}
    cost = -math.log((2 + 1) / (4 + 7 + 2 + 5))  # of each letter, where all 14 tokens were seen once more
    assert look(tree, tmp_path)["unigram"]["train"]["loss"] == pytest.approx(cost)
