"""Looking words up gives the ids of encoding texts whole, for every tokenizer that is taken for separable."""

import json
import random
import sys
import unicodedata
from collections.abc import Callable
from functools import cache
from string import punctuation
from typing import Any

import numpy as np
import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from zoo.data.tokenizers import word_cache
from zoo.data.tokenizers.adding import add_words
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.separable import CUTS, is_separable, is_separable_at_marks
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.data.tokenizers.word_cache import WordCache

WHITE = (*"    \n\t\x0b\x1c\x00\u00a0\u2003\u3000", "  ", "\n\n", " \n", "\r\n")
OTHER = "\u200b \u0301 \u0308 \u0338 ´ ‗ ﬁ İ ß é e\u0301 한 국어 ᄒ 中文 の 👍🏽 ؀".split(" ")
WORDS = "a b ab the The dog it's we'LL don't 1 23 4,567.89 x2 e-mail a_b Mr.".split()
MARKS = (*r""".,;:!?)](["'_-—…“”▁Ġ$+<=>^`|~\/%""", "...", '."', "<mask>", "[MASK]", "##a", "@@")
PIECES = (*WHITE, *OTHER, *WORDS, *MARKS)


def texts(seed: int, count: int = 300) -> list[str]:
    """Texts of drawn pieces; every other one is long enough for pieces to meet in many ways."""
    drawn = random.Random(seed)
    return ["".join(drawn.choices(PIECES, k=drawn.randrange(60 if n % 2 else 5))) for n in range(count)]


def byte_level(prefix: bool) -> Callable[[], Backend]:
    def build() -> Backend:
        backend = Backend(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        return backend

    return build


def split_by(pattern: str) -> Callable[[], Backend]:
    def build() -> Backend:
        backend = Backend(models.BPE())
        backend.normalizer = normalizers.NFC()
        cut = pre_tokenizers.Split(Regex(pattern), "isolated")
        bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([cut, bytes_only])
        return backend

    return build


def at_spaces(cut: pre_tokenizers.PreTokenizer) -> Callable[[], Backend]:
    def build() -> Backend:
        backend = Backend(models.BPE(end_of_word_suffix="</w>", unk_token="<unk>"))
        backend.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
        finer = [pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)]
        backend.pre_tokenizer = pre_tokenizers.Sequence([cut, *finer])
        return backend

    return build


def metaspace(scheme: str) -> Callable[[], Backend]:
    def build() -> Backend:
        backend = Backend(models.BPE(unk_token="<unk>", fuse_unk=True))
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
        backend.decoder = decoders.Metaspace(prepend_scheme=scheme)
        return backend

    return build


STRANGERS = {
    "gpt2": byte_level(False),
    "roberta": byte_level(True),
    "llama3": split_by(CUTS[1]),
    "qwen": split_by(CUTS[2]),
    "bert cut": at_spaces(pre_tokenizers.BertPreTokenizer()),
    "white space": at_spaces(pre_tokenizers.WhitespaceSplit()),
    "always": metaspace("always"),
    "never": metaspace("never"),
}
ALONE = ("gpt2", "llama3", "bert cut")  # without words that were added, which may hold marks
OWN = {
    f"{name} {options}": {"name": name, **options}
    for name in ("wordpiece", "bpe", "byte_bpe", "unigram")
    for options in ({}, {"lowercase": True, "normalization": "nfkc"}, {"lowercase": False, "normalization": "nfd"})
}


def make(name: str) -> Tokenizer:
    if name in OWN:
        return Tokenizer.train(tokenizers.parse({"vocab_size": 1400, **OWN[name]}), texts(1, 2000))
    backend = STRANGERS[name]()
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["<unk>", "<mask>"], show_progress=False)
    backend.train_from_iterator(texts(1, 2000), trainer)
    if name not in ALONE:
        backend.add_tokens([AddedToken("dog", single_word=True), AddedToken("국어", normalized=True)])
    return Tokenizer(backend, {"pad": "<unk>", "mask": "<mask>"})


