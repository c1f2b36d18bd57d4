"""Encoder-decoders that transformers made, at random, mean the same after importing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from strangers import OPUS, T5, TOKENS, change

import zoo
from zoo.hub.checkpoint import load_checkpoint, resolve
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.reloading import KeepFloat64, reload
from zoo.hub.exporting.trained_model import load_trained
from zoo.hub.importing.importing import import_folder
from zoo.inference.loaded import Loaded
from zoo.inference.pipeline import Pipeline
from zoo.inference.predictors.predictor import predictors
from zoo.objectives.mixture import Mixture
from zoo.registry import REQUIRED

ODD = {"d_model": 21, "encoder_attention_heads": 3, "decoder_attention_heads": 7, "activation_function": "relu"}
V1_1 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
APART = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 29}
MODELS: list[tuple[str, dict[str, Any]]] = [
    ("T5ForConditionalGeneration", T5),
    ("T5ForConditionalGeneration", T5 | V1_1),
    ("T5ForConditionalGeneration", T5 | {"num_layers": 1, "num_decoder_layers": 3, "d_kv": 5, "num_heads": 3}),
    ("T5ForConditionalGeneration", T5 | {"feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 9}),
    ("PegasusForConditionalGeneration", OPUS),
    ("PegasusForConditionalGeneration", OPUS | ODD | {"scale_embedding": True}),
    ("MarianMTModel", OPUS | {"scale_embedding": True}),
    ("MarianMTModel", OPUS | ODD | APART),
    ("MarianMTModel", OPUS | APART | {"tie_word_embeddings": False}),
]


def made(name: str, config: dict[str, Any]) -> Any:
    """A model of transformers; every parameter but its sinusoids is moved away from where it starts."""
    torch.manual_seed(0)
    cls = getattr(transformers, name)
    model = cls(cls.config_class(**TOKENS, **config)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_()
    return model


def check(theirs: Any, folder: Path) -> None:
    """Import it and compare, with sources of different length."""
    theirs.save_pretrained(folder / "theirs")
    import_folder(folder / "theirs", folder / "run")
    model = load_checkpoint(folder / "run").model.double().eval()
    source, tokens = torch.randint(4, 37, (2, 7)), torch.randint(4, 29, (2, 5))
    there = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    with KeepFloat64():
        wanted = theirs.double()(source, attention_mask=there, decoder_input_ids=tokens).logits
    torch.testing.assert_close(model(tokens, source, source_documents=there).logits, wanted, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(("name", "config"), MODELS)
@torch.no_grad()
def test_an_imported_model_gives_their_logits(name: str, config: dict[str, Any], tmp_path: Path):
    check(made(name, config), tmp_path)


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "config"), [("T5ForConditionalGeneration", T5 | V1_1), ("MarianMTModel", OPUS | APART)]
)
def test_a_head_of_its_own_is_imported_though_their_config_calls_it_tied(
    name: str, config: dict[str, Any], tmp_path: Path
):
    theirs = made(name, config)
    theirs.lm_head.weight = torch.nn.Parameter(torch.randn_like(theirs.lm_head.weight))
    check(theirs, tmp_path)
    assert load_checkpoint(tmp_path / "run").model.heads["language"].output is not None


@pytest.mark.parametrize(
    ("name", "config", "table"),
    [
        ("T5ForConditionalGeneration", T5, "shared.weight"),  # whose head is scaled
        ("PegasusForConditionalGeneration", OPUS, "model.shared.weight"),
        ("MarianMTModel", OPUS, "model.shared.weight"),
    ],
)
def test_a_head_of_its_own_is_refused_by_both_names_where_no_such_model_is_there(
    name: str, config: dict[str, Any], table: str, tmp_path: Path
):
    theirs = made(name, config)
    theirs.lm_head.weight = torch.nn.Parameter(torch.randn_like(theirs.lm_head.weight))
    theirs.save_pretrained(tmp_path / "theirs")
    with pytest.raises(ValueError, match=f"theirs: lm_head.weight differs from {table}, to which .* ties it"):
        import_folder(tmp_path / "theirs", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_number_of_decoder_layers_that_t5_ignores_must_be_its_own(tmp_path: Path):
    made("T5ForConditionalGeneration", T5 | {"num_decoder_layers": 3}).save_pretrained(tmp_path)
    zoo.load(change(tmp_path, decoder_layers=3))
    with pytest.raises(ValueError, match="decoder_layers is 3; zoo imports transformers' T5 only with null or 2"):
        zoo.load(change(tmp_path, num_decoder_layers=REQUIRED))  # so it has as many as the encoder


GAPS = ["a small <extra_id_0> of words <extra_id_1>", "and <extra_id_1> alone"]


def test_gaps_are_filled_after_importing_as_by_the_run_that_was_exported(build: Any, export: Any, tmp_path: Path):
    rows = build("t5-nano").tokenizer.vocab_size + 3
    given = build("t5-nano", {"vocab_size": rows}, generate={"max_new_tokens": 9})
    given.tokenizer.add_sentinels(3)
    task = replace(given.task, objective={"span_corruption": {"sentinels": 3}})
    run = Loaded(given.model.eval(), given.tokenizer, task, Mixture.parse(task.objective))
    import_folder(export(replace(given, task=task)).folder, tmp_path / "again")
    imported = load_checkpoint(tmp_path / "again")
    assert list(imported.mixture.members) == ["translation"]
    for ours, again in zip(Pipeline(run)(GAPS), Pipeline(imported)(GAPS), strict=True):
        assert again["output"] == ours["output"] and again["scores"] == pytest.approx(ours["scores"])


def test_gaps_are_read_as_gaps_by_transformers_after_importing_and_exporting_again(
    build: Any, export: Any, tmp_path: Path
):
    rows = build("t5-nano").tokenizer.vocab_size + 3
    given = build("t5-nano", {"vocab_size": rows}, generate={"max_new_tokens": 9})
    given.tokenizer.add_sentinels(3)
    there = export(given).folder
    imported = load_checkpoint(there)
    folder = export_model(load_trained(resolve(there)), tmp_path / "again", reload=reload).folder
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    for text in [*GAPS, "no gap </s> at all"]:
        ours = predictors.build("translation").encode(imported, [text])[0].tolist()
        assert theirs(text).input_ids == [*ours, imported.tokenizer.roles.end]
        assert len(set(ours) & set(imported.tokenizer.roles.sentinels)) == text.count("<extra_id_")


@torch.no_grad()
@pytest.mark.parametrize(
    "changed",
    [
        {"feed_forward_proj": "relu", "dense_act_fn": "silu"},
        {"feed_forward_proj": "gated-gelu", "dense_act_fn": "gelu_new"},
        {"feed_forward_proj": "gated-silu", "dense_act_fn": "relu"},
        {"scale_decoder_outputs": None},
        {"num_heads": None, "num_attention_heads": 2},
    ],
)
def test_what_t5_reads_beside_its_own_keys_is_read(changed: dict[str, Any], tmp_path: Path):
    sizes = {"vocab_size": 31, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    tree = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], **sizes, "decoder_start_token_id": 0}
    tree = {key: value for key, value in {**tree, **changed}.items() if key != "num_heads" or value is not None}
    (tmp_path / "config.json").write_text(json.dumps(tree))
    torch.manual_seed(0)
    theirs = transformers.T5ForConditionalGeneration(transformers.AutoConfig.from_pretrained(tmp_path)).eval()
    theirs.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(tree))
    source, target = torch.randint(1, 31, (2, 2, 7)).unbind()
    wanted = theirs(input_ids=source, decoder_input_ids=target).logits
    torch.testing.assert_close(zoo.load(tmp_path)(target, source=source).logits, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("act", "named"), [("gelu", "gated-gelu, and dense_act_fn gelu"), ([1], r"gated-\[1\]")])
def test_a_gate_that_zoo_does_not_have_is_refused(act: Any, named: str, tmp_path: Path):
    tree = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "feed_forward_proj": "gated-gelu"}
    (tmp_path / "config.json").write_text(json.dumps({**tree, "dense_act_fn": act}))
    save_file({"shared.weight": torch.zeros(2, 2)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=f"feed_forward_proj is '{named}'; zoo reads relu or"):
        zoo.load(tmp_path)


@pytest.mark.parametrize("proj", ["relu", "gated-silu"])
def test_a_gate_that_contradicts_the_kind_of_feed_forward_is_refused(proj: str, tmp_path: Path):
    made("T5ForConditionalGeneration", T5 | {"feed_forward_proj": proj}).save_pretrained(tmp_path)
    gated = "-" in proj
    zoo.load(change(tmp_path, is_gated_act=gated))
    words = f"is_gated_act is {not gated}; zoo imports transformers' T5 only with null or {gated}".lower()
    with pytest.raises(ValueError, match=f"(?i){words}"):
        zoo.load(change(tmp_path, is_gated_act=not gated))
