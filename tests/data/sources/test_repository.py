"""Repositories of data sets: streamed part by part at one revision, so that an interrupted filling goes on."""

import gc
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import datasets
import pyarrow
import pytest
from pyarrow import parquet
from tests.data.sources.test_find import inputs, task

from zoo.data.ids import StoredFields
from zoo.data.sources.find import load_rows
from zoo.data.sources.remote import repository
from zoo.data.sources.remote.repository import Hub, HubFile, HubName, HubPart
from zoo.data.store.store import open_store
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer

ROWS = 7


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The revisions that were asked for of a repository with a Parquet file of three row groups, and a small one."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    folder, found = tmp_path / "repository", list[str | None]()
    folder.mkdir()
    write(folder / "dev-00000-of-00002.parquet", range(ROWS), 3)
    write(folder / "dev-00001-of-00002.parquet", range(ROWS, ROWS + 2), 3)

    def load(name: str, configuration: str | None, revision: str | None) -> Any:
        assert (name, configuration) == ("hf://datasets/org/name", None)
        found.append(revision)
        return datasets.load_dataset_builder(str(folder), cache_dir=str(tmp_path / "library"))

    monkeypatch.setattr(repository, "load_dataset_builder", load)
    size = (folder / "dev-00000-of-00002.parquet").stat().st_size
    monkeypatch.setattr(repository, "PART", size // 2 + 1)
    return found


def write(path: Path, rows: range, group: int) -> None:
    words = [f"row {n} " + chr(ord("a") + n) * (1000 if n < ROWS else 1) for n in rows]
    table = pyarrow.table({"text": words, "other": list(rows)})
    parquet.write_table(table, path, row_group_size=group, compression="none")


def first_words(rows: Iterator[Any]) -> list[str]:
    return [row["text"].rsplit(" ", 1)[0] for row in rows]


def test_a_split_is_read_in_files_and_a_large_parquet_file_in_row_groups(asked: list[str | None]) -> None:
    parts = Hub("org/name", "").parts("validation")
    assert [first_words(part.rows(["text"])) for part in parts] == [
        [f"row {n}" for n in range(6)], ["row 6"], ["row 7", "row 8"]
    ]  # fmt: skip
    assert len({part.digest for part in parts}) == 3 and Hub("org/name", "").splits() == ("validation",)


def test_row_groups_are_those_of_their_own_file(asked: list[str | None], tmp_path: Path) -> None:
    large, small = sorted((tmp_path / "repository").iterdir())
    large.rename(tmp_path / "large")
    (small.rename(large), (tmp_path / "large").rename(small))
    parts = Hub("org/name", "").parts("validation")
    assert [len(first_words(part.rows(["text"]))) for part in parts] == [2, 6, 1]


def test_all_that_decides_the_rows_of_a_part_is_in_its_digest() -> None:
    def digest(name: str = "org/name:a", revision: str = "1", split: str = "train", **changes: int) -> str:
        hub = Hub(name, "")
        hub.revision = revision
        return HubPart(hub, split, HubFile(0, 2, 0, 2, "a.parquet", 1)._replace(**changes)).digest

    places = [digest(**{field: 5}) for field in ("number", "files", "piece", "pieces")]
    others = [digest("org/other:a"), digest("org/name:b"), digest(revision="2"), digest(split="test"), *places]
    assert len({digest(), *others}) == 9


def test_each_name_and_revision_has_a_record_of_its_own(
    asked: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hub, "open", lambda hub, revision: Mock(hash=f"{hub.named.repository} {revision}"))
    monkeypatch.setattr(Hub, "find_files", lambda hub: {"train": {"columns": [hub.name, hub.revision], "files": []}})
    revisions = {"name": "org/name ", "name@v1": "org/name v1", "name:a": "org/name ", "other": "org/other "}
    for name, revision in revisions.items():
        assert Hub(f"org/{name}", "").columns == {"train": [f"org/{name}", revision]}
    later = Hub("org/name", "")
    later.revision = "later"
    assert later.columns == {"train": ["org/name", "later"]}


@pytest.mark.parametrize("name", ["validation", "valid", "dev", "val"])
def test_a_split_is_found_by_each_of_its_usual_names(name: str) -> None:
    hub = Hub("org/name", "")
    hub.known = {"train": {}, name: {}}
    assert hub.names == {"train": "train", "validation": name}


def test_only_wanted_columns_are_read(asked: list[str | None]) -> None:
    assert next(Hub("org/name", "").parts("validation")[2].rows(["other"])) == {"other": 7}


def test_a_row_is_named_by_its_file_and_part(asked: list[str | None]) -> None:
    place = Hub("org/name", "").parts("validation")[1].where(1)
    assert place.startswith("hub:org/name (validation, ")
    assert place.endswith("dev-00000-of-00002.parquet, part 2 of 2): row 1")


def test_a_revision_is_looked_up_once(asked: list[str | None]) -> None:
    first = Hub("org/name", "")
    assert asked == [] and first.parts("validation") and asked[0] is None and set(asked[1:]) == {first.revision}
    asked.clear()
    again = Hub("org/name", "")
    assert [part.digest for part in again.parts("validation")] == [part.digest for part in first.parts("validation")]
    assert again.columns == {"validation": ["text", "other"]} and asked == []


def test_a_revision_may_be_named(asked: list[str | None]) -> None:
    assert Hub("org/name@v1.0", "").revision and asked == ["v1.0"]
    assert HubName.parse("org/name@v1.0:part") == ("org/name", "v1.0", "part")


def test_another_revision_than_the_recorded_one_is_refused(asked: list[str | None], tmp_path: Path) -> None:
    hub = Hub("org/name", "")
    assert hub.revision
    write(tmp_path / "repository" / "dev-00001-of-00002.parquet", range(3), 3)
    (tmp_path / "repository" / "dev-00002-of-00002.parquet").write_bytes(
        (tmp_path / "repository" / "dev-00001-of-00002.parquet").read_bytes()
    )
    with pytest.raises(
        ValueError, match=f"'org/name' cannot be read: revision {hub.revision} cannot be reached; found"
    ):
        Hub("org/name", "").parts("validation")


def fill() -> int:
    """Tokenize the split, and count its documents."""
    rows = load_rows(task(hub="org/name"), inputs())
    tokenizer = Tokenizer.train(tokenizers.parse("characters", ""), ["row 0123456789 abcdefghi"])
    split = open_store(rows, StoredFields(("text",)), tokenizer)["validation"]
    return len(split.row_numbers)


def test_an_interrupted_filling_goes_on_behind_the_last_whole_part(
    asked: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, opened = Hub.rows, list[int]()

    def drop(self: Hub, *words: Any) -> Iterator[Any]:
        opened.append(len(opened))
        for number, row in enumerate(real(self, *words)):
            if len(opened) == 2 and number == 0:
                raise OSError("Connection reset by peer")
            yield row

    monkeypatch.setattr(Hub, "rows", drop)
    with pytest.raises(RuntimeError, match=r"part 2 of 2\): row 1: cannot be read: Connection reset by peer; finished"):
        fill()
    assert fill() == 9 and len(opened) == 4  # two parts were missing
    assert fill() == 9 and len(opened) == 4


def test_nothing_of_the_repository_is_kept_on_disk(asked: list[str | None], tmp_path: Path) -> None:
    assert fill() == 9
    assert not [
        path for path in tmp_path.rglob("*") if path.suffix in (".parquet", ".arrow") and "repository" not in path.parts
    ]


def test_a_file_of_another_format_is_one_part(asked: list[str | None], tmp_path: Path) -> None:
    for path in (tmp_path / "repository").iterdir():
        path.unlink()
    lines = "".join(f'{{"text": "row {n} {"x" * 900}", "label": {n % 2}}}\n' for n in range(20))
    (tmp_path / "repository" / "train.jsonl.gz").write_bytes(gzip.compress(lines.encode(), 0))
    rows = load_rows(task(hub="org/name"), inputs())
    assert {len(split.parts) for split in rows.values()} == {1} and list(rows) == ["train", "validation"]
    found = sorted(int(row["text"].split()[1]) for split in rows.values() for row in split)
    assert found == list(range(20)) and rows["train"].inputs == ["text", "label"]


def test_pictures_are_read_once_and_then_from_the_disk(asked: list[str | None], tmp_path: Path) -> None:
    for path in (tmp_path / "repository").iterdir():
        path.unlink()
    write_pictures(tmp_path / "repository" / "test.parquet")
    (part,) = Hub("org/name", "").parts("test")
    for _ in range(2):
        pictures = part.pictures("image")
        assert len(pictures) == 3 and pictures.stored(2)[0] == b"image 2"
        assert part.pictures("mask").stored(2)[0] == b"mask 2"
        asked.clear()
        part.hub.opened.clear()  # type: ignore[attr-defined]
    assert asked == []


def test_an_image_is_that_of_the_repository_though_the_working_directory_has_a_file_of_its_name(
    asked: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (tmp_path / "repository").iterdir():
        path.unlink()
    write_pictures(tmp_path / "repository" / "test.parquet")
    (tmp_path / "2.jpg").write_bytes(b"another")
    monkeypatch.chdir(tmp_path)
    (part,) = Hub("org/name", "").parts("test")
    assert part.pictures("image").stored(2)[0] == b"image 2"


def write_pictures(path: Path) -> None:
    columns = {
        name: [{"bytes": f"{name} {n}".encode(), "path": None if n == 0 else f"{n}.jpg"} for n in range(3)]
        for name in ("image", "mask")
    }
    # as `push_to_hub` writes them: by this, `datasets` decodes images unless it is told not to
    kinds = datasets.Features(dict.fromkeys(columns, datasets.Image())).arrow_schema.metadata
    parquet.write_table(pyarrow.table(columns).replace_schema_metadata(kinds), path)


def test_columns_of_csv_are_read_as_they_are_written(asked: list[str | None], tmp_path: Path) -> None:
    for path in (tmp_path / "repository").iterdir():
        path.unlink()
    (tmp_path / "repository" / "dev.csv").write_text('text,label\nnull,01\nNA,1\n"x, y",\n')
    (part,) = Hub("org/name", "").parts("validation")
    rows = list(part.rows(["text", "label"]))
    assert rows == [{"text": "null", "label": "01"}, {"text": "NA", "label": "1"}, {"text": "x, y", "label": ""}]


def csv_of(folder: Path, **files: str) -> Hub:
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / (f"{name}.csv" if name != "README" else "README.md")).write_text(content, "utf-8")
    return Hub("org/name", "")


def rows_of(hub: Hub, split: str) -> list[dict[str, Any]]:
    return [row for part in hub.parts(split) for row in part.rows(part.columns)]


def test_splits_of_csv_may_have_other_columns(asked: list[str | None], tmp_path: Path) -> None:
    hub = csv_of(tmp_path / "repository", train="text,label\na,01\n", test="id,text\n7,NA\n8,b\n")
    assert rows_of(hub, "train") == [{"text": "a", "label": "01"}]
    assert rows_of(hub, "test") == [{"id": "7", "text": "NA"}, {"id": "8", "text": "b"}]


def test_a_csv_file_of_a_header_alone_tells_no_columns(asked: list[str | None], tmp_path: Path) -> None:
    files = {"train-00000-of-00002": "text,label\n", "train-00001-of-00002": "text,label\na,01\n"}
    assert rows_of(csv_of(tmp_path / "repository", **files), "train") == [{"text": "a", "label": "01"}]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("header", ["text,label", ",text,label", "text,label,", "text,text,label"])
@pytest.mark.filterwarnings("ignore:unclosed file")  # pandas closes a file only at its end
def test_a_header_of_columns_without_names_or_with_equal_ones_is_found_again(
    asked: list[str | None], tmp_path: Path, header: str, mark: str
) -> None:
    row = header.replace("label", "1")  # only the label tells it from the header
    hub = csv_of(tmp_path / "repository", train=f"{header}\n{row}\n{mark}{header}\n{row}\n")
    rows = hub.parts("train")[0].rows(["text", "label"])
    assert next(rows) == {"text": "text", "label": "1"}
    with pytest.raises(ValueError, match=r"train.csv\): row 2: it repeats the names of the columns"):
        next(rows)
    del rows
    gc.collect()  # while the warning is ignored


@pytest.mark.filterwarnings("ignore:unclosed file")  # pandas closes a file only at its end
def test_a_csv_row_that_repeats_the_header_is_refused_even_if_one_column_is_read(
    asked: list[str | None], tmp_path: Path
) -> None:
    hub = csv_of(tmp_path / "repository", train="text,label\ntext,1\na,label\ntext,label\nb,0\n")
    for columns in (["text"], ["text", "label"]):
        rows = hub.parts("train")[0].rows(columns)
        assert [next(rows)["text"], next(rows)["text"]] == ["text", "a"]
        with pytest.raises(ValueError, match=r"train.csv\): row 3: it repeats the names of the columns"):
            next(rows)
    del rows
    gc.collect()  # while the warning is ignored


def test_a_list_of_words_may_hold_the_name_of_its_column(asked: list[str | None], tmp_path: Path) -> None:
    hub = csv_of(tmp_path / "repository", train="word\nthe\nword\n")
    assert [row["word"] for row in rows_of(hub, "train")] == ["the", "word"]


def test_kinds_that_a_card_says_are_kept(asked: list[str | None], tmp_path: Path) -> None:
    classes = "{class_label: {names: {'0': NA, '1': None}}}"
    kinds = f"[{{name: text, dtype: string}}, {{name: share, dtype: float32}}, {{name: label, dtype: {classes}}}]"
    card = f"---\ndataset_info: {{features: {kinds}}}\n---\n"
    lines = "text,share,label\nNA,01.5,NA\nnull,NULL,None\nx,,NA\n"
    assert rows_of(csv_of(tmp_path / "repository", README=card, train=lines), "train") == [
        {"text": "NA", "share": 1.5, "label": 0},
        {"text": "null", "share": None, "label": 1},
        {"text": "x", "share": None, "label": 0},
    ]
