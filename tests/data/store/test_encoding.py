"""A long text in pieces has the ids that it has as a whole."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from zoo.data.store import encoding
from zoo.data.store.encoding import encode, encode_texts
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer

WORDS = "the cat, sees  two dogs\n\n and \n1,234 한국어 문장이다. Ünï\n x\n  y\n".split(" ")
random.seed(0)
LINES = ["".join(f"{word} " for word in random.choices(WORDS, k=9)).strip(" ") + "\n" for _ in range(300)]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "LONG", 1500)
    monkeypatch.setattr(encoding, "CHARACTERS", 3000)


ONE_LINE = "".join(LINES).replace("\n", "")
CHINESE = "".join(random.choices("他说你好然后走了价格是的，。", k=4000))


@pytest.mark.parametrize("long", ["".join(LINES), ONE_LINE, CHINESE, CHINESE.replace("。", "")])
@pytest.mark.parametrize("name", tokenizers.names())
def test_pieces_have_the_ids_of_the_whole(name: str, long: str) -> None:
    texts = ["short", long, long[:2500], *LINES[:7], ""]
    options = {} if name == "characters" else {"vocab_size": 400}
    tokenizer = Tokenizer.train(tokenizers.parse({"name": name, **options}, "tokenizer"), texts)
    whole = tokenizer.encode(texts)
    longest: list[int] = []
    watch(tokenizer, longest)
    assert [ids.tolist() for ids in encode_texts(texts, tokenizer)] == [ids.tolist() for ids in whole]
    assert max(longest) <= 1500


def test_a_unit_without_a_token_is_left_out() -> None:
    tokenizer = Tokenizer.train(tokenizers.parse("wordpiece", "tokenizer"), LINES)
    found = list(encode(["the cat\n\u0007\ndogs", " ", "\u0007"], lambda document: document.split("\n"), tokenizer))
    assert [len(units) for units in found] == [2, 0, 0]
    assert found[0][1].tolist() == tokenizer.encode(["dogs"])[0].tolist()


def watch(tokenizer: Tokenizer, lengths: list[int]) -> None:
    """Note how long the texts are that a tokenizer reads."""
    for name in ("encode", "encode_continuation"):
        read = getattr(tokenizer, name)
        setattr(tokenizer, name, lambda some, read=read: lengths.append(max(map(len, some))) or read(some))


def llama(cut: dict[str, Any] | None, added: Sequence[AddedToken] = ()) -> Tokenizer:
    """A tokenizer that reads a whole text as one word, as Llama 2's; its runs of spaces are tokens."""
    scratch = Backend(models.BPE(unk_token="<unk>"))
    scratch.normalizer = normalizers.Replace(" ", "▁")
    scratch.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>"], show_progress=False)
    scratch.train_from_iterator([*LINES, ONE_LINE, "a" * 9], trainer)
    spec = json.loads(scratch.to_str())
    vocabulary, merges = spec["model"]["vocab"], spec["model"]["merges"]
    for run in ("▁" * 2, "▁" * 4):
        vocabulary[run] = len(vocabulary)
        merges.append([run[: len(run) // 2]] * 2)
    mark = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    steps = [{"type": "Prepend", "prepend": "▁"}, mark]
    spec["normalizer"] = {"type": "Sequence", "normalizers": steps} if cut is None else None
    backend = Backend.from_str(json.dumps({**spec, "pre_tokenizer": cut}))
    backend.add_tokens(list(added))
    return Tokenizer(backend, {"pad": "<unk>"})


WHOLE = {
    "Prepend": None,
    "first": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
    "always": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False},
}
WIDE = " ".join(word + " " * random.randrange(6) for word in ONE_LINE.split())


@pytest.mark.parametrize("long", ["".join(LINES), ONE_LINE, WIDE, ONE_LINE.replace(" ", ""), CHINESE])
@pytest.mark.parametrize("how", WHOLE)
def test_a_tokenizer_that_marks_the_beginning_of_a_text_reads_long_ones_in_pieces(how: str, long: str) -> None:
    tokenizer = llama(WHOLE[how])
    whole = tokenizer.encode([long])[0].tolist()
    longest: list[int] = []
    watch(tokenizer, longest)
    assert next(encode_texts([long], tokenizer)).tolist() == whole
    assert max(longest) <= 1500


@pytest.mark.parametrize("normalized", [True, False])  # if not, what is behind the word is normalized as a text
@pytest.mark.parametrize("how", WHOLE)
def test_pieces_have_the_ids_of_the_whole_where_the_mark_is_also_written_behind_added_words(
    how: str, normalized: bool
) -> None:
    tokenizer = llama(WHOLE[how], added=[AddedToken("dogs", normalized=normalized)])
    without = ONE_LINE.replace("dogs", "cats")
    for text in (without, without.replace(" ", "")):
        long = f"{text[:2100]}dogs{text[2100:5000]}"  # far from where it is cut
        assert next(encode_texts([long], tokenizer)).tolist() == tokenizer.encode([long])[0].tolist()


def test_a_place_that_parts_a_run_of_one_letter_by_chance_is_no_seam() -> None:
    tokenizer = llama(None)
    for before in range(9):  # tokens of several letters end at the positions that are a multiple of theirs from here
        long = "b" * before + "a" * 4000
        assert next(encode_texts([long], tokenizer)).tolist() == tokenizer.encode([long])[0].tolist()


def test_a_place_that_parts_repeats_of_three_letters_by_chance_is_no_seam() -> None:
    backend = Backend(
        models.BPE({"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "abcabc": 5}, [("a", "b"), ("ab", "c"), ("abc", "abc")])
    )
    tokenizer = Tokenizer(backend, {"pad": "a"})
    for before in range(7):  # 200 and 199 letters hold as many repeats
        long = "c" * before + "abc" * 1500
        assert next(encode_texts([long], tokenizer)).tolist() == tokenizer.encode([long])[0].tolist()
