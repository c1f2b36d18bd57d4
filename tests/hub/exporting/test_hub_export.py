"""Every native class, reloaded by plain transformers, is the model that was exported."""

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors import safe_open
from torch import Tensor

from zoo.hub.exporting import verify
from zoo.hub.exporting.export import ExportReport, export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.exporting.trained_model import TrainedModel
from zoo.hub.exporting.weights import native_tensors
from zoo.hub.targets.declare.registry import targets
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import parse_generate

HEADS = [
    ("bert-nano", {"heads": ["masked_lm", "next_sentence"]}, "wordpiece", "BertForPreTraining"),
    ("bert-nano", {"heads": ["next_sentence", "masked_lm"]}, "characters", "BertForPreTraining"),
    ("bert-nano", {"heads": ["masked_lm"]}, "bpe", "BertForMaskedLM"),
    ("bert-nano", {"heads": ["next_sentence"]}, "wordpiece", "BertForNextSentencePrediction"),
    ("bert-nano", {"heads": {"classification": {"labels": 3}}}, "byte_bpe", "BertForSequenceClassification"),
    ("gpt2-nano", {}, "byte_bpe", "GPT2LMHeadModel"),
    ("gpt2-nano", {"decoder.d_ff": 28, "heads.language.tied": False}, "characters", "GPT2LMHeadModel"),
    ("gpt2-nano", {"heads": {"classification": {"labels": 3}}}, "bpe", "GPT2ForSequenceClassification"),
    ("gpt-nano", {}, "byte_bpe", "OpenAIGPTLMHeadModel"),
    ("gpt-nano", {"heads.language.tied": False}, "bpe", "OpenAIGPTLMHeadModel"),
    ("gpt-nano", {"heads": {"classification": {"labels": 3}}}, "wordpiece", "OpenAIGPTForSequenceClassification"),
    ("transformer-nano", {"encoder.n_layers": 2, "decoder.n_heads": 2}, "bpe", "MarianMTModel"),
    ("transformer-nano", {"embeddings.shared": False, "heads.language.bias": True}, "wordpiece", "MarianMTModel"),
    ("transformer-nano", {"embeddings.shared": False, "heads.language.tied": False}, "bpe", "MarianMTModel"),
]
CHOICES = [
    *(
        ("bert-nano", {"encoder.feed_forward.activation": a, "heads": {"masked_lm": {"activation": a}}})
        for a in ("relu", "silu")
    ),
    ("bert-nano", {"encoder.feed_forward.activation": "gelu_tanh", "heads": ["next_sentence"]}),
    ("bert-nano", {"encoder.feed_forward.activation": "relu_squared", "heads": ["classification"]}),
    ("bert-nano", {"encoder.norm.eps": 0.1, "embeddings.norm.eps": 0.1, "heads": ["next_sentence"]}),
    ("gpt2-nano", {"decoder.feed_forward.activation": "gelu", "decoder.norm.eps": 0.1}),
    ("gpt-nano", {"decoder.feed_forward.activation": "relu", "decoder.norm.eps": 0.1}),
    ("gpt-nano", {"decoder.feed_forward.activation": "silu", "decoder.attention.d_key": 4}),
    (
        "transformer-nano",
        {
            "embeddings.scale": False,
            "encoder.feed_forward.activation": "silu",
            "decoder.feed_forward.activation": "silu",
        },
    ),
    ("gpt2-nano", {"decoder.attention.dropout": [0.0, 0.1], "decoder.norm.eps": [1e-5, 1e-5]}),
]
RIGHT_ONLY = {"MarianMTModel", "BertForNextSentencePrediction", "BertForSequenceClassification"}
Export = Callable[..., ExportReport]


@pytest.mark.parametrize(("name", "sets", "kind", "wanted"), HEADS)
def test_every_class_gives_our_logits(
    build: Any, export: Export, name: str, sets: dict[str, Any], kind: str, wanted: str
):
    report = export(build(name, sets, kind))
    assert report.class_name == wanted
    assert report.check.differences["float32"] < 1e-4 and report.check.differences["float64"] < 1e-12
    assert report.check.losses["float32"] < 1e-5 and report.check.losses["float64"] < 1e-12
    assert report.check.left == (report.class_name not in RIGHT_ONLY)
    assert report.check.generated == (2 if (report.folder / "generation_config.json").exists() else 0)


