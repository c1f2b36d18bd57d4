"""Which tokens a word has, and which an answer."""

from typing import Any
from unicodedata import normalize

import numpy as np
import pytest
from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.token_spans import TokenSpans, encode_with_spans, encode_word_lists, tokens_of
from zoo.data.tokenizers.tokenizer import Tokenizer

WORDS = ["Zoë", "reads,", "don't", "\u200d", "서울에서", "1923"]
KINDS = ["wordpiece", "bpe", "byte_bpe", "characters"]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    texts = [" ".join(WORDS), "reads the 서울 in 1923 and doesn't stop"]
    sizes = {} if request.param == "characters" else {"vocab_size": 300}
    return Tokenizer.train(tokenizers.parse({"name": request.param, **sizes}), texts)


def test_the_tokens_of_words_are_those_of_the_text_that_they_make(tokenizer: Tokenizer):
    (words,) = encode_word_lists(tokenizer, [WORDS])
    assert len(words) == len(WORDS)
    assert [i for ids in words for i in ids] == tokenizer.encode([" ".join(WORDS)])[0].tolist()


def test_a_word_has_the_tokens_that_spell_it(tokenizer: Tokenizer):
    (words,) = encode_word_lists(tokenizer, [WORDS])
    spelled = [normalize("NFC", tokenizer.decode(ids).replace(" ", "").lower()) for ids in words]
    assert spelled[4] == "서울에서" and spelled[2] == "don't" and spelled[5] == "1923"


def test_the_tokens_of_an_answer_cover_it_and_no_word_beside_it(tokenizer: Tokenizer):
    text = "the 서울 in 1923, and"
    (tokens,) = encode_with_spans(tokenizer, [text])
    first, last = tokens_of(tokens, 7, 14)
    assert text[tokens.begins[first] : tokens.ends[last - 1]] == "in 1923"


def test_no_words_have_no_tokens(tokenizer: Tokenizer):
    assert encode_word_lists(tokenizer, [[], ["in"]])[0] == []


@pytest.mark.parametrize("kind", [*KINDS, "unigram"])
def test_an_empty_word_has_no_token_wherever_it_stands(kind: str):
    sizes = {} if kind == "characters" else {"vocab_size": 300}
    known = Tokenizer.train(tokenizers.parse({"name": kind, **sizes}), ["the cat reads", "a dog reads"] * 9)
    (first,), (last,), (none,) = (
        encode_word_lists(known, [words]) for words in (["", "cat"], ["cat", " "], ["\u00a0", ""])
    )
    assert [len(ids) > 0 for ids in (*first, *last, *none)] == [False, True, True, False, False, False]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("word", ["수도", "한국", "café", "naïve", "Zoë"])
@pytest.mark.parametrize(
    "options", [{"normalization": "nfc"}, {"normalization": "nfkc", "lowercase": True}, {}], ids=str
)
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_keeps_the_marks_that_a_normalizer_joins_to_its_letters(
    kind: str, options: Any, word: str, form: str
):
    answer = normalize(form, word)
    text = f"the {answer} stop"
    sizes = {} if kind == "characters" else {"vocab_size": 300}
    known = Tokenizer.train(
        tokenizers.parse({"name": kind, **sizes, **options}), [text, "수도 한국 café Zoë naïve"] * 3
    )
    (tokens,) = encode_with_spans(known, [text])
    first, last = tokens_of(tokens, 4, 4 + len(answer))
    assert text[tokens.begins[first] : tokens.ends[last - 1]] == answer


def test_marks_at_the_end_of_a_text_belong_to_its_last_token():
    text = "a cafe\u0301"
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "wordpiece", "vocab_size": 100}), [text])
    (tokens,) = encode_with_spans(tokenizer, [text])
    assert tokens.ends[-1] == len(text) == 7


def test_a_mark_that_is_a_token_of_its_own_is_no_part_of_the_one_before():
    text = "e\u0301a"
    (tokens,) = encode_with_spans(Tokenizer.train(tokenizers.parse({"name": "characters"}), [text]), [text])
    assert list(zip(tokens.begins.tolist(), tokens.ends.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 3)]


def test_white_space_at_either_end_of_a_token_is_no_part_of_a_word():
    # Llama 3's tokens of punctuation include the line breaks after them
    vocabulary = {"<pad>": 0, "Stop": 1, ".\n\n": 2, " Go": 3, "\n": 4}
    backend = Backend(models.WordLevel(vocabulary))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[.]\n+| ?\w+|\n"), "isolated")
    (tokens,) = encode_with_spans(Tokenizer(backend, {"pad": "<pad>"}), ["Stop.\n\n Go\n"])
    assert list(zip(tokens.begins.tolist(), tokens.ends.tolist(), strict=True)) == [(0, 4), (4, 5), (8, 10), (11, 11)]


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (0, 1, (0, 1)),
        (1, 3, (1, 2)),  # neither the token that ends where the answer begins, nor the one that begins where it ends
        (2, 4, (1, 3)),
        (5, 6, (3, 4)),  # of a character without a token: the one after it
        (8, 9, (3, 4)),  # or the last one
    ],
)
def test_tokens_beside_an_answer_are_no_part_of_it(start: int, stop: int, expected: tuple[int, int]):
    begins, ends = np.array([0, 1, 3, 6]), np.array([1, 3, 5, 8])
    assert tokens_of(TokenSpans(begins, begins, ends), start, stop) == expected
