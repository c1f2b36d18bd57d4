"""A tokenizer.json is read with one message for whatever is wrong, and never makes ids random."""

import json
import logging
from typing import Any

import pytest

from zoo.data.tokenizers.backend import check_reads, explain_failure, read_backend

VOCABULARY = {"<unk>": 0, "a": 1, "b": 2, "ab": 3}


def written(**model: Any) -> bytes:
    spec = {"type": "BPE", "unk_token": "<unk>", "vocab": VOCABULARY, "merges": [["a", "b"]], **model}
    return json.dumps({"version": "1.0", "added_tokens": [], "model": spec}).encode()


def test_dropout_is_switched_off_and_said(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        backend = read_backend(written(dropout=0.5), "x")
    assert "x: dropout 0.5 is switched off" in caplog.text
    assert {tuple(backend.encode("ab").ids) for _ in range(50)} == {(3,)}
    assert json.loads(backend.to_str())["model"]["dropout"] is None


@pytest.mark.parametrize("place", ["vocab", "added_tokens"])
def test_an_id_out_of_range_is_refused_before_the_library_reads_the_file(place: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zoo.data.tokenizers.backend.Backend", None)
    spec = json.loads(written())
    if place == "vocab":
        spec["model"]["vocab"]["c"] = 2**32 - 2
    else:
        spec["added_tokens"] = [{"id": 2**32 - 2, "content": "c"}]
    with pytest.raises(ValueError, match="x: token id 4294967294 is out of range; allowed: below 16777216"):
        read_backend(json.dumps(spec).encode(), "x")


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"model": {"type": "BPE"}}', b"[" * 100_000])
def test_a_file_that_is_no_tokenizer_is_refused(content: bytes):
    with pytest.raises(ValueError, match="x: (not a tokenizer|not JSON|expected a JSON object)"):
        read_backend(content, "x")


@pytest.mark.parametrize("kind", ["WordPiece", "WordLevel", "BPE"])
def test_a_vocabulary_without_the_token_for_unknown_words_is_refused_by_its_key(kind: str):
    said: dict[str, Any] = {"type": kind, "vocab": {"b": 0}, "unk_token": "[UNK]"}
    said |= {"merges": []} if kind == "BPE" else {}
    said |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 9} if kind == "WordPiece" else {}
    for whole in ({**said, "vocab": {"b": 0, "[UNK]": 1}}, {**said, "vocab": {"a": 0}}):
        check_reads(read_backend(json.dumps({"model": whole}).encode(), "x"), "x")
    with pytest.raises(ValueError, match=r"x: its tokenizer cannot read a text; .* unk_token .*\[UNK\]"):
        check_reads(read_backend(json.dumps({"model": said}).encode(), "x"), "x")


class Panic(BaseException):
    """As the library raises where its Rust code panics."""


def test_a_panic_becomes_one_message_and_an_interrupt_stays_one():
    with pytest.raises(ValueError, match="x: it cannot read a text: index out of bounds"):
        with explain_failure("x", "it cannot read a text"):
            raise Panic("index out of bounds")
    with pytest.raises(KeyboardInterrupt):
        with explain_failure("x"):
            raise KeyboardInterrupt
