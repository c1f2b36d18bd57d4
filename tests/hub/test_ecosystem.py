"""Exports in the tools that people use them with: pipelines, Trainer, LoRA, loading onto devices."""

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from accelerate import init_empty_weights, load_checkpoint_and_dispatch

from zoo.hub.exporting.export import ExportReport
from zoo.inference.loaded import Loaded
from zoo.inference.pipeline import Pipeline
from zoo.objectives.mixture import Mixture

TEXTS = ["A small boy kicks a ball.", "Yes."]
Export = Callable[..., ExportReport]


@pytest.fixture
def classifier(build: Any, export: Export) -> Path:
    """A BERT that tells bad from good."""
    given = build("bert-nano", {"heads": {"classification": {"labels": 2}}}, "wordpiece", labels=["bad", "good"])
    return export(given).folder


def pipeline(task: str, folder: Path) -> Any:
    return transformers.pipeline(task, model=str(folder), device="cpu")


@pytest.mark.parametrize("name", ["bert-nano", "gpt2-nano", "gpt-nano"])
def test_classifiers_work_in_their_pipeline(build: Any, export: Export, name: str):
    given = build(name, {"heads": {"classification": {"labels": 2}}}, labels=["bad", "good"])
    found = pipeline("text-classification", export(given).folder)(TEXTS, top_k=None)
    assert all({answer["label"] for answer in answers} == {"bad", "good"} for answers in found)
    assert all(sum(answer["score"] for answer in answers) == pytest.approx(1) for answers in found)


@pytest.mark.parametrize("name", ["bert-nano", "bert-modern-nano", "gpt2-nano"])
def test_a_tagger_gives_in_its_pipeline_the_spans_that_zoo_predicts(build: Any, export: Export, name: str):
    labels = ["O", "B-thing", "I-thing"]
    given = build(name, {"heads": {"tagging": {"labels": 3}}}, "wordpiece", labels=labels, moved=True)
    text = "The quick brown fox, twice: kicks a small ball in 1923!"
    theirs = pipeline("token-classification", export(given).folder)(text, aggregation_strategy="first")
    known = Loaded(given.model.eval(), given.tokenizer, given.task, Mixture.parse("tagging"))
    (ours,) = Pipeline(known)(text)
    assert theirs and [
        (one["entity_group"], one["start"], one["end"]) for one in theirs if one["entity_group"] != "O"
    ] == [(span["tag"], span["start"], span["end"]) for span in ours["output"]]
    scores = [one["score"] for one in theirs if one["entity_group"] != "O"]
    assert ours["scores"] == pytest.approx(scores, abs=1e-5)


def test_a_pipeline_joins_adjacent_words_of_a_tag_without_prefixes(build: Any, export: Export):
    given = build("bert-nano", {"heads": {"tagging": {"labels": 2}}}, "wordpiece", labels=["noun", "verb"], moved=True)
    text = "The quick brown fox, twice: kicks a small ball in 1923!"
    theirs = pipeline("token-classification", export(given).folder)(text, aggregation_strategy="first")
    known = Loaded(given.model.eval(), given.tokenizer, given.task, Mixture.parse("tagging"))
    (ours,) = Pipeline(known)(text)
    alike = [list(words) for _, words in groupby(ours["output"], key=lambda word: word["tag"])]
    joined = [(words[0]["tag"], words[0]["start"], words[-1]["end"]) for words in alike]
    assert len(alike) < len(ours["output"])
    assert [(one["entity_group"], one["start"], one["end"]) for one in theirs] == joined


def test_the_answer_that_their_class_gives_is_ours(build: Any, export: Export):
    given = build("bert-nano", {"heads": ["span"]}, "wordpiece")
    folder = export(given).folder
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    question, context = "Yes.", "A small boy kicks a ball in 1923!"
    read = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    offsets, parts = read.pop("offset_mapping")[0], read.sequence_ids()
    with torch.no_grad():
        said = model(**read)
    sums = said.start_logits[0][:, None] + said.end_logits[0]
    inside = torch.tensor([part == 1 for part in parts])
    sums = sums.masked_fill(~(inside[:, None] & inside).triu(), -torch.inf)
    first, last = divmod(int(sums.argmax()), sums.shape[1])
    known = Loaded(given.model.eval(), given.tokenizer, given.task, Mixture.parse("span"))
    (ours,) = Pipeline(known)(question, pair=context)
    assert (ours["output"]["start"], ours["output"]["end"]) == (int(offsets[first][0]), int(offsets[last][1]))


GROUPED = {"decoder.n_heads": 2, "decoder.attention.n_kv_heads": 1}


