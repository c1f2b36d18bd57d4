"""Claims about token vectors that come from a file."""

from pathlib import Path

import pytest
import torch

from zoo.models.create import create_model
from zoo.models.vectors import read_vectors, start_from_vectors

FILE = "3 2\ncat 1 2\nnew york -0.5 1e-3\nthe 5 6\n"


def written(folder: Path, text: str) -> Path:
    (folder / "some.vec").write_text(text, encoding="utf-8")
    return folder / "some.vec"


@pytest.mark.parametrize("header", [True, False])
def test_wanted_words_are_read_with_or_without_a_header(tmp_path: Path, header: bool):
    path = written(tmp_path, FILE if header else FILE.partition("\n")[2])
    found = read_vectors(path, 2, {"cat", "new york", "dog"})
    assert {word: vector.tolist() for word, vector in found.items()} == {
        "cat": [1, 2],
        "new york": [-0.5, pytest.approx(1e-3)],
    }


@pytest.mark.parametrize("header", [True, False])
def test_a_mark_of_byte_order_is_part_of_no_word(tmp_path: Path, header: bool):
    path = written(tmp_path, "\ufeff" + (FILE if header else FILE.partition("\n")[2]))
    assert read_vectors(path, 2, {"cat"})["cat"].tolist() == [1, 2]


def test_found_tokens_start_from_the_file_and_the_others_stay(tmp_path: Path):
    model = create_model("gpt2-nano", vocab_size=4)
    before = model.stream.embeddings.tokens.weight.detach().clone()
    path = written(tmp_path, "".join(f"{word} {' '.join([str(i)] * 32)}\n" for i, word in enumerate(("cat", "the"))))
    assert start_from_vectors(model, path, [None, "The", "dog", "cat"]) == (2, 3)
    table = model.stream.embeddings.tokens.weight
    torch.testing.assert_close(table[1], torch.ones(32))
    torch.testing.assert_close(table[3], torch.zeros(32))
    assert torch.equal(table[[0, 2]], before[[0, 2]])


@pytest.mark.parametrize("shared", [True, False])
def test_both_parts_of_a_translator_start_from_the_file(tmp_path: Path, shared: bool):
    model = create_model("transformer-nano", vocab_size=3, **{"embeddings.shared": shared})
    path = written(tmp_path, f"cat {' '.join(['2'] * 32)}\n")
    assert start_from_vectors(model, path, [None, "cat", "dog"]) == (1, 2)
    for part in (model.encoder, model.decoder):
        torch.testing.assert_close(part.embeddings.tokens.weight[1], torch.full((32,), 2.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cat 1 2 3\n", r"some.vec:1: vectors are 3 wide, the model 2: --set d_model=3"),
        ("the 1 2\ncat 1 x\n", "some.vec:2: 'cat' must be followed by finite numbers only"),
        ("cat\n", "some.vec:1: expected a word and its numbers, separated by spaces"),
        ("cat 1e39 1\n", "some.vec:1: 'cat' must be followed by finite numbers only"),
        ("cat nan 1\n", "some.vec:1: 'cat' must be followed by finite numbers only"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, text: str, message: str):
    with pytest.raises(ValueError, match=message):
        read_vectors(written(tmp_path, text), 2, {"cat"})


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="embeddings.vectors: .*none.vec: no such file"):
        read_vectors(tmp_path / "none.vec", 2, set())


def test_a_word_in_another_encoding_does_not_spoil_the_others(tmp_path: Path):
    (tmp_path / "latin.vec").write_bytes(b"caf\xe9 1 2\ncat 3 4\n")
    assert read_vectors(tmp_path / "latin.vec", 2, {"cat"})["cat"].tolist() == [3, 4]
