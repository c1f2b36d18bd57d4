"""Claims about evaluation: the shares of processes add up to the whole, whatever the batch."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.batches.order import Examples
from zoo.data.sources.find import load_rows
from zoo.data.store.split import short_names
from zoo.data.store.store import open_cache
from zoo.data.task import Task, read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import forms, inputs
from zoo.inference.evaluate import Evaluation, Sums
from zoo.inference.loaded import Loaded
from zoo.inference.measure import measure, on_task, row_shape
from zoo.models.create import create_model
from zoo.models.generation.settings import GenerateSettings
from zoo.objectives.mixture import Mixture

TREE = {
    "objective": "translation",
    "source": {
        "files": {"train": {"source": "a.txt", "target": "b.txt"}, "validation": {"source": "a.txt", "target": "b.txt"}}
    },
    "length": 8,
    "metrics": ["chrf"],
}


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    texts = ["a b c", "d e", "a a a a a a a a a a a a", "b", "c d e a b"]
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    task: Task = read_task(TREE, "task")
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), texts)
    model = create_model("transformer-nano", vocab_size=tokenizer.vocab_size, max_length=8)
    return Loaded(model.eval(), tokenizer, task, Mixture.parse(task.objective))


def evaluation(loaded: Loaded, folder: Path, **settings: object) -> Evaluation:
    rows = load_rows(loaded.task, inputs(), folder, ["validation"])
    split = open_cache(rows, forms["source_target"].stored, loaded.tokenizer)["validation"]
    form = loaded.mixture.form(["source", "target"], loaded.stream)
    shape = row_shape(loaded.task, loaded.model)
    examples = Examples(form, loaded.mixture, split.lengths, split.read, loaded.tokenizer.roles, shape)
    return Evaluation(examples, split, generate=GenerateSettings(max_new_tokens=3), **settings)  # type: ignore[arg-type]


class Reads(TorchDispatchMode):
    """Counts the numbers that are read one by one, each of which would wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def classified(folder: Path, test: str) -> tuple[Loaded, Evaluation]:
    """A classifier of three classes, and its evaluation on a test split of these lines."""
    (folder / "train.csv").write_text("text,label\na,x\nb,y\nc,z\n")
    (folder / "test.csv").write_text(test)
    tree = {"objective": "classification", "source": {"files": {"train": "train.csv", "test": "test.csv"}}, "length": 8}
    task = read_task({**tree, "labels": ["x", "y", "z"]}, "task")
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), ["a b c"] * 3)
    model = create_model("bert-nano", vocab_size=tokenizer.vocab_size, heads=[{"name": "classification", "labels": 3}])
    loaded = Loaded(model.eval(), tokenizer, task, Mixture.parse(task.objective))
    split = open_cache(load_rows(task, inputs(), folder, ["test"]), forms["text"].stored, tokenizer)["test"]
    form = loaded.mixture.form(["text"], loaded.stream)
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


def by_file(folder: Path, files: dict[str, str]) -> tuple[Loaded, Evaluation]:
    """The evaluation of a task whose test split has several files, measured one by one."""
    loaded, _ = classified(folder, "text,label\na,x\n")
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    source = replace(loaded.task.source, files={"train": "train.csv", "test": list(files)})
    task = replace(loaded.task, source=source, by_file=True)
    split = open_cache(load_rows(task, inputs(), folder, ["test"]), forms["text"].stored, loaded.tokenizer)["test"]
    form, shape = loaded.mixture.form(["text"], loaded.stream), row_shape(task, loaded.model)
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


def test_one_file_is_measured_once(tmp_path: Path):
    loaded, evaluation = by_file(tmp_path, {"one.csv": "text,label\na,x\n"})
    kept: dict[int, list[Any]] = {}
    replace(evaluation, kept=kept).run(loaded, ["accuracy"])
    assert [len(found) for found in kept.values()] == [1]


def test_a_file_without_labels_leaves_the_others_their_metrics(tmp_path: Path):
    files = {"one.csv": "text,label\na,x\n", "other.csv": "text,label\na,x\n", "none.csv": "text,label\na,\n"}
    loaded, evaluation = by_file(tmp_path, files)
    found, name = evaluation.run(loaded, ["matthews"]), "classification/matthews"
    assert found["examples"] == 3 and {f"one/{name}", f"other/{name}", name} <= set(found)
    assert f"none/{name}" not in found


def test_by_file_a_sample_keeps_its_examples(tmp_path: Path):
    rows = "text,label\n" + "a,x\n" * 5
    loaded, evaluation = by_file(tmp_path, {"one.csv": rows, "other.csv": rows})
    sampled = replace(evaluation, examples=evaluation.examples.sample(3))
    assert sampled.run(loaded, ["accuracy"])["examples"] == 3


