"""A task's tokenizer is trained once; files that come later do not change it, another corpus does."""

import errno
import logging
from pathlib import Path
from typing import Any

import pytest
from test_store import rows

from zoo.data.sources.rows import SplitRows
from zoo.data.store import trained
from zoo.data.store.trained import TrainingText, stored_tokenizer

HOW = TrainingText.parse({"name": "characters"}, "task.tokenizer")
ONE, TWO = {"text": ["ab"]}, {"text": ["cd"]}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Path:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    caplog.set_level(logging.INFO)
    return tmp_path / "cache"


def split(*tables: dict[str, list[Any]]) -> SplitRows:
    return rows(*tables)["validation"]


def letters(*tables: dict[str, list[Any]], retrain: bool = False) -> str:
    return "".join(sorted(t for t in stored_tokenizer(HOW, split(*tables), retrain).vocabulary if len(t) == 1))


def test_the_second_time_it_is_taken_from_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    assert letters(ONE) == "ab"
    monkeypatch.setattr(TrainingText, "train", lambda *_: pytest.fail("trained again"))
    assert letters(ONE) == "ab"


def test_one_that_is_there_is_read_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    letters(ONE)
    monkeypatch.setattr(trained, "lock_creation", lambda _: pytest.fail("the store is written to"))
    assert letters(ONE) == "ab"


def test_files_that_come_later_do_not_change_it_unless_asked(caplog: pytest.LogCaptureFixture) -> None:
    assert letters(ONE) == letters(ONE, TWO) == "ab"
    said = "since then, 1 of the source's 2 parts were added and 0 removed; zoo tokenize --retrain trains it again"
    assert said in caplog.text
    assert letters(ONE, TWO, retrain=True) == letters(ONE, TWO) == "abcd"


def test_a_training_that_fails_leaves_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert letters(ONE) == "ab"
    with monkeypatch.context() as failing, pytest.raises(ValueError, match="a file is broken"):
        failing.setattr(trained, "sample_texts", lambda *_: raised("a file is broken"))
        letters(ONE, TWO, retrain=True)
    assert letters(ONE, TWO) == "ab"


def raised(what: str) -> Any:
    raise ValueError(what)


def test_two_files_of_the_same_bytes_are_neither_new_nor_gone(caplog: pytest.LogCaptureFixture) -> None:
    assert letters(ONE, ONE) == letters(ONE, ONE) == letters(ONE) == "ab"
    assert "since then" not in caplog.text


def test_another_corpus_in_its_place_has_another_tokenizer() -> None:
    assert letters(ONE) == "ab" and letters(TWO) == "cd"


def test_one_with_a_flipped_letter_is_trained_again(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    letters(ONE)
    path = next((home / trained.FOLDER).glob("*/tokenizer.json"))
    path.write_text(path.read_text().replace('"a"', '"q"'))
    assert letters(ONE) == "ab" and "is damaged" in caplog.text


def test_one_that_may_not_be_read_is_not_trained_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert letters(ONE) == "ab"

    def refuse(path: Path, *given: Any) -> str:  # who runs tests may read any file
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as closed, pytest.raises(RuntimeError, match=rf"^{home}.*: cannot be read: Permission"):
        closed.setattr(Path, "read_text", refuse)
        letters(ONE, TWO)
    assert letters(ONE, TWO) == "ab"


def test_each_kind_and_sample_has_one_of_its_own() -> None:
    few = TrainingText.parse({"name": "characters", "sample": 1}, "task.tokenizer")
    assert letters(ONE, TWO) == "abcd"
    with pytest.raises(ValueError, match="train a tokenizer on: no row fits into sample, which is 1 character of 4"):
        stored_tokenizer(few, split(ONE, TWO))
    kinds = [TrainingText.parse({"name": name, "vocab_size": 300}, "task.tokenizer") for name in ("bpe", "byte_bpe")]
    assert len({stored_tokenizer(how, split(ONE, TWO)).digest for how in kinds}) == 2


def test_options_and_what_is_read_have_one_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    small = TrainingText.parse({"name": "characters", "lowercase": True}, "task.tokenizer")
    capitals = split({"text": ["aB"]})
    assert {"a", "B"} <= stored_tokenizer(HOW, capitals).vocabulary.keys()
    assert {"a", "b"} <= stored_tokenizer(small, capitals).vocabulary.keys()
    monkeypatch.setattr(SplitRows, "cache_name", "other columns")
    trained_now = list[TrainingText]()
    train = TrainingText.train
    monkeypatch.setattr(TrainingText, "train", lambda how, rows: trained_now.append(how) or train(how, rows))
    stored_tokenizer(HOW, capitals)
    assert trained_now == [HOW]


def test_a_mistyped_option_is_answered_with_every_one_that_there_is() -> None:
    words = r"'sampel' \(did you mean 'sample'\?\); allowed: .*, sample$"
    with pytest.raises(ValueError, match=words):
        TrainingText.parse({"name": "characters", "sampel": 3}, "task.tokenizer")


@pytest.mark.parametrize("sample", [0, 1.5, "all"])
def test_a_sample_that_is_no_size_is_refused(sample: object) -> None:
    with pytest.raises(ValueError, match="task.tokenizer.sample: "):
        TrainingText.parse({"name": "bpe", "sample": sample}, "task.tokenizer")
