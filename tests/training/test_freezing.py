"""Claims about freezing: words of parts and patterns of names, and a message for what matches nothing."""

import pytest
import torch
from tiny import alone, settings
from torch import nn

from casting import Casts
from zoo.models.create import create_model
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings
from zoo.training.learner import Learner
from zoo.training.weights.adapters import LowRank, is_adapter_name
from zoo.training.weights.freezing import freeze


def frozen(name: str, *chosen: str) -> set[str]:
    """The names of the frozen parameters of a model."""
    model = create_model(name)
    freeze(model, chosen)
    return {name for name, p in model.named_parameters() if not p.requires_grad}


def named(name: str, *starts: str) -> set[str]:
    """The names that begin so."""
    return {name for name, _ in create_model(name).named_parameters() if name.startswith(tuple(starts))}


@pytest.mark.parametrize(
    ("model", "chosen", "starts"),
    [
        ("bert-nano", ["embeddings"], ["encoder.stack.embeddings", "encoder.stack.positions"]),
        ("bert-nano", ["encoder"], ["encoder"]),
        ("bert-nano", ["encoder:1", "pooler"], ["encoder.stack.blocks.0", "pooler"]),
        ("bert-nano", ["heads.masked_lm"], ["heads.masked_lm"]),
        ("bert-nano", ["encoder.stack.blocks.1.mixer"], ["encoder.stack.blocks.1.mixer"]),
        ("gpt2-nano", ["decoder:2"], ["decoder.stack.blocks"]),
        ("captioner-rnn-nano", ["encoder:1", "embeddings"], ["encoder.stages.0", "decoder.embed"]),
        ("rnn-seq2seq-nano", ["encoder", "decoder:1"], ["encoder", "decoder.layers"]),
        ("t5-nano", ["decoder"], ["decoder", "encoder.stack.embeddings"]),  # the table is one
    ],
)
def test_a_word_freezes_its_part(model: str, chosen: list[str], starts: list[str]):
    assert frozen(model, *chosen) == named(model, *starts)


def test_a_name_freezes_no_other_that_begins_with_it():
    model = nn.ModuleDict({"block": nn.Linear(2, 2), "block2": nn.Linear(2, 2)})
    freeze(model, ["block"])
    assert [name for name, p in model.named_parameters() if p.requires_grad] == ["block2.weight", "block2.bias"]


def test_a_star_stands_for_anything():
    names = named("bert-nano", "")
    assert frozen("bert-nano", "*.bias") == {name for name in names if name.endswith(".bias")}
    assert frozen("bert-nano", "*.norms") == {name for name in names if ".norms." in name}


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (["embedings"], r"'embedings' matches no parameter \(did you mean 'embeddings'\?\); parts: embeddings, enc"),
        (["encoder.stack.block.0"], r"matches no parameter \(did you mean 'encoder.stack.blocks.0'\?\)"),
        (["heads.masked_lm.norm.wieght"], r"matches no parameter \(did you mean 'heads.masked_lm.norm.weight'\?\)"),
        (["decoder"], "'decoder' matches no parameter"),
        (["decoder:1"], r"'decoder:1': no part 'decoder' \(did you mean 'encoder'\?\); allowed: encoder"),
        (["encoder:3"], "'encoder:3': the encoder has layers 1 to 2, got '3'"),
        (["encoder:0"], "'encoder:0': the encoder has layers 1 to 2, got '0'"),
        (["encoder:x"], "'encoder:x': the encoder has layers 1 to 2, got 'x'"),
        (["encoder", "heads", "pooler"], "encoder, heads, pooler are all parameters of this model; leave some"),
    ],
)
def test_what_matches_nothing_or_leaves_nothing_is_refused(chosen: list[str], words: str):
    with pytest.raises(ValueError, match=f"training.freeze: .*{words}"):
        frozen("bert-nano", *chosen)


@pytest.mark.parametrize("chosen", ["embeddings", "embedding"])
def test_embeddings_are_not_offered_where_there_are_none(chosen: str):
    with pytest.raises(ValueError, match=f"'{chosen}' matches no parameter; parts: encoder:N, encoder, heads, pooler$"):
        frozen("cnn-attention-nano", chosen)


@pytest.mark.parametrize(
    ("chosen", "left"), [(["encoder"], {"heads", "pooler"}), (["heads", "encoder"], {"pooler"}), (["*"], set())]
)
def test_adapters_of_a_frozen_part_are_trained(chosen: list[str], left: set[str]):
    model = create_model("bert-nano")
    freeze(model, chosen, LowRank())
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name.split(".")[0] for name in trained if not is_adapter_name(name)} == left
    assert sum(map(is_adapter_name, trained)) == 8  # two of queries and of values, in two layers


@pytest.mark.parametrize("chosen", [(), ("encoder", "decoder:1")], ids=["trained", "frozen"])
def test_a_validation_casts_each_weight_once_for_all_tokens_of_its_texts(chosen: tuple[str, ...]):
    model = create_model("transformer-nano", vocab_size=30)
    learner = Learner(model, settings(precision="bfloat16", freeze=chosen), alone())
    before = [parameter.requires_grad for parameter in model.parameters()]
    with Casts(model) as casts, learner.published_model():
        generate(model, [[2]] * 2, GenerateSettings(max_new_tokens=3), None, torch.ones(2, 4, dtype=torch.long))
    assert len(casts.counts) > 40 and set(casts.counts.values()) == {1}
    assert [parameter.requires_grad for parameter in model.parameters()] == before