@pytest.mark.parametrize(("name", "sets", "kind", "wanted"), [HEADS[i] for i in (0, 5, 8, 11)])
def test_a_users_export_is_checked_on_a_thousand_texts_and_several_generated_ones(
    build: Any, export: Export, thorough: None, name: str, sets: dict[str, Any], kind: str, wanted: str
):
    """Here with the parameters as they are initialized: norms of one and biases of zero."""
    report = export(build(name, sets, kind, moved=False))
    # pairs are among the rows: only they have tokens of the second type
    assert report.class_name == wanted and report.check.rows == (8 if wanted == "BertForPreTraining" else 6)
    assert report.check.texts >= 1000
    assert report.check.differences["float64"] < 1e-12
    assert report.check.generated == (6 if wanted != "BertForPreTraining" else 0)


@pytest.mark.parametrize(("name", "sets"), CHOICES)
def test_choices_that_a_class_knows_keep_their_meaning(build: Any, export: Export, name: str, sets: dict[str, Any]):
    assert export(build(name, sets)).check.differences["float64"] < 1e-12


@pytest.mark.parametrize("name", ["bert-nano", "gpt2-nano", "gpt-nano", "transformer-nano"])
@torch.no_grad()
def test_full_rows_of_random_tokens_agree_without_our_check(build: Any, export: Export, name: str):
    given = build(name)
    report = export(given)
    model = getattr(transformers, report.auto).from_pretrained(report.folder, attn_implementation="eager").eval()
    tokens = torch.randint(given.tokenizer.vocab_size, (3, 37), generator=torch.Generator().manual_seed(2))
    source = tokens.flip(0) if given.model.encoder is not None and given.model.decoder is not None else None
    ours = given.model.eval()(tokens, source).logits
    theirs = model(tokens) if source is None else model(source, decoder_input_ids=tokens)
    torch.testing.assert_close(ours, theirs[0], atol=2e-5, rtol=1e-5)


def test_saving_what_was_loaded_and_loading_it_again_changes_nothing(build: Any, export: Export, tmp_path: Path):
    report = export(build("transformer-nano"))
    first = transformers.AutoModelForSeq2SeqLM.from_pretrained(report.folder)
    first.save_pretrained(tmp_path / "again")
    second = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "again")
    inputs = {"input_ids": torch.tensor([[8, 9, 3]]), "decoder_input_ids": torch.tensor([[2, 9]])}
    torch.testing.assert_close(first.eval()(**inputs).logits, second.eval()(**inputs).logits, atol=0, rtol=0)


def test_the_first_objective_decides_and_heads_that_the_class_lacks_are_reported(build: Any, export: Export):
    given = build("gpt2-nano", {"heads": {"language": {}, "classification": {}}}, heads=["classification", "language"])
    report = export(given)
    assert (report.class_name, report.left_out) == ("GPT2ForSequenceClassification", ("language",))
    assert "left out, since GPT2ForSequenceClassification has no such head: language" in report.lines()
    assert "lacks them: language" in (report.folder / "README.md").read_text()


def test_masked_lm_beside_classification_leaves_the_pooler_out(build: Any, export: Export):
    report = export(build("bert-nano", {"heads": ["masked_lm", "classification"]}))
    assert (report.class_name, report.left_out) == ("BertForMaskedLM", ("classification",))


def test_the_weights_hold_no_tied_tensor_and_say_their_format(build: Any, export: Export):
    folder = export(build("gpt2-nano")).folder
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert "lm_head.weight" not in file.keys() and "transformer.wte.weight" in file.keys()


