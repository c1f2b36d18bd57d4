"""Claims about evaluation: the shares of processes add up to the whole, whatever the batch."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from casting import Casts
from zoo.batches.order import Examples
from zoo.data.sources.find import load_rows
from zoo.data.store.store import open_store
from zoo.data.task import Task, read_task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import forms, inputs
from zoo.inference import evaluation as evaluation_module
from zoo.inference.evaluate_split import evaluate_split, on_task
from zoo.inference.evaluation import Evaluation
from zoo.inference.loaded import Loaded
from zoo.inference.shape import row_shape
from zoo.inference.sums import Sums, read_at_once
from zoo.inference.text_generation import TextGeneration
from zoo.models.create import create_model
from zoo.models.generation.search import Generated
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
    split = open_store(rows, forms["source_target"].stored, loaded.tokenizer)["validation"]
    form = loaded.mixture.form(["source", "target"], loaded.traits)
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


@pytest.mark.parametrize(
    ("columns", "long", "short"),  # an example has 8 positions, 2 of them for the template of a text, 3 of a pair
    [(["text"], "éb a cé ab", "éb a c"), (["text", "pair"], "é,b a cé ab", "é,b a ")],
)
def test_bits_per_byte_counts_the_bytes_that_a_truncated_text_keeps(
    tmp_path: Path, columns: list[str], long: str, short: str
):
    found = []
    for text in (long, short):
        header = ",".join(columns)
        (tmp_path / "train.csv").write_text(f"{header},label\n{short},x\n{short},y\n", "utf-8")
        (tmp_path / "test.csv").write_text(f"{header},label\n{text},x\n", "utf-8")
        source = {"files": {"train": "train.csv", "test": "test.csv"}}
        tree = {"objective": {"classification": {}, "causal_lm": {}}, "source": source, "length": 8}
        task = read_task({**tree, "labels": ["x", "y"]}, "task")
        tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), ["aé b c"] * 3)
        heads = ["language", {"name": "classification", "labels": 2}]
        model = create_model("gpt2-nano", vocab_size=tokenizer.vocab_size, heads=heads).initialize(0)
        loaded = Loaded(model.eval(), tokenizer, task, Mixture.parse(task.objective))
        form, shape = loaded.mixture.form(columns, loaded.traits), row_shape(task, model)
        split = open_store(load_rows(task, inputs(), tmp_path, ["test"]), form.stored, tokenizer)["test"]
        examples = Examples(form, loaded.mixture, split.lengths, split.read, tokenizer.roles, shape)
        found.append(Evaluation(examples, split).run(loaded, ["bits_per_byte"])["causal_lm/bits_per_byte"])
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_the_loss_of_several_objectives_is_their_weighted_sum(tmp_path: Path):
    (tmp_path / "test.csv").write_text("text,label\na b,x\nb,y\n")
    tree = {"objective": {"classification": {}, "causal_lm": {"weight": 0.25}}, "labels": ["x", "y"], "length": 8}
    task = read_task({**tree, "source": {"files": {"test": "test.csv"}}}, "task")
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), ["a b"] * 3)
    heads = ["language", {"name": "classification", "labels": 2}]
    model = create_model("gpt2-nano", vocab_size=tokenizer.vocab_size, heads=heads).initialize(0)
    loaded = Loaded(model.eval(), tokenizer, task, Mixture.parse(task.objective))
    found = evaluate_split(loaded, "test", tmp_path, GenerateSettings(), "float32")
    parts = found["loss/classification"], found["loss/causal_lm"]
    assert found["loss"] == pytest.approx(parts[0] + 0.25 * parts[1]) and parts[1] > 1


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_every_process_is_asked_equally_often_whether_to_go_on(loaded: Loaded, tmp_path: Path, processes: int):
    asked = [0] * processes
    for process in range(processes):

        def between(process: int = process) -> None:
            asked[process] += 1

        share = {"batch": 1, "process": process, "processes": processes, "between": between}
        mine = evaluation(loaded, tmp_path, **share)
        mine.run(loaded, ["chrf"])
    rows = len(list(mine.examples.rows_in_order()))
    assert rows == 4 and asked == [-(-rows // processes) + -(-5 // processes)] * processes  # and for each of 5 texts


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_first_process_shows_how_many_texts_of_all_are_written(loaded: Loaded, tmp_path: Path, processes: int):
    seen: list[tuple[str, int, int]] = []
    shown = {"batch": 1, "processes": processes, "progress": lambda *what: seen.append(what)}
    evaluation(loaded, tmp_path, **shown).generated_texts(loaded)
    assert seen == [("texts", done, 5) for done in (*range(0, 5, processes), 5)]


def test_perplexity_is_that_of_the_likelihood_whatever_the_loss_is_smoothed_by(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Evaluation, "bytes_scored", lambda *_: pytest.fail("it looked at every row again for nothing"))
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


def test_neither_the_batch_nor_the_mode_of_the_model_changes_anything(loaded: Loaded, tmp_path: Path):
    found = []
    for batch, training in ((32, False), (1, True)):
        loaded.model.train(training)
        found.append(evaluation(loaded, tmp_path, batch=batch).run(loaded, loaded.task.metrics))
    whole, small = found
    assert whole == pytest.approx(small, abs=1e-5)
    assert whole["examples"] == 5


def test_each_text_stands_beside_its_own_reference_and_the_longest_is_written_first(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []

    def copied(loaded: Loaded, source: Tensor, _: Any, how: TextGeneration) -> list[Generated]:
        asked.extend(how.numbers or ())
        return [Generated(row, 0.0) for row in source.tolist()]

    monkeypatch.setattr(evaluation_module, "generate_from_source", copied)
    texts, references = evaluation(loaded, tmp_path, batch=5).generated_texts(loaded)
    assert texts[:2] == ["a b c", "d e"] and len(texts) == len(references) == 5
    assert all(text and reference.startswith(text) for text, (reference,) in zip(texts, references, strict=True))
    assert sorted(asked) == [0, 1, 2, 3, 4] and asked[-1] == 3


def test_the_draws_of_samples_are_those_of_a_texts_number_whatever_the_batch_and_the_processes(
    loaded: Loaded, tmp_path: Path
):
    found = []
    for batch, processes in ((32, 1), (2, 1), (1, 2)):
        collected: dict[int, list[Any]] = {}
        for process in range(processes):
            asked = evaluation(loaded, tmp_path, batch=batch, process=process, processes=processes, collected=collected)
            replace(asked, generate=GenerateSettings(max_new_tokens=6, temperature=5.0)).generated_texts(loaded)
        found.append(collected)
    assert found[0] == found[1] == found[2] and len({text for (text,) in found[0].values()}) == 5


def test_the_shares_of_two_processes_add_up_to_the_whole(loaded: Loaded, tmp_path: Path):
    one, two = (evaluation(loaded, tmp_path, batch=1, process=p, processes=2) for p in range(2))
    together, total = Sums(), Sums()
    for half in (one, two):
        together.add(half.sum_losses(loaded, ()))
    total.add(evaluation(loaded, tmp_path, batch=1).sum_losses(loaded, ()))
    assert together.examples == total.examples
    assert together.numbers == pytest.approx(total.numbers) and together.numbers


def test_of_losses_nothing_is_kept_where_the_model_writes(loaded: Loaded, tmp_path: Path):
    collected: dict[int, list[Any]] = {}
    evaluation(loaded, tmp_path, collected=collected).sum_losses(loaded, ())
    assert not collected


def test_a_frozen_table_of_tokens_is_cast_once_for_all_tokens_of_a_text(loaded: Loaded, tmp_path: Path):
    name, table = next((n, p) for n, p in loaded.model.named_parameters() if n.endswith("tokens.weight"))
    table.requires_grad_(False)  # as embeddings.frozen has it
    with Casts(loaded.model) as casts:
        evaluate_split(loaded, "validation", tmp_path, GenerateSettings(max_new_tokens=5), "bfloat16")
    assert casts.counts[name] == 2  # for the loss, and for all texts
    assert not table.requires_grad


def test_unfinished_texts_are_told_once_for_all_passes_and_processes(
    loaded: Loaded, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    half = replace(evaluation(loaded, tmp_path, batch=1, processes=2), generate=GenerateSettings(max_new_tokens=99))
    with caplog.at_level("INFO", "zoo.inference"):
        for gather in (half.gather, lambda mine: [mine, mine]):
            replace(half, gather=gather).generated_texts(loaded)
    (alone, _), (together, said) = (message.split(" ", 1) for message in caplog.messages)
    assert (int(together), said) == (2 * int(alone), "of 6 texts end at the model's max_length (8 tokens), unfinished")


def test_a_source_that_is_too_long_is_cut_as_for_the_loss(loaded: Loaded, tmp_path: Path):
    written, references = evaluation(loaded, tmp_path).generated_texts(loaded)
    assert len(written) == len(references) == 5
    assert references[2] == ["a a a a a a a a a a a a"]


def test_examples_are_as_long_as_each_part_of_the_model_reads_at_most(loaded: Loaded):
    model = create_model("transformer-nano", vocab_size=20, max_length=8, encoder={"max_length": 5})
    limits = row_shape(read_task({**TREE, "length": 30}, "task"), model).limits
    assert (limits.longest, limits.source) == (8, 5)


def test_a_task_that_needs_another_head_is_refused(loaded: Loaded):
    with pytest.raises(
        ValueError, match="needs the head 'masked_lm', which the checkpoint does not have; it has: language"
    ):
        on_task(loaded, read_task({**TREE, "objective": "masked_lm"}, "task"))


def test_a_pass_reads_no_number_alone(loaded: Loaded, tmp_path: Path):
    asked = evaluation(loaded, tmp_path, batch=2)
    with Reads() as reads:
        sums = asked.sum_losses(loaded, [])
    assert reads.count == 0 and sums.numbers["count", "translation"] > 0
    with Reads() as reads:
        torch.ones(()).item()
    assert reads.count == 1
    counts = {
        ("count", "a"): torch.tensor(2**24 + 1),
        ("loss", "a"): torch.tensor(0.5),
    }  # more than float32 tells apart
    assert read_at_once(counts) == {("count", "a"): 2**24 + 1, ("loss", "a"): 0.5}


def test_a_file_in_which_no_position_is_predicted_leaves_the_others_their_metrics(tmp_path: Path):
    (tmp_path / "short.txt").write_text("a b c d e a b c\n")
    (tmp_path / "long.txt").write_text("abcdeabc\n")  # a word that is longer than what may be hidden
    files = {"validation": ["short.txt", "long.txt"]}
    tree = {"objective": {"masked_lm": {"whole_word": True}}, "source": {"files": files}, "metrics": ["perplexity"]}
    task = read_task({**tree, "by_file": True, "length": 32}, "task")
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), ["a b c d e"])
    model = create_model("bert-nano", vocab_size=tokenizer.vocab_size)
    found = evaluate_split(
        Loaded(model.eval(), tokenizer, task, Mixture.of(task)), "validation", tmp_path, GenerateSettings()
    )
    assert found["examples"] == 2 and found["masked_lm/perplexity"] == found["short/masked_lm/perplexity"]
    assert "long/masked_lm/perplexity" not in found


def test_a_metric_that_no_file_has_is_refused_though_another_objective_has_a_loss(tmp_path: Path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.tsv").write_text("text\na b c d e\nb c a d e b\n")
    tree = {
        "objective": {"classification": {}, "causal_lm": {}},
        "source": {"files": {"test": ["one.tsv", "two.tsv"]}},
        "labels": ["x", "y"],
        "metrics": ["classification/accuracy"],
    }
    task = read_task({**tree, "by_file": True}, "task")
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), ["a b c d e"])
    heads = ["language", {"name": "classification", "labels": 2}]
    model = create_model("gpt2-nano", vocab_size=tokenizer.vocab_size, heads=heads)
    given = Loaded(model.eval(), tokenizer, task, Mixture.of(task))
    with pytest.raises(ValueError, match="classification/accuracy: no row of this split has a label"):
        evaluate_split(given, "test", tmp_path, GenerateSettings())
