"""Classifiers of several classes at once, and of numbers, as transformers has them: `problem_type`."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers

import zoo.hub.modeling.shell  # noqa: F401 - transformers knows the shell's classes once it is imported
from zoo.data.task import read_task
from zoo.hub.importing.importing import import_folder
from zoo.inference.loaded import Loaded, load_run
from zoo.inference.pipeline import Pipeline
from zoo.objectives.mixture import Mixture
from zoo.runs.saved import open_run

LABELS = {"several": {"several": ["a", "b", "c"]}, "number": "number"}
TEXT = "A small boy kicks a ball."


def classifier(build: Any, name: str, kind: str, **sets: Any) -> Any:
    given = build(name, {"heads": [{"name": "classification", "labels": 1 if kind == "number" else 3}], **sets})
    tree = {"objective": "classification", "source": {"builtin": "pydocs"}, "labels": LABELS[kind]}
    return replace(given, task=read_task(tree, "task"))


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize(("name", "target"), [("bert-nano", None), ("gpt2-nano", None), ("bert-nano", "zoo")])
def test_an_export_says_what_its_labels_are_and_is_imported_as_that(
    build: Any, export: Any, tmp_path: Any, name: str, target: str | None, kind: str
):
    given = classifier(build, name, kind)
    report = export(given, target)  # compares logits and losses
    config = transformers.AutoConfig.from_pretrained(report.folder)
    assert config.problem_type == {"several": "multi_label_classification", "number": "regression"}[kind]
    assert config.num_labels == (1 if kind == "number" else 3)
    import_folder(report.folder, tmp_path / "again")
    again = load_run(open_run(tmp_path / "again"))
    assert again.task.plain()["labels"] == LABELS[kind] and again.mixture.metrics == Mixture.of(given.task).metrics


def test_one_label_without_a_problem_type_is_a_number_and_the_report_names_the_sigmoid_of_the_pipeline(
    build: Any, export: Any, tmp_path: Any
):
    file = export(classifier(build, "bert-nano", "number")).folder / "config.json"
    tree = json.loads(file.read_text())
    assert not import_folder(file.parent, tmp_path / "named").raw_numbers
    file.write_text(json.dumps({key: value for key, value in tree.items() if key != "problem_type"}))
    report = import_folder(file.parent, tmp_path / "unnamed")
    assert report.raw_numbers == ("classification",)
    assert any(line.endswith("transformers' pipeline its sigmoid: classification") for line in report.lines())
    theirs = transformers.pipeline("text-classification", str(file.parent))(TEXT)[0]["score"]
    [ours] = Pipeline(load_run(open_run(tmp_path / "unnamed")))([TEXT])
    assert theirs == pytest.approx(torch.tensor(ours["output"]).sigmoid().item(), abs=1e-5)


@pytest.mark.parametrize("target", [None, "zoo"])
def test_a_tagger_has_no_problem_type_and_one_in_its_file_means_nothing(
    build: Any, export: Any, tmp_path: Any, target: str | None
):
    given = build("bert-nano", {"heads": [{"name": "tagging", "labels": 3}]})
    file = export(given, target).folder / "config.json"
    tree = json.loads(file.read_text())
    assert "problem_type" not in tree and len(tree["id2label"]) == 3
    file.write_text(json.dumps({**tree, "problem_type": "multi_label_classification"}))
    import_folder(file.parent, tmp_path / "again")
    assert load_run(open_run(tmp_path / "again")).task.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]


@pytest.mark.parametrize("kind", LABELS)
def test_trainer_gets_the_loss_of_a_batch_however_many_labels_it_counts(
    build: Any, export: Any, tmp_path: Any, kind: str
):
    folder = export(classifier(build, "bert-nano", kind, dropout=0.0), "zoo").folder  # whose losses were compared
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    labels = torch.arange(4.0) if kind == "number" else torch.eye(3)[[0, 1, 2, 0]]
    rows = [{"input_ids": [2, 9 + i, 4], "labels": label} for i, label in enumerate(labels.tolist())]
    arguments = transformers.TrainingArguments(
        str(tmp_path / "trained"), max_steps=1, per_device_train_batch_size=4, use_cpu=True, report_to=[],
        save_strategy="no",
    )  # fmt: skip
    expected = model(torch.tensor([row["input_ids"] for row in rows]), labels=labels).loss.item()
    trained = transformers.Trainer(model, arguments, train_dataset=rows).train()
    assert trained.training_loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("count", "labels", "decided"),
    [
        (1, torch.tensor([3, 0]), "regression"),
        (1, torch.tensor([0.5, 2.0]), "regression"),
        (3, torch.tensor([2, 0]), "single_label_classification"),
        (3, torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), "multi_label_classification"),
    ],
)
def test_labels_say_what_they_are_where_a_folder_does_not_as_in_transformers(
    build: Any, export: Any, tmp_path: Any, count: int, labels: torch.Tensor, decided: str
):
    given = build("bert-nano", {"heads": ["masked_lm"]})
    auto, ids = transformers.AutoModelForSequenceClassification, torch.tensor([[2, 9, 4], [2, 10, 4]])
    model = auto.from_pretrained(export(given, "zoo").folder, num_labels=count)
    config = transformers.BertConfig(vocab_size=20, hidden_size=4, num_hidden_layers=1, num_attention_heads=1)
    config.num_labels = count
    theirs = transformers.BertForSequenceClassification(config).eval()
    logits = model(ids).logits
    theirs.classifier.register_forward_hook(lambda *_: logits)  # the same scores
    numbers = labels.float() if decided == "regression" else labels
    torch.testing.assert_close(model(ids, labels=labels).loss, theirs(ids, labels=numbers).loss)
    assert model.config.problem_type == theirs.config.problem_type == decided
    model.save_pretrained(tmp_path / "saved")
    assert transformers.AutoConfig.from_pretrained(tmp_path / "saved").problem_type == decided


def test_several_numbers_cost_their_mean_squared_error_as_in_transformers(build: Any, export: Any):
    folder = export(classifier(build, "bert-nano", "several"), "zoo").folder
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, problem_type="regression")
    ids, labels = torch.tensor([[2, 9, 4], [2, 10, 4]]), torch.tensor([[0.5, 2.0, -1.0], [3.0, 0.0, 0.25]])
    said = model(ids, labels=labels)
    torch.testing.assert_close(said.loss, torch.nn.functional.mse_loss(said.logits, labels))


def test_similarity_is_the_sum_of_both_orders_and_the_card_says_so(build: Any, export: Any):
    given = build("gpt2-nano", {"heads": [{"name": "similarity", "labels": 3}]})
    folder = export(given, "zoo").folder
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer, pair = transformers.AutoTokenizer.from_pretrained(folder), (TEXT, "A man sits.")
    with torch.no_grad():
        both = [model(**tokenizer(*order, return_tensors="pt")).logits for order in (pair, pair[::-1])]
    (ours,) = Pipeline(Loaded(given.model.eval(), given.tokenizer, given.task, Mixture.of(given.task)))(*pair)
    assert sum(both).softmax(-1)[0].tolist() == pytest.approx(list(ours["scores"].values()), abs=1e-5)
    assert "scores two texts in one order" in (folder / "README.md").read_text()


@pytest.mark.parametrize("kind", LABELS)
def test_transformers_pipeline_answers_as_zoo_does(build: Any, export: Any, kind: str):
    given = classifier(build, "bert-nano", kind)
    pipe = transformers.pipeline("text-classification", str(export(given).folder), top_k=None)
    theirs = {one["label"]: one["score"] for one in pipe(TEXT)[0] if one}
    loaded = Loaded(given.model.eval(), given.tokenizer, given.task, Mixture.of(given.task))
    (ours,) = Pipeline(loaded)(TEXT)
    expected = ours["scores"] if kind == "several" else {"LABEL_0": ours["output"]}
    assert theirs == pytest.approx(expected, abs=1e-5)
