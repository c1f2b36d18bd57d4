"""What `zoo check TASK` prints of what it found, line by line."""

from typing import Any

import pytest

from zoo.cli.survey_output import MOST_LABELS, format_guess, format_loss, say_labels, say_lengths, say_sizes, say_survey


def found(**more: Any) -> dict[str, Any]:
    """What a survey without tokens finds."""
    splits = {name: {"rows": rows, "empty": 1, "characters": 9000} for name, rows in {"train": 20, "test": 4}.items()}
    leak = {"rows": 2, "share": 0.5, "of": "test", "also_in": "train"}
    none = {"rows": 0, "share": 0.0, "of": "train", "also_in": "test"}
    repeats = {"repeated": {"train": 3, "test": 0}, "leaks": [none, leak], "repeated_shown": [["one", "two"]]}
    near = {"rows": 5, "looked_at": 18, "of": 24, "across_splits": 0, "shown": [["a", "b", 0.9]]}
    return {"splits": splits, "left_out": 7, **repeats, "near": near, "guessing_labels": {}, "remarks": ["so"], **more}


def test_counts_repeats_and_leaks_have_their_numbers(capsys: pytest.CaptureFixture[str]):
    odd = [{"why": "longest", "value": value, "place": "f: row 1", "text": "x" * 99} for value in (1234.5, 99.5, 0.25)]
    say_survey(found(strangest=odd))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert [line.split() for line in lines[:3]] == [
        ["split", "rows", "empty", "characters", "unknown"],
        ["train", "20", "1", "9,000"],
        ["test", "4", "1", "9,000"],
    ]
    assert lines[3:] == [
        "source.filter leaves out 7 rows of train",
        "rows that repeat an earlier text of their split: train 3, test 0",
        "leak: 2 rows of test (50.00%) also in train",
        "  the same text: one and two",
        "near duplicates: 5 of 18 texts looked at (24 rows)",
        "  90% alike: a and b",
        *(f"longest, {value}: f: row 1: {'x' * 80}" for value in ("1,234", "99.5", "0.25")),
        "so",
    ]


def test_bars_are_as_long_as_their_share_of_the_longest(capsys: pytest.CaptureFixture[str]):
    bars = [{"from": 1, "to": 1, "documents": 10}, {"from": 2, "to": 3, "documents": 5}]
    known = {"mean": 1.5, "median": 1, "p90": 3, "p99": 3, "longest": 3, "histogram": bars}
    say_lengths("train", {"text": known})
    assert [line.count("█") for line in capsys.readouterr().out.splitlines()] == [0, 30, 15]


def test_sizes_have_both_lengths_what_is_cut_off_and_what_is_empty(capsys: pytest.CaptureFixture[str]):
    size = {"length": 1024, "source": 512, "longer": 0.25, "beyond": 0.125, "is": "truncated", "empty": 0.5}
    say_sizes([size, {**size, "source": None, "empty": None}])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [["1,024", "+", "512", "25.00%", "truncated", "12.50%", "50.0%"],
                    ["1,024", "25.00%", "truncated", "12.50%"]]  # fmt: skip


@pytest.mark.parametrize("more", [0, 2])
def test_the_most_frequent_labels_have_their_shares(capsys: pytest.CaptureFixture[str], more: int):
    counts = {f"label{number}": 3 if number == 0 else 1 for number in range(MOST_LABELS + more)}
    say_labels({"splits": {"train": {"labels": counts}}, "guessing_labels": {}})
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"train, labels: label0 {3 / (MOST_LABELS + more + 2):.1%}, label1 ")
    assert line.endswith(", and 2 more" if more else f"label{MOST_LABELS - 1} {1 / (MOST_LABELS + 2):.1%}")


def test_a_score_of_zero_is_a_number_and_one_that_is_none_is_said():
    assert format_guess({"accuracy": 1.0, "loss": 0.0}) == "accuracy 1.000, loss 0.000"
    assert format_guess({"accuracy": 0.5, "loss": None}) == "accuracy 0.500, loss infinite"
    score = {"loss": 0.0, "perplexity": 1.0, "bits_per_byte": 0.0}
    assert format_loss(score) == "loss 0.000, perplexity 1.0 (0.000 bits per byte)"
