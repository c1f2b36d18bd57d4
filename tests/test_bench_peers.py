"""The peers of the benchmark's training rows are the model itself, as transformers has it."""

from argparse import Namespace
from dataclasses import replace

import pytest
import torch

from programs import load_program
from zoo.config import parse_set
from zoo.data.ids import NO_ROLES
from zoo.models.cost import on_meta, parameters
from zoo.models.settings import load_settings


@pytest.mark.parametrize(
    ("model", "task", "class_name"),
    [
        ("gpt2-nano", "wikipedia-lm", "GPT2LMHeadModel"),
        ("gpt-modern-nano", "wikipedia-lm", "LlamaForCausalLM"),
        ("bert-nano", "wikipedia-mlm", "BertForPreTraining"),
        ("transformer-nano", "multi30k-en-de", "MarianMTModel"),
    ],
)
def test_a_peer_is_what_the_model_is_exported_to(model: str, task: str, class_name: str):
    peers = load_program("benchmarks/rows/peer.py")
    settings = load_settings(model, [parse_set("vocab_size=100"), parse_set("dropout=0.25")])
    peer = peers.untrained_peer(settings, task, replace(NO_ROLES, pad=0, start=1, end=2))
    learned = [
        p.numel() for name, p in peer.named_parameters() if "embed_positions" not in name
    ]  # Marian's never learn
    assert type(peer).__name__ == class_name and sum(learned) == parameters(on_meta(settings))
    dropouts = {module.p for module in peer.modules() if isinstance(module, torch.nn.Dropout)}
    assert dropouts | {peer.config.to_dict().get("attention_dropout", 0.25)} == {0.25}
    assert peer.config.pad_token_id == 0


def test_prompts_that_a_model_has_no_positions_for_are_refused_before_anything_is_made():
    load_program("benchmarks/bench.py")
    generation = load_program("benchmarks/rows/generation.py")
    with pytest.raises(ValueError, match="prompt=30 and new=30 need length=59 or more, got 58"):
        generation.prepare_greedy(None, Namespace(sizes={"prompt": 30, "new": 30, "length": 58}))


@pytest.mark.parametrize("length", [200, 16])
def test_a_peer_has_a_position_for_each_token_of_a_row_and_no_more(length: int):
    load_program("benchmarks/bench.py")  # what it imports lies where modules of rows/ look for it
    gpt = load_program("benchmarks/rows/gpt.py")
    sizes = {"model": "gpt2-nano", "vocabulary": 100, "dropout": 0.0, "length": length}
    assert gpt.peer_settings(Namespace(sizes=sizes)).max_length == length
