"""Recipes: what a trained tokenizer is, whatever its kind, and what each kind promises."""

import os
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from patience import HANGS
from zoo.data.ids import ROLES
from zoo.data.tokenizers.recipes.recipe import ANGLED, BRACKETED, choose_letters, in_batches, tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer

TEXTS = [
    "The man's dog ran fast; the women ran faster, and the dogs ran the fastest.",
    "Ein Mann läuft schnell.  Zwei Männer\nlaufen: schneller!",
    "서울에서 달리는 사람 😀",
] * 3
ODD = "the dog,  ran\tÜber 한국 👍🏽 \u200d 中文 [MASK] <mask> end"
SIZES = {"wordpiece": 120, "bpe": 100, "byte_bpe": 300, "characters": 40, "unigram": 100}


def train(name: str, **options: object) -> Tokenizer:
    return Tokenizer.train(tokenizers.parse({"name": name, "vocab_size": SIZES[name], **options}), TEXTS)


@pytest.mark.parametrize("name", tokenizers.names())
def test_roles_are_the_first_ids_in_order(name: str):
    tokenizer = train(name)
    spelled = BRACKETED if name == "wordpiece" else ANGLED
    assert [tokenizer.spell(i) for i in range(7)] == [spelled[role] for role in ROLES]
    roles = tokenizer.roles
    found = [roles.pad, roles.unk, roles.start, roles.end, roles.separator, roles.extract, roles.mask]
    assert found == list(range(7))


@pytest.mark.parametrize("name", tokenizers.names())
@pytest.mark.parametrize("size", [270, 40, 10])
def test_the_vocabulary_never_exceeds_vocab_size(name: str, size: int):
    size = max(size, 263) if name == "byte_bpe" else size
    tokenizer = train(name, vocab_size=size)
    assert 7 < tokenizer.vocab_size <= size
    assert sorted(tokenizer.vocabulary.values()) == list(range(tokenizer.vocab_size))


@pytest.mark.parametrize("name", tokenizers.names())
def test_a_text_too_small_for_vocab_size_gives_a_smaller_vocabulary(name: str):
    tokenizer = Tokenizer.train(tokenizers.parse({"name": name, "vocab_size": 1000}), ["ab ab cd"])
    assert tokenizer.vocab_size < 1000
    assert tokenizer.roles.unk not in tokenizer.encode(["cd ab"])[0]


@pytest.mark.parametrize("name", tokenizers.names())
def test_any_text_can_be_encoded(name: str):
    tokenizer = train(name)
    for ids in tokenizer.encode([ODD, "", "\n", "한국"]):
        assert all(0 <= i < tokenizer.vocab_size for i in ids)


@pytest.mark.parametrize("name", tokenizers.names())
def test_encoding_and_decoding_again_changes_nothing(name: str):
    tokenizer = train(name)
    (ids,) = tokenizer.encode([TEXTS[0]])
    (again,) = tokenizer.encode([tokenizer.decode(ids)])
    assert again.tolist() == ids.tolist()


@pytest.mark.parametrize("text", [*TEXTS[:3], ODD, " two  spaces ", "\n"])
def test_byte_bpe_gives_every_text_back_exactly(text: str):
    tokenizer = train("byte_bpe")
    assert tokenizer.decode(tokenizer.encode([text])[0]) == text


@pytest.mark.parametrize("text", TEXTS[:3])
def test_bpe_gives_known_characters_back_up_to_whitespace(text: str):
    tokenizer = train("bpe")
    assert tokenizer.decode(tokenizer.encode([f" {text} "])[0]) == " ".join(text.split())


@pytest.mark.parametrize("text", TEXTS[:3])
def test_characters_give_known_characters_back_exactly(text: str):
    tokenizer = train("characters", vocab_size=None)
    ids = tokenizer.encode([text])[0]
    assert tokenizer.decode(ids) == text
    assert len(ids) == len(text)


def test_characters_are_numbered_by_code_point_and_cut_by_frequency():
    texts = ["bbb aa \nc"]
    numbered = Tokenizer.train(tokenizers.parse("characters"), texts)
    assert [numbered.spell(i) for i in range(7, numbered.vocab_size)] == ["\n", " ", "a", "b", "c"]
    cut = Tokenizer.train(tokenizers.parse({"name": "characters", "vocab_size": 9}), texts)
    assert [cut.spell(i) for i in (7, 8)] == [" ", "b"]
    often = Tokenizer.train(tokenizers.parse({"name": "characters", "min_frequency": 3}), texts)
    assert [often.spell(i) for i in range(7, often.vocab_size)] == ["b"]


def test_wordpiece_reads_as_bert_does():
    tokenizer = train("wordpiece", vocab_size=300)
    upper, lower = tokenizer.encode(["THE DOG läuft", "the dog lauft"])
    assert upper.tolist() == lower.tolist()
    assert tokenizer.decode(upper) == "the dog lauft"
    assert tokenizer.roles.unk == tokenizer.encode(["Ж"])[0][0]


def test_wordpiece_gives_continuing_forms_only_to_what_can_continue_a_word():
    vocabulary = train("wordpiece").vocabulary
    assert {"a", "##a", ",", "!"} <= set(vocabulary)
    assert not {"##,", "##!", " "} & set(vocabulary)


@pytest.mark.parametrize("name", ["bpe", "byte_bpe", "characters"])
def test_case_is_kept_unless_lowercase_is_asked_for(name: str):
    assert "T" in "".join(train(name).vocabulary)
    lower = train(name, lowercase=True)
    assert lower.encode(["THE"])[0].tolist() == lower.encode(["the"])[0].tolist()


