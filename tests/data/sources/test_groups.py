"""Thousands of small files: few shards, of which a new file changes one, and rows that are found again."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo.data.formats.format import ReadOptions
from zoo.data.ids import StoredFields
from zoo.data.sources import file_cache, groups
from zoo.data.sources.file_cache import hash_ranges
from zoo.data.sources.find import load_rows
from zoo.data.sources.groups import FileGroup
from zoo.data.sources.rows import SplitRows
from zoo.data.store.store import open_store
from zoo.data.task import read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import inputs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(groups, "MANY", 8)
    monkeypatch.setattr(groups, "ENDS", 8)
    monkeypatch.setattr(groups, "SMALL", 100)
    (tmp_path / "many").mkdir()
    for number in range(60):
        write(tmp_path, number)
    return tmp_path


def write(folder: Path, number: int, text: str | None = None) -> None:
    path = folder / "many" / f"{number:03}.jsonl"
    path.write_text(text or f'{{"text": "one {number}"}}\n\n{{"text": "two {number}"}}\n')
    os.utime(path, (1e9, 1e9 + len(path.read_text())))  # a younger file is read again: it may still change


def train(folder: Path) -> SplitRows:
    source = {"files": {"train": "many", "validation": "many/000.jsonl"}}
    return load_rows(read_task({"objective": "causal_lm", "source": source}, "task"), inputs(), folder)["train"]


def texts(folder: Path) -> list[str]:
    return [row["text"] for row in train(folder)]


def shards(folder: Path) -> set[str]:
    tokenizer = Tokenizer.train(tokenizers.parse("characters"), ["one two 0123456789"])
    open_store({"train": train(folder)}, StoredFields(("text",)), tokenizer)
    return {path.name for path in (folder / "cache" / "shards").iterdir() if path.is_dir()}


def test_small_files_share_shards_and_keep_the_order_of_their_rows(folder: Path, monkeypatch: pytest.MonkeyPatch):
    grouped, parts = texts(folder), train(folder).parts
    assert 3 < len(parts) < 20 and len(shards(folder)) == len(parts)
    monkeypatch.setattr(groups, "MANY", 1000)
    assert texts(folder) == grouped and len(grouped) == 120 and len(train(folder).parts) == 60


def test_json_lines_are_refused_as_text_among_many_files_too(folder: Path):
    for path in sorted((folder / "many").iterdir()):
        path.rename(path.with_suffix(".dat"))
    task = {"objective": "causal_lm", "source": {"files": {"train": "many/*.dat"}}}
    with pytest.raises(
        ValueError, match=r"000.dat: its first line is a JSON object, but '.dat' files are read as text"
    ):
        list(load_rows(read_task(task, "task"), inputs(), folder)["train"])


def test_a_new_file_makes_the_shard_again_that_it_belongs_to(folder: Path):
    before = shards(folder)
    write(folder, 100)
    more = shards(folder)
    write(folder, 30, '{"text": "another"}\n')
    assert 1 <= len(shards(folder) - more) <= 3 and 1 <= len(more - before) <= 2


def test_a_group_has_a_digest_of_its_order_and_of_how_it_is_read(folder: Path):
    part = next(part for part in train(folder).parts if isinstance(part, FileGroup) and len(part.files) > 1)
    other = part.files[0]._replace(path=part.files[0].path.with_suffix(".json"))
    others = [part.files[::-1], [other, *part.files[1:]], part.files]
    options = [part.options, part.options, ReadOptions(documents="file")]
    found = {FileGroup(files, how).digest for files, how in zip(others, options, strict=True)}
    assert len(found | {part.digest}) == 4


def test_where_nothing_can_be_written_files_are_looked_at_each_time(folder: Path, monkeypatch: pytest.MonkeyPatch):
    before = [part.digest for part in train(folder).parts]
    (folder / "file").touch()
    monkeypatch.setenv("ZOO_CACHE", str(folder / "file"))  # so that no folder can be there
    assert [part.digest for part in train(folder).parts] == before


def test_files_that_are_known_are_not_opened_again(folder: Path, monkeypatch: pytest.MonkeyPatch):
    before = [part.digest for part in train(folder).parts]
    monkeypatch.setattr(groups, "hash_ranges", lambda *_: pytest.fail("a file was opened"))
    assert [part.digest for part in train(folder).parts] == before
    assert len(list((folder / "cache" / "known").glob("files-*.json"))) == 1


def test_files_that_have_just_changed_are_opened_again_since_they_may_change_unseen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    before = [part.digest for part in train(folder).parts]
    changed = (folder / "many/059.jsonl").stat().st_mtime
    monkeypatch.setattr(file_cache, "time", SimpleNamespace(time=lambda: changed + 1))
    opened: list[Path] = []
    monkeypatch.setattr(groups, "hash_ranges", lambda path, size: opened.append(path) or hash_ranges(path, size))
    assert [part.digest for part in train(folder).parts] == before
    assert folder / "many/059.jsonl" in opened


def test_a_group_ends_before_a_large_file_another_column_and_at_its_size(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(groups, "ENDS", 2**40)
    write(folder, 20, '{"text": "' + "long " * 40 + '"}\n')
    write(folder, 40, '{"text": "a", "other": "b"}\n')
    sizes = [len(part.files) if isinstance(part, FileGroup) else 0 for part in train(folder).parts]
    assert sizes == [20, 0, 19, 1, 19]
    monkeypatch.setattr(groups, "GROUP", 500)
    assert max(part.size for part in train(folder).parts) <= 500


def test_neighbors_of_another_format_share_no_shard(folder: Path):
    (folder / "many" / "030.txt").write_text("between\n")
    assert texts(folder)[60:65] == ["one 30", "two 30", "between", "one 31", "two 31"]


def test_the_columns_of_small_files_are_those_of_how_they_are_read(folder: Path):
    for number in range(60):
        path = folder / "tables" / f"{number:03}.tsv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"text\n{number}\n")
        os.utime(path, (1e9, 1e9))
    for header, rows in ((None, 1), (["prompt"], 2), (None, 1)):
        source = {"files": {"validation": "tables"}, "header": header}
        found = load_rows(read_task({"objective": "causal_lm", "source": source}, "task"), inputs(), folder)[
            "validation"
        ]
        assert {tuple(part.columns) for part in found.parts} == {tuple(header or ["text"])}
        assert len(list(found)) == 60 * rows


def test_a_row_of_a_group_is_named_by_its_file_and_line(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(groups, "ENDS", 2**40)
    write(folder, 41, '{"text": "a"}\n\n{"text": 3}\n')
    write(folder, 42, '{"text": "a"}\n{broken\n')
    with pytest.raises(ValueError, match=r"041.jsonl: line 3: 'text' must be a text, got 3"):
        texts(folder)
    assert train(folder).parts[0].where(84) == f"{folder / 'many' / '041.jsonl'}: row 2"


def test_small_texts_share_shards_over_folders_and_rows_that_may_name_files_do_not(folder: Path):
    for number in range(60):
        for ending, text in (("txt", f"text {number}\n"), ("jsonl", f'{{"text": "text {number}"}}\n')):
            path = folder / f"classes.{ending}" / f"{number:03}" / f"a.{ending}"
            path.parent.mkdir(parents=True)
            path.write_text(text)
    for ending, least, most in (("txt", 2, 20), ("jsonl", 60, 60)):
        source = {"files": {"train": f"classes.{ending}", "validation": "many/000.jsonl"}}
        rows = load_rows(read_task({"objective": "causal_lm", "source": source}, "task"), inputs(), folder)["train"]
        assert least <= len(rows.parts) <= most
        assert [row["text"] for row in rows] == [f"text {number}" for number in range(60)]
        assert rows.parts[-1].where(1).endswith(f".{ending}: row 1")


@pytest.mark.parametrize("column", ["text", "image"])
def test_the_place_of_a_row_is_looked_for_in_a_refusal_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, column: str
):
    for number in range(60):
        rows = "".join(f'{{"{column}": "{number}-{row}.png", "label": "{row}"}}\n' for row in "ab")
        write(folder, number, rows)
        for row in "ab":
            (folder / "many" / f"{number}-{row}.png").write_bytes(f"{number} {row}".encode())
    task = {"objective": "classification", "source": {"files": {"train": "many/*.jsonl"}}}
    rows = load_rows(read_task(task, "task"), inputs(), folder)
    with monkeypatch.context() as patched:
        patched.setattr(FileGroup, "find", lambda *_: pytest.fail("a group was read up to a row"))
        assert rows["train"].labels == ("a", "b")
        assert len(list(rows["train"])) + len(list(rows["validation"])) == 120
    if column == "image":
        (folder / "many" / "50-a.png").unlink()
        with pytest.raises(ValueError, match=r"050.jsonl: row 1: .*50-a.png: no such file; expected an image"):
            list(rows["train"])
