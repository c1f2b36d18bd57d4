"""Folders of zoo's own classes: in pipelines and Trainer, imported again, refused where they are hostile."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from accelerate import cpu_offload, init_empty_weights, load_checkpoint_and_dispatch
from accelerate.hooks import ModelHook, add_hook_to_module
from shell_choices import ALIBI, BOTH, CLASSES, ENCODER, MIXED, MODELS, PLAIN, SCALED, Shelled, load
from torch import Tensor

from zoo.hub.checkpoint import load_checkpoint
from zoo.hub.exporting.export import ExportReport, export_model
from zoo.hub.exporting.reloading import reload
from zoo.hub.importing.importing import import_folder
from zoo.hub.targets.choose import choose_target
from zoo.models.settings import dump_settings, load_settings
from zoo.runs.tensors import unique_tensors


def pipeline(task: str, report: ExportReport) -> Any:
    return transformers.pipeline(task, model=str(report.folder), device="cpu")


def test_a_pipeline_goes_on_with_a_text(shelled: Shelled):
    generate = pipeline("text-generation", shelled("gpt2-nano", ALIBI, "byte_bpe"))
    text = "A small boy kicks a ball."
    whole = generate(text, max_new_tokens=3)[0]["generated_text"]
    assert whole.startswith(text)
    # `generate` looks for these in the text and passes the tokenizer on to the model
    (stopped,) = generate(text, max_new_tokens=3, stop_sequence=[whole[len(text)]])
    assert text < stopped["generated_text"] < whole


def test_a_pipeline_fills_masks(shelled: Shelled):
    fill = pipeline("fill-mask", shelled("bert-nano", SCALED, "wordpiece"))
    assert len(fill(f"A small {fill.tokenizer.mask_token} kicks a ball.", top_k=4)) == 4


@pytest.mark.parametrize(("name", "sets"), [("bert-nano", {**SCALED, **CLASSES}), ("gpt2-nano", {**MIXED, **CLASSES})])
def test_a_pipeline_classifies(shelled: Shelled, name: str, sets: dict[str, Any]):
    report = shelled(name, sets, "wordpiece", labels=["bad", "so so", "good"])
    found = pipeline("text-classification", report)(["A small boy.", "Yes."], top_k=None)
    assert all({answer["label"] for answer in answers} == {"bad", "so so", "good"} for answers in found)


def test_trainer_goes_on_training_it(shelled: Shelled, tmp_path: Path):
    model = load(shelled("rnn-attention-nano", {}))
    before = model.decoder.readout.weight.detach().clone()
    rows = [{"input_ids": [9, 10, 3], "labels": [20, 21, 22, 3]}, {"input_ids": [9, 3], "labels": [23, 3]}]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    arguments = transformers.TrainingArguments(
        str(tmp_path / "trained"), max_steps=2, per_device_train_batch_size=1, gradient_accumulation_steps=2,
        use_cpu=True, report_to=[], save_steps=2,
    )  # fmt: skip
    collate = transformers.DataCollatorForSeq2Seq(tokenizer, model=model)
    transformers.Trainer(model, arguments, collate, train_dataset=rows).train()
    assert not torch.equal(before, model.decoder.readout.weight)
    saved = tmp_path / "trained" / "checkpoint-2"
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(saved)
    assert torch.equal(again.decoder.readout.weight, model.decoder.readout.weight)


def test_trainer_weighs_every_label_of_a_step_equally_however_the_step_is_split(shelled: Shelled, tmp_path: Path):
    model = load(shelled("gpt2-nano", {**ALIBI, "dropout": 0.0}))
    before = model.get_input_embeddings().weight.detach().clone()
    rows = [{"input_ids": [9, 10, 11, 12], "labels": labels} for labels in ([9, 10, 11, 12], [-100, -100, 11, -100])]
    found = []
    for split, each in ((1, model), (2, copy.deepcopy(model))):
        arguments = transformers.TrainingArguments(
            str(tmp_path / "trained"), max_steps=1, per_device_train_batch_size=2 // split,
            gradient_accumulation_steps=split, optim="sgd", learning_rate=1.0, max_grad_norm=0, use_cpu=True,
            report_to=[], save_strategy="no",
        )  # fmt: skip
        transformers.Trainer(each, arguments, transformers.default_data_collator, train_dataset=rows).train()
        found.append(each.get_input_embeddings().weight)
    torch.testing.assert_close(*found)
    assert not torch.allclose(found[0], before)


def test_trainer_smooths_the_labels_of_the_next_tokens(shelled: Shelled, tmp_path: Path):
    model, ids = load(shelled("gpt2-nano", ALIBI, "byte_bpe")), torch.tensor([[9, 10, 11]])
    arguments = transformers.TrainingArguments(str(tmp_path), label_smoothing_factor=1e-9, use_cpu=True, report_to=[])
    found = transformers.Trainer(model, arguments).compute_loss(model, {"input_ids": ids, "labels": ids})
    torch.testing.assert_close(found, model(ids, labels=ids).loss)


def test_lora_trains_a_few_weights_of_it_and_generates(shelled: Shelled):
    peft = pytest.importorskip("peft")
    modules = peft.LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["query", "value"])
    adapted = peft.get_peft_model(load(shelled("gpt2-nano", ALIBI)), modules)
    ids = torch.tensor([[9, 10, 11]])
    adapted(input_ids=ids, labels=ids).loss.backward()
    moved = {name.split(".")[-2] for name, p in adapted.named_parameters() if p.grad is not None}
    assert moved == {"default"} and adapted.generate(input_ids=ids, max_new_tokens=2, max_length=None).shape == (1, 5)


def test_what_peft_trains_whole_is_what_answers(shelled: Shelled, tmp_path: Path):
    peft = pytest.importorskip("peft")
    report, ids = shelled("bert-nano", {**SCALED, **CLASSES}), torch.tensor([[2, 9, 4]])
    whole = ["pooler", "classification"]
    modules = peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"], modules_to_save=whole)
    adapted = peft.get_peft_model(load(report), modules).eval()
    before = adapted(input_ids=ids).logits.detach()
    adapted(input_ids=ids, labels=torch.tensor([1])).loss.backward()
    copies = {name: p for name, p in adapted.named_parameters() if "modules_to_save" in name}
    assert len(copies) == 4 and all(p.grad.abs().sum() > 0 for p in copies.values())
    with torch.no_grad():
        for parameter in copies.values():
            parameter.add_(1)
    after = adapted(input_ids=ids).logits.detach()
    assert not torch.allclose(before, after)
    adapted.save_pretrained(tmp_path / "adapter")
    again = peft.PeftModel.from_pretrained(load(report), tmp_path / "adapter").eval()
    torch.testing.assert_close(again.merge_and_unload()(ids).logits, after)


ADAPTED = [
    ("bert-nano", {**ENCODER, **CLASSES}, {"task_type": "SEQ_CLS", "target_modules": "all-linear"}),
    ("bert-nano", {**ENCODER, **CLASSES}, {"target_modules": ["table", "segments"]}),
    ("gpt2-nano", {**ALIBI, "heads": {"language": {"tied": False, "bias": True}}}, {"target_modules": "all-linear"}),
]


@pytest.mark.parametrize(("name", "sets", "adapters"), ADAPTED)
def test_every_adapter_of_peft_learns_and_the_merged_model_says_the_same(
    shelled: Shelled, name: str, sets: dict[str, Any], adapters: dict[str, Any]
):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, init_lora_weights=False, **adapters)
    adapted, ids = peft.get_peft_model(load(shelled(name, sets)), config).eval(), torch.tensor([[2, 9, 4]])
    logits = adapted(input_ids=ids).logits
    logits.square().sum().backward()
    learning = {name: p.grad for name, p in adapted.named_parameters() if p.requires_grad}
    assert learning and all(grad is not None and grad.abs().sum() > 0 for grad in learning.values())
    torch.testing.assert_close(adapted.merge_and_unload()(ids).logits, logits, atol=1e-4, rtol=1e-4)


def test_a_copy_for_another_device_reads_its_own_modules(shelled: Shelled):
    """`torch.nn.DataParallel`, which Trainer takes for several GPUs, gives each replica's modules to it like this."""
    report, ids = shelled("gpt2-nano", ALIBI), torch.tensor([[9, 10]])
    model, other = load(report), load(report)
    replica = model._replicate_for_data_parallel()
    with torch.no_grad():
        other.get_input_embeddings().weight.mul_(2)
    for name, module in other.named_children():
        setattr(replica, name, module)
    assert torch.equal(replica(ids).logits, other(ids).logits)
    assert not torch.allclose(model(ids).logits, other(ids).logits)


