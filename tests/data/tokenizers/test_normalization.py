"""What the Unicode forms do to texts, to Hangul above all, and what byte fallback leaves of unknown characters."""

import unicodedata

import pytest

from zoo.data.tokenizers.recipes.pieces import BYTES
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.recipes.unigram import rank_pieces
from zoo.data.tokenizers.tokenizer import Tokenizer

KOREAN = "나는 학교에 간다. 한국어 ㅋㅋ ＡＢ ①"
TEXTS = [KOREAN, "plain words of an alphabet"] * 3
SMALLEST = {"wordpiece": 120, "bpe": 120, "byte_bpe": 300, "characters": 120, "unigram": 120}
FORMS = ("nfc", "nfd", "nfkc", "nfkd")


def train(name: str, **options: object) -> Tokenizer:
    return Tokenizer.train(tokenizers.parse({"name": name, "vocab_size": SMALLEST[name], **options}), TEXTS)


def there_and_back(tokenizer: Tokenizer, text: str) -> str:
    return "".join(tokenizer.decode(tokenizer.encode([text])[0]).split())


@pytest.mark.parametrize("name", tokenizers.names())
@pytest.mark.parametrize("form", FORMS)
def test_a_form_gives_both_spellings_of_a_syllable_the_same_ids(name: str, form: str) -> None:
    whole, apart = (unicodedata.normalize(f, "학교에") for f in ("NFC", "NFD"))
    ids = train(name, normalization=form).encode([whole, apart])
    assert ids[0].tolist() == ids[1].tolist()


@pytest.mark.parametrize("name", tokenizers.names())
def test_without_a_form_both_spellings_differ_unless_accents_are_stripped(name: str) -> None:
    whole, apart = (unicodedata.normalize(f, "학교에") for f in ("NFC", "NFD"))
    ids = train(name).encode([whole, apart])
    assert (ids[0].tolist() == ids[1].tolist()) == (name == "wordpiece")


@pytest.mark.parametrize("name", ["bpe", "unigram", "characters"])
@pytest.mark.parametrize("form", FORMS)
def test_what_comes_back_is_the_text_in_its_form(name: str, form: str) -> None:
    expected = "".join(unicodedata.normalize(form.upper(), KOREAN).split())
    assert there_and_back(train(name, normalization=form), KOREAN) == expected


def test_lowercasing_wordpiece_takes_syllables_apart_and_nfc_joins_them() -> None:
    apart, joined = (there_and_back(train("wordpiece", normalization=form), "한국어") for form in ("none", "nfc"))
    assert (apart, joined) == (unicodedata.normalize("NFD", "한국어"), "한국어")


def test_the_form_comes_before_small_letters_and_after_them() -> None:
    tokenizer = train("characters", normalization="nfkc", lowercase=True)
    assert there_and_back(tokenizer, "ＡＢ") == "ab"


def test_a_misspelled_form_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"normalization: unknown value 'nfx' .*allowed: none, nfc, nfd, nfkc, nfkd"):
        tokenizers.parse({"name": "bpe", "normalization": "nfx"}, "task.tokenizer")


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_with_byte_fallback_nothing_is_unknown_and_all_comes_back(name: str) -> None:
    tokenizer = train(name, vocab_size=400, byte_fallback=True)
    text = "間違い 👍🏽 ß ᚠ\u200d \U0010ffff plain"
    (ids,) = tokenizer.encode([text])
    assert tokenizer.roles.unk not in ids and tokenizer.decode(ids) == text


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_without_byte_fallback_a_new_character_is_unknown(name: str) -> None:
    tokenizer = train(name)
    assert tokenizer.roles.unk in tokenizer.encode(["間"])[0]


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_bytes_follow_the_roles_and_are_there_from_1024_tokens_on(name: str) -> None:
    tokenizer = train(name, vocab_size=1024)
    assert [tokenizer.spell(i) for i in range(7, 263)] == list(BYTES)
    assert BYTES[0] not in train(name, vocab_size=1023).vocabulary


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_a_text_that_spells_bytes_or_roles_is_text(name: str) -> None:
    tokenizer = train(name, vocab_size=400, byte_fallback=True)
    text = "a <0x41> <mask> <s>"
    ids = tokenizer.encode([text])[0]
    assert tokenizer.decode(ids) == text and not {*range(7), tokenizer.vocabulary["<0x41>"]} & set(ids.tolist())


def test_byte_fallback_without_room_for_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tokenizer.vocab_size: expected a whole number of at least 265, got 200"):
        tokenizers.parse({"name": "unigram", "vocab_size": 200, "byte_fallback": True}).build()


def test_scores_that_only_a_hash_table_told_apart_become_one() -> None:
    one = {"ab": -1.0, "x": -7.0, "y": -6.9999, "z": -6.9998}
    other = {"ab": -1.0 + 1e-12, "x": -6.9999, "y": -6.9998, "z": -7.0}
    letters = frozenset("xyz")
    assert (
        rank_pieces(one, letters, 9)
        == rank_pieces(other, letters, 9)
        == [("ab", -1.0), ("x", -7.0), ("y", -7.0), ("z", -7.0)]
    )


def test_characters_stay_where_a_vocabulary_has_no_room_for_more() -> None:
    assert rank_pieces({"ab": -1.0, "a": -2.0, "b": -3.0}, frozenset("ab"), 2) == [("a", -2.0), ("b", -3.0)]


def marks_said(texts: list[str], caplog: pytest.LogCaptureFixture, **options: object) -> list[str]:
    Tokenizer.train(tokenizers.parse({"name": "wordpiece", "vocab_size": 120, **options}), texts)
    return [record.message for record in caplog.records]


def test_lowercasing_that_strips_vowel_signs_is_said(caplog: pytest.LogCaptureFixture) -> None:
    (said,) = marks_said(["ที่นี่", "ไทย"], caplog)
    assert said == (
        "tokenizer: lowercase strips marks from 44.4 % of all characters, such as THAI CHARACTER SARA II, THAI "
        "CHARACTER MAI EK; to keep them, set task.tokenizer.lowercase to false"
    )


def test_marks_of_kana_are_said_in_either_spelling(caplog: pytest.LogCaptureFixture) -> None:
    for form in ("NFC", "NFD"):
        caplog.clear()
        assert len(marks_said([unicodedata.normalize(form, "がぎぐげご日本語です")], caplog)) == 1


@pytest.mark.parametrize("text", ["Être là, naïve Ångström", "Ёлка", KOREAN, "E\u0302tre", "कि"])
def test_lowercasing_that_strips_accents_is_not(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert marks_said([text], caplog) == []


def test_marks_that_stay_are_not_said(caplog: pytest.LogCaptureFixture) -> None:
    assert marks_said(["ที่นี่"], caplog, lowercase=False) == []
    assert marks_said(["plain words " * 20, "ที่"], caplog) == []
