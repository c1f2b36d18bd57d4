"""The token cache: what it holds, that it is made once, and that damage and races do no harm."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from numpy.typing import NDArray

from zoo.data.ids import Piece, StoredFields
from zoo.data.sources.rows import SplitRows
from zoo.data.store import store as cache
from zoo.data.store.split import INDEX, Split
from zoo.data.store.store import open_cache
from zoo.examples.form import forms


class Letters:
    """A tokenizer that gives each letter its code point and drops spaces; counts the texts it was given."""

    def __init__(self, vocab_size: int = 1000) -> None:
        self.vocab_size = vocab_size
        self.digest = "letters"
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


def from_table(read: Callable[[], Dataset], fingerprint: str = "f") -> SplitRows:
    """Rows without labels or pictures."""
    return SplitRows(fingerprint, SimpleNamespace(read=lambda split: read(), labels=()), "train")  # type: ignore[arg-type]


def rows(fingerprint: str = "f", **columns: list[Any]) -> dict[str, SplitRows]:
    return {"train": from_table(lambda: Dataset.from_dict(columns), fingerprint)}


def opened(form: str = "text", tokenizer: Letters | None = None, **columns: list[Any]) -> Split:
    return open_cache(rows(**columns), forms[form].stored, tokenizer or Letters())["train"]


def ids(split: Split, field: str = "text") -> list[str]:
    offsets = split.lengths.offsets[field]
    pieces = [Piece(field, int(a), int(b)) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    return ["".join(map(chr, split.read(piece))) for piece in pieces]


def folder(home: Path) -> Path:
    (made,) = [path for path in home.iterdir() if not path.name.startswith(".")]
    return made


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


def test_a_pair_has_two_fields_and_a_label() -> None:
    split = opened("pair", text=["a", "bb"], pair=["ccc", "d"], label=[1, -1])
    assert ids(split) == ["a", "bb"] and ids(split, "pair") == ["ccc", "d"]
    assert split.lengths.labels is not None and split.lengths.labels.tolist() == [1, -1]
    assert split.bytes.tolist() == [4, 3]


def test_only_predicted_bytes_count() -> None:
    split = opened("source_target", source=["abc"], target=["é"])
    assert ids(split, "source") == ["abc"] and split.bytes.tolist() == [2]


def kept(stored: StoredFields, **columns: list[Any]) -> Split:
    return open_cache(rows(**columns), stored, Letters())["train"]  # type: ignore[arg-type]


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
    split = kept(StoredFields(("words",), words=("words",), numbers=("tags",)), words=[["a", "b"], ["c"]],
                 tags=[[3, -1], [70_000]])  # fmt: skip
    assert [split.read(split.lengths.span("tags", document)).tolist() for document in (0, 1)] == [[3, -1], [70_000]]


def test_an_answer_is_kept_as_its_first_token_and_the_one_behind_its_last() -> None:
    answers = [{"text": ["cd e"], "start": [3]}, {"text": [], "start": []}]
    split = kept(StoredFields(("context",), answers=(("answers", "context"),)), context=["ab cd ef", "x"],
                 answers=answers)  # fmt: skip
    assert [split.read(split.lengths.span("answers", document)).tolist() for document in (0, 1)] == [[2, 5], []]


def test_batches_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"A{i}. B{i * 37}" for i in range(7)]
    whole = opened("sentences", text=texts)
    monkeypatch.setattr(cache, "ROWS", 3)
    monkeypatch.setattr(cache, "BATCH", 4)
    parts = open_cache(rows("g", text=texts), forms["sentences"].stored, Letters())["train"]
    assert ids(parts) == ids(whole) and parts.lengths.sentences is not None
    assert parts.lengths.sentences.tolist() == list(range(0, 15, 2)) and parts.kept.tolist() == list(range(7))


def test_small_vocabularies_take_two_bytes_an_id() -> None:
    assert opened(text=["ab"]).ids["text"].dtype == np.uint16
    large = open_cache(rows(text=["ab"]), forms["text"].stored, Letters(65_537))["train"]
    assert large.ids["text"].dtype == np.uint32 and ids(large) == ["ab"]


def test_empty_documents_are_left_out_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        split = opened("pair", text=["a", "", "b", "c"], pair=["x", "y", " \n", "z"], label=[0, 1, 2, 3])
    assert "train: 2 of 4 rows are empty and left out" in caplog.text
    assert ids(split) == ["a", "c"] and split.skipped == 2
    assert split.rows["label"][:] == [0, 3]


def test_a_split_of_empty_documents_is_refused(home: Path) -> None:
    with pytest.raises(ValueError, match="train: no usable rows: each of 2 is empty"):
        opened(text=["", " "])
    assert list(home.iterdir()) == []


def test_a_full_disk_is_named_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "text.ids").symlink_to("/dev/full")
    with pytest.raises(RuntimeError, match="text.ids: cannot be written: No space left on device"):
        cache.ArrayWriter(tmp_path).append("text.ids", [1, 2])


def test_a_missing_column_is_refused() -> None:
    with pytest.raises(ValueError, match=r"train: unknown column 'pair'; allowed: text"):
        opened("pair", text=["a"])


def test_the_first_of_several_references_is_tokenised_and_all_are_kept() -> None:
    split = opened("source_target", source=["a"], target=[["b", "c"]])
    assert ids(split, "target") == ["b"] and split.rows[0]["target"] == ["b", "c"]


def test_the_second_time_nothing_is_read() -> None:
    opened(text=["ab", "cd"])
    unread = {"train": from_table(lambda: pytest.fail("read again"))}
    tokenizer = Letters()
    assert ids(open_cache(unread, forms["text"].stored, tokenizer)["train"]) == ["ab", "cd"] and tokenizer.seen == []


def test_rows_form_language_and_tokenizer_each_have_a_cache_of_their_own(home: Path) -> None:
    other = Letters()
    other.digest = "others"
    opened(text=["ab"])
    opened("sentences", text=["ab"])
    opened(tokenizer=other, text=["ab"])
    open_cache(rows("g", text=["ab"]), forms["text"].stored, Letters())
    open_cache(rows(text=["ab"]), forms["sentences"].stored._replace(language="de"), Letters())
    assert len(list(home.iterdir())) == 5


@pytest.mark.parametrize("damage", ["truncated", "missing", "index", "no index", "not json"])
def test_a_damaged_cache_is_made_again(home: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    opened(text=["ab", "cd"])
    made = folder(home)
    if damage == "truncated":
        (made / "text.ids").write_bytes(b"\1")
    elif damage == "missing":
        (made / "bytes").unlink()
    elif damage == "index":
        (made / INDEX).write_text(json.dumps({"arrays": {}}))
    elif damage == "no index":
        (made / INDEX).unlink()
    else:
        (made / INDEX).write_text("{")
    assert ids(opened(text=["ab", "cd"])) == ["ab", "cd"]
    assert ids(opened(text=["ab", "cd"])) == ["ab", "cd"] and [made] == list(home.iterdir())


def test_two_who_make_the_same_cache_get_the_same(home: Path) -> None:
    others: list[Split] = []

    def overtaken() -> Dataset:
        others.append(opened(text=["ab", "cd"]))
        return Dataset.from_dict({"text": ["ab", "cd"]})

    mine = open_cache({"train": from_table(overtaken)}, forms["text"].stored, Letters())["train"]
    assert ids(mine) == ids(others[0]) == ["ab", "cd"]
    assert len(list(home.iterdir())) == 1


def test_an_interrupted_making_leaves_nothing(home: Path) -> None:
    def interrupt(split: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_cache(rows(text=["ab"]), forms["text"].stored, Letters(), interrupt)
    assert list(home.iterdir()) == []


def test_progress_is_reported_by_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "ROWS", 2)
    calls: list[tuple[str, int, int]] = []
    open_cache(rows(text=["a", "b", "c"]), forms["text"].stored, Letters(), lambda *call: calls.append(call))
    assert calls == [("train", 2, 3), ("train", 3, 3)]
