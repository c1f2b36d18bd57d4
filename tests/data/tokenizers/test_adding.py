"""Words that are added to a tokenizer are tokens of their own, and begin as the mean of their pieces."""

from typing import Any

import pytest
import torch

from zoo.data.tokenizers.adding import add_words, pieces_of_added, words_to_add
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.experiments.finetune import init_as_mean
from zoo.models.create import create_model

TEXTS = ["the film was a bore", "코로나 백신 을 맞았다", "the cinema of the bore"] * 3


def trained(kind: str) -> Tokenizer:
    sizes = {"byte_bpe": 270, "wordpiece": 60, "bpe": 60}
    return Tokenizer.train(tokenizers.parse({"name": kind, "vocab_size": sizes[kind]}), TEXTS)


@pytest.mark.parametrize("kind", ["byte_bpe", "wordpiece", "bpe"])
def test_an_added_word_is_one_token_and_texts_come_back(kind: str):
    tokenizer = trained(kind)
    before = tokenizer.vocab_size
    assert add_words(tokenizer, ["cinematic", "백신접종"]) == ["cinematic", "백신접종"]
    text = "the cinematic bore"
    (ids,) = tokenizer.encode([text])
    assert before in ids and tokenizer.decode(ids) == text
    assert Tokenizer.from_files(tokenizer.files()).encode([text])[0].tolist() == ids.tolist()


def test_a_continuation_of_a_text_knows_the_words_that_were_added_after_another_one_was_read():
    tokenizer = trained("bpe")
    tokenizer.encode_continuation(["a bore"])
    add_words(tokenizer, ["cinematic"])
    assert tokenizer.vocabulary["cinematic"] in tokenizer.encode_continuation(["a cinematic bore"])[0]


@pytest.mark.parametrize(("text", "found"), [("a cinematic bore", True), ("cinematics", False), ("uncinematic", False)])
def test_a_word_is_not_found_within_another_one(text: str, found: bool):
    tokenizer = trained("wordpiece")
    add_words(tokenizer, ["cinematic"])
    assert (tokenizer.vocabulary["cinematic"] in tokenizer.encode([text])[0]) == found


def test_a_korean_word_is_found_before_its_particle():
    tokenizer = trained("wordpiece")
    add_words(tokenizer, ["백신접종"])
    assert tokenizer.vocabulary["백신접종"] in tokenizer.encode(["백신접종을 맞았다"])[0]


def test_a_word_is_not_found_in_half_a_syllable(caplog: pytest.LogCaptureFixture):
    tokenizer = trained("wordpiece")  # which writes Hangul as letters
    add_words(tokenizer, ["주가", "백신"])
    assert "misses these words before a particle: 주가; normalization: nfc keeps syllables whole" in caplog.text
    word = tokenizer.vocabulary["주가"]
    assert [word in ids for ids in tokenizer.encode(["주가 백신", "주간 백신", "주가는"])] == [True, False, False]
    assert tokenizer.vocabulary["백신"] in tokenizer.encode(["백신은"])[0]


def test_a_word_that_is_named_twice_is_added_once():
    assert words_to_add({"add": ["film", "bore", "film"]}) == ["film", "bore"]


def test_a_special_token_is_no_word():
    with pytest.raises(ValueError, match=r"task\.tokenizer\.add: '\[MASK\]' is a special token of the tokenizer"):
        add_words(trained("wordpiece"), ["[MASK]"])


def test_a_word_that_is_a_token_already_is_not_added():
    tokenizer = trained("bpe")
    assert add_words(tokenizer, ["the"]) == [] and add_words(tokenizer, ["cinematic"]) == ["cinematic"]
    assert add_words(tokenizer, ["cinematic"]) == []


def test_an_added_word_begins_as_the_mean_of_its_pieces():
    before, after = trained("bpe"), trained("bpe")
    after.add_roles(["extract"])
    add_words(after, ["cinematic"])
    pieces = pieces_of_added(before, after)
    ((token, ids),) = pieces.items()
    assert ids == before.encode(["cinematic"])[0].tolist() and token == after.vocabulary["cinematic"]
    model = create_model("bert-nano", heads=["masked_lm"], vocab_size=after.vocab_size).initialize(0)
    torch.nn.init.normal_(model.get_parameter("heads.masked_lm.bias"))
    init_as_mean(model, pieces)
    for name in ("encoder.stack.embeddings.tokens.weight", "heads.masked_lm.bias"):
        table = model.get_parameter(name)
        torch.testing.assert_close(table[token], table[ids].mean(0))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("film", "task.tokenizer.add: expected a list, got 'film'"),
        (["a b"], "not contain spaces, got 'a b'"),
        ([""], "''"),
    ],
)
def test_what_are_no_words_is_refused(given: Any, words: str):
    with pytest.raises(ValueError, match=words):
        words_to_add({"add": given})


def test_added_words_are_part_of_what_decides_the_ids_of_texts():
    """By this hash the token store knows what it holds."""
    choice = tokenizers.parse({"name": "wordpiece", "vocab_size": 60}, "tokenizer")
    tokenizer = Tokenizer.train(choice, ["the cat sleeps"] * 3)
    before = tokenizer.digest
    add_words(tokenizer, ["sleepless"])
    assert tokenizer.digest != before
