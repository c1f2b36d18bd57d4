"""The token cache: what it holds, that it is made once, and that damage and races do no harm."""

import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from zoo.data.columns.columns import Columns
from zoo.data.ids import PICTURE, Piece, StoredFields
from zoo.data.sealed import write_sealed
from zoo.data.sources.filtering import EVERY_ROW, Filtering
from zoo.data.sources.origin import Origin
from zoo.data.sources.part import Table
from zoo.data.sources.repeated.duplicates import Duplicates
from zoo.data.sources.rows import SplitRows
from zoo.data.sources.splits.reader import SplitReader
from zoo.data.store import encoding, writing
from zoo.data.store.checking import check_store
from zoo.data.store.shard import INDEX
from zoo.data.store.split import Split
from zoo.data.store.store import SHARDS, open_store
from zoo.examples.form import forms


class Letters:
    """A tokenizer that gives each letter its code point and drops spaces; counts the texts it was given."""

    def __init__(self, vocab_size: int = 1000) -> None:
        self.vocab_size = vocab_size
        self.digest = f"letters {vocab_size}"
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        self.seen += texts
        return [np.array([ord(c) for c in text if c != " "], dtype=np.int64) for text in texts]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        places = [[i for i, c in enumerate(text) if c != " "] for text in texts]
        offsets = [np.array([p, [i + 1 for i in p]], dtype=np.int64).T for p in places]
        return list(zip(self.encode(texts), offsets, strict=True))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Given(Origin):
    """Tables of one split, each of which is a part of it."""

    def __init__(self, split: str, *tables: dict[str, list[Any]], read: Callable[[int], None] = lambda part: None):
        self.split, self.tables, self.read = split, tables, read

    def splits(self) -> tuple[str, ...]:
        return (self.split,)

    def place(self, split: str) -> str:
        return "all.tsv"

    def parts(self, split: str) -> list[Table]:
        def make(number: int) -> dict[str, list[Any]]:
            self.read(number)
            return self.tables[number]

        named = [json.dumps(table, default=str) for table in self.tables]
        return [
            Table(f"{n}.tsv", name, list(self.tables[n]), partial(make, n)) for n, name in enumerate(named)
        ]  # fmt: skip


ALL_STAY = Filtering(EVERY_ROW, Duplicates(list))
INPUTS = ("text", "pair", "source", "target", "words", "tags", "context", "answers", "choices", "label")


def rows(
    *tables: dict[str, list[Any]], names: list[str] | None = None, kind: str = "one", **given: Any
) -> dict[str, SplitRows]:
    """A split named `validation`, so that nothing is held out; classes are named."""
    origin = Given("validation", *tables, **given)
    return {"validation": SplitRows(SplitReader(origin, Columns(INPUTS), 0.3, names, kind, ALL_STAY), "validation")}


def opened(form: str = "text", tokenizer: Letters | None = None, **columns: list[Any]) -> Split:
    return kept(forms[form].stored, tokenizer, **columns)


def kept(stored: StoredFields, tokenizer: Letters | None = None, /, **columns: list[Any]) -> Split:
    names = sorted({str(name) for name in columns.get("label", [])} | {"O"}) if "label" in columns else None
    return open_store(rows(columns, names=names), stored, tokenizer or Letters())["validation"]  # type: ignore[arg-type]


def ids(split: Split, field: str = "text") -> list[str]:
    offsets = split.lengths.offsets[field]
    pieces = [Piece(field, int(a), int(b)) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    return ["".join(map(chr, split.read(piece))) for piece in pieces]


def test_documents_lie_one_after_the_other_with_their_bytes() -> None:
    split = opened(text=["ab", "cdé"])
    assert ids(split) == ["ab", "cdé"] and split.bytes.tolist() == [2, 4]
    assert split.lengths.documents == 2 and split.lengths.sentences is None and split.lengths.labels is None
    assert split.read(Piece("text", 1, 3)).dtype == np.int64


def test_a_sentence_is_a_unit_of_its_document() -> None:
    split = opened("sentences", text=["Ab. Cd.\n\n  \nef", "Gh."])
    assert ids(split) == ["Ab.", "Cd.", "ef", "Gh."]
    assert split.lengths.sentences is not None and split.lengths.sentences.tolist() == [0, 3, 4]
    assert split.lengths.documents == 2


def test_sentences_are_those_of_the_tasks_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "splitter", lambda language: lambda document: document.split(language))
    writer, stored = writing.ArrayWriter(tmp_path), StoredFields(("text",), sentences=True, language="de")
    writing.write_batch(writer, {"text": ["a. b. cde. f"]}, stored, Letters())  # type: ignore[arg-type]
    assert np.fromfile(tmp_path / "sentences", writer.kinds["sentences"]["dtype"]).tolist() == [0, 2]