def different(tokenizer: Tokenizer, given: list[str]) -> list[str]:
    """The texts whose ids by their words are others than those of the whole."""
    cache = tokenizer.word_cache
    assert cache is not None
    pairs = zip(given, cache.encode(given), cache.encode_whole(given), strict=True)
    return [text for text, mine, whole in pairs if mine.tolist() != whole.tolist()]


@pytest.mark.parametrize("name", [*OWN, *STRANGERS])
def test_texts_of_all_that_may_stand_beside_a_space_have_the_ids_of_the_whole(name: str):
    tokenizer = make(name)
    for seed in range(2, 6):
        assert not different(tokenizer, texts(seed))


@pytest.mark.parametrize("name", ["wordpiece {}", "byte_bpe {}", "unigram {}", "llama3"])
def test_any_character_may_stand_beside_spaces_marks_and_lines(name: str):
    tokenizer = make(name)
    every = [chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000]
    telling = [c for c in every if unicodedata.category(c) in ("Mn", "Mc", "Me", "Cf", "Zs", "Zl", "Zp", "Cc")]
    drawn = telling + every[:0x500] + every[0x500:0x10000:61] + every[0x10000::1999]
    assert not different(tokenizer, [f"a{c} {c}b {c} a,{c}.{c}\n{c}b\n{c} " for c in drawn])


@pytest.mark.parametrize("name", ["byte_bpe", "wordpiece"])
def test_a_word_that_was_added_is_the_same_in_many_texts_as_in_one(name: str):
    tokenizer = Tokenizer.train(tokenizers.parse({"name": name, "vocab_size": 1400}), texts(1, 2000))
    assert add_words(tokenizer, ["covidx"]) == ["covidx"]
    given = [f"the covidx{mark}19 test covidx{mark}" for mark in MARKS]
    assert not different(tokenizer, given)


@pytest.mark.parametrize("form", ["nfc", "nfkc"])
def test_a_mark_that_joins_what_is_behind_it_is_no_border(form: str):
    choice = {"name": "wordpiece", "vocab_size": 1400, "lowercase": False, "normalization": form}
    tokenizer = Tokenizer.train(tokenizers.parse(choice), texts(1, 2000))
    assert not different(tokenizer, [f"a{mark}\u0338b a {mark}\u0338b" for mark in punctuation])


def test_every_kind_of_whitespace_is_known():
    white = [point for point in range(sys.maxunicode + 1) if chr(point).isspace()]
    assert (word_cache.character_kinds() == word_cache.WHITE).nonzero()[0].tolist() == white


def test_words_that_share_a_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    tokenizer = make("byte_bpe {}")
    monkeypatch.setattr(word_cache, "MULTIPLIER", 1)  # a word and its anagrams have one hash
    word_cache.powers.cache_clear()
    whole, encode_whole = [], WordCache.encode_whole
    monkeypatch.setattr(WordCache, "encode_whole", lambda self, given: whole.append(given) or encode_whole(self, given))
    assert not different(tokenizer, ["god dog", "a dog, a god"])
    assert whole
    word_cache.powers.cache_clear()


def test_a_full_cache_forgets_words_and_keeps_those_that_are_met_again(monkeypatch: pytest.MonkeyPatch):
    tokenizer, most = make("byte_bpe {}"), 200
    monkeypatch.setattr(word_cache, "MOST", most)
    monkeypatch.setattr(word_cache, "CHARACTERS", 100)
    word_cache.powers.cache_clear()
    cache = tokenizer.word_cache
    assert cache is not None
    for number in range(100):
        assert not different(tokenizer, [f"often {number} times {number * number}"])
        assert sum(map(len, [*cache.young, *cache.old])) < 2 * (most + 100)
        assert " times" in {**cache.young, **cache.old}
    assert " 7" not in {**cache.young, **cache.old}
    # in several groups, and one text that is longer than a group
    assert not different(tokenizer, ["often, how often?"] * 20 + ["twelve times " * 9, "once"])
    word_cache.powers.cache_clear()


