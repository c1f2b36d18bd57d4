"""Claims about the evaluation of classifiers: whose classes count, and what several files show together."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.batches.order import Examples
from zoo.data.sources.find import load_rows
from zoo.data.store.split import short_names
from zoo.data.store.store import open_store
from zoo.data.task import read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import forms, inputs
from zoo.inference import evaluate_split as evaluate_split_module
from zoo.inference.evaluate_split import evaluate_split, on_task
from zoo.inference.evaluation import Evaluation
from zoo.inference.loaded import Loaded
from zoo.inference.shape import row_shape
from zoo.models.create import create_model
from zoo.models.generation.settings import GenerateSettings
from zoo.objectives.mixture import Mixture


def classified(folder: Path, test: str) -> tuple[Loaded, Evaluation]:
    """A classifier of three classes, and its evaluation on a test split of these lines."""
    (folder / "train.csv").write_text("text,label\na,x\nb,y\nc,z\n")
    (folder / "test.csv").write_text(test)
    tree = {"objective": "classification", "source": {"files": {"train": "train.csv", "test": "test.csv"}}, "length": 8}
    task = read_task({**tree, "labels": ["x", "y", "z"]}, "task")
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), ["a b c"] * 3)
    model = create_model("bert-nano", vocab_size=tokenizer.vocab_size, heads=[{"name": "classification", "labels": 3}])
    loaded = Loaded(model.eval(), tokenizer, task, Mixture.parse(task.objective))
    split = open_store(load_rows(task, inputs(), folder, ["test"]), forms["text"].stored, tokenizer)["test"]
    form = loaded.mixture.form(["text"], loaded.traits)
    shape = row_shape(task, model)
    examples = Examples(form, loaded.mixture, split.lengths, split.read, tokenizer.roles, shape)
    return loaded, Evaluation(examples, split)


def test_a_split_without_labels_has_no_metric_of_classes(tmp_path: Path):
    loaded, evaluation = classified(tmp_path, "text\na\nb\n")
    with pytest.raises(ValueError, match="classification/f1: no row of this split has a label"):
        evaluation.run(loaded, ["f1"])


def test_f1_knows_how_many_classes_there_are_beyond_those_it_meets(tmp_path: Path):
    loaded, evaluation = classified(tmp_path, "text,label\na,x\nb,x\n")
    for parameter in loaded.model.heads.parameters():
        torch.nn.init.zeros_(parameter)  # all scores are equal: the first class is answered
    assert evaluation.run(loaded, ["f1"])["classification/f1"] == 1.0  # of class 1 alone it would be 0


def test_the_answers_of_all_batches_and_processes_are_compared(tmp_path: Path):
    loaded, evaluation = classified(tmp_path, "text,label\na,x\nb,y\nc,x\na,z\nb,y\nc,x\n")
    whole = evaluation.run(loaded, ["f1"])
    one, other = (replace(evaluation, batch=1, process=process, processes=2) for process in range(2))
    theirs = other.sum_losses(loaded, [("classes", "classification")])
    for found in (replace(evaluation, batch=1), replace(one, gather=lambda mine: [mine, theirs])):
        assert found.run(loaded, ["f1"]) == pytest.approx(whole, abs=1e-6)


def by_file(folder: Path, files: dict[str, str]) -> tuple[Loaded, Evaluation]:
    """The evaluation of a task whose test split has several files, measured one by one."""
    loaded, _ = classified(folder, "text,label\na,x\n")
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    source = replace(loaded.task.source, files={"train": "train.csv", "test": list(files)})
    task = replace(loaded.task, source=source, by_file=True)
    split = open_store(load_rows(task, inputs(), folder, ["test"]), forms["text"].stored, loaded.tokenizer)["test"]
    form, shape = loaded.mixture.form(["text"], loaded.traits), row_shape(task, loaded.model)
    examples = Examples(form, loaded.mixture, split.lengths, split.read, loaded.tokenizer.roles, shape)
    return replace(loaded, task=task), Evaluation(examples, split)


def test_by_file_a_metric_is_the_mean_of_the_files(tmp_path: Path):
    halves = {"one.csv": "text,label\na,x\nb,x\nc,y\na,y\n", "other.csv": "text,label\na,x\n"}
    loaded, evaluation = by_file(tmp_path, halves)
    for parameter in loaded.model.heads.parameters():
        torch.nn.init.zeros_(parameter)  # all scores are equal: the first class is answered
    found, name = evaluation.run(loaded, ["accuracy"]), "classification/accuracy"
    assert found["examples"] == 5
    assert (found[f"one/{name}"], found[f"other/{name}"], found[name]) == (0.5, 1.0, 0.75)  # together it would be 0.6
    assert found["loss"] == pytest.approx(math.log(3))


def test_two_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path):
    rows = "text,label\na,x\n"
    loaded, evaluation = by_file(tmp_path, {"matched/dev.csv": rows, "mismatched/dev.csv": rows})
    names = ["matched/dev", "mismatched/dev"]
    assert list(evaluation.split.by_file) == names
    assert {f"{name}/classification/accuracy" for name in names} <= set(evaluation.run(loaded, ["accuracy"]))


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["a/dev.csv"], ["dev"]),
        (["dev.a.csv", "dev.b.csv"], ["dev.a.csv", "dev.b.csv"]),
        (["dev.csv", "a/dev.csv"], ["someone/dev", "a/dev"]),
    ],
)
def test_names_of_files_hold_no_more_of_a_path_than_tells_them_apart(files: list[str], names: list[str]):
    assert short_names([Path("/of/someone") / name for name in files]) == names


@pytest.mark.parametrize("files", [{"one.csv": "a,x\n"}, {"one.csv": "a,\n", "other.csv": "b,\n"}])
def test_one_file_and_files_without_labels_are_measured_once(files: dict[str, str], tmp_path: Path):
    loaded, evaluation = by_file(tmp_path, {name: f"text,label\n{rows}" for name, rows in files.items()})
    collected: dict[int, list[Any]] = {}
    replace(evaluation, collected=collected).run(loaded, ["f1"])
    assert [len(found) for found in collected.values()] == [1] * len(files)


def test_a_file_without_labels_leaves_the_others_their_metrics(tmp_path: Path):
    files = {"one.csv": "text,label\na,x\n", "other.csv": "text,label\na,x\n", "none.csv": "text,label\na,\n"}
    loaded, evaluation = by_file(tmp_path, files)
    found, name = evaluation.run(loaded, ["matthews"]), "classification/matthews"
    assert found["examples"] == 3 and {f"one/{name}", f"other/{name}", name} <= set(found)
    assert f"none/{name}" not in found
    for parameter in loaded.model.heads.parameters():
        torch.nn.init.zeros_(parameter)  # all scores are equal: the first class is answered
    found = evaluation.run(loaded, ["accuracy"])
    assert found["classification/accuracy"] == 1.0 and found["loss"] == pytest.approx(math.log(3))  # of two files each


def test_by_file_a_sample_keeps_its_examples(tmp_path: Path):
    rows = "text,label\n" + "a,x\n" * 5
    loaded, evaluation = by_file(tmp_path, {"one.csv": rows, "other.csv": rows})
    sampled = replace(evaluation, examples=evaluation.examples.sample(3))
    assert sampled.run(loaded, ["accuracy"])["examples"] == 3
    alone = replace(evaluation, examples=evaluation.examples.sample(1)).run(loaded, ["accuracy"])
    assert {"examples", "classification/accuracy"} < set(alone) and not any(name.startswith("o") for name in alone)


@pytest.mark.parametrize("names", [["z", "x", "y"], ["Z", "X", "Y"]])
def test_the_numbers_of_classes_are_those_of_the_task(tmp_path: Path, names: list[str]):
    loaded, _ = classified(tmp_path, "text,label\na,x\nb,y\nc,z\na b,z\n")
    loaded.model.initialize(1).eval()
    loaded = replace(loaded, data={"test": "the fingerprint of its own task's"})
    numbers = tmp_path / "numbers"  # z is 0, x is 1, y is 2
    numbers.mkdir()
    (numbers / "test.csv").write_text("text,label\na,1\nb,2\nc,0\na b,0\n")
    source = {"files": {"test": "test.csv"}}
    tree = {"objective": "classification", "source": source, "length": 8, "metrics": ["accuracy", "f1"]}
    asked = on_task(loaded, read_task({**tree, "labels": names}, "task"))
    same = on_task(loaded, read_task({**tree, "labels": ["x", "y", "z"]}, "task"))
    found = evaluate_split(asked, "test", numbers, GenerateSettings(), "float32")
    assert found == evaluate_split(same, "test", tmp_path, GenerateSettings(), "float32")
    assert loaded.task.labels == ["x", "y", "z"] and loaded.model is not asked.model
    assert asked.data == same.data == {}, "the run recorded nothing of another task's data"


@pytest.mark.parametrize("names", [["z", "y"], ["Z", "Y"]])
def test_numbers_are_those_of_a_task_that_has_some_of_the_classes(tmp_path: Path, names: list[str]) -> None:
    loaded, _ = classified(tmp_path, "text,label\na,y\nb,z\nc,z\na b,y\n")
    loaded.model.initialize(1).eval()
    (tmp_path / "numbers.csv").write_text("text,label\na,1\nb,0\nc,0\na b,1\n")  # z is 0, y is 1
    tree = {"objective": "classification", "length": 8, "metrics": ["accuracy", "f1"]}
    some = read_task({**tree, "labels": names, "source": {"files": {"test": "numbers.csv"}}}, "task")
    every = read_task({**tree, "source": {"files": {"test": "test.csv"}}}, "task")
    found = evaluate_split(on_task(loaded, some), "test", tmp_path, GenerateSettings(), "float32")
    wanted = evaluate_split(on_task(loaded, every), "test", tmp_path, GenerateSettings(), "float32")
    assert found == pytest.approx(wanted)


def test_classes_that_a_checkpoint_has_in_part_are_refused(tmp_path: Path) -> None:
    loaded, _ = classified(tmp_path, "text,label\na,y\nb,z\n")  # its classes are x, y and z
    tree = {"objective": "classification", "length": 8, "source": {"files": {"test": "test.csv"}}}
    for names, lacking in (("y-", "-"), ("xy-", "-"), ("Xyz-", "-"), ("pq", "p, q"), ("xXy", "X")):
        with pytest.raises(ValueError, match=f"task.labels: the checkpoint has no class {lacking}; it has: x, y, z: "):
            on_task(loaded, read_task({**tree, "labels": list(names)}, "task"))
    assert on_task(loaded, read_task({**tree, "labels": ["p", "q", "r"]}, "task")).task.labels == ["x", "y", "z"]


def test_some_of_several_classes_at_once_are_compared_with_as_many_as_the_checkpoint_scores(tmp_path: Path) -> None:
    loaded, _ = classified(tmp_path, "text,label\na,x\n")
    (tmp_path / "some.jsonl").write_text('{"text": "a", "label": ["y"]}\n{"text": "b", "label": ["y", "z"]}\n')
    tree = {"objective": "classification", "source": {"files": {"test": "some.jsonl"}}}
    some, every = (read_task({**tree, "labels": {"several": list(names)}}, "task") for names in ("zy", "xyz"))
    loaded = replace(loaded, task=every)
    found, wanted = (evaluate_split(on_task(loaded, o), "test", tmp_path, GenerateSettings()) for o in (some, every))
    assert found == pytest.approx(wanted)


def test_what_a_checkpoint_was_not_trained_for_is_not_measured(tmp_path: Path) -> None:
    loaded, _ = classified(tmp_path, "text,label\na,x\n")
    tree = {"objective": "classification", "source": {"files": {"test": "test.csv"}}, "labels": "number"}
    said = "task.labels: the task's labels are of kind 'number', but those of the checkpoint 'one'"
    with pytest.raises(ValueError, match=said):
        on_task(loaded, read_task(tree, "task"))
    with pytest.raises(ValueError, match="the head 'classification' is newly initialized"):
        evaluate_split(replace(loaded, untrained=("classification",)), "test", tmp_path, GenerateSettings())
    with pytest.raises(ValueError, match="--batch must be at least 1, got 0"):
        evaluate_split(loaded, "test", tmp_path, GenerateSettings(), batch=0)


def test_a_checkpoint_is_measured_as_it_was_trained_unless_another_precision_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, _ = classified(tmp_path, "text,label\na,x\n")
    computed, found = list[str](), {"loss": 1.0, "classification/perplexity": math.inf}
    monkeypatch.setattr(evaluate_split_module, "nearest_precision", lambda precision, device: f"near {precision}")
    monkeypatch.setattr(evaluate_split_module, "forward_dtype", lambda precision, *_: computed.append(precision))
    monkeypatch.setattr(Evaluation, "run", lambda *_: found)
    for asked in ("auto", "float32"):
        assert (
            evaluate_split(replace(loaded, training_precision="float16"), "test", tmp_path, GenerateSettings(), asked)
            == found
        )
    assert computed == ["near float16", "float32"]
    found["loss/classification"] = math.nan  # a perplexity may be too large, and no loss
    with pytest.raises(RuntimeError, match="not finite"):
        evaluate_split(loaded, "test", tmp_path, GenerateSettings())


def test_classes_in_capitals_are_read_as_the_task_writes_them(tmp_path: Path):
    loaded, _ = classified(tmp_path, "text,label\na,x\n")
    (tmp_path / "test.csv").write_text("text,label\na,X\nb,Z\n")
    tree = {"objective": "classification", "source": {"files": {"test": "test.csv"}}, "length": 8}
    asked = on_task(loaded, read_task({**tree, "labels": ["X", "Y", "Z"]}, "task"))
    assert evaluate_split(asked, "test", tmp_path, GenerateSettings(), "float32")["examples"] == 2
