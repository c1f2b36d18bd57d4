"""Classes by number whose names the file declares: they are the classes, and lists in another order mix nothing up."""

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from datasets import ClassLabel, Dataset, Features, List, Value
from pyarrow import parquet
from written_rows import ALL_STAY

from zoo.data.columns.columns import Columns
from zoo.data.formats.class_features import METADATA, class_features, names_in
from zoo.data.sources import groups
from zoo.data.sources.files import find_files
from zoo.data.sources.settings import SourceSettings
from zoo.data.sources.splits.named_classes import NamedClasses
from zoo.data.sources.splits.reader import SplitReader
from zoo.examples.form import inputs

NAMES = ["World", "Sports", "Business"]  # not in the order of the alphabet


def written(path: Path, label: list[Any], names: list[str] = NAMES, text: Any = None) -> None:
    of_one = ClassLabel(names=names)
    lists = any(isinstance(value, list) for value in label)
    features = {"label": List(of_one) if lists else of_one, "text": Value("string")}
    texts = text or [f"text {number}" for number in range(len(label))]
    if isinstance(texts[0], list):
        features["text"] = List(Value("string"))
    Dataset.from_dict({"label": label, "text": texts}, features=Features(features)).to_parquet(path)


def reader(
    folder: Path, names: list[str] | None = None, kind: str = "one", columns: dict[str, Any] | None = None
) -> SplitReader:
    files = {path.stem: path.name for path in folder.iterdir()}
    origin = find_files(SourceSettings(files=files), folder, "source")
    return SplitReader(origin, Columns(inputs(), columns or {}), 0.3, names, kind, ALL_STAY)


def labels(reading: SplitReader, split: str = "train") -> list[Any]:
    return [row["label"] for row in reading.read(split)]


def test_classes_have_the_names_and_the_order_that_the_file_declares(tmp_path: Path) -> None:
    written(tmp_path / "train.parquet", [2, 0, 1, 0])
    written(tmp_path / "validation.parquet", [1])
    written(tmp_path / "test.parquet", [-1, 2])
    reading = reader(tmp_path)
    assert reading.labels == tuple(NAMES) and labels(reading) == [2, 0, 1, 0]
    assert labels(reading, "validation") == [1] and labels(reading, "test") == [-1, 2]


def test_a_class_that_no_row_of_train_has_is_a_class(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path / "train.parquet", [2, 0])
    written(tmp_path / "validation.parquet", [1])
    assert labels(reader(tmp_path), "validation") == [1]
    list(reader(tmp_path).read("train"))
    assert "no row has the label Sports" in caplog.text


def test_a_list_in_another_order_names_the_same_classes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path / "train.parquet", [0, 1, 2])
    written(tmp_path / "validation.parquet", [0, 0, 1], names=["Business", "World"])
    with caplog.at_level(logging.INFO):
        reading = reader(tmp_path, names=["Sports", "World", "Business"])
        assert labels(reading) == [1, 0, 2] and labels(reading, "validation") == [2, 2, 1]
    assert "its labels are numbers" not in caplog.text


def test_a_class_that_the_list_lacks_is_refused_by_name(tmp_path: Path) -> None:
    written(tmp_path / "train.parquet", [0, 1, 2])
    written(tmp_path / "validation.parquet", [0])
    with pytest.raises(ValueError, match=r"train.parquet: row 2: unknown label 'Sports'; allowed: World, Business$"):
        labels(reader(tmp_path, names=["World", "Business"]))


def test_other_names_for_all_classes_name_their_positions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path / "train.parquet", [2, 0, 1])
    written(tmp_path / "validation.parquet", [1])
    with caplog.at_level(logging.INFO):
        reading = reader(tmp_path, names=["a", "b", "c"])
        assert labels(reading) == [2, 0, 1] and reading.labels == ("a", "b", "c")
    assert "zoo reads 0 as a, 1 as b, 2 as c" in caplog.text


def test_names_after_numbers_without_names_are_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("".join(f'{{"label": {n}, "text": "text {n}"}}\n' for n in range(3)))
    written(tmp_path / "validation.parquet", [1, 2])
    said = "validation.parquet: row 1: unknown label 'Sports'; allowed: 0, 1, 2; if the numbers stand for names, list"
    with pytest.raises(ValueError, match=said):
        labels(reader(tmp_path), "validation")
    listed = reader(tmp_path, names=NAMES)
    assert labels(listed) == [0, 1, 2] and labels(listed, "validation") == [1, 2]


def test_names_that_are_numbers_are_no_positions(tmp_path: Path) -> None:
    written(tmp_path / "train.parquet", [0, 1], names=["1", "2"])
    written(tmp_path / "validation.parquet", [1], names=["1", "2"])
    assert labels(reader(tmp_path, names=["1", "2"])) == [0, 1]


def test_classes_that_are_listed_by_number_stay_numbers(tmp_path: Path) -> None:
    """A model that was trained on the numbers has these classes, though the file has names such as 1 and 2."""
    for split in ("train", "validation"):
        written(tmp_path / f"{split}.parquet", [0, 1, 2], names=["1", "2", "3"])
    assert labels(reader(tmp_path, names=["0", "1", "2"])) == [0, 1, 2]


