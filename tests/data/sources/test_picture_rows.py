"""Pictures from a table to a batch: by number in the cache, one a row, varied in training only."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from PIL import Image

from zoo.batches.collate import collate
from zoo.batches.order import Examples
from zoo.batches.packing import RowShape
from zoo.data.columns.pictures import Augment
from zoo.data.formats.lines import LineRange, read_lines
from zoo.data.ids import NO_ROLES, Roles
from zoo.data.sources.files import find_all
from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import SplitRows
from zoo.data.store.store import open_store
from zoo.data.task import read_task
from zoo.examples.form import ModelTraits, forms, inputs
from zoo.objectives.mixture import Mixture

ROLES = Roles(vocab_size=300, pad=0, unk=1, start=2, end=3, separator=None, extract=None, mask=None)
CAPTIONER, CLASSIFIER = ModelTraits(causal=True, source=True, image_size=4), ModelTraits(causal=False, image_size=4)
SIZE = 4
FILES = {"train": "train.parquet", "validation": "validation.parquet"}


class Letters:
    """A tokenizer with an id for each letter."""

    vocab_size = 300
    digest = "letters"

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        return [np.array([ord(letter) for letter in text if letter != " "], dtype=np.int64) for text in texts]


def color(number: int) -> tuple[int, int, int]:
    return (10 * number, 255 - number, 128)


def write_table(folder: Path, split: str, count: int, *, halved: bool = False, **columns: list[object]) -> None:
    """A parquet table of pictures, each of one color that tells its number, or half of it black."""
    names = [f"{split}-{number}.png" for number in range(count)]
    for number, name in enumerate(names):
        picture = Image.new("RGB", (8, 8), color(number))
        if halved:
            picture.paste((0, 0, 0), (4, 0, 8, 8))
        picture.save(folder / name)
    stored = [{"bytes": (folder / name).read_bytes(), "path": name} for name in names]
    Dataset.from_dict({"image": stored, **columns}).to_parquet(folder / f"{split}.parquet")


@pytest.fixture
def captioned(tmp_path: Path) -> dict[str, SplitRows]:
    """Two training pictures with two and one captions, and one to validate on with two."""
    write_table(tmp_path, "train", 2, captions=[["ab", "abc"], ["d"]])
    write_table(tmp_path, "validation", 1, captions=[["ef", "efg"]])
    task = {"objective": "captioning", "source": {"files": FILES}, "columns": {"image": "image", "text": "captions"}}
    return load_rows(read_task(task, "task"), inputs(), tmp_path)


def examples(rows: SplitRows, augment: Augment | None = None) -> Examples:
    split = open_store({rows.split: rows}, forms["image_text"].stored, Letters())[rows.split]
    mixture = Mixture.parse("captioning")
    form = mixture.form(["image", "text"], CAPTIONER)
    shape = RowShape(6, 1, pack=False)
    return Examples(form, mixture, split.lengths, split.reader(SIZE), ROLES, shape, augment=augment)


def test_every_caption_of_train_is_an_example_with_its_picture(captioned: dict[str, SplitRows]):
    made = examples(captioned["train"])
    part = collate(list(made.rows_in_order()), made, 4)
    assert part.inputs["source"].shape == (4, 3, SIZE, SIZE)
    colors = part.inputs["source"][:, :, 0, 0].tolist()
    assert colors == [list(color(0)), list(color(0)), list(color(1)), [0, 0, 0]]
    assert part.inputs["source_documents"].numbers.tolist() == [[1], [1], [1], [0]]
    assert part.inputs["documents"].numbers.sum(1).tolist() == [3, 4, 2, 0]  # with `<s>`
    assert part.targets["captioning"][1].tolist() == [*map(ord, "abc"), 3, -1, -1]


def test_a_picture_to_validate_on_is_one_example_with_all_its_captions(captioned: dict[str, SplitRows]):
    assert next(iter(captioned["validation"]))["text"] == ["ef", "efg"]
    assert len(list(examples(captioned["validation"]).rows_in_order())) == 1


def test_pictures_of_several_files_are_those_of_their_rows(tmp_path: Path):
    write_table(tmp_path, "a", 2, text=["ab", "c"])
    write_table(tmp_path, "b", 3, halved=True, text=["d", "e", "f"])
    source = {"files": {"train": ["a.parquet", "b.parquet"], "validation": "a.parquet"}}
    rows = load_rows(read_task({"objective": "captioning", "source": source}, "task"), inputs(), tmp_path)["train"]
    made = examples(rows)
    seen = [example.picture for row in made.rows_in_order() for example in made.build(row)]
    assert [picture[:, 0, 0].tolist() for picture in seen] == [list(color(n)) for n in (0, 1, 0, 1, 2)]
    assert [bool(picture[:, 0, -1].any()) for picture in seen] == [True, True, False, False, False]
    split = open_store({"train": rows}, forms["image_text"].stored, Letters())["train"]
    assert [split.line(n).rpartition("/")[2] for n in (1, 2)] == ["a.parquet: row 2", "b.parquet: row 1"]


def test_captions_are_cached_and_pictures_are_not(captioned: dict[str, SplitRows]):
    split = open_store({"train": captioned["train"]}, forms["image_text"].stored, Letters())["train"]
    assert split.ids["image"].tolist() == [0, 0, 1]
    assert split.bytes.tolist() == [2, 3, 1]


def test_training_pictures_are_varied_by_seed_epoch_and_example_alone(tmp_path: Path):
    write_table(tmp_path, "train", 2, halved=True, text=["ab", "d"])
    task = {"objective": "captioning", "source": {"files": {"train": FILES["train"]}}}
    varied = examples(load_rows(read_task(task, "task"), inputs(), tmp_path)["train"], Augment(shift=0.5))

    def seen(epoch: int) -> list[bytes]:
        built = [varied.build(row._replace(epoch=epoch))[0] for row in varied.rows_in_order()]
        return [example.picture.tobytes() for example in built if example.picture is not None]

    assert seen(0) == seen(0)
    assert any(one != other for one, other in zip(seen(0), seen(1), strict=True))


def test_pictures_are_classified_without_a_tokenizer_and_held_out_by_their_bytes(tmp_path: Path):
    write_table(tmp_path, "train", 20, label=["a", "b"] * 10)
    source = {"files": {"train": "train.parquet"}, "validation": 0.3}
    rows = load_rows(read_task({"objective": "classification", "source": source}, "task"), inputs(), tmp_path)
    splits = open_store(rows, forms["image"].stored, None)
    numbers = [set(splits[name].ids["image"].tolist()) for name in ("train", "validation")]
    assert numbers[0] | numbers[1] == set(range(20)) and not numbers[0] & numbers[1] and len(numbers[1]) > 1
    split = splits["validation"]
    mixture = Mixture.parse("classification")
    form = mixture.form(["image", "label"], CLASSIFIER)
    made = Examples(form, mixture, split.lengths, split.reader(SIZE), NO_ROLES, RowShape(1, pack=False))
    part = collate(list(made.rows_in_order())[:2], made, 3)
    first = min(numbers[1])
    assert part.inputs["tokens"][0, :, 0, 0].tolist() == list(color(first))
    assert part.inputs["documents"].numbers.tolist() == [[1], [1], [0]]
    assert part.inputs["places"]["classification"].tolist() == [0, 1, -1]
    assert part.targets["classification"].tolist()[0] == first % 2


def test_a_table_may_name_files_beside_it(tmp_path: Path):
    write_table(tmp_path, "train", 3, label=[0, 1, 0])
    (tmp_path / "train.csv").write_text("image,label\ntrain-0.png,a\ntrain-1.png,b\ntrain-2.png,a\n")
    task = {"objective": "classification", "source": {"files": {"train": "train.csv", "validation": "train.csv"}}}
    rows = load_rows(read_task(task, "task"), inputs(), tmp_path)
    assert rows["train"].pictures(rows["train"].parts[0]).read(1, 2)[:, 0, 0].tolist() == list(color(1))


def test_pixels_are_no_image_wherever_rows_are_read(tmp_path: Path):
    (tmp_path / "t.jsonl").write_text('{"image": "a.png", "label": 0}\n\n{"image": [[[1, 2, 3]]], "label": 1}\n')
    task = {"objective": "classification", "source": {"files": {"train": "t.jsonl", "validation": "t.jsonl"}}}
    rows = load_rows(read_task(task, "task"), inputs(), tmp_path)["train"]
    with pytest.raises(ValueError, match="t.jsonl: line 3: expected the path of an image, its bytes, or a map of both"):
        list(rows)


@pytest.mark.parametrize("name", ["set[1]", "set*"])
def test_the_name_of_a_folder_of_pictures_is_no_pattern(name: str, tmp_path: Path):
    for folder, count in ((name, 1), ("set1", 2)):
        (tmp_path / folder).mkdir()
        write_table(tmp_path / folder, "train", count, label=[str(number) for number in range(count)])
    task = {"objective": "classification", "source": {"files": {"train": "train.parquet"}}}
    rows = load_rows(read_task(task, "task"), inputs(), tmp_path / name)["train"]
    assert len(rows.pictures(rows.parts[0])) == 1


def test_captions_of_one_picture_are_held_out_together(tmp_path: Path):
    names = [f"{number}.png" for number in range(20)]
    for number, name in enumerate(names):
        Image.new("RGB", (8, 8), color(number)).save(tmp_path / name)
    lines = [f"{name},caption {n} of {name}" for name in names for n in range(5)]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *lines]) + "\n")
    source = {"files": {"train": "captions.csv"}, "validation": 0.3}
    task = {"objective": "captioning", "source": source, "columns": {"image": "image", "text": "caption"}}
    rows = load_rows(read_task(task, "task"), inputs(), tmp_path)
    train, held = ({row["image"] for row in rows[name]} for name in ("train", "validation"))
    assert train | held == set(names) and not train & held and held
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *lines[:5]]) + "\n")
    with pytest.raises(ValueError, match="too few different images in 5 rows to hold some out for validation"):
        list(load_rows(read_task(task, "task"), inputs(), tmp_path)["train"])


def test_pictures_are_those_of_the_file_that_is_there_though_an_older_one_had_its_name_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    task = read_task({"objective": "captioning", "source": {"files": {"train": "train.parquet"}}}, "task")
    found = []
    for turned in (False, True):
        write_table(tmp_path, "train", 3, text=["ab", "c", "d"])
        if turned:
            table = Dataset.from_parquet(str(tmp_path / "train.parquet"), cache_dir=str(tmp_path / "copy"))
            table.select([2, 1, 0]).to_parquet(tmp_path / "train.parquet")
        os.utime(tmp_path / "train.parquet", (1e9, 1e9))
        (part,) = load_rows(task, inputs(), tmp_path)["train"].parts
        found.append([part.pictures("image").read(number, 1)[:, 0, 0].tolist() for number in range(3)])
    assert found == [[list(color(n)) for n in numbers] for numbers in ((0, 1, 2), (2, 1, 0))]


def test_pictures_of_two_folders_with_the_same_table_are_held_out_each_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    for folder, turned in (("a", False), ("b", True)):
        (tmp_path / folder).mkdir()
        for number in range(20):
            picture = Image.new("RGB", (8, 8), color(19 - number if turned else number))
            picture.save(tmp_path / folder / f"{number}.png")
        (tmp_path / folder / "table.csv").write_text("image,text\n" + "".join(f"{n}.png,ab\n" for n in range(20)))
    held = []
    for files in (["a", "b"], ["b", "a"], ["b"]):  # whichever the store has read first
        source = {"files": {"train": [f"{folder}/table.csv" for folder in files]}, "validation": 0.3}
        rows = load_rows(read_task({"objective": "captioning", "source": source}, "task"), inputs(), tmp_path)
        splits = open_store(rows, forms["image_text"].stored, Letters())
        seen = {}
        for name, split in splits.items():
            pieces = [split.lengths.span("image", document) for document in range(split.lengths.documents)]
            seen[name] = {tuple(split.reader(1)(piece).ravel().tolist()) for piece in pieces}
        assert not seen["train"] & seen["validation"] and len(seen["train"]) + len(seen["validation"]) == 20
        held.append(seen["validation"])
    assert held[0] == held[1] == held[2]


@pytest.mark.parametrize("settings", [{}, {"validation": 0.5, "filter": {"deduplicate": True}}])
def test_an_equal_table_beside_other_images_decides_nothing(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for start, folder in enumerate("abc"):
        (tmp_path / folder).mkdir()
        for number in range(6):
            Image.new("RGB", (8, 8), color(6 * start + number)).save(tmp_path / folder / f"{number}.png")
        (tmp_path / folder / "t.csv").write_text("image,text\n" + "".join(f"{n}.png,ab{n % 3}\n" for n in range(6)))

    def read(folder: str, cache: str) -> list[list[dict[str, object]]]:
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path / cache))
        source = {"files": {"train": f"{folder}/t.csv"}, **settings}
        rows = load_rows(read_task({"objective": "captioning", "source": source}, "task"), inputs(), tmp_path)
        return [list(rows["train"]), list(rows["validation"])]

    assert [read(folder, "shared") for folder in "abc"] == [read(folder, f"of {folder}") for folder in "abc"]


def test_an_image_that_is_replaced_is_other_data_and_a_copied_folder_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))

    def read(folder: str) -> tuple[str, set[int]]:
        source = {"files": {"train": f"{folder}/t.csv"}, "validation": 0.3}
        rows = load_rows(read_task({"objective": "captioning", "source": source}, "task"), inputs(), tmp_path)
        split = open_store(rows, forms["image_text"].stored, Letters())["validation"]
        return rows["train"].fingerprint, set(split.ids["image"].tolist())

    (tmp_path / "a").mkdir()
    for number in range(20):
        Image.new("RGB", (8, 8), color(number)).save(tmp_path / "a" / f"{number}.bmp")
    (tmp_path / "a" / "t.csv").write_text("image,text\nmissing.png,\n" + "".join(f"{n}.bmp,ab\n" for n in range(20)))
    Image.new("RGB", (8, 8), color(20)).save(tmp_path / "a" / "missing.png")
    for path in (tmp_path / "a").iterdir():
        os.utime(path, (1e9, 1e9))  # what is known of a younger file is not cached
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    before = read("a")
    assert read("b") == read("a") == before
    for number in range(20):
        Image.new("RGB", (8, 8), color(19 - number)).save(tmp_path / "a" / f"{number}.bmp")
        os.utime(tmp_path / "a" / f"{number}.bmp", (1e9, 1e9))  # older, as one is that was copied with its time
    after = read("a")
    assert after[0] != before[0] and after[1] - {0} == {21 - number for number in before[1] - {0}}


def test_pictures_are_refused_if_their_table_was_replaced_since_its_texts_were_read(tmp_path: Path):
    write_table(tmp_path, "train", 2, text=["ab", "c"])
    task = {"objective": "captioning", "source": {"files": {"train": "train.parquet"}}}
    rows = load_rows(read_task(task, "task"), inputs(), tmp_path)["train"]
    (part,) = rows.parts
    write_table(tmp_path, "train", 2, halved=True, text=["ab", "c"])
    with pytest.raises(ValueError, match="train.parquet: the file changed while it was read; start again"):
        rows.pictures(part)


def test_a_folder_of_images_needs_a_table(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"without a data file; allowed: [^;]*$"):
        find_all(str(tmp_path), None, "source.files.train")
    (tmp_path / "a.JPG").write_bytes(b"\xff\xd8")
    with pytest.raises(ValueError, match=r"a.JPG: it is an image; images are read from a table"):
        [*read_lines(LineRange(tmp_path / "a.JPG"))]
    with pytest.raises(ValueError, match=r"; images are read from a table that holds or names them"):
        find_all(str(tmp_path), None, "source.files.train")
