"""Claims about how tokens are named: as people read them, whatever the tokenizer's own spelling."""

import pytest
from looking import TEXTS

from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.inference.token_labels import token_labels

SIZES = {"wordpiece": 60, "bpe": 60, "byte_bpe": 290, "characters": 60, "unigram": 60}


@pytest.fixture(params=SIZES)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    choice = tokenizers.parse({"name": request.param, "vocab_size": SIZES[request.param]}, "tokenizer")
    return Tokenizer.train(choice, TEXTS)


def test_labels_spell_the_words_of_a_text(tokenizer: Tokenizer):
    labels = token_labels(tokenizer, tokenizer.encode(["the trees and cats"])[0].tolist())
    assert "".join(label.strip("·␣") for label in labels) == "thetreesandcats"
    assert all(label and not label.isspace() for label in labels)


def test_a_piece_that_continues_a_word_has_a_dot_and_the_first_one_of_a_word_has_none():
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "wordpiece", "vocab_size": 60}, "tokenizer"), TEXTS)
    labels = token_labels(tokenizer, tokenizer.encode(["trees"])[0].tolist())
    assert len(labels) > 1 and not labels[0].startswith("·") and all(label.startswith("·") for label in labels[1:])


def test_only_letters_and_digits_that_continue_a_word_have_a_dot_and_nothing_continues_a_special_token():
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "byte_bpe", "vocab_size": 290}, "tokenizer"), TEXTS)
    ids, start = tokenizer.encode(["the\u00e9s, cats"])[0].tolist(), tokenizer.roles.id("start")
    labels = ["the", "\u00c3", "\u00a9", "s", ",", "\u2423", "cat", "s"]  # bytes are spelled as in the vocabulary
    assert [label.removeprefix("\u00b7") for label in token_labels(tokenizer, ids)] == labels
    assert token_labels(tokenizer, ids)[3:5] == ["\u00b7s", ","]
    assert token_labels(tokenizer, [ids[0], start, ids[3], ids[3]]) == ["the", "<s>", "s", "\u00b7s"]


def test_special_tokens_are_spelled_and_white_space_is_shown():
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters", "vocab_size": 60}, "tokenizer"), ["ab \n\tc"])
    ids = [tokenizer.roles.id("start"), *tokenizer.encode(["ab \n\t"])[0].tolist(), tokenizer.roles.id("end"), 999]
    assert token_labels(tokenizer, ids) == ["<s>", "a", "b", "␣", "↵", "⇥", "</s>", "<999>"]


def test_a_part_of_a_character_is_shown_as_its_bytes_are_spelled():
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "byte_bpe", "vocab_size": 270}, "tokenizer"), ["a b"])
    labels = token_labels(tokenizer, tokenizer.encode(["ü"])[0].tolist())
    assert len(labels) > 1 and "\ufffd" not in "".join(labels)
