"""A long text in pieces has the ids that it has as a whole."""

import random

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from zoo.data.store import encoding
from zoo.data.store.encoding import encode_texts
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer

WORDS = "the cat, sees  two dogs\n\n and \n1,234 한국어 문장이다. Ünï\n x\n  y\n".split(" ")
random.seed(0)
LINES = ["".join(f"{word} " for word in random.choices(WORDS, k=9)).strip(" ") + "\n" for _ in range(300)]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "LONG", 1500)
    monkeypatch.setattr(encoding, "CHARACTERS", 3000)


MARK_WORDS = ("bpe", "unigram")  # each text begins with the mark of a word, so it cannot be cut inside of one
ONE_LINE = "".join(LINES).replace("\n", "")
CHINESE = "".join(random.choices("他说你好然后走了价格是的，。", k=4000))


@pytest.mark.parametrize("long", ["".join(LINES), ONE_LINE, CHINESE, CHINESE.replace("。", "")])
@pytest.mark.parametrize("name", tokenizers.names())
def test_pieces_have_the_ids_of_the_whole(name: str, long: str) -> None:
    texts = [long, "short", *LINES[:7], long[:2500], ""]
    options = {} if name == "characters" else {"vocab_size": 400}
    tokenizer = Tokenizer.train(tokenizers.parse({"name": name, **options}, "tokenizer"), texts)
    whole = tokenizer.encode(texts)
    longest: list[int] = []
    read = tokenizer.encode
    tokenizer.encode = lambda some: longest.append(max(map(len, some))) or read(some)  # type: ignore
    assert [ids.tolist() for ids in encode_texts(texts, tokenizer)] == [ids.tolist() for ids in whole]
    assert max(longest) <= 1500 or (" " not in long and name in MARK_WORDS)


def test_a_tokenizer_that_begins_each_text_anew_reads_a_long_one_at_once() -> None:
    backend = Backend(models.BPE({"<unk>": 0, "▁": 1, "a": 2, "\n": 3}, [], unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    tokenizer = Tokenizer(backend, {"pad": "<unk>"})
    text = "a\n" * 2000
    assert [ids.tolist() for ids in encode_texts([text], tokenizer)] == [tokenizer.encode([text])[0].tolist()]