def test_a_cleared_cache_keeps_neither_words_nor_tables_and_is_filled_again():
    tokenizer, given = make("byte_bpe {}"), texts(0, count=3000)
    before = tokenizer.encode(given)
    assert tokenizer.word_cache is not None and tokenizer.word_cache.young
    tables = word_cache.powers, word_cache.character_kinds
    assert all(table.cache_info().currsize for table in tables)
    tokenizer.clear_cache()
    assert "word_cache" not in vars(tokenizer) and not any(table.cache_info().currsize for table in tables)
    assert all(map(np.array_equal, tokenizer.encode(given), before)) and tokenizer.word_cache.young


def test_a_thread_that_fills_the_cache_takes_no_word_from_another(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(word_cache, "MOST", 10)
    words = WordCache(make("byte_bpe {}").plain_backend, at_marks=False)
    plainly = [ids.tolist() for ids in words.encode_whole([" one other"])]
    list(words.encode([" one longer than ten characters"]))  # the words are in the older generation now
    encode = words.encode_words

    def interrupted(new: list[str]) -> list[bytes]:
        monkeypatch.setattr(words, "encode_words", encode)
        list(words.encode([" what another thread reads"]))
        return list(encode(new))

    monkeypatch.setattr(words, "encode_words", interrupted)
    assert [ids.tolist() for ids in words.encode([" one other"])] == plainly


@cache
def written(name: str) -> str:
    """The file of a tokenizer."""
    return make(name).plain_backend.to_str()


def spec(change: dict[str, Any], name: str = "byte_bpe {}") -> dict[str, Any]:
    return {**json.loads(written(name)), **change}


ADDED = {"id": 9, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
SPLIT = {"type": "Split", "pattern": {"Regex": CUTS[0]}, "behavior": "Isolated", "invert": False}
PREFIXED = {"type": "ByteLevel", "use_regex": False, "add_prefix_space": True}
ENDS = {"type": "Strip", "strip_left": False, "strip_right": True}
SPACES = {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}
WHOLE = {
    "no cut": {"pre_tokenizer": None},
    "an unknown pattern": {"pre_tokenizer": {**SPLIT, "pattern": {"Regex": "x+"}}},
    "pieces left out": {"pre_tokenizer": {**SPLIT, "behavior": "Removed"}},
    "pieces over spaces": {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "split": False}},
    "pieces turned inside out": {"pre_tokenizer": {**SPLIT, "invert": True}},
    "spaces before words that are cut off": {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}},
    "a space before each word": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLIT, PREFIXED]}},
    "dropped characters": {"normalizer": {"type": "StripAccents"}},
    "a map of characters": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "a space before each text": {"normalizer": {"type": "Prepend", "prepend": "▁"}},
    "an added token with a space": {"added_tokens": [{**ADDED, "content": "New York"}]},
    "an added token that takes spaces": {"added_tokens": [{**ADDED, "content": "x", "rstrip": True}]},
    "an added token that takes the spaces before it": {"added_tokens": [{**ADDED, "content": "x", "lstrip": True}]},
    "an added token that is written as two": {"added_tokens": [{**ADDED, "content": "ﷺ"}]},
    "an added token that BERT writes with spaces": {"added_tokens": [{**ADDED, "content": "中文", "normalized": True}]},
    "a special token that hides a word": {
        "added_tokens": [{**ADDED, "content": "b"}, {**ADDED, "content": "a b", "special": True}]
    },
    "merges at random": {"model": {"type": "BPE", "dropout": 0.1}},
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_a_tokenizer_that_looks_beyond_words_encodes_texts_whole(name: str):
    assert is_separable(spec({})) and not is_separable(spec(WHOLE[name]))


def test_marks_are_no_borders_where_a_step_or_a_token_joins_them():
    assert is_separable_at_marks(spec({})) and is_separable_at_marks(spec({}, "wordpiece {}"))
    assert not is_separable_at_marks(spec({}, "bpe {}"))
    assert not is_separable_at_marks(spec({}, "roberta"))
    assert not is_separable_at_marks(spec({"added_tokens": [{**ADDED, "content": "v2.0"}]}))
    for step in (SPACES, ENDS):
        assert is_separable(spec({"normalizer": step})) and not is_separable_at_marks(spec({"normalizer": step}))
