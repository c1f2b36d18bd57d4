"""Which rows of train a task leaves out, and that the store knows."""

import json
import logging
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from zoo.data.ids import StoredFields
from zoo.data.sources.filtering import RowFilter
from zoo.data.sources.find import load_rows
from zoo.data.sources.part import FilePart, Rows
from zoo.data.sources.repeated import duplicates, repeats
from zoo.data.sources.splits.holdout import hash_fraction
from zoo.data.store.store import open_store
from zoo.data.task import read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import inputs

FIRST, SECOND = ["one", "two words", "one", "three"], ["two  words", "a much longer text", "one", "new"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    (tmp_path / "a.txt").write_text("\n".join(FIRST))
    (tmp_path / "b.txt").write_text("\n".join(SECOND))
    (tmp_path / "v.txt").write_text("one\none\nx")
    return tmp_path


def rows_of(**rule: Any) -> dict[str, Any]:
    source = {"files": {"train": ["a.txt", "b.txt"], "validation": "v.txt"}, "filter": rule}
    return load_rows(read_task({"objective": "causal_lm", "source": source}, "task"), inputs())


def texts(split: str = "train", **rule: Any) -> list[str]:
    return [row["text"] for row in rows_of(**rule)[split]]


def test_without_a_filter_all_rows_stay(files: Path) -> None:
    assert texts() == [*FIRST, *SECOND]


def test_rows_that_are_too_short_or_too_long_are_left_out(files: Path) -> None:
    assert texts(shortest=4, longest=10) == ["two words", "three", "two  words"]


def test_the_first_row_of_each_text_stays_unless_it_is_held_out(files: Path) -> None:
    assert texts(deduplicate=True) == ["two words", "three", "a much longer text", "new"]
    (files / "v.txt").write_text("x")
    assert texts(deduplicate=True) == ["one", "two words", "three", "a much longer text", "new"]


def test_a_text_is_counted_only_if_its_row_has_the_right_length(files: Path) -> None:
    assert texts(deduplicate=True, longest=9) == ["two words", "three", "new"]
    assert texts(deduplicate=True, shortest=10) == ["two  words", "a much longer text"]


def test_the_border_between_columns_tells_rows_apart(files: Path) -> None:
    pairs = ["new york\tcity", "new\tyork city", "new  york\tcity"]
    (files / "pairs.tsv").write_text("\n".join(["source\ttarget", *pairs]) + "\n")
    (files / "held.tsv").write_text("source\ttarget\nx\ty\n")
    splits = {"train": "pairs.tsv", "validation": "held.tsv"}
    tree = {"objective": "translation", "source": {"files": splits, "filter": {"deduplicate": True}}}
    rows = load_rows(read_task(tree, "task"), inputs())["train"]
    assert [row["source"] for row in rows] == ["new york", "new"]


def source_of(**train: list[str]) -> dict[str, Any]:
    for name, texts in train.items():
        Path(f"{name}.txt").write_text("\n".join(texts))
    return {name: {"files": {"train": f"{name}.txt"}, "validation": 0.4} for name in train}


def words(rows: Any) -> list[str]:
    return [" ".join(row["text"].split()) for row in rows]


def test_train_holds_no_text_of_validation_whatever_its_white_space(files: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(files)
    given = [text for n in range(40) for text in (f"text {n}", f"text  {n}", f" text {n}")]
    source = source_of(c=given)["c"]
    plain, filtered = (
        load_rows(read_task({"objective": "causal_lm", "source": {**source, "filter": rule}}, "task"), inputs())
        for rule in ({}, {"deduplicate": True})
    )
    assert set(words(plain["train"])) & set(words(plain["validation"]))
    assert words(filtered["validation"]) == words(plain["validation"])
    train, validation = words(filtered["train"]), set(words(filtered["validation"]))
    assert not set(train) & validation and len(train) == len(set(train)) == 40 - len(validation)


def test_each_text_stands_once_in_all_sources_of_a_mixture(files: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(files)
    mix = source_of(c=[f"text {n}" for n in range(30)], d=[f"text  {n}" for n in range(20, 50)])
    source = {"mix": mix, "filter": {"deduplicate": True}}
    rows = load_rows(read_task({"objective": "causal_lm", "source": source}, "task"), inputs())
    train, validation = words(rows["train"]), set(words(rows["validation"]))
    assert len(train) == len(set(train)) and not set(train) & validation
    assert set(train) | validation == {f"text {n}" for n in range(50)}


def test_a_mixed_source_adds_to_the_filter_that_is_said_beside_the_mix(files: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(files)
    mix = source_of(c=["same"] * 9 + [f"text {n}" for n in range(30)], d=["same", *map(str, range(30, 60))])
    mix["c"]["filter"] = {"shortest": 6}
    source = {"mix": mix, "filter": {"shortest": 2, "deduplicate": True}}
    rows = load_rows(read_task({"objective": "causal_lm", "source": source}, "task"), inputs())
    rules = {name: one.reader.filtering.rule for name, one in rows["train"].sources.items()}
    assert rules == {"c": RowFilter(shortest=6, deduplicate=True), "d": RowFilter(shortest=2, deduplicate=True)}
    assert {one.reader.validation_share for one in rows["train"].sources.values()} == {0.4}


def test_repeated_rows_are_a_bit_each_and_damaged_ones_are_found_again(files: Path) -> None:
    (files / "a.txt").write_text("\n".join(["same", "other"] * 4_000))
    before = texts(deduplicate=True)
    assert before[:2] == ["same", "other"] and len(before) == 5
    (marks,) = (files / "cache" / "repeated").glob("*/marks")
    assert marks.stat().st_size == 1_000 + 1 + 1
    marks.write_bytes(bytes(1_002))
    assert texts(deduplicate=True) == before


def test_the_number_of_equal_rows_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "ENTRIES", 7)
    found = repeats.Repeats(tmp_path)
    for number in range(1, 40):
        found.add(repeats.code_of(f"text {number % 5}"), repeats.RowPlace(1, 0, number))
    found.add(repeats.code_of("text 3"), repeats.RowPlace(0, 1, 1))
    again = list(found.repeated_entries(0, 1))
    assert max(map(len, again)) <= 7
    assert sorted(int(row) for entries in again for row in entries["row"]) == [3, *range(6, 40)]


def test_validation_is_as_it_is(files: Path) -> None:
    assert texts("validation", shortest=4, deduplicate=True) == ["one", "one", "x"]


def test_what_is_held_out_is_not_filtered(files: Path) -> None:
    source = {"files": {"train": ["a.txt", "b.txt"]}, "validation": 0.5, "filter": {"longest": 1}}
    rows = load_rows(read_task({"objective": "causal_lm", "source": source}, "task"), inputs())
    assert list(rows["validation"]) and not list(rows["train"])


def shards(files: Path, **rule: Any) -> set[str]:
    tokenizer = Tokenizer.train(tokenizers.parse("characters"), [*FIRST, *SECOND, "x"])
    open_store(rows_of(**rule), StoredFields(("text",)), tokenizer)
    return {path.name for path in (files / "cache" / "shards").iterdir() if path.is_dir()}


def test_a_filter_is_part_of_the_name_of_trains_shards(files: Path) -> None:
    plain = shards(files)
    assert len(plain) == 3  # two files of train and one of validation
    assert len(shards(files, longest=10) - plain) == 2
    assert shards(files) == shards(files, longest=10)


def test_a_new_file_makes_only_its_own_shard_again(files: Path) -> None:
    before = shards(files, deduplicate=True)
    (files / "b.txt").write_text("one\nother")
    assert len(shards(files, deduplicate=True) - before) == 1


def test_a_held_out_text_makes_the_shard_again_that_held_it(files: Path) -> None:
    before = shards(files, deduplicate=True)
    (files / "v.txt").write_text("one\nthree\nx")
    assert len(shards(files, deduplicate=True) - before) == 2  # the held out file's own, and that of a.txt
    assert texts(deduplicate=True) == ["two words", "a much longer text", "new"]


def test_a_new_file_is_compared_without_reading_the_others(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rows_of(deduplicate=True)["train"].reader.filtering.duplicates
    assert [first.digest(one.part) for one in first.parts]
    (files / "b.txt").write_text("one\nother")
    read, real = list[str](), FilePart.rows

    def rows(part: FilePart, wanted: Collection[str]) -> Rows:
        read.append(part.path.name)
        return real(part, wanted)

    monkeypatch.setattr(FilePart, "rows", rows)
    second = rows_of(deduplicate=True)["train"].reader.filtering.duplicates
    assert [second.digest(one.part) for one in second.parts] and read == ["b.txt"]


def held_out_of(files: Path, *names: str, validation: float) -> dict[str, list[str]]:
    source = {"files": {"train": list(names)}, "validation": validation, "filter": {"deduplicate": True}}
    rows = load_rows(read_task({"objective": "causal_lm", "source": source}, "task"), inputs(), files)
    return {split: [row["text"] for row in found] for split, found in rows.items()}


def test_another_limit_of_length_compares_the_rows_again(files: Path) -> None:
    (files / "a.txt").write_text("ab\nab  ")
    assert texts(deduplicate=True)[:2] == ["ab", "two  words"]
    assert texts(deduplicate=True, shortest=4)[:2] == ["ab  ", "two  words"]  # its first row is too short to count


def test_train_repeats_no_row_that_is_held_out_since_another_file_is_gone(files: Path) -> None:
    lines = sorted((f"text {number}" for number in range(9)), key=lambda text: hash_fraction(str((text,))))
    spaced = f" {lines[1]}"
    assert hash_fraction(str((spaced,))) > hash_fraction(str((lines[1],)))
    (files / "a.txt").write_text("\n".join([spaced, *lines[1:]]))
    (files / "b.txt").write_text("another")
    (files / "c.txt").write_text(lines[0])
    found = held_out_of(files, "a.txt", "b.txt", "c.txt", validation=1e-9)
    assert found == {"train": [spaced, *lines[2:], "another"], "validation": [lines[0]]}
    found = held_out_of(files, "a.txt", "b.txt", validation=1e-9)
    assert found == {"train": [*lines[2:], "another"], "validation": [lines[1]]}


def test_a_text_that_was_cut_as_the_only_one_is_compared_whole_beside_others(files: Path) -> None:
    (files / "a.txt").write_text("text 1")  # its hash is above 0.5
    (files / "b.txt").write_text("\n".join(["text 1", *(f"text {number}" for number in range(9))]))
    assert held_out_of(files, "a.txt", validation=0.5) == {"train": ["tex"], "validation": ["t 1"]}
    train, validation = held_out_of(files, "a.txt", "b.txt", validation=0.5).values()
    assert train.count("text 1") == 1 and len(train) + len(validation) == 9


def test_a_start_reads_the_index_of_repeated_rows_once(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, real = list[Path](), duplicates.read_index
    monkeypatch.setattr(duplicates, "read_index", lambda folder: [read.append(folder), real(folder)][1])
    texts(deduplicate=True)
    read.clear()
    rows = rows_of(deduplicate=True)["train"]
    assert rows.fingerprint and [row["text"] for row in rows] and len(read) == 1


def test_damaged_hashes_of_texts_are_made_again(files: Path) -> None:
    before = texts(deduplicate=True)
    for codes in (files / "cache" / "codes").glob("*/codes"):
        codes.write_bytes(bytes(codes.stat().st_size))
    shutil.rmtree(files / "cache" / "repeated")
    assert texts(deduplicate=True) == before


def test_files_that_were_moved_keep_the_names_of_their_shards(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shards(files, deduplicate=True)
    (files / "moved").mkdir()
    for name in ("a.txt", "b.txt", "v.txt"):
        (files / name).rename(files / "moved" / name)
    monkeypatch.setenv("ZOO_DATA", str(files / "moved"))
    assert shards(files, deduplicate=True) == before


def test_a_tokenizer_of_filtered_text_is_another_one(files: Path) -> None:
    assert rows_of()["train"].cache_name == rows_of(deduplicate=False)["train"].cache_name
    assert rows_of()["train"].cache_name != rows_of(longest=10)["train"].cache_name


def test_each_start_says_how_many_rows_are_left_out(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.INFO):
            shards(files, deduplicate=True)
        assert "train: source.filter leaves out 4 of 8 rows" in caplog.text


def test_a_file_of_which_no_row_stays_is_not_called_empty(files: Path) -> None:
    with pytest.raises(ValueError, match=r"a.txt and 1 more file: source.filter leaves out all of its rows"):
        shards(files, shortest=1000)


def test_lengths_add_up_over_the_texts_of_a_row() -> None:
    rule = RowFilter(shortest=4, longest=5)
    assert rule.takes({"source": "ab", "target": "cd"}) and not rule.takes({"source": "abc", "target": "def"})
    assert rule.takes({"image": 3}) and rule.takes({"words": ["ab", "cd"]})


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"shortest": -1}, "task.source.filter.shortest: must be at least 0, got -1"),
        ({"shortest": 5, "longest": 4}, "task.source.filter.longest: must be at least 5, got 4"),
        ({"longest": 0}, "task.source.filter.longest: must be at least 1, got 0"),
        ({"longests": 3}, "unknown key 'longests'"),
    ],
)
def test_a_filter_that_no_row_passes_is_refused(rule: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as refused:
        read_task({"objective": "causal_lm", "source": {"builtin": "pydocs", "filter": rule}}, "task")
    assert message in str(refused.value)


def test_a_task_writes_its_filter_and_reads_it_back() -> None:
    source = {"builtin": "pydocs", "filter": {"deduplicate": True}}
    task = read_task({"objective": "causal_lm", "source": source}, "task")
    assert read_task(json.loads(json.dumps(task.plain())), "task") == task
