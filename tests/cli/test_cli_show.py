"""Claims about changes as trailing words, and about what `zoo show` prints of a model."""

import re
from collections.abc import Callable

import pytest
from commands import Said

from zoo.cli.preflight import check_words

Zoo = Callable[..., Said]


@pytest.mark.parametrize(
    "words",
    ["show bert-nano", "pretrain bert-nano pydocs-mlm", "finetune hub:org/name pydocs-topic", "tokenize pydocs-mlm"],
)
def test_the_words_of_a_command_may_have_an_equals_sign_and_the_first_one_after_them_is_a_change(words: str):
    command, *given = words.split()
    with pytest.raises(ValueError, match=r"unknown key 'dropot' \(did you mean 'dropout'\?\)"):
        check_words(command, [*given, "dropot=0"])
    with pytest.raises(ValueError, match=r"^a=1.yaml: no such file"):
        check_words(command, [*given[:-1], "a=1.yaml"])


def test_a_trailing_word_is_used_rather_than_a_set_of_the_same_key(zoo: Zoo):
    shown = zoo("show", "bert-nano", "--set", "n_layers=1", "n_layers=2").out
    assert re.search(r"model.encoder.n_layers: +2 +--set", shown)


def test_the_training_state_is_given_in_gib(zoo: Zoo):
    shown = zoo("show", "bert-nano", "vocab_size=5000000").out
    (count,) = re.findall(r"\nparameters +([\d,]+)", shown)
    state = 16 * int(count.replace(",", "")) / 1024**3  # weight, gradient and two moments, of four bytes each
    assert f"{state:.2f} GiB (float32 weights, gradients, Adam)" in shown and state > 1
