"""The token store: a shard a part of the source, made once and alone, by one of many; damage and races do no harm."""

import errno
import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from test_store import ALL_STAY, Given, Letters, ids, opened, rows

from zoo.data.atomic_folders import ASIDE, lock_creation, remove_leftovers
from zoo.data.columns.columns import Columns
from zoo.data.ids import StoredFields
from zoo.data.sources.filtering import Filtering, RowFilter
from zoo.data.sources.mixed import MixedRows
from zoo.data.sources.repeated.duplicates import Duplicates
from zoo.data.sources.rows import SplitRows
from zoo.data.sources.splits.holdout import hash_fraction
from zoo.data.sources.splits.reader import SplitReader
from zoo.data.store import store as store_module
from zoo.data.store.checking import check_store
from zoo.data.store.shard import INDEX, Shard
from zoo.data.store.split import Split
from zoo.data.store.store import SHARDS, StoreRecipe, open_store, plan_shards
from zoo.examples.form import forms


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def folder(home: Path) -> Path:
    (made,) = (home / SHARDS).iterdir()
    return made


def test_the_second_time_nothing_is_read() -> None:
    opened(text=["ab", "cd"])
    unread = rows({"text": ["ab", "cd"]}, read=lambda part: pytest.fail("read again"))
    tokenizer = Letters()
    assert ids(open_store(unread, forms["text"].stored, tokenizer)["validation"]) == ["ab", "cd"]  # type: ignore
    assert tokenizer.seen == []


def test_rows_form_and_tokenizer_each_have_a_shard_of_their_own(home: Path) -> None:
    other = Letters()
    other.digest = "others"
    opened(text=["ab"])
    opened("sentences", text=["ab"])
    opened("text", other, text=["ab"])
    opened(text=["ac"])
    assert len(list((home / SHARDS).iterdir())) == 4


@pytest.mark.parametrize(
    "changed", [{"predicted": ("text",)}, {"sentences": True}, {"sentences": True, "language": "de"}]
)
def test_what_is_kept_decides_the_name_of_a_shard(changed: dict[str, Any]) -> None:
    pytest.importorskip("sentencex")
    split, stored = rows({"text": ["ab"]})["validation"], StoredFields(("text",), lists=("text",))
    one, other = (plan_shards(split, StoreRecipe(each, Letters())) for each in (stored, stored._replace(**changed)))  # type: ignore
    assert one[0].folder != other[0].folder


def test_other_columns_of_a_source_have_shards_of_their_own() -> None:
    splits = []
    for name in "ab":
        origin, columns = Given("test", {"a": ["x"], "b": ["y"]}), Columns(["text"], {"text": name})
        splits.append({"test": SplitRows(SplitReader(origin, columns, 0.3, None, "one", ALL_STAY), "test")})
    assert [ids(open_store(one, forms["text"].stored, Letters())["test"]) for one in splits] == [["x"], ["y"]]  # type: ignore


def held_out(share: float, *parts: list[str]) -> dict[str, list[str]]:
    origin = Given("train", *({"text": texts} for texts in parts))
    reading = SplitReader(origin, Columns(["text"]), share, None, "one", ALL_STAY)
    splits = {name: SplitRows(reading, name) for name in ("train", "validation")}
    return {name: ids(one) for name, one in open_store(splits, forms["text"].stored, Letters()).items()}  # type: ignore


def test_the_hashes_of_a_part_are_those_of_its_border_and_its_rule() -> None:
    def decided(*parts: list[str], **rule: Any) -> Any:
        origin = Given("train", *({"text": texts} for texts in parts))
        filtering = Filtering(RowFilter(**rule), Duplicates(list))
        return SplitReader(origin, Columns(["text"]), 1e-9, None, "one", filtering).compared()[0].decided

    least, *others = sorted("abcd", key=lambda text: hash_fraction(str((text,))))
    known = decided(others[:1], others[1:])
    assert known == decided(others[:1], others[1:], deduplicate=True)
    assert known != decided(others[:1], others[1:], [least]) and known != decided(others[:1], others[1:], shortest=1)


def test_a_new_part_changes_what_is_held_out_of_those_that_were_made_before() -> None:
    least, *others = sorted("abcd", key=lambda text: hash_fraction(str((text,))))
    assert held_out(1e-9, others[:1], others[1:])["validation"] == others[:1]
    assert held_out(1e-9, others[:1], others[1:], [least]) == {"train": others, "validation": [least]}
    assert held_out(0.5, ["0123456789"]) == {"train": ["01234"], "validation": ["56789"]}
    assert "0123456789" in sum(held_out(0.5, ["0123456789"], [*"abcd"]).values(), [])