@pytest.mark.parametrize(("name", "sets"), [("gpt2-nano", {}), ("gpt-nano", {}), ("gpt-modern-nano", GROUPED)])
def test_gpts_go_on_with_a_text_in_their_pipeline(build: Any, export: Export, name: str, sets: dict[str, Any]):
    generate = pipeline("text-generation", export(build(name, sets, "byte_bpe")).folder)
    (answer,) = generate(TEXTS[0], max_new_tokens=3, return_full_text=True)
    assert answer["generated_text"].startswith(TEXTS[0])


@pytest.mark.parametrize("heads", [["masked_lm", "next_sentence"], ["masked_lm"]])
def test_berts_fill_masks_in_their_pipeline(build: Any, export: Export, heads: list[str]):
    fill = pipeline("fill-mask", export(build("bert-nano", {"heads": heads}, "wordpiece")).folder)
    found = fill(f"A small {fill.tokenizer.mask_token} kicks a ball.", top_k=4)
    assert len(found) == 4 and all(0 < answer["score"] < 1 for answer in found)


class Rows(torch.utils.data.Dataset[dict[str, Any]]):
    """Two labeled texts."""

    def __init__(self, folder: Path) -> None:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.rows = [{**tokenizer(text), "labels": i} for i, text in enumerate(TEXTS)]
        self.collate = transformers.DataCollatorWithPadding(tokenizer)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self.rows[place]


def test_trainer_goes_on_training_an_export(classifier: Path, tmp_path: Path):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(classifier)
    before = model.classifier.weight.detach().clone()
    arguments = transformers.TrainingArguments(
        str(tmp_path / "trained"), max_steps=2, per_device_train_batch_size=2, use_cpu=True, report_to=[], save_steps=2
    )
    rows = Rows(classifier)
    transformers.Trainer(model, arguments, rows.collate, train_dataset=rows).train()
    assert not torch.equal(before, model.classifier.weight)
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "trained" / "checkpoint-2")
    assert torch.equal(again.classifier.weight, model.classifier.weight)


@pytest.mark.parametrize(
    ("name", "kind", "modules"),
    [("bert-nano", "SEQ_CLS", ["query", "value"]), ("gpt2-nano", "CAUSAL_LM", ["c_attn"]),
     ("transformer-nano", "SEQ_2_SEQ_LM", ["q_proj", "v_proj"])],
)  # fmt: skip
def test_lora_trains_a_few_weights_of_an_export(
    build: Any, export: Export, tmp_path: Path, name: str, kind: str, modules: list[str]
):
    peft = pytest.importorskip("peft")
    heads = {"heads": {"classification": {"labels": 2}}} if kind == "SEQ_CLS" else {}
    report = export(build(name, heads))
    base = getattr(transformers, report.auto).from_pretrained(report.folder)
    adapted = peft.get_peft_model(base, peft.LoraConfig(task_type=kind, r=2, target_modules=modules))
    few, all_of_them = adapted.get_nb_trainable_parameters()
    assert 0 < few < all_of_them / 3
    tokens = torch.tensor([[9, 10, 11]])
    labels = torch.tensor([1]) if kind == "SEQ_CLS" else tokens
    adapted(input_ids=tokens, labels=labels).loss.backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in adapted.parameters() if p.requires_grad)
    adapted.save_pretrained(tmp_path / "adapter")
    base = getattr(transformers, report.auto).from_pretrained(report.folder)
    again = peft.PeftModel.from_pretrained(base, tmp_path / "adapter")
    torch.testing.assert_close(
        again(input_ids=tokens, labels=labels).loss, adapted.eval()(input_ids=tokens, labels=labels).loss
    )


MODELS = [("bert-nano", {"heads": ["masked_lm"]}), ("gpt-modern-nano", GROUPED), ("transformer-nano", {})]


@pytest.mark.parametrize(("name", "sets"), MODELS)
def test_accelerate_fills_an_empty_model_from_an_export(build: Any, export: Export, name: str, sets: dict[str, Any]):
    report = export(build(name, sets))
    kind = getattr(transformers, report.auto)
    with init_empty_weights():
        empty = kind.from_config(transformers.AutoConfig.from_pretrained(report.folder))
    assert all(parameter.is_meta for parameter in empty.parameters())
    empty.tie_weights()
    whole = str(report.folder / "model.safetensors")
    filled = load_checkpoint_and_dispatch(empty, whole, device_map={"": "cpu"}).eval()
    plain = kind.from_pretrained(report.folder).eval()
    tokens = torch.tensor([[9, 10, 11]])
    assert torch.equal(filled(tokens, labels=tokens).logits, plain(tokens, labels=tokens).logits)
