"""Sentencepiece models of T5 and Pegasus make the ids that transformers' classes make of the same pieces."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import transformers
from strangers import T5, TOKENS, Stranger
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.checkpoint import resolve
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.exporting.samples import ODD_STRINGS, TEXTS
from zoo.hub.exporting.trained_model import load_trained
from zoo.hub.importing.importing import import_folder
from zoo.hub.importing.tokenizer import read_tokenizer
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.sources.sentencepiece import CONTROL, USER_DEFINED, read_pieces
from zoo.hub.targets.declare.registry import targets

LINES = [*TEXTS, " ".join(ODD_STRINGS), "two  spaces\nand a line ", "", " <extra_id_3> </s> <unk_7>"]
Piece = tuple[str, float, int]


def number(value: int) -> bytes:
    head = bytes([value & 127 | (128 if value > 127 else 0)])
    return head + (number(value >> 7) if value > 127 else b"")


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """A protobuf message of whole numbers and bytes."""
    parts = [
        number(key << 3 | (0 if isinstance(value, int) else 2))
        + (number(value) if isinstance(value, int) else number(len(value)) + value)
        for key, value in fields
    ]
    return b"".join(parts)


def model(pieces: list[Piece], **trainer: int) -> bytes:
    """A sentencepiece model file."""
    numbers = {"model_type": 3, "byte_fallback": 35, "unk_id": 40, "vocab_size": 4}
    said = [(numbers[name], value) for name, value in {"model_type": 1, "unk_id": 2, **trainer}.items()]
    listed = [
        message((1, word.encode()), (3, kind))[: -len(message((3, kind)))]
        + number(2 << 3 | 5) + struct.pack("<f", score) + message((3, kind))
        for word, score, kind in pieces
    ]  # fmt: skip
    return message(*((1, piece) for piece in listed), (2, message(*said)), (3, message((1, b"identity"))))


@pytest.fixture(scope="module")
def pieces() -> list[Piece]:
    """The pieces of a small unigram model, with T5's three special ones first."""
    made = Backend(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.train_from_iterator(
        [*TEXTS, *TEXTS], trainers.UnigramTrainer(vocab_size=160, show_progress=False, unk_token="<unk>")
    )
    scored = json.loads(made.to_str())["model"]["vocab"]
    special = [("<pad>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("<unk>", 0.0, 2)]
    return [*special, *((word, score, 1) for word, score in scored if word != "<unk>"), ("@user", 0.0, USER_DEFINED)]


def ours(folder: Path, name: str, pieces: list[Piece], unk_id: int = 2, **options: Any) -> Tokenizer:
    (folder / "spiece.model").write_bytes(model(pieces, unk_id=unk_id))
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    found = read_tokenizer(
        CheckpointFolder(folder), {"decoder_start_token_id": 0}, targets[name], targets[name].classes[0]
    )
    assert isinstance(found, Tokenizer), found
    return found


def same(tokenizer: Tokenizer, theirs: Any) -> None:
    for line in LINES:
        assert tokenizer.backend.encode(line).ids == theirs(line)["input_ids"], line


def test_t5s_pieces_and_sentinels_have_their_ids(tmp_path: Path, pieces: list[Piece]):
    scored = [(word, struct.unpack("<f", struct.pack("<f", score))[0]) for word, score, _ in pieces]
    sentinels = [(f"<extra_id_{i}>", 0.0) for i in reversed(range(100))]
    theirs = transformers.T5Tokenizer(vocab=[*scored, *sentinels])
    tokenizer = ours(tmp_path, "t5", pieces, tokenizer_class="T5Tokenizer")
    same(tokenizer, theirs)
    assert tokenizer.vocabulary["<extra_id_0>"] == len(pieces) + 99 and tokenizer.vocab_size == len(theirs)
    assert (tokenizer.roles.pad, tokenizer.roles.end, tokenizer.roles.start) == (0, 1, 0)
    text = "A small boy kicks a ball."
    assert tokenizer.decode(tokenizer.encode([text])[0]) == text
    assert ours(tmp_path, "t5", pieces, extra_ids=3).vocab_size == len(pieces) + 3


def test_pegasus_has_its_roles_and_unused_tokens_before_the_pieces(tmp_path: Path, pieces: list[Piece]):
    scored = [(word, struct.unpack("<f", struct.pack("<f", score))[0]) for word, score, _ in pieces]
    ahead = ["<pad>", "</s>", "<mask_1>", "<mask_2>"]
    unused = [(f"<unk_{i}>", -100.0) for i in range(2, 103)]
    theirs = transformers.PegasusTokenizer(vocab=[*((t, 0.0) for t in ahead), *unused, *scored[2:]])
    tokenizer = ours(tmp_path, "pegasus", pieces)
    same(tokenizer, theirs)
    assert tokenizer.vocabulary["<unk>"] == 105 and (tokenizer.roles.pad, tokenizer.roles.end) == (0, 1)


UNKNOWN_FIRST: list[Piece] = [("<unk>", 0.0, 2), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]  # sentencepiece's own


def test_an_unknown_word_of_t5_is_what_the_file_says_and_the_other_id_of_transformers_5_is_told(
    tmp_path: Path, pieces: list[Piece], caplog: pytest.LogCaptureFixture
):
    scored = [(word, score) for word, score, _ in [*UNKNOWN_FIRST, *pieces[3:]]]
    theirs = transformers.T5Tokenizer(vocab=[*scored, *((f"<extra_id_{i}>", 0.0) for i in reversed(range(100)))])
    assert not caplog.text and ours(tmp_path, "t5", pieces) and not caplog.text
    tokenizer = ours(tmp_path, "t5", [*UNKNOWN_FIRST, *pieces[3:]], unk_id=0)
    (ids,) = tokenizer.encode(["\u6f22"])
    assert (ids[-1], theirs("\u6f22")["input_ids"][-2]) == (0, 2)
    assert "spiece.model: unknown words get id 0, its unk_id; transformers 5 gives them id 2" in caplog.text


def test_an_unknown_piece_among_those_that_pegasus_replaces_is_refused(tmp_path: Path, pieces: list[Piece]):
    with pytest.raises(ValueError, match="unknown piece is number 0; Pegasus has <pad> and </s> before it"):
        ours(tmp_path, "pegasus", [*UNKNOWN_FIRST, *pieces[3:]], unk_id=0)


@pytest.mark.parametrize("name", ["t5", "pegasus"])
def test_a_text_never_spells_a_role(tmp_path: Path, pieces: list[Piece], name: str):
    letters = [(letter, -9.0, 1) for letter in "</>"]
    tokenizer = ours(tmp_path, name, [*pieces, *letters])
    for text in ("a </s> b", "a</s>b", "</s></s>", "<pad> a", "▁</s>"):
        (ids,) = tokenizer.encode([text])
        assert not {tokenizer.roles.pad, tokenizer.roles.end} & set(ids.tolist())
        assert tokenizer.decode(ids) == text.removeprefix("▁")
    assert tokenizer.encode_with_roles("a </s>")[-1] == tokenizer.roles.end
    (plain,) = tokenizer.encode(["< /s > a <b> boy"])
    assert plain.tolist() == tokenizer.backend.encode("< /s > a <b> boy", add_special_tokens=False).ids


def test_an_imported_t5_is_exported_with_its_own_tokenizer(tmp_path: Path, quick: None, pieces: list[Piece]):
    sizes = {**TOKENS, **T5, "vocab_size": len(pieces) + 100}
    Stranger("T5ForConditionalGeneration", sizes, {}).save(tmp_path / "theirs")
    tokenizer = ours(tmp_path / "theirs", "t5", pieces)
    import_folder(tmp_path / "theirs", tmp_path / "run")
    report = export_model(load_trained(resolve(tmp_path / "run")), tmp_path / "out", reload=reload)
    assert report.check.texts == 30
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ("a boy", "a <extra_id_1> b", "a </s> b"):  # as T5's own tokenizer, it reads what a text spells
        assert theirs(text)["input_ids"] == [*tokenizer.encode_with_roles(text), tokenizer.roles.end]


def test_every_end_that_is_cut_off_is_refused_or_lacks_pieces_only(pieces: list[Piece]):
    content = model(pieces[:6])
    assert [word for word, _ in read_pieces(content, "spiece.model").scored] == [word for word, *_ in pieces[:6]]
    whole = 0
    for cut in range(len(content)):
        try:
            whole += len(read_pieces(content[:cut], "spiece.model").scored) < 6
        except ValueError as error:
            assert "spiece.model: " in str(error) or "codec" in str(error)
    assert whole < 10


WRONG = [
    (model([("a", 0.0, 1)], model_type=2, unk_id=0), "is not a unigram model"),
    (model([("a", 0.0, 1)], byte_fallback=1, unk_id=0), "is not a unigram model"),
    (model([("a", float("nan"), 1)], unk_id=0), "the score of piece 0 is not a number"),
    (model([("a", 0.0, 1)], unk_id=7), "has 1 pieces, so the unknown piece cannot be number 7"),
    (b"not a model at all", "is not a sentencepiece model"),
    (b"\xff" * 40, "is not a sentencepiece model"),
    (b"", "has 0 pieces"),
]


@pytest.mark.parametrize(("content", "words"), WRONG)
def test_other_models_and_damaged_ones_are_refused(tmp_path: Path, content: bytes, words: str):
    (tmp_path / "spiece.model").write_bytes(content)
    remedy = r"download them again, or add a tokenizer.json, which zoo reads instead\)"
    with pytest.raises(ValueError, match=f"{remedy}: spiece.model: .*{words}"):
        read_tokenizer(CheckpointFolder(tmp_path), {}, targets["t5"], targets["t5"].classes[0])


def test_a_map_of_characters_that_is_none_is_refused(tmp_path: Path, pieces: list[Piece]):
    for charsmap in (b"\x01", b"\xff" * 30, struct.pack("<I", 4) + b"\x00" * 8, struct.pack("<I", 10**9) + b"\x00" * 8):
        content = model(pieces) + message((3, message((2, charsmap))))
        (tmp_path / "spiece.model").write_bytes(content)
        try:
            found = read_tokenizer(CheckpointFolder(tmp_path), {}, targets["t5"], targets["t5"].classes[0])
        except ValueError as error:
            assert str(tmp_path) in str(error)
        else:
            assert isinstance(found, Tokenizer) and len(found.encode(["a b"])) == 1


def test_a_folder_with_a_model_for_each_side_says_what_is_not_read(tmp_path: Path):
    for name in ("source.spm", "target.spm", "vocab.json"):
        (tmp_path / name).write_bytes(b"")
    reason = read_tokenizer(CheckpointFolder(tmp_path), {}, targets["marian"], targets["marian"].classes[0])
    assert reason == "no tokenizer.json; zoo does not read source.spm, target.spm"
