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
    assert {module.p for module in peer.modules() if isinstance(module, torch.nn.Dropout)} <= {0, 0.25}
    assert peer.config.pad_token_id == 0


@pytest.mark.parametrize(("length", "positions"), [(200, 200), (16, 64)])
def test_a_peer_has_positions_for_rows_longer_than_the_model_reads(length: int, positions: int):
    load_program("benchmarks/bench.py")  # what it imports lies where modules of rows/ look for it
    gpt = load_program("benchmarks/rows/gpt.py")
    sizes = {"model": "gpt2-nano", "vocabulary": 100, "dropout": 0.0, "length": length}
    assert gpt.peer_settings(Namespace(sizes=sizes)).max_length == positions
