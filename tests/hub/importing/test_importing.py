"""A folder that transformers wrote becomes a run that gives its logits, and goes back unchanged."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from published_tokenizers import publish
from safetensors.torch import load_file, save_file
from strangers import change, rewrite, saved
from untold import untold_run

import zoo
from zoo.data.task import load_task
from zoo.hub.checkpoint import import_checkpoint, load_checkpoint, resolve
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.targets.declare.registry import targets
from zoo.hub.targets.declare.renaming import same
from zoo.inference.evaluate_split import evaluate_split, on_task
from zoo.inference.predict import Unanswered, predict, predict_each
from zoo.models.generation.settings import GenerateSettings
from zoo.registry import REQUIRED
from zoo.runs.saved import open_run


def logits(folder: Path) -> torch.Tensor:
    with torch.no_grad():
        return zoo.load(folder)(torch.tensor([[3, 4, 5, 6]])).logits


def test_names_of_the_first_checkpoints_are_read(tmp_path: Path):
    folder = saved(tmp_path, "BertForMaskedLM")
    before = logits(folder)
    rewrite(
        folder, lambda n: n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
    )
    assert torch.equal(logits(folder), before)


def test_names_without_the_prefix_and_with_buffers_of_old_files_are_read(tmp_path: Path):
    folder = saved(tmp_path, "GPT2LMHeadModel")
    before = logits(folder)
    tensors = {n.removeprefix("transformer."): t for n, t in load_file(folder / "model.safetensors").items()}
    old = {"h.0.attn.bias": torch.ones(1, 1, 12, 12), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    save_file({**tensors, **old}, folder / "model.safetensors")
    assert torch.equal(logits(folder), before)
    assert import_checkpoint(folder, tmp_path / "run").dropped == ()


def test_a_tied_copy_changes_nothing_and_one_that_differs_is_kept_as_a_head_of_its_own(tmp_path: Path):
    folder = saved(tmp_path, "GPT2LMHeadModel")
    before = logits(folder)
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "lm_head.weight": tensors["transformer.wte.weight"].clone()}, folder / "model.safetensors")
    assert torch.equal(logits(folder), before)
    save_file({**tensors, "lm_head.weight": 2 * tensors["transformer.wte.weight"]}, folder / "model.safetensors")
    torch.testing.assert_close(logits(folder), 2 * before)


def test_a_copy_alone_stands_for_what_it_is_tied_to(tmp_path: Path):
    folder = saved(tmp_path, "GPT2LMHeadModel")
    before = logits(folder)
    rewrite(folder, lambda name: "lm_head.weight" if name == "transformer.wte.weight" else name)
    assert torch.equal(logits(folder), before)


def test_the_bias_of_berts_decoder_wins_and_its_matrix_must_be_the_tied_one(tmp_path: Path):
    folder = saved(tmp_path, "BertForMaskedLM")
    before = logits(folder)
    tensors = load_file(folder / "model.safetensors")
    other = {"cls.predictions.decoder.bias": tensors["cls.predictions.bias"] + 1}
    save_file({**tensors, **other}, folder / "model.safetensors")
    torch.testing.assert_close(logits(folder), before + 1)
    words = tensors["bert.embeddings.word_embeddings.weight"]
    save_file({**tensors, "cls.predictions.decoder.weight": 2 * words}, folder / "model.safetensors")
    with pytest.raises(ValueError, match="cls.predictions.decoder.weight differs from bert.embeddings.word"):
        zoo.load(folder)


def test_a_tied_copy_of_another_dtype_with_the_same_values_is_a_copy(tmp_path: Path):
    folder = saved(tmp_path, "BertForMaskedLM")
    tensors = load_file(folder / "model.safetensors")
    words = tensors["bert.embeddings.word_embeddings.weight"].bfloat16()
    tensors["bert.embeddings.word_embeddings.weight"] = words
    save_file(tensors, folder / "model.safetensors")
    before = logits(folder)
    save_file({**tensors, "cls.predictions.decoder.weight": words.float()}, folder / "model.safetensors")
    assert torch.equal(logits(folder), before)


def test_missing_keys_mean_the_defaults_of_their_class(tmp_path: Path):
    folder = saved(tmp_path, "GPT2LMHeadModel", n_inner=None)
    before = logits(folder)
    change(folder, n_inner=REQUIRED, activation_function=REQUIRED, layer_norm_epsilon=REQUIRED, resid_pdrop=REQUIRED)
    assert torch.equal(logits(folder), before)


def test_a_key_may_have_another_name(tmp_path: Path):
    folder = saved(tmp_path, "GPT2LMHeadModel", n_embd=12, n_head=3, embd_pdrop=0.2)  # unlike resid_pdrop
    before = logits(folder)
    change(folder, n_head=REQUIRED, n_positions=REQUIRED, num_attention_heads=3, max_position_embeddings=12)
    assert torch.equal(logits(folder), before)
    with pytest.raises(ValueError, match="num_attention_heads is 3, and n_head is 2; they are two names of one key"):
        zoo.load(change(folder, n_head=2))


@pytest.mark.parametrize(
    ("class_name", "fresh", "dropped"),
    [
        ("BertModel", ("heads.masked_lm", "heads.next_sentence"), ()),
        ("GPT2ForQuestionAnswering", (), ("qa_outputs",)),
        ("GPT2Model", (), ()),
    ],
)
def test_missing_heads_begin_anew_and_foreign_ones_are_left_out_both_said(
    tmp_path: Path, class_name: str, fresh: tuple[str, ...], dropped: tuple[str, ...]
):
    report = import_checkpoint(saved(tmp_path / "hf", class_name), tmp_path / "run")
    assert (report.initialized, report.dropped) == (fresh, dropped)
    again = import_checkpoint(tmp_path / "hf", tmp_path / "again")
    assert again.initialized == fresh
    one, other = (zoo.load(tmp_path / name).state_dict() for name in ("run", "again"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_head_that_the_folder_lacks_does_not_answer(tmp_path: Path):
    assert "masked_lm" in resolve(saved(tmp_path / "hf", "BertModel")).checkpoint.untrained
    import_checkpoint(saved(tmp_path / "whole", "BertForMaskedLM"), tmp_path / "trained")
    assert open_run(tmp_path / "trained").checkpoint.untrained == ()
    half = resolve(change(tmp_path / "whole", architectures=["BertForPreTraining"]))
    assert half.checkpoint.untrained == ("next_sentence",)  # the other head reads no pooler
    classifier = saved(tmp_path / "classifier", "BertForSequenceClassification")
    rewrite(classifier, lambda name: None if "pooler" in name else name)
    import_checkpoint(classifier, tmp_path / "pooler")  # the head is there, but reads a pooler that begins anew
    assert open_run(tmp_path / "pooler").checkpoint.untrained == ("classification",)


def test_a_masked_lm_file_with_a_pooler_and_the_other_head_keeps_them(tmp_path: Path):
    folder = change(saved(tmp_path / "hf", "BertForPreTraining"), architectures=["BertForMaskedLM"])
    assert import_checkpoint(folder, tmp_path / "run").class_name == "BertForPreTraining"


def test_untied_embeddings_are_taken_where_no_head_scores_tokens(tmp_path: Path):
    folder = saved(tmp_path / "hf", "BertForSequenceClassification")
    before = zoo.load(folder).state_dict()
    after = zoo.load(change(folder, tie_word_embeddings=False)).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    with pytest.raises(ValueError, match="tie_word_embeddings is false; zoo imports transformers' BERT only with true"):
        zoo.load(change(saved(tmp_path / "masked", "BertForMaskedLM"), tie_word_embeddings=False))


def test_two_of_their_tensors_that_are_one_of_ours_must_be_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = saved(tmp_path, "GPT2LMHeadModel")
    before = logits(folder)
    copied = same("decoder.stack.norm.weight", "transformer.copy.weight")
    gpt2 = dataclasses.replace(targets["gpt2"], renames=(*targets["gpt2"].renames, copied))
    monkeypatch.setitem(targets, "gpt2", gpt2)
    tensors = load_file(folder / "model.safetensors")
    norm = tensors["transformer.ln_f.weight"]
    save_file({**tensors, "transformer.copy.weight": norm.clone()}, folder / "model.safetensors")
    assert torch.equal(logits(folder), before)
    save_file({**tensors, "transformer.copy.weight": 2 * norm}, folder / "model.safetensors")
    words = (
        "transformer.ln_f.weight and transformer.copy.weight differ; zoo has one tensor for both, decoder.stack.norm"
    )
    with pytest.raises(ValueError, match=words):
        zoo.load(folder)


@pytest.mark.parametrize("value", [math.nan, -math.inf, 1e300])
def test_a_weight_that_is_no_finite_number_is_refused_by_their_name(tmp_path: Path, value: float):
    folder = saved(tmp_path / "hf", "GPT2LMHeadModel")
    tensors = {name: tensor.double() for name, tensor in load_file(folder / "model.safetensors").items()}
    tensors["transformer.h.1.ln_2.bias"][2] = value
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"transformer\.h\.1\.ln_2\.bias"):
        import_checkpoint(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_labels_carry_over_and_classify(tmp_path: Path):
    names = {0: "bad", 1: "so\u00a0so", 2: "go\u200dod"}  # as French and Hindi are written
    folder = saved(tmp_path, "BertForSequenceClassification", id2label=names)
    loaded = load_checkpoint(folder)
    assert loaded.task.labels == [*names.values()] and next(iter(loaded.mixture.members)) == "classification"


def test_shards_are_read_as_one_file(tmp_path: Path):
    folder = saved(tmp_path, "GPT2LMHeadModel")
    before = logits(folder)
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    where = {n: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, n in enumerate(names)}
    for file in set(where.values()):
        save_file({n: tensors[n] for n in names if where[n] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    assert torch.equal(logits(folder), before)


def test_half_precision_is_read_exactly(tmp_path: Path):
    folder = saved(tmp_path, "GPT2LMHeadModel")
    tensors = {n: t.bfloat16() for n, t in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors")
    table = zoo.load(folder).state_dict()["decoder.stack.embeddings.tokens.weight"]
    assert table.dtype == torch.float32 and torch.equal(table, tensors["transformer.wte.weight"].float())


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("BertForMaskedLM", {"position_embedding_type": "relative_key"}, "type is relative_key; zoo imports"),
    ("BertForMaskedLM", {"is_decoder": True}, "is_decoder is true; zoo imports transformers' BERT only with false"),
    ("BertForMaskedLM", {"add_cross_attention": True}, "add_cross_attention is true"),
    ("BertForMaskedLM", {"hidden_act": "mish"}, "hidden_act is 'mish'; zoo reads gelu or gelu_new"),
    ("BertForMaskedLM", {"hidden_size": "6"}, "hidden_size: expected a whole number, got '6'"),
    ("BertForMaskedLM", {"num_attention_heads": 4}, "d_key: expected a whole number"),
    ("BertForMaskedLM", {"num_hidden_layers": 3}, "these tensors are missing: bert.encoder.layer.2."),
    ("BertForMaskedLM", {"num_hidden_layers": 1}, "no layer for the tensor bert.encoder.layer.1"),
    ("BertForMaskedLM", {"vocab_size": 32}, "do not have the sizes of config.json: .*expected 32x6, found 31x6"),
    ("BertForMaskedLM", {"model_type": "bart"}, r"zoo cannot import model type 'bart' \(did you mean 'bert'"),
    ("BertForMaskedLM", {"model_type": None}, "the key 'model_type' is missing; zoo imports: bert, electra"),
    ("GPT2LMHeadModel", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is true"),
    ("GPT2LMHeadModel", {"quantization_config": {"bits": 4}}, "quantization_config is .*'bits': 4"),
    ("GPT2LMHeadModel", {"pruned_heads": {"0": [1]}}, "pruned_heads is .*'0'"),
    ("GPT2LMHeadModel", {"transformers_weights": "other.safetensors"}, "transformers_weights is other.safetensors; "),
    ("GPT2ForSequenceClassification", {"problem_type": "regression"}, "problem_type is 'regression' with 2 outputs"),
    (
        "GPT2ForSequenceClassification",
        {"problem_type": "single_label_classification", "id2label": {"0": "A"}},
        "problem_type is 'single_label_classification' with one label; zoo reads two or more labels, or 'regression'",
    ),
    ("GPT2ForSequenceClassification", {"problem_type": []}, r"problem_type is \[\]; zoo reads single_label"),
    ("GPT2DoubleHeadsModel", {"summary_first_dropout": [0.1]}, "summary_first_dropout: expected a number, got"),
    ("GPT2LMHeadModel", {"resid_pdrop": 2}, r"config.json: decoder: dropout must be at least 0 and below 1, got 2"),
    ("BertForMaskedLM", {"layer_norm_eps": -1}, r"config.json: .*eps"),
    ("GPT2LMHeadModel", {"n_embd": None}, "n_inner is missing, and does not follow from other keys"),
    ("GPT2DoubleHeadsModel", {"summary_activation": "tanh"}, "summary_activation is tanh; zoo imports"),
    ("GPT2DoubleHeadsModel", {"summary_type": "mean"}, "summary_type is mean; zoo imports .* only with cls_index"),
    ("GPT2DoubleHeadsModel", {"summary_use_proj": False}, "summary_use_proj is false; zoo imports"),
    ("GPT2DoubleHeadsModel", {"summary_proj_to_labels": False}, "summary_proj_to_labels is false; zoo imports"),
    (
        "GPT2ForSequenceClassification",
        {"problem_type": "ranking"},
        "problem_type is 'ranking'; zoo reads single_label_c",
    ),
]


@pytest.mark.parametrize(("class_name", "changed", "words"), REFUSED)
def test_what_zoo_cannot_express_is_refused_by_name_and_nothing_is_written(
    tmp_path: Path, class_name: str, changed: dict[str, Any], words: str
):
    folder = change(saved(tmp_path / "hf", class_name), **changed)
    with pytest.raises(ValueError, match=words):
        import_checkpoint(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_pickle_is_refused_with_the_way_out(tmp_path: Path):
    folder = saved(tmp_path, "BertForMaskedLM")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(
        ValueError, match='is a pickle.*convert it once: python -c "from transformers import BertForMask'
    ):
        zoo.load(folder)


def test_a_model_without_a_tokenizer_is_read_and_says_so_when_it_is_given_text(tmp_path: Path):
    loaded = load_checkpoint(saved(tmp_path, "GPT2LMHeadModel"))
    with pytest.raises(ValueError, match="this checkpoint has no tokenizer, so it reads token ids only"):
        _ = loaded.tokenizer


def test_a_decoder_that_classifies_is_used_and_exported_without_roles_that_it_lacks(tmp_path: Path):
    folder = saved(tmp_path / "hf", "GPT2ForSequenceClassification", vocab_size=400, pad_token_id=0)
    publish(folder, "gpt2", only_vocabulary=True)
    loaded = load_checkpoint(folder)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ids = transformers.AutoTokenizer.from_pretrained(folder)("add it", return_tensors="pt").input_ids
    (found,) = predict(loaded, ["add it"], None, GenerateSettings())
    with torch.no_grad():
        wanted = theirs(ids).logits[0].softmax(-1).tolist()
    assert list(found.scores.values()) == pytest.approx(wanted, abs=1e-5)
    empty, again = predict_each(loaded, ["", "add it"], None, GenerateSettings())  # one costs no other its answer
    assert isinstance(empty, Unanswered) and "there is nothing to read" in empty.error and again == found
    (tmp_path / "rows.tsv").write_text("text\tlabel\nadd it\t0\n")
    (tmp_path / "task.yaml").write_text(
        "# a task\nobjective: classification\nlabels: ['0', '1']\nlength: 12\ncolumns: {text: text, label: label}\n"
        f"source: {{files: {{validation: {tmp_path}/rows.tsv}}}}\n"
    )
    asked = on_task(loaded, load_task(str(tmp_path / "task.yaml")))
    measured = evaluate_split(asked, "validation", None, GenerateSettings(), "float32")
    assert measured["loss"] == pytest.approx(-math.log(wanted[0]), abs=1e-5)
    given = untold_run(loaded)
    assert export_model(given, tmp_path / "out", reload=reload).class_name == "GPT2ForSequenceClassification"
