"""Claims about what a training command asks for, before any data is read."""

from pathlib import Path
from typing import Any

import pytest

from zoo.experiments.pretrain import check_tokenizer
from zoo.experiments.request import Plan, Request, make_plan, split_heads


def plan(task: str, *sets: tuple[str, Any]) -> Plan:
    pairs = [(tuple(key.split(".")), value) for key, value in sets]
    return make_plan(Request(task, Path("run"), task_sets=pairs), {})


def test_a_map_of_objectives_replaces_those_of_the_file_in_its_own_order():
    both = {"classification": {}, "causal_lm": {"weight": 0.5}}
    for task in ("pydocs-topic", "pydocs-lm"):
        assert list(plan(task, ("objective", both), ("metrics", [])).mixture.members) == list(both)


def test_one_option_of_an_objective_leaves_the_others():
    found = plan("pydocs-mlm", ("objective.masked_lm.weight", 2.0)).task.objective
    assert list(found) == ["masked_lm", "next_sentence"] and found["masked_lm"]["weight"] == 2.0


@pytest.mark.parametrize("given", [("tokenizer.from", "a/run"), ("tokenizer", {"from": "a/run"})])
def test_a_tokenizer_from_a_run_replaces_the_one_that_the_file_trains(given: tuple[str, Any]):
    assert plan("numbers-words", given).task.tokenizer == {"from": "a/run"}


def test_an_option_of_the_tokenizer_changes_it_alone():
    assert plan("numbers-words", ("tokenizer.vocab_size", 99)).task.tokenizer == {"name": "bpe", "vocab_size": 99}


def test_a_tokenizer_is_from_a_run_or_trained_but_not_both():
    both = plan("numbers-words", ("tokenizer.from", "a/run"), ("tokenizer.vocab_size", 99)).task
    with pytest.raises(ValueError, match="task.tokenizer: unknown key beside 'from' 'vocab_size'; allowed: from"):
        check_tokenizer(both)


def test_pairs_about_heads_are_kept_for_when_the_task_is_known():
    heads, others = split_heads([(("heads", "language", "tied"), False), (("d_model",), 8)])
    assert heads == [(("heads", "language", "tied"), False)] and others == [(("d_model",), 8)]
