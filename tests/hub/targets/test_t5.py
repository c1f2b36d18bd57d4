"""Encoder-decoders with relative positions and without biases are transformers' T5, versions 1.0 and 1.1."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from strangers import Stranger, change

import zoo
from zoo.hub.exporting.reloading import KeepFloat64
from zoo.hub.exporting.trained_model import TrainedModel
from zoo.hub.targets.choose import fitting_targets, obstacles
from zoo.models.settings import load_settings

Sets = dict[str, Any]
EXACT = {"atol": 1e-10, "rtol": 1e-10}


def sides(**sets: Any) -> Sets:
    """The same settings for both stacks."""
    return {
        f"{side}.{name.replace('__', '.')}": value for side in ("encoder", "decoder") for name, value in sets.items()
    }


GATED = sides(feed_forward={"name": "gated", "activation": "gelu_tanh", "bias": False})
V1_1 = {**GATED, "heads.language.tied": False, "heads.language.scale": False}
D_KV = sides(attention__d_key=7, attention__d_value=7)
BUCKETS = sides(position__buckets=9, position__max_distance=17)
SMALL = {"initialize": {"name": "normal", "std": 0.05}}  # scores are not divided: large ones make float32 too coarse
CHOICES: list[Sets] = [
    {},
    V1_1,
    {**V1_1, **D_KV, "d_model": 21, "decoder.n_layers": 1},
    {**D_KV, **BUCKETS, **sides(norm__eps=0.1), "encoder.n_layers": 1},
    {**sides(feed_forward={"name": "gated", "activation": "silu", "bias": False}, d_ff=13), **BUCKETS},
    {**sides(feed_forward__activation="gelu", n_heads=2), "heads.language.scale": False},
    sides(feed_forward__activation="gelu_tanh"),
]


@pytest.mark.parametrize("sets", CHOICES)
def test_both_versions_are_exported_and_checked(build: Any, export: Any, sets: Sets):
    report = export(build("t5-nano", SMALL | sets))
    assert (report.target, report.class_name) == ("t5", "T5ForConditionalGeneration")
    assert report.check.differences["float32"] < 1e-4 and report.check.differences["float64"] < 1e-12
    assert report.check.generated == 2


def exported(given: TrainedModel, export: Any) -> Any:
    """The export as transformers loads it, in float64."""
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(export(given).folder).double().eval()


@pytest.mark.parametrize("left", [False, True])
@torch.no_grad()
def test_padding_on_either_side_agrees_with_the_rows_alone(build: Any, export: Any, left: bool):
    given = build("t5-nano", V1_1 | BUCKETS, moved=False)
    model, ours = exported(given, export), given.model.double().eval()
    sources = [torch.arange(5, 5 + n) for n in (30, 3, 1)]
    tokens = torch.randint(5, 150, (3, 8), generator=torch.Generator().manual_seed(0))
    source, there = torch.zeros(3, 30, dtype=torch.long), torch.zeros(3, 30, dtype=torch.long)
    for row, ids in enumerate(sources):
        where = slice(30 - len(ids), None) if left else slice(len(ids))
        source[row, where], there[row, where] = ids, 1
    with KeepFloat64():
        theirs = model(source, attention_mask=there, decoder_input_ids=tokens).logits
    said = ours(tokens, source, source_documents=there).logits
    torch.testing.assert_close(said, theirs, **EXACT)
    for row, ids in enumerate(sources):
        torch.testing.assert_close(ours(tokens[row, None], ids[None]).logits[0], said[row], **EXACT)


@torch.no_grad()
def test_their_loss_shifts_labels_as_ours_are_taught(build: Any, export: Any):
    given = build("t5-nano", moved=False)
    model, roles = exported(given, export), given.tokenizer.roles
    source, target = torch.tensor([[9, 8, 11, roles.end]]), torch.tensor([[7, 12, roles.end]])
    with KeepFloat64():
        theirs = model(source, labels=target).loss
    inputs = torch.tensor([[roles.start, 7, 12]])
    logits = given.model.double().eval()(inputs, source).logits
    torch.testing.assert_close(torch.nn.functional.cross_entropy(logits[0], target[0]), theirs, **EXACT)


@pytest.mark.parametrize("sets", [{}, V1_1])
@torch.no_grad()
def test_saving_what_was_loaded_and_loading_it_again_changes_nothing(
    build: Any, export: Any, tmp_path: Path, sets: Sets
):
    first = exported(build("t5-nano", sets, moved=False), export)
    first.float().save_pretrained(tmp_path / "again")
    second = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "again").eval()
    inputs = {"input_ids": torch.tensor([[8, 9, 3]]), "decoder_input_ids": torch.tensor([[2, 9]])}
    torch.testing.assert_close(first(**inputs).logits, second(**inputs).logits, atol=0, rtol=0)


IN_THE_WAY = [
    (sides(attention__score="scaled_dot"), "encoder.attention.score is scaled_dot; {} has dot"),
    (sides(position="rotary"), "encoder.position is rotary; {} has relative"),
    (sides(attention__bias=True), "encoder.attention.bias is true; {} has false"),
    ({"decoder.feed_forward.bias": True}, "decoder.feed_forward.bias is true; {} has false"),
    ({"decoder.norm": "layernorm"}, "decoder.norm is layernorm; {} has rmsnorm"),
    ({"decoder.d_ff": 7}, "encoder.d_ff and decoder.d_ff differ (48, 7); {} has one value for all"),
    (sides(attention__d_key=6), "encoder.attention.d_value is 8; {} has 6 (as encoder.attention.d_key)"),
    (
        {"decoder.feed_forward.activation": "silu"},
        "decoder.feed_forward.activation is silu; {} has relu (as encoder.feed_forward.activation)",
    ),
    (
        sides(feed_forward={"name": "gated", "activation": "gelu", "bias": False}),
        "encoder.feed_forward and encoder.feed_forward.activation is gated gelu; {} has mlp relu or gated gelu_tanh "
        "or gated silu or gated relu or mlp gelu_tanh or mlp gelu or mlp silu",
    ),
    (
        {"heads.language.tied": False},
        "heads.language.scale is true; {} has false (where the head has a matrix of its own)",
    ),
    ({"embeddings.scale": True}, "embeddings.scale is true; {} has false"),
    ({"encoder.final_norm": False}, "encoder.final_norm is false; {} has null or true"),
]


@pytest.mark.parametrize(("sets", "words"), IN_THE_WAY)
def test_the_choice_in_the_way_is_named(sets: Sets, words: str):
    pairs = [(tuple(path.split(".")), value) for path, value in sets.items()]
    assert obstacles(load_settings("t5-nano", pairs))["t5"] == words.format("transformers' T5")


@pytest.mark.parametrize("name", ["t5-small", "t5-v1_1-small", "t5-nano"])
def test_shipped_models_fit(name: str):
    assert fitting_targets(load_settings(name)) == ["t5"]


def test_sentinels_in_a_text_are_read_by_the_export_as_they_were_written_in_training(build: Any, export: Any):
    given = build("t5-nano", {"vocab_size": 160}, moved=False)
    given.tokenizer.add_sentinels(4)
    task = replace(given.task, objective={"span_corruption": {"sentinels": 4}})
    reader = transformers.AutoTokenizer.from_pretrained(export(replace(given, task=task)).folder)
    ids = reader("A <extra_id_0> boy <extra_id_1>.").input_ids
    assert [ids.index(i) for i in given.tokenizer.roles.sentinels[:2]] == sorted(
        place for place, i in enumerate(ids) if i in given.tokenizer.roles.sentinels
    )


def test_a_number_of_decoder_layers_that_is_null_is_that_of_the_other_key(tmp_path: Path):
    sizes = {"vocab_size": 31, "d_model": 8, "d_kv": 4, "d_ff": 7, "num_heads": 2, "num_layers": 1}
    Stranger("T5ForConditionalGeneration", {**sizes, "num_decoder_layers": 2}, {}).save(tmp_path)
    decoder = zoo.load(change(tmp_path, decoder_layers=None)).settings.decoder
    assert decoder is not None and decoder.settings.n_layers == 2