@pytest.mark.filterwarnings("ignore:You are calling .generate")  # which older versions of transformers say first
def test_weights_that_lie_elsewhere_are_refused(shelled: Shelled):
    """Of a head that reads the token vectors, torch gave whatever stood in memory."""
    report, ids = shelled("gpt2-nano", ALIBI), torch.tensor([[9, 10]])
    model, part = cpu_offload(load(report), torch.device("cpu")), load(report)
    add_hook_to_module(part, ModelHook())  # as accelerate does where it offloads some of a model's modules
    cpu_offload(part.get_input_embeddings(), torch.device("cpu"))
    for ask in (model, model.generate, part):
        with pytest.raises(ValueError, match="ZooForCausalLM cannot be offloaded: load it where all weights fit"):
            ask(input_ids=ids)


def test_accelerate_fills_an_empty_model(shelled: Shelled):
    report = shelled("gpt2-nano", ALIBI)
    with init_empty_weights():
        empty = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(report.folder))
    assert all(parameter.is_meta for parameter in empty.parameters())
    filled = load_checkpoint_and_dispatch(empty, str(report.folder / "model.safetensors"), device_map={"": "cpu"})
    ids = torch.tensor([[9, 10, 11]])
    assert torch.equal(filled.eval()(ids).logits, load(report)(ids).logits)