def test_bits_per_byte_counts_the_bytes_that_a_truncated_text_keeps(tmp_path: Path):
    found = []
    for text in ("éb a cé ab", "éb a c"):  # an example has 8 places, 2 of them for the template
        (tmp_path / "train.csv").write_text("text,label\na,x\nb,y\n")
        (tmp_path / "test.csv").write_text(f"text,label\n{text},x\n")
        source = {"files": {"train": "train.csv", "test": "test.csv"}}
        tree = {"objective": {"classification": {}, "causal_lm": {}}, "source": source, "length": 8}
        task = read_task({**tree, "labels": ["x", "y"]}, "task")
        tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), ["aé b c"] * 3)
        heads = ["language", {"name": "classification", "labels": 2}]
        model = create_model("gpt2-nano", vocab_size=tokenizer.vocab_size, heads=heads).initialize(0)
        loaded = Loaded(model.eval(), tokenizer, task, Mixture.parse(task.objective))
        split = open_cache(load_rows(task, inputs(), tmp_path, ["test"]), forms["text"].stored, tokenizer)["test"]
        form, shape = loaded.mixture.form(["text"], loaded.stream), row_shape(task, model)
        examples = Examples(form, loaded.mixture, split.lengths, split.read, tokenizer.roles, shape)
        found.append(Evaluation(examples, split).run(loaded, ["bits_per_byte"])["causal_lm/bits_per_byte"])
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_every_process_is_asked_equally_often_whether_to_go_on(loaded: Loaded, tmp_path: Path, processes: int):
    asked = [0] * processes
    for process in range(processes):

        def between(process: int = process) -> None:
            asked[process] += 1

        share = {"batch": 1, "process": process, "processes": processes, "between": between}
        mine = evaluation(loaded, tmp_path, **share)
        mine.run(loaded, ["chrf"])
    rows = len(list(mine.examples.once()))
    assert rows == 4 and asked == [-(-rows // processes) + -(-5 // processes)] * processes  # and for each of 5 texts


def test_perplexity_is_that_of_the_likelihood_whatever_the_loss_is_smoothed_by(loaded: Loaded, tmp_path: Path):
    found = []
    for share in (0.0, 0.5):
        smoothed = replace(loaded, mixture=Mixture.parse({"translation": {"label_smoothing": share}}))
        found.append(evaluation(smoothed, tmp_path).run(smoothed, ["perplexity"]))
    plain, smooth = found
    assert smooth["loss"] != pytest.approx(plain["loss"], rel=1e-3)
    assert smooth["translation/perplexity"] == pytest.approx(plain["translation/perplexity"])
    assert plain["translation/perplexity"] == pytest.approx(math.exp(plain["loss"]))


@pytest.mark.parametrize("hook", ["forward", "step"])
def test_a_librarys_value_error_is_no_wrong_request(loaded: Loaded, tmp_path: Path, hook: str):
    def failing(*_: object, **__: object) -> None:
        raise ValueError("expected 3 axes")

    setattr(loaded.model.stream, hook, failing)
    with pytest.raises(RuntimeError, match="expected 3 axes"):
        evaluation(loaded, tmp_path).run(loaded, loaded.task.metrics)


def test_the_batch_changes_nothing(loaded: Loaded, tmp_path: Path):
    whole, small = (evaluation(loaded, tmp_path, batch=n).run(loaded, loaded.task.metrics) for n in (32, 1))
    assert whole == pytest.approx(small, abs=1e-5)
    assert whole["examples"] == 5


def test_the_draws_of_samples_are_those_of_a_texts_number_whatever_the_batch_and_the_processes(
    loaded: Loaded, tmp_path: Path
):
    found = []
    for batch, processes in ((32, 1), (2, 1), (1, 2)):
        kept: dict[int, list[Any]] = {}
        for process in range(processes):
            asked = evaluation(loaded, tmp_path, batch=batch, process=process, processes=processes, kept=kept)
            replace(asked, generate=GenerateSettings(max_new_tokens=6, temperature=5.0)).texts(loaded)
        found.append(kept)
    assert found[0] == found[1] == found[2] and len({text for (text,) in found[0].values()}) == 5


def test_the_shares_of_two_processes_add_up_to_the_whole(loaded: Loaded, tmp_path: Path):
    one, two = (evaluation(loaded, tmp_path, batch=1, process=p, processes=2) for p in range(2))
    together, total = Sums(), Sums()
    for half in (one, two):
        together.add(half.losses(loaded, ()))
    total.add(evaluation(loaded, tmp_path, batch=1).losses(loaded, ()))
    assert together.examples == total.examples
    assert together.numbers == pytest.approx(total.numbers) and together.numbers


def test_unfinished_texts_are_told_once_for_all_passes_and_processes(
    loaded: Loaded, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    half = evaluation(loaded, tmp_path, batch=1, processes=2, gather=lambda mine: [mine, mine])
    with caplog.at_level("INFO", "zoo.inference"):
        replace(half, generate=GenerateSettings(max_new_tokens=99)).texts(loaded)
    assert [message.partition(" of ")[2] for message in caplog.messages] == [
        "6 texts end at the model's max_length (8 tokens), unfinished"
    ]


def test_a_source_that_is_too_long_is_cut_as_for_the_loss(loaded: Loaded, tmp_path: Path):
    written, references = evaluation(loaded, tmp_path).texts(loaded)
    assert len(written) == len(references) == 5
    assert references[2] == ["a a a a a a a a a a a a"]


def test_a_task_that_needs_another_head_is_refused(loaded: Loaded):
    with pytest.raises(
        ValueError, match="needs the head 'masked_lm', which the checkpoint does not have; it has: language"
    ):
        on_task(loaded, read_task({**TREE, "objective": "masked_lm"}, "task"))


@pytest.mark.parametrize("names", [["z", "x", "y"], ["Z", "X", "Y"]])
def test_the_numbers_of_classes_are_those_of_the_task(tmp_path: Path, names: list[str]):
    loaded, _ = classified(tmp_path, "text,label\na,x\nb,y\nc,z\na b,z\n")
    loaded.model.initialize(1).eval()
    numbers = tmp_path / "numbers"  # z is 0, x is 1, y is 2
    numbers.mkdir()
    (numbers / "test.csv").write_text("text,label\na,1\nb,2\nc,0\na b,0\n")
    source = {"files": {"test": "test.csv"}}
    tree = {"objective": "classification", "source": source, "length": 8, "metrics": ["accuracy", "f1"]}
    asked = on_task(loaded, read_task({**tree, "labels": names}, "task"))
    same = on_task(loaded, read_task({**tree, "labels": ["x", "y", "z"]}, "task"))
    found = measure(asked, "test", numbers, GenerateSettings(), "float32")
    assert found == measure(same, "test", tmp_path, GenerateSettings(), "float32")
    assert loaded.task.labels == ["x", "y", "z"] and loaded.model is not asked.model


@pytest.mark.parametrize("names", [["z", "y"], ["Z", "Y"]])
def test_numbers_are_those_of_a_task_that_has_some_of_the_classes(tmp_path: Path, names: list[str]) -> None:
    loaded, _ = classified(tmp_path, "text,label\na,y\nb,z\nc,z\na b,y\n")
    loaded.model.initialize(1).eval()
    (tmp_path / "numbers.csv").write_text("text,label\na,1\nb,0\nc,0\na b,1\n")  # z is 0, y is 1
    tree = {"objective": "classification", "length": 8, "metrics": ["accuracy", "f1"]}
    some = read_task({**tree, "labels": names, "source": {"files": {"test": "numbers.csv"}}}, "task")
    every = read_task({**tree, "source": {"files": {"test": "test.csv"}}}, "task")
    found = measure(on_task(loaded, some), "test", tmp_path, GenerateSettings(), "float32")
    wanted = measure(on_task(loaded, every), "test", tmp_path, GenerateSettings(), "float32")
    assert found == pytest.approx(wanted)


def test_classes_that_a_checkpoint_has_in_part_are_refused(tmp_path: Path) -> None:
    loaded, _ = classified(tmp_path, "text,label\na,y\nb,z\n")  # its classes are x, y and z
    tree = {"objective": "classification", "length": 8, "source": {"files": {"test": "test.csv"}}}
    for names, lacking in (("y-", "-"), ("Xyz-", "-"), ("pq", "p, q"), ("xXy", "X")):
        with pytest.raises(ValueError, match=f"task.labels: the checkpoint has no class {lacking}; it has: x, y, z: "):
            on_task(loaded, read_task({**tree, "labels": list(names)}, "task"))
    assert on_task(loaded, read_task({**tree, "labels": ["p", "q", "r"]}, "task")).task.labels == ["x", "y", "z"]


def test_some_of_several_classes_at_once_are_compared_with_as_many_as_the_checkpoint_scores(tmp_path: Path) -> None:
    loaded, _ = classified(tmp_path, "text,label\na,x\n")
    (tmp_path / "some.jsonl").write_text('{"text": "a", "label": ["y"]}\n{"text": "b", "label": ["y", "z"]}\n')
    tree = {"objective": "classification", "source": {"files": {"test": "some.jsonl"}}}
    some, every = (read_task({**tree, "labels": {"several": list(names)}}, "task") for names in ("zy", "xyz"))
    loaded = replace(loaded, task=every)
    found, wanted = (measure(on_task(loaded, o), "test", tmp_path, GenerateSettings()) for o in (some, every))
    assert found == pytest.approx(wanted)


def test_classes_in_capitals_are_read_as_the_task_writes_them(tmp_path: Path):
    loaded, _ = classified(tmp_path, "text,label\na,x\n")
    (tmp_path / "test.csv").write_text("text,label\na,X\nb,Z\n")
    tree = {"objective": "classification", "source": {"files": {"test": "test.csv"}}, "length": 8}
    asked = on_task(loaded, read_task({**tree, "labels": ["X", "Y", "Z"]}, "task"))
    assert measure(asked, "test", tmp_path, GenerateSettings(), "float32")["examples"] == 2


def test_a_pass_reads_no_number_alone(loaded: Loaded, tmp_path: Path):
    asked = evaluation(loaded, tmp_path, batch=2)
    with Reads() as reads:
        sums = asked.losses(loaded, [])
    assert reads.count == 0 and sums.numbers["count", "translation"] > 0
    with Reads() as reads:
        torch.ones(()).item()
    assert reads.count == 1
