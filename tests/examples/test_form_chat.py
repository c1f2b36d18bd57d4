"""Conversations: the assistant's turns are predicted, and exports write them alike."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jinja2 import TemplateError
from tokenizers import Tokenizer as Backend
from tokenizers import models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer

from zoo.data.columns.messages import normalize_messages
from zoo.data.ids import Lengths
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import Limits, ModelTraits, forms
from zoo.hub.exporting.tokenizer_files import chat_template, tokenizer_files
from zoo.hub.targets.declare.registry import targets

TURNS = [("system", "be kind"), ("user", " hello you "), ("assistant", "hi"), ("user", "bye"), ("assistant", "bye you")]
PUBLISHED = ("llama 2", "metaspace always")
TEXTS = ["be kind", "hello you", "hi", "bye", "bye you"]


def messages(turns: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in turns]


def built(tokenizer: Tokenizer, turns: list[tuple[str, str]], longest: int = 99) -> Any:
    """The plan of one conversation, its example, and the tokens of its predicted pieces."""
    row: dict[str, Any] = {"messages": messages(turns)}
    normalize_messages(row)
    ids = [tokenizer.encode([text])[0] if text else np.zeros(0, np.int64) for text in row["messages"]]
    offsets = np.cumsum([0, *map(len, ids)])
    lengths = Lengths({"messages": offsets}, lists={"messages": np.array([0, len(ids)])})
    form = forms.build("chat", ModelTraits(causal=True), False)
    (plan,) = form.plan(lengths, 0, 0, 0, Limits(longest))
    flat = np.concatenate(ids)
    pieces = [flat[piece.start : piece.stop].tolist() for piece in form.predicted_pieces(plan)]
    return plan, form.build(plan, lambda piece: flat[piece.start : piece.stop], tokenizer.roles), pieces


def trained(kind: str) -> Tokenizer:
    return Tokenizer.train(tokenizers.parse({"name": kind, "vocab_size": 300}, "tokenizer"), TEXTS * 3)


def published(kind: str) -> Tokenizer:
    """A tokenizer as a family publishes it, whose texts begin with a space marker."""
    backend = Backend(models.BPE(unk_token="<unk>"))
    if kind == "llama 2":
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    special = ["<unk>", "<s>", "</s>"]
    backend.train_from_iterator(TEXTS, trainers.BpeTrainer(special_tokens=special, show_progress=False))
    tokenizer = Tokenizer(backend, {"pad": "</s>", "start": "<s>", "end": "</s>"})
    tokenizer.add_roles(["separator"])
    return tokenizer


def exported(tokenizer: Tokenizer, folder: Path) -> Any:
    """The tokenizer as transformers loads it, with its chat template."""
    native = replace(targets["gpt2"].classes[0], reads_special_tokens=True)
    files = tokenizer_files(tokenizer, False, native, 99) | {"chat_template.jinja": chat_template(tokenizer).encode()}
    for name, content in (files | {"config.json": json.dumps({"model_type": "gpt2"}).encode()}).items():
        (folder / name).write_bytes(content)
    return AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "byte_bpe", "characters", "unigram", *PUBLISHED])
def test_an_export_s_chat_template_gives_the_ids_and_marks_what_is_learned(kind: str, tmp_path: Path):
    tokenizer = published(kind) if kind in PUBLISHED else trained(kind)
    theirs = exported(tokenizer, tmp_path)
    given = {"return_dict": True, "return_assistant_tokens_mask": True}
    found = theirs.apply_chat_template(messages(TURNS), **given)
    plan, example, _ = built(tokenizer, TURNS)
    end = tokenizer.roles.id("end")
    assert found["input_ids"] == [*example.tokens.tolist(), end] and plan.length == len(example.tokens)
    marked = zip(found["input_ids"], found["assistant_masks"], strict=True)
    assert [token if mask else -1 for token, mask in marked][1:] == example.next_tokens.tolist()


ODD_TURNS = [
    {"role": "tool", "content": "hi"},
    *({"role": "user", "content": content} for content in (None, " ", [{"type": "text", "text": "hi"}])),
    {"role": "assistant", "tool_calls": []},
]


def test_an_export_s_chat_template_refuses_the_turns_that_zoo_refuses(tmp_path: Path):
    theirs = exported(trained("characters"), tmp_path)
    for turn in ODD_TURNS:
        with pytest.raises(TemplateError, match="^turn 2: (unknown role; allowed: system|content must be a non-)"):
            theirs.apply_chat_template([*messages(TURNS[1:2]), turn])
        with pytest.raises(ValueError, match="turn 2|the assistant says nothing"):
            normalize_messages({"messages": [*messages(TURNS[1:2]), turn]})


def test_a_conversation_that_is_too_long_loses_its_beginning():
    tokenizer = trained("characters")
    whole_plan, whole, _ = built(tokenizer, TURNS)
    plan, example, _ = built(tokenizer, TURNS, longest=9)
    assert plan.truncated == whole_plan.length - 9 and len(example.tokens) == 9
    assert example.tokens[0] == tokenizer.roles.start
    assert np.array_equal(example.tokens[1:], whole.tokens[-8:])
    assert np.array_equal(example.next_tokens, whole.next_tokens[-9:])


def test_the_predicted_pieces_hold_the_tokens_that_are_learned_whatever_is_truncated():
    tokenizer = trained("characters")
    turns = [("user", "hi"), ("assistant", "bye"), ("user", "hello"), ("user", "you"), ("assistant", "be kind")]
    end = tokenizer.roles.end
    whole, _, _ = built(tokenizer, turns)
    for longest in range(3, whole.length + 1):
        _, example, pieces = built(tokenizer, turns, longest)
        learned = [token for token in example.next_tokens.tolist() if token not in (-1, end)]
        assert [token for piece in pieces for token in piece] == learned, longest