TABLES = [{"text": ["ab", "", "c"]}, {"text": ["  "]}, {"text": ["def"]}, {"text": ["g", "hi", "j"]}]


def sentences(*tables: dict[str, list[Any]], **given: Any) -> Split:
    return open_store(rows(*tables, **given), forms["sentences"].stored, Letters())["validation"]  # type: ignore


def test_a_new_part_costs_its_own_shard() -> None:
    read: list[int] = []
    sentences(*TABLES[:3])
    assert ids(sentences(*TABLES, read=read.append)) == ["ab", "c", "def", "g", "hi", "j"] and read == [3]


def test_several_shards_read_as_one() -> None:
    texts = [text for table in TABLES for text in table["text"]]
    whole, parts = sentences({"text": texts}), sentences(*TABLES)
    assert ids(parts) == ids(whole) and parts.skipped == whole.skipped == 2
    assert parts.bytes[:].tolist() == whole.bytes.tolist() and parts.bytes.sum() == whole.bytes.sum()
    assert parts.lengths.documents == whole.lengths.documents == 6
    for document in range(6):
        assert parts.rows[document] == whole.rows[document]
        assert parts.lengths.span("text", document) == whole.lengths.span("text", document)
        bounds = [split.lengths.sentence_bounds("text", document).tolist() for split in (parts, whole)]
        assert bounds[0] == bounds[1]
    for beyond in (-7, 6):
        with pytest.raises(IndexError):
            parts.bytes[beyond]
    mixed = [4, 0, 5, 2]
    begins, ends = (found.tolist() for found in parts.lengths.spans("text", mixed))
    spans = [whole.lengths.span("text", document) for document in mixed]
    assert list(zip(begins, ends, strict=True)) == [(span.start, span.stop) for span in spans]


def test_labels_that_shards_met_in_another_order_are_the_same_numbers() -> None:
    tables = [{"text": ["a", "b"], "label": ["y", "x"]}, {"text": ["c", "d"], "label": ["x", "z"]}]
    split = open_store(rows(*tables, names=["x", "y", "z"]), forms["text"].stored, Letters())["validation"]  # type: ignore
    assert [split.lengths.label(document) for document in range(4)] == [1, 0, 0, 2]