def test_the_report_names_the_files(build: Any, export: Export):
    report = export(build("gpt-nano"))
    written = {path.name for path in report.folder.iterdir()}
    weights, tokenizer = {"config.json", "model.safetensors"}, {"tokenizer.json", "tokenizer_config.json"}
    assert written == set(report.files) == {"README.md", "generation_config.json", "hashes.json"} | weights | tokenizer
    assert report.lines()[0].startswith(f"{report.folder}: OpenAIGPTLMHeadModel (README.md, ")


def test_exporting_leaves_the_model_as_it_was(build: Any, export: Export):
    given = build("gpt2-nano")
    before = {name: tensor.clone() for name, tensor in given.model.train().state_dict().items()}
    export(given)
    assert given.model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in given.model.state_dict().items())


BEAMS = {"beams": 3, "length_penalty": 0.7, "max_new_tokens": 9}
PRE_NORM = {"encoder.block": "pre_norm", "decoder.block": "pre_norm"}
APART = {"heads.language.tied": False, "heads.language.scale": False}


@pytest.mark.parametrize(
    ("name", "sets", "asked", "target"),
    [
        ("transformer-nano", {}, BEAMS, "marian"),
        ("transformer-nano", {}, {}, "marian"),
        ("transformer-nano", PRE_NORM, BEAMS, "pegasus"),
        ("t5-nano", APART, BEAMS, "t5"),
    ],
)
def test_the_exported_settings_give_the_same_texts(
    build: Any, export: Export, name: str, sets: dict[str, Any], asked: dict[str, Any], target: str
):
    """Without a limit in the task, the positions end an untrained model's text: at the same token on both sides."""
    given = build(name, sets, generate=asked)
    report = export(given)
    assert report.target == target
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(report.folder).double().eval()
    source = torch.tensor([[11, 24, 30, 3]])
    theirs = model.generate(source)[0, 1:].tolist()
    settings = parse_generate(given.task.generate)
    ours = generate(given.model.double(), [[2]], settings, 3, source)[0].tokens
    assert ours == [token for token in theirs if token not in (0, 3)]


