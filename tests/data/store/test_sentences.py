"""Where sentences end, in the scripts that zoo's users write."""

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.data.ids import StoredFields
from zoo.data.store import sentences
from zoo.data.store.sentences import ASCII_GAP, GAP, ends_sentence, rule, split_sentences, splitter
from zoo.data.store.store import StoreRecipe
from zoo.examples.form import ModelTraits, forms

CASES = [  # a sentence a row, as a reader splits them
    ("en", ["One here.", "Two!", "Three?", "It is 3.14, e.g. this one. and on.", "Élan."]),
    ("en", ["He said “Go!” and left.", "(She stayed.)", "“Why?” he asked."]),
    ("en", ['"No."', "'Never!'", "See No. 5 [here.]", "So."]),
    ("en", ["1. First comes this.", "Then that.", "Wait...", "Or not?!", "Yahoo! is a name."]),
    ("de", ["Er sagte: „Geh!“", "»Wirklich?«", "Über 3,5 Millionen, d.h. viele.", "Ärger gab es."]),
    ("de", ["Am 3. 5. kam Nr. 7 an die Tür.", "Er sah S. 12 an."]),
    ("fr", ["« Tu viens ? »", "Oui !", "À 3,14 près… on y est.", "Élise dit : « Non. »", "Et voilà."]),
    ("es", ["¿Qué pasa?", "¡Nada!", "Son 3.500 personas.", "Ésta no."]),
    ("ru", ["Он ушёл.", "Куда?", "«Домой!»", "Это стоит 3,5 руб. за штуку.", "Ёлка зелёная."]),
    ("el", ["Πού πας;", "Σπίτι.", "Τι ώρα είναι;", "Ώρα τρεις· φεύγω."]),
    ("ko", ["오늘은 날씨가 좋다.", "우리는 공원에 갔다!", "정말?", "“그래.”"]),
    ("ko", ["가격은 3.5만 원이다.", "1990년에 태어났다."]),
    ("ko", ["1. 첫째는 이것이다.", "2024. 3. 5. 서울에서 만났다.", "React는 UI입니다."]),
    ("ko", ["짧다.", "useState는 Hook이다.", "(끝.)", "다음."]),
    ("hi", ["वह घर गया।", "क्या तुम आओगे?", "दाम 3.5 रुपये है।", "नमस्ते!", "अच्छा॥"]),
    ("ar", ["ذهب الولد إلى المدرسة.", "هل أنت بخير؟", "السعر 3.5 دولار.", "نعم!"]),
    ("ur", ["وہ گھر گیا۔", "کیا تم آؤ گے؟", "ہاں۔"]),
    ("he", ["הוא הלך הביתה.", "לאן?", "המחיר 3.5 שקלים."]),
    ("hy", ["Նա գնաց տուն։", "Ես մնացի։"]),
    ("am", ["ሰላም ነው።", "እንዴት ነህ፧", "ደህና።"]),
    ("ka", ["ის სახლში წავიდა.", "სად?", "ფასი 3.5 ლარია.", "„დიახ!“"]),
    ("vi", ["Anh ấy về nhà.", "Đi đâu?", "Ở đó 3.5 năm."]),
]
UNSPACED = [
    ("zh", ["今天天气很好。", "我们去公园吧！", "价格是3.5元？！", "他说：“走吧。”", "（完。）", "她走了。"]),
    ("ja", ["今日は天気がいい。", "「本当？」と彼は言った。", "公園に行こう！"]),
    ("ja", ["値段は３．５円です。", "（終わり。）", "次。"]),
    ("ja", ["結果を示す．", "次に述べる．", "以上。"]),
    ("km", ["គាត់ទៅផ្ទះ។", "ខ្ញុំនៅ។"]),
    ("my", ["သူ၊ အိမ်ပြန်တယ်။", "ကျွန်တော်နေတယ်။"]),
    ("th", ["เขาเกิด พ.ศ. 2500 ที่ จ. เชียงใหม่ แล้วย้ายไป ดร. สมชาย"]),
]


