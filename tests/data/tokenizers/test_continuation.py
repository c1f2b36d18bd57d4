"""A text's continuation is encoded without what a tokenizer adds before a text, where it adds that to texts alone."""

from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from zoo.data.tokenizers.continuation import continuation_backend

PREFIXED = pre_tokenizers.ByteLevel(add_prefix_space=True)


def backend(*cuts: pre_tokenizers.PreTokenizer) -> Backend:
    found = Backend(models.BPE({letter: n for n, letter in enumerate("abĠ")}, []))
    found.pre_tokenizer = pre_tokenizers.Sequence(list(cuts))
    return found


def test_a_continuation_has_no_space_that_a_text_begins_with() -> None:
    tokenizer = backend(PREFIXED, pre_tokenizers.Digits())
    following = continuation_backend(tokenizer)
    assert following is not None and tokenizer.encode("ab").tokens == ["Ġ", "a", "b"]
    assert following.encode("ab").tokens == ["a", "b"]


def test_a_step_that_adds_a_space_to_each_word_leaves_no_continuation() -> None:
    assert continuation_backend(backend(pre_tokenizers.Digits(), PREFIXED)) is None
    assert continuation_backend(backend(pre_tokenizers.ByteLevel(add_prefix_space=False))) is None