DAMAGES = ["truncated", "flipped", "missing", "index", "no index", "not json", "a number of the index"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_made_again_alone(home: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    sentences({"text": ["ab", "cd"]})
    made, read = folder(home), list[int]()
    tokens = made / "validation" / "text.ids"
    if damage == "truncated":
        tokens.write_bytes(b"\1")
    elif damage == "flipped":
        tokens.write_bytes(tokens.read_bytes()[::-1])
    elif damage == "missing":
        tokens.unlink()
    elif damage == "index":
        (made / INDEX).write_text(json.dumps({"sides": {}}))
    elif damage == "no index":
        (made / INDEX).unlink()
    elif damage == "a number of the index":
        (made / INDEX).write_text((made / INDEX).read_text().replace('"documents": 2', '"documents": 1'))
    else:
        (made / INDEX).write_text("{")
    tables = [{"text": ["ab", "cd"]}, {"text": ["ef"]}]
    sentences(tables[1])
    assert ids(sentences(*tables, read=read.append)) == ["ab", "cd", "ef"] and read == [0]
    assert ids(sentences(*tables, read=read.append)) == ["ab", "cd", "ef"] and read == [0]
    assert damage in ("no index", "missing") or "the shard of 0.tsv is damaged" in caplog.text


def lead_nowhere(made: Path) -> None:
    made.symlink_to("nowhere")


def lead_to_a_folder(made: Path) -> None:
    (made.parent.parent / "others").mkdir()
    made.symlink_to(made.parent.parent / "others")


@pytest.mark.parametrize("put", [Path.touch, lead_nowhere, lead_to_a_folder])
def test_what_is_no_folder_in_the_place_of_a_shard_gives_way(home: Path, put: Callable[[Path], None]) -> None:
    opened(text=["ab"])
    shutil.rmtree(made := folder(home))
    put(made)
    assert ids(opened(text=["ab"])) == ["ab"] and made.is_dir() and not made.is_symlink()


def test_a_shard_that_is_cut_or_flipped_at_any_byte_is_refused_or_found_by_a_check(home: Path) -> None:
    sentences({"text": ["ab", "cd"]})
    made, drawn = folder(home), random.Random(0)
    whole = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in made.rglob("*") if path.is_file()}
    for number in range(50):
        path = drawn.choice([path for path, (content, _) in whole.items() if content])
        content, time = whole[path]
        at = drawn.randrange(len(content))
        flipped = bytes([content[at] ^ 1 << drawn.randrange(8)])
        path.write_bytes(content[:at] if number % 4 == 0 else content[:at] + flipped + content[at + 1 :])
        if number % 2:  # as a failing disk does it
            os.utime(path, ns=(time, time))
        assert check_store(made.parent)[1], f"{path.name} changed at {at}"
        for each, (written, when) in whole.items():
            each.write_bytes(written)
            os.utime(each, ns=(when, when))
        assert check_store(made.parent) == (1, [])


def test_a_copied_shard_is_looked_at_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences({"text": ["ab", "cd"]})
    for path in (folder(home) / "validation").iterdir():
        os.utime(path, (5, 5))
    looked = list[str]()
    faults = Shard.faults
    monkeypatch.setattr(Shard, "faults", lambda self: looked.append("") or faults(self))
    assert all(ids(sentences({"text": ["ab", "cd"]})) == ["ab", "cd"] for _ in range(2)) and len(looked) == 1


def test_a_shard_that_another_process_makes_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables, waits = [{"text": ["ab"]}, {"text": ["cd"]}], list[int]()
    (first, _) = plan_shards(rows(*tables)["validation"], StoreRecipe(forms["sentences"].stored, Letters()))  # type: ignore
    with ExitStack() as theirs:
        assert theirs.enter_context(lock_creation(first.folder))

        def wait(seconds: float) -> None:
            waits.append(1)
            theirs.close()  # the other one was killed before it was done

        monkeypatch.setattr(store_module.time, "sleep", wait)
        assert ids(sentences(*tables)) == ["ab", "cd"] and waits == [1]


def test_on_a_disk_without_locks_nothing_waits_for_ever(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits for another process"))
    with pytest.raises(
        RuntimeError, match="shards: its file system has no locks .*; set ZOO_CACHE to a folder on another"
    ):
        opened(text=["ab"])


def test_what_another_machine_has_just_put_in_its_place_is_no_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "glob", lambda *_: [tmp_path / f"{ASIDE}elsewhere-made-x"])  # listed, and gone by now
    remove_leftovers(tmp_path / "made")


def test_an_interrupted_making_leaves_nothing_and_a_killed_one_is_cleared_away(home: Path) -> None:
    def interrupt(part: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sentences({"text": ["ab"]}, read=interrupt)
    assert list((home / SHARDS).iterdir()) == []
    left = home / SHARDS / f"{ASIDE}{socket.gethostname()}-0123-abc"
    left.mkdir()
    sentences({"text": ["ab"]})
    assert not left.exists()


def test_the_sources_of_a_mixture_are_one_split_and_each_for_itself() -> None:
    tables = {"one": {"text": ["a", "b"], "label": ["y", "x"]}, "two": {"text": ["c"], "label": [0]}}
    sources = {name: rows(table, names=["x", "y"])["validation"] for name, table in tables.items()}
    first = sources["one"]
    mixed = MixedRows(first.reader, "validation", mixed=sources, shares={"one": 1.0, "two": 3.0})
    split = open_store({"validation": mixed}, forms["text"].stored, Letters())["validation"]  # type: ignore[arg-type]
    assert ids(split) == ["a", "b", "c"] and [ids(split.of_source(name)) for name in tables] == [["a", "b"], ["c"]]
    assert (
        [split.lengths.label(document) for document in range(3)]
        == [1, 0, 0]
        == [split.rows[document]["label"] for document in range(3)]
    )


def resident(name: str) -> int:
    """Kilobytes of mapped files of this name that are in memory."""
    lines, kilobytes, counts = Path("/proc/self/smaps").read_text().splitlines(), 0, False
    for line in lines:
        if "-" in line.split()[0]:
            counts = line.endswith(name)
        elif counts and line.startswith("Rss:"):
            kilobytes += int(line.split()[1])
    return kilobytes


def test_memory_of_ids_that_were_read_is_given_back(home: Path) -> None:
    split = opened(text=["ab" * 100_000])
    name = str(folder(home) / split.source.split / "text.ids")
    read = int(split.ids["text"].sum())
    assert resident(name) > 100
    split.release("text", 0, 1)
    assert resident(name) == 0 and int(split.ids["text"].sum()) == read