@pytest.mark.parametrize(("name", "sets", "wanted"), [MODELS[2], MODELS[3], MODELS[4], MODELS[8], MODELS[11]])
def test_importing_it_gives_the_same_model(shelled: Shelled, tmp_path: Path, name: str, sets: Any, wanted: str):
    report = shelled(name, sets)
    said = import_folder(report.folder, tmp_path / "run")
    assert (said.target, said.class_name, said.remarks()) == ("zoo", wanted, [])
    loaded, model = load_checkpoint(tmp_path / "run"), load(report)
    assert dump_settings(loaded.model.settings) == dump_settings(model.zoo_model.settings)
    ours, theirs = unique_tensors(loaded.model), unique_tensors(model.zoo_model)
    assert ours.keys() == theirs.keys() and all(torch.equal(tensor, theirs[key]) for key, tensor in ours.items())
    text = "A small boy."
    tokenizer = transformers.AutoTokenizer.from_pretrained(report.folder)
    assert loaded.tokenizer.encode([text])[0].tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]


def at(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Say something else in a config.json."""

    def change(tree: dict[str, Any]) -> None:
        *outer, last = path.split(".")
        for name in outer:
            tree = tree[name]
        tree[last] = value

    return change


HOSTILE: list[tuple[Any, str]] = [
    (at("settings", None), "settings: expected a map of settings, got None"),
    (at("settings.d_modle", 12), r"unknown key 'd_modle' \(did you mean 'd_model'\?\)"),
    (at("settings.decoder.kind", "__import__"), "unknown decoder '__import__'"),
    (at("settings.embeddings.vectors", "/etc/passwd"), "vectors: names a file"),
    (at("settings.decoder.n_layers", 5000), "n_layers is 5000, but the tensors allow"),
    (at("settings.d_model", 10**12), "d_model is 1000000000000, but the tensors allow"),
    (at("settings.decoder.d_ff", 15), "the tensors do not have the sizes of config.json"),
    (at("settings.decoder.n_layers", 1), "zoo's own has no tensor decoder.stack.blocks.1"),
    (
        at("settings.heads", ["next_sentence"]),
        "with a decoder alone, zoo's own classes have language or classification",
    ),
    (at("is_encoder_decoder", True), "is_encoder_decoder is true"),
    (lambda tree: tree.pop("settings"), "the key 'settings' is missing"),
]


def test_hostile_settings_are_refused_by_name(shelled: Shelled, tmp_path: Path):
    place = shelled("gpt2-nano", {**PLAIN, "position": "alibi"}).folder / "config.json"
    good = place.read_text()
    for change, words in HOSTILE:
        tree = json.loads(good)
        change(tree)
        place.write_text(json.dumps(tree))
        with pytest.raises(ValueError, match=words):
            import_folder(place.parent, tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_a_head_whose_classes_have_no_names_is_refused(shelled: Shelled, tmp_path: Path):
    place = shelled("gpt2-nano", {**MIXED, **CLASSES}).folder / "config.json"
    tree = json.loads(place.read_text())
    del tree["id2label"]["2"]
    place.write_text(json.dumps(tree))
    with pytest.raises(ValueError, match="id2label must name the 3 classes of the head"):
        import_folder(place.parent, tmp_path / "run")


def test_the_card_shows_the_import(shelled: Shelled):
    card = (shelled("transformer-nano", BOTH).folder / "README.md").read_text()
    first = card.index("import zoo.hub.modeling.shell  # registers these classes with transformers")
    assert first < card.index("AutoModelForSeq2SeqLM.from_pretrained") and "plain `transformers`" not in card


def test_no_file_and_nothing_of_training_is_written(shelled: Shelled, tmp_path: Path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("a 1\n")
    tree = json.loads((shelled("gpt2-nano", {"embeddings.vectors": str(vectors)}).folder / "config.json").read_text())
    assert tree["settings"]["embeddings"]["vectors"] is None and "training" not in tree["settings"]


def test_what_fits_no_native_target_is_told_of_the_shell():
    settings = load_settings("rnn-attention-nano")
    words = r"t5: .*; bert, electra, gpt2, .*: made of other parts\. `zoo export … --to zoo` writes it for programs"
    with pytest.raises(ValueError, match=words):
        choose_target(settings)
    assert choose_target(settings, "zoo").name == "zoo"
    odd = load_settings("transformer-nano", [(("heads",), ["classification"])])
    words = "the first head is classification; with an encoder and a decoder, zoo's own classes have language"
    with pytest.raises(ValueError, match=f"export: this model does not fit 'zoo': {words}"):
        choose_target(odd, "zoo")
    with pytest.raises(ValueError, match=f"zoo: {words}"):
        choose_target(odd)


def test_what_says_something_else_is_not_left_behind(build: Any, quick: None, tmp_path: Path):
    def reloaded(folder: Path, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
        report, logits = reload(folder, request)
        logits["float32/left/language"][2, 0] += 0.25
        return report, logits

    with pytest.raises(
        RuntimeError, match="export to zoo: logits of language, padded on the left, differ by up to 0.25"
    ):
        export_model(build("gpt2-nano", {"norm": "scalenorm"}), tmp_path / "out", "zoo", reloaded)
    assert not list(tmp_path.iterdir())