def test_parts_of_a_split_without_names_hold_the_same_numbers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    written(folder / "a.parquet", [2, 0])
    (folder / "d.csv").write_text("")
    (folder / "b.csv").write_text("label,text\n2,a\n1,b\n")
    (folder / "c.jsonl").write_text('{"label": 0, "text": "a"}\n{"label": "Sports", "text": "b"}\n')
    origin = find_files(SourceSettings(files={"train": "train", "validation": "train/a.parquet"}), tmp_path, "source")
    for names in (None, ["Sports", "World", "Business"]):
        caplog.clear()
        reading = SplitReader(origin, Columns(inputs()), 0.3, names, "one", ALL_STAY)
        found = [reading.labels[number] for number in labels(reading)]
        assert found == ["Business", "World", "Business", "Sports", "World", "Sports"]
        assert caplog.text.count("skipped files without rows") == 1
    assert len({part.digest for part in reading.parts("train")}) == 3


def test_numbers_of_a_split_without_names_are_refused_where_train_names_them_in_another_order(tmp_path: Path) -> None:
    written(tmp_path / "train.parquet", [2, 0, 1])
    (tmp_path / "validation.csv").write_text("label,text\n2,a\n")
    (tmp_path / "test.csv").write_text("label,text\n-1,a\n")
    other = reader(tmp_path, names=["Sports", "World", "Business"])
    said = (
        "validation.csv: its labels are numbers without names, and .*train.parquet names 0 as World, 1 as Sports, 2 as"
    )
    with pytest.raises(ValueError, match=said):
        labels(other, "validation")
    assert labels(other, "test") == [-1]
    for names in (NAMES, [*NAMES, "Sci/Tech"]):
        assert labels(reader(tmp_path, names=names), "validation") == [2]


def test_several_classes_and_tags_of_words_have_names_too(tmp_path: Path) -> None:
    written(tmp_path / "train.parquet", [[2, 0], []])
    written(tmp_path / "validation.parquet", [[1]])
    reading = reader(tmp_path, kind="several")
    assert reading.labels == tuple(NAMES) and labels(reading) == [(0, 2), ()]
    words = {"words": "text", "tags": "label"}
    written(tmp_path / "train.parquet", [[2, 0], [0]], text=[["a", "b"], ["c"]])
    written(tmp_path / "validation.parquet", [[1]], text=[["a"]])
    tagged = reader(tmp_path, columns=words)
    assert tagged.labels == tuple(NAMES) and [row["tags"] for row in tagged.read("train")] == [[2, 0], [0]]


def test_a_field_of_a_column_has_names_too(tmp_path: Path) -> None:
    kinds = Features({"label": {"id": Value("int64"), "class": ClassLabel(names=NAMES)}, "text": Value("string")})
    rows = {"label": [{"id": 0, "class": 2}, {"id": 1, "class": 0}], "text": ["a", "b"]}
    for split in ("train", "validation"):
        Dataset.from_dict(rows, features=kinds).to_parquet(tmp_path / f"{split}.parquet")
    columns = {"text": "text", "label": "label.class"}
    assert labels(reader(tmp_path, names=["Sports", "World", "Business"], columns=columns)) == [2, 1]


def test_numbers_to_predict_stay_numbers(tmp_path: Path) -> None:
    written(tmp_path / "train.parquet", [2, 0])
    written(tmp_path / "validation.parquet", [1])
    assert labels(reader(tmp_path, kind="number")) == [2.0, 0.0]


def test_the_first_of_two_declared_classes_is_class_zero_and_one_alone_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "train.parquet", [0, 1], names=["yes", "no"])
    assert reader(tmp_path).labels == ("yes", "no")
    written(tmp_path / "train.parquet", [0, 0], names=["yes"])
    with pytest.raises(ValueError, match="every row has the label 'yes'; at least two classes are needed"):
        reader(tmp_path).labels  # noqa: B018


TEXT, CLASS = Value("string"), ClassLabel(names=["first", "second"])
CHOICES = {"context": (TEXT, ["a", "b"]), "choices": (List(TEXT), [["x", "y"], ["z", "v"]]), "label": (CLASS, [1, 0])}
COLUMNS = {"text": (TEXT, ["a", "b"]), "loud": (CLASS, [1, 0]), "rude": (CLASS, [1, 1])}


@pytest.mark.parametrize(
    ("table", "kind", "columns", "expected"),
    [
        (CHOICES, "one", {}, [1, 0]),
        (COLUMNS, "several", {"text": "text", "label": ["loud", "rude"]}, [(0, 1), (1,)]),
    ],
)
def test_the_position_of_a_choice_and_a_column_for_each_class_need_no_names(
    tmp_path: Path, table: dict[str, tuple[Any, list[Any]]], kind: str, columns: dict[str, Any], expected: list[Any]
) -> None:
    features = Features({name: feature for name, (feature, _) in table.items()})
    rows = Dataset.from_dict({name: values for name, (_, values) in table.items()}, features=features)
    for split in ("train", "validation"):
        rows.to_parquet(tmp_path / f"{split}.parquet")
    assert labels(reader(tmp_path, kind=kind, columns=columns)) == expected