def test_a_pair_has_two_fields_and_a_label() -> None:
    split = opened("pair", text=["a", "bb"], pair=["ccc", "d"], label=["b", "O"])
    assert ids(split) == ["a", "bb"] and ids(split, "pair") == ["ccc", "d"]
    assert split.lengths.labels is not None and split.lengths.labels[:].tolist() == [1, 0]
    assert split.bytes.tolist() == [4, 3]


def test_labels_of_another_kind_are_stored_anew() -> None:
    table, found = {"text": ["a", "b"], "label": ["7", "3"]}, []
    for kind, names in {"one": ["3", "7"], "number": None, "several": ["3", "7"]}.items():
        split = open_store(rows(table, names=names, kind=kind), forms["text"].stored, Letters())["validation"]  # type: ignore[arg-type]
        assert split.lengths.labels is not None
        found.append([split.lengths.labels[0], split.lengths.labels[1]])
    assert found == [[1, 0], [7.0, 3.0], [(1,), (0,)]]


def test_only_predicted_bytes_count() -> None:
    split = opened("source_target", source=["abc"], target=["é"])
    assert ids(split, "source") == ["abc"] and split.bytes.tolist() == [2]


def entries(split: Split, field: str, document: int) -> list[str]:
    return ["".join(map(chr, split.read(piece))) for piece in split.lengths.entries(field, document)]


def test_each_text_of_a_list_is_a_unit_of_its_document() -> None:
    split = kept(StoredFields(("context", "choices"), lists=("choices",)), context=["a", "b"],
                 choices=[["cc", "d"], ["e", "ff", "g"]])  # fmt: skip
    assert [entries(split, "choices", document) for document in (0, 1)] == [["cc", "d"], ["e", "ff", "g"]]
    assert split.lengths.documents == 2 and split.lengths.span("choices", 1).length == 4


def test_each_word_is_a_unit_also_where_it_has_no_token() -> None:
    split = kept(StoredFields(("words",), words=("words",)), words=[["ab", "", "c"], [], ["d"]])
    assert [entries(split, "words", document) for document in (0, 1)] == [["ab", "", "c"], ["d"]]
    assert split.lengths.documents == 2 and split.skipped == 1


def test_numbers_are_kept_with_their_document() -> None:
    tagged = rows({"words": [[], ["a", "b"], ["c"]], "tags": [[], ["V", "N"], ["V"]]}, names=["N", "V"])
    stored = StoredFields(("words",), words=("words",), numbers=("tags",))
    split = open_store(tagged, stored, Letters())["validation"]  # type: ignore[arg-type]
    assert [split.read(split.lengths.span("tags", document)).tolist() for document in (0, 1)] == [[1, 0], [1]]
    assert [split.rows[document]["tags"] for document in (0, 1)] == [[1, 0], [1]]


def test_an_answer_is_kept_as_its_first_token_and_the_one_behind_its_last() -> None:
    answers = [{"text": ["cd e"], "start": [3]}, {"text": [], "start": []}]
    split = kept(StoredFields(("context",), answers=(("answers", "context"),)), context=["ab cd ef", "x"],
                 answers=answers)  # fmt: skip
    assert [split.read(split.lengths.span("answers", document)).tolist() for document in (0, 1)] == [[2, 5], []]
    split = kept(StoredFields(("context",), answers=(("answers", "context"),)), context=["x"], answers=answers[1:])
    assert split.read(split.lengths.span("answers", 0)).tolist() == []  # no document of the shard has one


def test_batches_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"A{i}. B{i * 37}" for i in range(7)]
    whole = opened("sentences", text=texts)
    monkeypatch.setattr(writing, "ROWS", 3)
    monkeypatch.setattr(encoding, "CHARACTERS", 12)
    parts = opened("sentences", Letters(999), text=texts)
    assert ids(parts) == ids(whole) and parts.lengths.sentences is not None
    assert parts.lengths.sentences.tolist() == list(range(0, 15, 2)) and parts.row_numbers.tolist() == list(range(7))


