"""Tokenizer: roles, ordinary text against typed roles, files, imported backends."""

from collections.abc import Callable

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer

TEXTS = ["the dog ran to the man", "the man, the dog and the cat ran"] * 3


def train(name: str) -> Tokenizer:
    return Tokenizer.train(tokenizers.parse(name), TEXTS)


def imported(role_tokens: dict[str, str]) -> Tokenizer:
    vocab = {"<|end|>": 0, "a": 1, "b": 2, "Ġa": 3, "Ġ": 4}
    backend = Backend(models.BPE(vocab, [("Ġ", "a")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.enable_padding()
    backend.enable_truncation(3)
    backend.add_special_tokens(["<|end|>"])
    return Tokenizer(backend, role_tokens)


@pytest.mark.parametrize("name", tokenizers.names())
def test_a_role_written_in_ordinary_text_is_text(name: str):
    tokenizer = train(name)
    mask = tokenizer.role_tokens["mask"]
    (ids,) = tokenizer.encode([f"the {mask} ran"])
    assert ids.dtype == np.int64
    assert tokenizer.roles.mask not in ids


@pytest.mark.parametrize("name", tokenizers.names())
def test_a_typed_role_is_that_role(name: str):
    tokenizer = train(name)
    ids = tokenizer.encode_with_roles(f"the {tokenizer.role_tokens['mask']} ran")
    assert ids.dtype == np.int64
    assert (ids == tokenizer.roles.mask).sum() == 1


@pytest.mark.parametrize("name", ["wordpiece", "bpe", "byte_bpe"])
def test_a_typed_mask_stands_exactly_where_a_word_stood(name: str):
    tokenizer = train(name)
    (whole,) = tokenizer.encode(["the man, the dog"])
    masked = tokenizer.encode_with_roles(f"the {tokenizer.role_tokens['mask']}, the dog")
    assert len(masked) == len(whole)
    assert (masked != whole).tolist() == [i == tokenizer.roles.mask for i in masked]
    taking_space = [token.content for token in tokenizer.backend.get_added_tokens_decoder().values() if token.lstrip]
    assert taking_space == ([] if name == "wordpiece" else [tokenizer.role_tokens["mask"]])


@pytest.mark.parametrize("name", tokenizers.names())
def test_decoding_leaves_role_tokens_out(name: str):
    tokenizer = train(name)
    roles = tokenizer.roles
    ids = [roles.start, *tokenizer.encode(["the dog"])[0], roles.separator, roles.mask, roles.end, roles.pad]
    assert tokenizer.decode(ids) == "the dog"


@pytest.mark.parametrize(
    ("name", "starts", "inside"), [("bpe", "▁", "o"), ("byte_bpe", "ĠĊĉč", "o"), ("characters", " ", "o")]
)
def test_tokens_without_the_space_marker_continue_a_word(name: str, starts: str, inside: str):
    tokenizer = train(name)
    continues = tokenizer.roles.continues
    assert continues is not None and continues.shape == (tokenizer.vocab_size,)
    assert not continues[:7].any()
    assert not any(continues[tokenizer.vocabulary[token]] for token in starts)  # a space, line ends and a tab
    assert continues[tokenizer.vocabulary[inside]]


def test_wordpieces_with_the_prefix_continue_a_word():
    tokenizer = train("wordpiece")
    continues = tokenizer.roles.continues
    assert continues is not None
    assert {tokenizer.spell(i)[:2] for i in np.flatnonzero(continues)} == {"##"}
    assert not any(tokenizer.spell(i).startswith("##") for i in np.flatnonzero(~continues))


@pytest.mark.parametrize("name", tokenizers.names())
def test_files_give_the_same_tokenizer_back(name: str):
    tokenizer = train(name)
    again = Tokenizer.from_files(tokenizer.files())
    assert again.digest == tokenizer.digest
    assert again.files() == tokenizer.files()
    assert again.role_tokens == tokenizer.role_tokens
    assert again.encode(TEXTS)[1].tolist() == tokenizer.encode(TEXTS)[1].tolist()
    mask = tokenizer.role_tokens["mask"]
    assert again.encode_with_roles(f"a {mask} b").tolist() == tokenizer.encode_with_roles(f"a {mask} b").tolist()


def test_the_digest_follows_what_decides_a_texts_ids_and_no_role():
    tokenizer = train("characters")
    swapped = Tokenizer(tokenizer.backend, {**tokenizer.role_tokens, "start": "</s>", "end": "<s>"})
    grown = Tokenizer.from_files(tokenizer.files())
    grown.add_sentinels(3)
    assert swapped.digest == grown.digest == tokenizer.digest != train("bpe").digest
    small = [
        Tokenizer.train(tokenizers.parse({"name": "bpe", "lowercase": low}), ["a b ab"] * 3) for low in (True, False)
    ]
    assert small[0].vocabulary == small[1].vocabulary and small[0].digest != small[1].digest
    assert grown.encode(TEXTS)[0].tolist() == tokenizer.encode(TEXTS)[0].tolist()


def test_bytes_before_the_first_token_are_read_with_it():
    tokenizer = train("wordpiece")
    assert tokenizer.span_bytes("  a b", [(0, 1)]) == 4 and tokenizer.span_bytes("  a b", [(1, 2)]) == 1


def test_an_id_beyond_the_vocabulary_has_a_spelling():
    tokenizer = train("characters")
    assert tokenizer.spell(7) == " "
    assert tokenizer.spell(9999) == "<9999>"


def test_an_imported_tokenizer_may_have_one_token_for_two_roles():
    tokenizer = imported({"end": "<|end|>", "pad": "<|end|>"})
    roles = tokenizer.roles
    assert (roles.pad, roles.end, roles.start, roles.unk, roles.vocab_size) == (0, 0, None, None, 5)
    assert roles.continues is not None and roles.continues.tolist() == [False, True, True, False, False]
    assert [ids.tolist() for ids in tokenizer.encode(["a a a a", "b"])] == [[1, 3, 3, 3], [2]]
    assert tokenizer.encode_with_roles("a<|end|>").tolist() == [1, 0]


def test_missing_roles_are_added_behind_the_vocabulary():
    tokenizer = imported({"end": "<|end|>", "pad": "<|end|>"})
    assert tokenizer.add_roles(["pad", "extract", "separator"]) == ["extract", "separator"]
    assert (tokenizer.roles.extract, tokenizer.roles.separator, tokenizer.vocab_size) == (6, 5, 7)
    assert tokenizer.encode_with_roles("a<sep>a<extract>").tolist() == [1, 5, 1, 6]
    assert tokenizer.encode(["a"])[0].tolist() == [1]
    assert tokenizer.add_roles(["extract"]) == []
    assert Tokenizer.from_files(tokenizer.files()).roles.extract == 6


def test_a_role_whose_token_is_there_already_adds_no_row():
    backend = Backend(models.WordPiece({"[PAD]": 0, "[MASK]": 1, "a": 2}, unk_token="[PAD]"))
    tokenizer = Tokenizer(backend, {"pad": "[PAD]"})
    assert tokenizer.add_roles(["mask", "extract"]) == ["extract"]
    assert tokenizer.role_tokens == {"pad": "[PAD]", "extract": "[EXTRACT]", "mask": "[MASK]"}
    assert tokenizer.vocab_size == 4


def test_added_roles_leave_an_ordinary_token_that_plays_one_ordinary():
    tokenizer = imported({"end": "a", "pad": "<|end|>"})
    before = tokenizer.encode(["a a"])[0].tolist()
    assert tokenizer.add_roles(["mask"]) == ["mask"] and tokenizer.special_tokens == {"<|end|>", "<mask>"}
    assert tokenizer.encode(["a a"])[0].tolist() == before and tokenizer.decode(before) == "a a"


def test_an_unknown_role_is_refused():
    with pytest.raises(ValueError, match=r"unknown role 'extrakt' \(did you mean 'extract'\?\)"):
        train("characters").add_roles(["extrakt"])


def test_word_borders_are_unknown_where_the_spelling_does_not_tell():
    tokenizer = Tokenizer(Backend(models.WordLevel({"a": 0, "b": 1}, unk_token="a")), {"pad": "a"})
    assert tokenizer.roles.continues is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", b"{", r"run/tokenizer\.json: not JSON"),
        ("tokenizer.json", b"\xff\xfe", r"run/tokenizer\.json: not JSON"),
        ("tokenizer.json", b'{"version": "1.0"}', r"run/tokenizer\.json: not a tokenizer"),
        ("roles.json", b"pad", r"run/roles\.json: not JSON"),
        ("roles.json", b"[" * 100_000, r"run/roles\.json: not JSON"),
        ("roles.json", b"[1]", r"run/roles\.json: expected a JSON object"),
        ("roles.json", b"{}", r"run/roles\.json: the role 'pad' is missing"),
        ("roles.json", b'{"pat": "<pad>"}', r"run/roles\.json: unknown role 'pat' \(did you mean 'pad'\?\)"),
        (
            "roles.json",
            b'{"pad": "<bad>"}',
            r"run/roles\.json: the token '<bad>' of role 'pad' is not in the vocabulary",
        ),
        ("roles.json", b'{"pad": 0}', r"run/roles\.json: the token 0 of role 'pad' is not in the vocabulary"),
    ],
)
def test_a_malformed_file_is_named(name: str, content: bytes, message: str):
    files = {**train("characters").files(), name: content}
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_files(files, "run")


def test_a_missing_file_is_named():
    with pytest.raises(ValueError, match=r"tokenizer\.json: the file is missing"):
        Tokenizer.from_files({})


@pytest.mark.parametrize(
    "reads", [lambda t, x: t.encode(["a", x]), Tokenizer.encode_with_roles, Tokenizer.encode_prompt]
)
def test_a_text_that_was_not_utf8_is_refused(reads: Callable[[Tokenizer, str], object]):
    typed = b"the \xff dog".decode("utf-8", "surrogateescape")  # as Python reads a command line
    with pytest.raises(
        ValueError, match=r"text 'the \\udcff dog': character 5 is a lone surrogate, .*; expected .* UTF-8"
    ):
        reads(train("wordpiece"), typed)
