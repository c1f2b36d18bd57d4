"""Every shipped task against the real files: the published numbers of rows, the right columns and labels."""

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import SplitRows
from zoo.data.task import load_task
from zoo.examples.form import inputs

BESIDE = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ["ZOO_DATA"]) if "ZOO_DATA" in os.environ else BESIDE
pytestmark = pytest.mark.skipif(not (DATA / "multi30k").is_dir(), reason=f"no real data under {DATA} (set ZOO_DATA)")

ROWS = {
    "ag-news": {"train": 9_991, "test": 7_600},
    "cifar10": {"train": 50_000, "test": 10_000},
    "cola": {"train": 8_551, "validation": 1_043, "test": 1_063},
    "flickr8k": {"train": 30_000, "validation": 1_000, "test": 1_000},  # in train a row for each caption
    "imdb": {"train": 24_996, "test": 24_996},
    "mrpc": {"train": 3_668, "validation": 408, "test": 1_725},
    "multi30k-de-en": {"train": 29_000, "validation": 1_014, "test": 1_000},
    "multi30k-en-de": {"train": 29_000, "validation": 1_014, "test": 1_000},
    "multi30k-en-fr": {"train": 29_000, "validation": 1_014, "test": 1_000},
    "nsmc": {"train": 150_000, "test": 50_000},
    "sst2": {"train": 67_349, "validation": 872, "test": 1_821},
    "wikipedia-lm": {"train": 4_022, "validation": 99},
    "wikipedia-mlm": {"train": 4_022, "validation": 99},
    "wikitext2-lm": {"train": 36_718, "validation": 3_760, "test": 4_358},
}
LARGE = ("imdb", "nsmc", "wikipedia-mlm")  # the last one reads the files of wikipedia-lm


def rows(name: str, *splits: str) -> Mapping[str, SplitRows]:
    return load_rows(load_task(name), inputs(), DATA, splits or None)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LARGE)) for name in ROWS])
def test_a_task_has_the_published_rows(name: str) -> None:
    counts = {split: sum(1 for _ in part) for split, part in rows(name).items()}
    if "validation" not in ROWS[name]:
        held_out = counts.pop("validation")
        assert 0.04 < held_out / ROWS[name]["train"] < 0.06
        counts["train"] += held_out
    assert counts == ROWS[name]


@pytest.mark.parametrize("name", ["cola", "sst2"])
def test_a_test_split_without_labels_has_minus_1(name: str) -> None:
    assert {row["label"] for row in rows(name, "test")["test"]} <= {-1}


def test_labels_are_the_published_ones() -> None:
    assert Counter(row["label"] for row in rows("imdb", "test")["test"]) == {0: 12_500, 1: 12_496}
    assert Counter(row["label"] for row in rows("ag-news", "test")["test"]) == dict.fromkeys(range(4), 1_900)
    first = next(iter(rows("sst2", "train")["train"]))
    assert first == {"text": "hide new secretions from the parental units ", "label": 0}


def test_a_pair_and_a_translation_have_both_sides() -> None:
    assert next(iter(rows("mrpc", "train")["train"]))["text"].startswith(
        'Amrozi accused his brother , whom he called "'
    )
    pair = next(iter(rows("multi30k-en-de", "train")["train"]))
    assert pair["source"] == "Two young, White males are outside near many bushes."
    assert pair["target"].startswith("Zwei junge weiße Männer")


def test_a_picture_has_five_captions_or_a_label() -> None:
    captioned = rows("flickr8k", "test")["test"]
    assert {len(row["text"]) for row in captioned} == {5}
    assert captioned.pictures(captioned.parts[0]).read(999, 112).shape == (3, 112, 112)
    labeled = rows("cifar10", "test")["test"]
    assert Counter(row["label"] for row in labeled) == dict.fromkeys(range(10), 1_000)
    assert labeled.pictures(labeled.parts[0]).read(0, 32).shape == (3, 32, 32)


def test_shakespeare_is_cut_as_is_customary() -> None:
    parts = rows("shakespeare-char")
    assert [len(next(iter(parts[split]))["text"]) for split in ("train", "validation")] == [1_003_854, 111_540]