@pytest.mark.parametrize(("language", "expected"), CASES)
def test_sentences_with_spaces_between_are_split_as_a_reader_does(language: str, expected: list[str]) -> None:
    assert split_sentences(" ".join(expected)) == expected


@pytest.mark.parametrize(("language", "expected"), UNSPACED)
def test_sentences_without_spaces_between_are_split_as_a_reader_does(language: str, expected: list[str]) -> None:
    assert split_sentences("".join(expected)) == expected


@pytest.mark.parametrize("expected", [expected for language, expected in CASES if language == "ko"])
def test_letters_of_syllables_that_are_written_apart_are_split_as_the_syllables_are(expected: list[str]) -> None:
    apart = [normalize("NFD", sentence) for sentence in expected]
    assert apart != expected and split_sentences(" ".join(apart)) == apart


def test_a_full_stop_before_a_small_letter_is_no_end() -> None:
    assert split_sentences("About 3.5 e.g. this one. and 'That'.") == ["About 3.5 e.g. this one. and 'That'."]


def test_a_line_is_at_least_one_sentence_and_blank_lines_are_none() -> None:
    assert split_sentences("A title\n\n  \nSome text. More") == ["A title", "Some text.", "More"]
    assert split_sentences("\n \n") == []


def test_lines_of_thai_are_its_sentences() -> None:
    assert split_sentences("สวัสดี ครับ\nลาก่อน") == ["สวัสดี ครับ", "ลาก่อน"]


@given(st.text("aZ5 .!?\"'([)]}\t;,", max_size=12))
def test_plain_ascii_is_split_by_the_rule_of_all_scripts(line: str) -> None:
    quick = [gap.end() for gap in ASCII_GAP.finditer(line)]
    assert quick == [gap.end() for gap in GAP.finditer(line) if ends_sentence(line, gap)]


@given(st.text('.!?…。！」"“» aZ5가と\n;ก', max_size=20))
def test_no_letter_is_lost(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("unit", [".", "! ", "。?", ".)", '."', "… ", "?「", ". «"])
def test_long_runs_of_marks_take_one_pass(unit: str) -> None:
    assert len(split_sentences(unit * 20_000 + "é\n")) >= 1  # a second pass from each mark would take minutes


def test_a_language_splits_by_its_abbreviations() -> None:
    split = splitter("de")
    assert split("Am 3. Mai kam z. B. Dr. Maier. Er blieb.\nLang.") == [
        "Am 3. Mai kam z. B. Dr. Maier.",
        "Er blieb.",
        "Lang.",
    ]


def test_a_language_without_sentencex_is_refused_with_an_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "segment", None)
    with pytest.raises(ValueError, match=r"source.language: de: .* pip install 'zoo\[sentences\]'"):
        splitter("de")


def test_each_rule_has_a_name_of_its_own() -> None:
    assert len({rule(None), rule("de"), rule("en")}) == 3


def test_a_language_where_no_sentences_are_read_is_refused() -> None:
    with pytest.raises(ValueError, match="source.language: de: only next_sentence splits texts into sentences"):
        forms["text"](ModelTraits(causal=True), whole=False).stored_fields_in("de")


def test_a_form_of_sentences_keeps_the_language() -> None:
    assert forms["sentences"](ModelTraits(causal=False), whole=False).stored_fields_in("de").language == "de"


@pytest.mark.parametrize("is_split", [True, False])
def test_a_new_version_of_the_rule_has_new_shards_of_texts_that_are_split(
    is_split: bool, monkeypatch: pytest.MonkeyPatch
):
    recipe = StoreRecipe(StoredFields(("text",), sentences=is_split), None)
    before = recipe.key()
    monkeypatch.setattr(sentences, "VERSION", sentences.VERSION + 1)
    assert (recipe.key() != before) is is_split