def refuse(given: TrainedModel, folder: Path, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        export_model(given, folder, reload=reload)


def test_a_folder_that_holds_something_is_refused(build: Any, tmp_path: Path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    refuse(build("gpt2-nano"), tmp_path / "full", r"full: is not empty \(mine.txt\); choose a new or empty folder")
    refuse(build("gpt2-nano"), tmp_path / "full" / "mine.txt", "is a file; choose a new or empty folder")
    refuse(build("gpt2-nano"), tmp_path / "full" / "mine.txt" / "out", "out: cannot be written: Not a directory")
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "mine.txt"]


def test_an_unknown_target_and_one_that_does_not_fit_are_refused(build: Any, export: Export, tmp_path: Path):
    given = build("gpt2-nano")
    with pytest.raises(
        ValueError, match=r"unknown target 'gpt3' \(did you mean 'gpt2'\?\); allowed: bert, electra, gpt2, openai-gpt"
    ):
        export(given, "gpt3")
    with pytest.raises(
        ValueError, match="not fit 'openai-gpt': decoder.block is pre_norm; .* has post_norm; targets that fit: gpt2"
    ):
        export(given, "openai-gpt")
    with pytest.raises(
        ValueError,
        match="no transformers class matches this model. gpt2: decoder.norm is rmsnorm; .*; "
        "bert, electra, marian, modernbert, pegasus, t5: made of other parts. `zoo export … --to zoo` writes it",
    ):
        export(build("gpt2-nano", {"decoder.norm": "rmsnorm"}))
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_larger_than_the_model_is_refused(build: Any, tmp_path: Path):
    given = build("gpt2-nano", {"vocab_size": 100})
    refuse(given, tmp_path / "out", "the tokenizer has 150 tokens, the model 100 token embeddings")


def test_labels_that_are_not_the_heads_are_refused(build: Any, tmp_path: Path):
    given = build("gpt2-nano", {"heads": {"classification": {"labels": 3}}}, labels=["a", "b"])
    refuse(given, tmp_path / "out", "labels: the task names 2 classes, the model's head has 3")
    assert not list(tmp_path.iterdir())


Reloaded = tuple[dict[str, Any], dict[str, Tensor]]


@pytest.fixture(scope="module")
def said() -> list[Reloaded]:
    """What transformers says of one export, once for all the tests that change something in it."""
    return []


def spoil(change: Callable[[dict[str, Any], dict[str, Tensor]], None], said: list[Reloaded]) -> Callable[..., Any]:
    """Reload, but with something changed in what comes back."""

    def reloaded(folder: Path, request: dict[str, Any]) -> Reloaded:
        if not said:
            said.append(reload(folder, request))
        report, logits = copy.deepcopy(said[0])
        change(report, logits)
        return report, logits

    return reloaded


HEAD = "float32/right/language"
SPOILS: list[tuple[Any, str]] = [
    (
        lambda r, t: t[HEAD][1, 2].add_(0.0005),
        "logits of language differ by up to 0.0005.* in float32, first at sequence 1, position 2",
    ),
    (lambda r, t: t["float64/right/language"].mul_(1 + 1e-8), "logits of language differ by up to .* in float64"),
    (lambda r, t: t[HEAD][0, 0].fill_(torch.nan), "logits of language differ by up to nan"),
    (lambda r, t: t.update({HEAD: t[HEAD][:, :1]}), "logits of language: ours are "),
    (
        lambda r, t: t["float32/left/language"][2, 0].add_(0.25),
        "logits of language, padded on the left, differ by up to 0.25 in float32, first at sequence 2, position 0",
    ),
    (
        lambda r, t: r["losses"].update(float64=1.5),
        "losses differ by up to .* in float64: ours .*, transformers 1.5",
    ),
    (lambda r, t: r["texts"]["input_ids"][1].pop(), r"input_ids of \('The quick .*AutoTokenizer gives"),
    (lambda r, t: r["texts"].update(token_type_ids=[0]), "AutoTokenizer gives token_type_ids, which the model"),
    (lambda r, t: r["texts"]["input_ids"][-1].insert(0, 1), "input_ids of .*AutoTokenizer gives"),
    (lambda r, t: r["greedy"][2].insert(0, 9), "text 2 generated greedily differs: ours is "),
    (lambda r, t: r["beams"][1].insert(0, 9), "text 1 generated with 3 beams differs: ours is "),
    (lambda r, t: r.update(faults={"missing_keys": ["a.b"]}), "transformers loads a GPT2LMHeadModel .*missing_keys"),
    (lambda r, t: r.update({"class": "GPT2Model"}), r"transformers loads a GPT2Model \(wanted: GPT2LMHeadModel\)"),
]


@pytest.mark.parametrize(("change", "words"), SPOILS)
def test_a_difference_is_an_error_that_leaves_nothing(
    build: Any, said: list[Reloaded], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, words: str
):
    monkeypatch.setattr(verify, "PROMPTS", 3)  # texts are generated from the first three rows, two of which change
    with pytest.raises(RuntimeError, match=f"export to gpt2: {words}.*Nothing was written to "):
        export_model(build("gpt2-nano"), tmp_path / "out", reload=spoil(change, said))
    assert not list(tmp_path.iterdir())


def test_a_forgotten_transpose_is_found(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    target = targets["gpt2"]
    square = "transformer.h.{i}.attn.c_proj.weight"  # it loads without a word, being square
    wrong = tuple(dataclasses.replace(r, conversions=()) if r.theirs == square else r for r in target.renames)
    monkeypatch.setitem(targets, "gpt2", dataclasses.replace(target, renames=wrong))
    with pytest.raises(RuntimeError, match="logits of language differ by up to .* in float32"):
        export_model(build("gpt2-nano"), tmp_path / "out", reload=reload)
    assert not list(tmp_path.iterdir())


def test_a_tensor_without_a_name_over_there_is_named(build: Any):
    target = targets["gpt2"]
    fewer = tuple(r for r in target.renames if r.theirs != "transformer.ln_f.bias")
    with pytest.raises(AssertionError, match=r"^target gpt2 names no tensor for decoder.stack.norm.bias$"):
        native_tensors(build("gpt2-nano"), dataclasses.replace(target, renames=fewer), target.classes[0])