def test_small_vocabularies_take_two_bytes_an_id() -> None:
    assert opened(text=["ab"]).ids["text"].dtype == np.uint16
    large = opened("text", Letters(65_537), text=["ab"])
    assert large.ids["text"].dtype == np.uint32 and ids(large) == ["ab"]


def test_a_picture_of_any_number_is_kept_whatever_the_vocabulary(tmp_path: Path) -> None:
    writer, stored = writing.ArrayWriter(tmp_path), StoredFields((PICTURE,))
    writing.write_batch(writer, {PICTURE: [70_000]}, stored, Letters())  # type: ignore[arg-type]
    assert np.fromfile(tmp_path / f"{PICTURE}.ids", writer.kinds[f"{PICTURE}.ids"]["dtype"]).tolist() == [70_000]


def test_of_a_conversation_only_the_bytes_of_answers_count(tmp_path: Path) -> None:
    writer, turns = writing.ArrayWriter(tmp_path), [["abc", "dé", "", "f"], ["g", "hi"]]
    writing.write_batch(writer, {"messages": turns}, forms["chat"].stored, Letters())  # type: ignore[arg-type]
    assert np.fromfile(tmp_path / "bytes", writer.kinds["bytes"]["dtype"]).tolist() == [4, 2]


def test_empty_documents_are_left_out_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        split = opened("pair", text=["a", "", "b", "c"], pair=["x", "y", " \n", "z"], label=["O", "b", "c", "d"])
    assert "validation: skipped 2 of 4 rows: they are empty" in caplog.text
    assert ids(split) == ["a", "c"] and split.skipped == 2
    assert [split.rows[document]["label"] for document in range(2)] == [0, 3] == split.lengths.labels[:].tolist()  # type: ignore


def test_a_split_of_empty_documents_is_refused(home: Path) -> None:
    with pytest.raises(ValueError, match="validation: no usable rows: each of 2 is empty"):
        opened(text=["", " "])


def test_a_full_disk_is_named_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "text.ids").symlink_to("/dev/full")
    with pytest.raises(RuntimeError, match="text.ids: cannot be written: No space left on device"):
        writing.ArrayWriter(tmp_path).append("text.ids", [1, 2])


def test_a_missing_column_is_refused() -> None:
    with pytest.raises(ValueError, match=r"validation: unknown column 'pair'; allowed: text"):
        opened("pair", text=["a"])


def test_the_first_of_several_references_is_tokenized_and_all_are_kept() -> None:
    split = opened("source_target", source=["a"], target=[["b", "c"]])
    assert ids(split, "target") == ["b"] and split.rows[0]["target"] == ["b", "c"]


@pytest.mark.parametrize(("form", "rows"), [("source_target", {"source": [], "target": ["b"]}), ("text", {"text": []})])
def test_texts_that_are_no_references_each_need_a_row(form: str, rows: dict[str, list[Any]]) -> None:
    name = next(iter(rows))
    assert ids(opened(form, **{**rows, name: [["a"]]}), name) == ["a"]  # nothing of a list of one is left out
    with pytest.raises(ValueError, match=f"0.tsv: row 1: '{name}' holds 2 texts, of which validation would read only"):
        opened(form, **{**rows, name: [["a", "b"]]})


def test_a_shard_under_the_name_of_another_is_found_and_made_again(home: Path) -> None:
    def read(size: int) -> list[str]:
        return ids(opened(tokenizer=Letters(size), text=["ab" if size == 100 else "xy"]))

    assert (read(100), read(200)) == (["ab"], ["xy"])
    one, other = (home / SHARDS).iterdir()
    for source, place in ((one, home / "kept"), (other, one), (home / "kept", other)):
        source.rename(place)
    whole, faults = check_store(home / SHARDS)
    assert whole == 0 and all(f"is of the shard {name}: another" in " ".join(faults) for name in (one.name, other.name))
    assert (read(100), read(200)) == (["ab"], ["xy"])
    write_sealed(one / INDEX, {"sides": {}, "files": {}, "source": "0.tsv"})
    assert check_store(home / SHARDS) == (1, [f"{one / INDEX}: was written by another version of zoo"])


def test_progress_is_reported_by_split() -> None:
    calls: list[tuple[str, int, int]] = []
    split = rows({"text": ["a", "b", "c"]})
    open_store(split, forms["text"].stored, Letters(), lambda *call: calls.append(call))  # type: ignore
    assert calls == [("validation", 1, 1)]