def test_bpe_never_merges_punctuation_with_letters():
    tokens = [t for t in train("bpe", vocab_size=400).vocabulary if t not in ANGLED.values()]
    assert not [t for t in tokens if any(c in ",.;:!'" for c in t) and any(c.isalpha() for c in t)]


@pytest.mark.parametrize(
    ("name", "rare", "often"), [("bpe", "▁ab", "▁xyz"), ("wordpiece", "ab", "xyz"), ("byte_bpe", "Ġab", "xyz")]
)
def test_min_frequency_keeps_rare_merges_out(name: str, rare: str, often: str):
    found = []
    for least in (1, 2):
        choice = tokenizers.parse({"name": name, "vocab_size": SIZES[name], "min_frequency": least})
        found.append(Tokenizer.train(choice, ["xyz xyz ab"]).vocabulary)
    assert rare in found[0] and rare not in found[1] and often in found[1]


def test_rare_characters_leave_half_of_the_vocabulary_to_words():
    counts = {"a": 50000, **{chr(0x4E00 + i): 1 for i in range(20)}}
    costs = dict.fromkeys(counts, 1)
    assert len(choose_letters(counts, costs, room=10)) == 5
    assert len(choose_letters(counts, costs, room=100)) == 21


def test_common_characters_may_fill_the_vocabulary():
    counts = {chr(0x4E00 + i): 100 for i in range(20)}
    assert len(choose_letters(counts, dict.fromkeys(counts, 1), room=15)) == 15


def test_two_processes_train_the_same_tokenizers():
    script = (
        "from zoo.data.tokenizers.tokenizer import Tokenizer\n"
        "from zoo.data.tokenizers.recipes.recipe import tokenizers\n"
        "from test_recipes import SIZES, TEXTS\n"
        "texts = TEXTS + [word[::-1] for text in TEXTS for word in text.split()]\n"
        "for name in tokenizers.names():\n"
        "    rare = {} if name == 'unigram' else {'min_frequency': 1}\n"
        "    choice = tokenizers.parse({'name': name, 'vocab_size': 2 * SIZES[name], **rare})\n"
        "    print(Tokenizer.train(choice, texts).digest)"
    )
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": path, "RAYON_NUM_THREADS": "2"}
    runs = [subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    digests = [run.communicate(timeout=HANGS)[0].split() for run in runs]
    assert [len(digest) for digest in digests[0]] == [64] * len(tokenizers.names())
    assert digests[0] == digests[1]


class Passes:
    """Texts of which each pass makes new ones; counts those that are held at once."""

    def __init__(self) -> None:
        self.held = self.most = 0

    def __iter__(self) -> Iterator[str]:
        for _ in range(200):
            text = Text("".join(TEXTS) * 10)
            self.held += 1
            self.most = max(self.most, self.held)
            weakref.finalize(text, self.release)
            yield text
            del text

    def release(self) -> None:
        self.held -= 1


class Text(str):
    """A text that can tell when nobody holds it any more."""


@pytest.mark.parametrize("name", tokenizers.names())
def test_training_holds_a_batch_of_texts_and_no_more(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zoo.data.tokenizers.recipes.recipe.BATCH", 5000)
    texts = Passes()
    Tokenizer.train(tokenizers.parse({"name": name, "vocab_size": SIZES[name]}), texts)
    assert texts.most < 20


def test_a_long_text_is_cut_before_spaces_and_trains_the_same(monkeypatch: pytest.MonkeyPatch):
    text = " ".join(TEXTS)
    whole = [Tokenizer.train(tokenizers.parse({"name": n, "vocab_size": SIZES[n]}), [text]) for n in SIZES]
    monkeypatch.setattr("zoo.data.tokenizers.recipes.recipe.BATCH", 60)
    cut = [Tokenizer.train(tokenizers.parse({"name": n, "vocab_size": SIZES[n]}), [text]) for n in SIZES]
    assert [t.digest for t in whole] == [t.digest for t in cut]


def test_a_text_without_spaces_is_cut_anyway(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zoo.data.tokenizers.recipes.recipe.BATCH", 3)
    assert list(in_batches(["abcdefgh", "i"])) == [["abc"], ["def"], ["gh", "i"], []]


@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_no_text_is_refused(texts: list[str]):
    with pytest.raises(ValueError, match="there is no text to train it on"):
        Tokenizer.train(tokenizers.parse("bpe"), texts)


def test_a_vocabulary_without_room_for_the_alphabet_is_refused():
    with pytest.raises(ValueError, match=r"tokenizer.vocab_size: expected a whole number of at least 263, got 262"):
        tokenizers.parse({"name": "byte_bpe", "vocab_size": 262}).build()
    with pytest.raises(ValueError, match=r"tokenizer.vocab_size: expected a whole number of at least 8, got 7"):
        tokenizers.parse({"name": "wordpiece", "vocab_size": 7}).build()


def test_a_list_of_sizes_is_refused():
    with pytest.raises(ValueError, match=r"vocab_size: expected one value, not a list, got \[100, 200\]"):
        tokenizers.parse({"name": "bpe", "vocab_size": [100, 200]}).build()


def test_a_misspelled_kind_names_the_nearest():
    with pytest.raises(ValueError, match="unknown tokenizer 'wordpeice' \\(did you mean 'wordpiece'\\?\\)"):
        tokenizers.parse("wordpeice", "task.tokenizer")