def test_a_part_with_other_names_is_read_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    written(folder / "a.parquet", [0, 1])
    written(folder / "b.parquet", [0, 1], names=["Sports", "World"])
    origin = find_files(SourceSettings(files={"train": "train", "validation": "train/a.parquet"}), tmp_path, "source")
    assert labels(SplitReader(origin, Columns(inputs()), 0.3, None, "one", ALL_STAY)) == [0, 1, 1, 0]


def test_only_the_numbers_of_classes_get_names_and_places_stay_as_they_are(tmp_path: Path) -> None:
    written(tmp_path / "train.parquet", [[2, None], None], text=["a", "b"])
    part = reader(tmp_path, kind="several").parts("train")[0]
    assert isinstance(part, NamedClasses) and [part.name(value) for value in (0, 3, -1)] == ["World", 3, -1]
    assert [row["label"] for row in part.rows(["label", "text"])] == [["Business", None], None]
    assert list(part.rows(["text"])) == [{"text": "a"}, {"text": "b"}]
    assert (part.where(2, 1), part.line(2, 1)) == (part.part.where(2, 1), part.part.line(2, 1))


def test_what_is_stored_depends_on_whether_classes_have_names(tmp_path: Path) -> None:
    written(tmp_path / "train.parquet", [0, 1, 2])
    digests = {reader(tmp_path, names=names).parts("train")[0].digest for names in (None, NAMES, ["a", "b", "c"])}
    assert len(digests) == 2


UNREADABLE = {
    "cut": b"{",
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "no columns": b'{"info": 1}',
    "numbers": b'{"info": {"features": {"label": {"names": [1], "_type": "ClassLabel"}}}}',
    "two alike": b'{"info": {"features": {"label": {"names": ["x", "x"], "_type": "ClassLabel"}}}}',
    "blank": b'{"info": {"features": {"label": {"names": ["x", ""], "_type": "ClassLabel"}}}}',
}


@pytest.mark.parametrize("said", UNREADABLE.values(), ids=UNREADABLE)
def test_a_description_that_cannot_be_read_names_nothing(tmp_path: Path, said: bytes) -> None:
    table = pyarrow.table({"label": [0, 1], "text": ["a", "b"]})
    for split in ("train", "validation"):
        parquet.write_table(table.replace_schema_metadata({METADATA: said}), tmp_path / f"{split}.parquet")
    assert reader(tmp_path).labels == ("0", "1")


def test_a_column_that_holds_texts_by_now_needs_no_names(tmp_path: Path) -> None:
    described = {"info": {"features": {"label": {"names": ["x", "y"], "_type": "ClassLabel"}}}}
    table = pyarrow.table({"label": ["no", "yes"], "text": ["a", "b"]})
    for split in ("train", "validation"):
        path = tmp_path / f"{split}.parquet"
        parquet.write_table(table.replace_schema_metadata({METADATA: json.dumps(described)}), path)
    assert reader(tmp_path).labels == ("no", "yes")


NUMBERS = pyarrow.int8()


@pytest.mark.parametrize(
    "kind", [NUMBERS, pyarrow.list_(NUMBERS), pyarrow.large_list(NUMBERS), pyarrow.list_(NUMBERS, 2)]
)
def test_numbers_and_every_kind_of_list_of_them_have_names_if_the_file_describes_them(kind: pyarrow.DataType) -> None:
    described = {"info": {"features": {"label": {"names": ["x", "y"], "_type": "ClassLabel"}}}}
    schema = pyarrow.schema({"label": kind, "text": pyarrow.string()})
    assert class_features(schema.with_metadata({METADATA: json.dumps(described)})) == {"label": ["x", "y"]}
    assert class_features(schema) == class_features(schema.with_metadata({"pandas": "{}"})) == {}


def test_every_form_of_a_list_of_classes_is_known() -> None:
    one = {"names": ["x"], "_type": "ClassLabel"}
    forms = [one, [one], *({"_type": name, "feature": one} for name in ("List", "LargeList", "Sequence"))]
    assert [names_in({"label": form}) for form in forms] == [{"label": ["x"]}] * 5
    assert names_in({"label": {"dtype": "int64", "_type": "Value"}}) == {}


def test_many_small_files_keep_the_names_that_each_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(groups, "MANY", 2)
    (tmp_path / "many").mkdir()
    for number in range(4):
        written(tmp_path / "many" / f"{number}.parquet", [0, 2], names=NAMES if number < 3 else NAMES[::-1])
    source = SourceSettings(files={"train": "many", "validation": "many/0.parquet"})
    for _ in range(2):  # the second time from what is known of the files
        parts = find_files(source, tmp_path, "source")
        reading = SplitReader(parts, Columns(inputs()), 0.3, ["Sports", "World", "Business"], "one", ALL_STAY)
        assert labels(reading) == [1, 2, 1, 2, 1, 2, 2, 1] and len(reading.parts("train")) == 2
