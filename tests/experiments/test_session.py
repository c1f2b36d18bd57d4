"""Claims about what a session builds from a request."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from zoo.batches.order import Examples, Ingredient
from zoo.batches.packing import RowShape
from zoo.config import parse_set
from zoo.data.columns.pictures import Augment
from zoo.data.ids import NO_ROLES, Lengths
from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import refuse_unlabelled
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import ModelTraits, inputs
from zoo.examples.forms.text import Text
from zoo.experiments import session, settle
from zoo.experiments.layers import origin
from zoo.experiments.request import Request
from zoo.experiments.resolve import resolve_pretraining
from zoo.experiments.session import counted, sampled, validation
from zoo.experiments.settle import fit_length, fit_vocabulary, grow_vocabulary, name_data
from zoo.inference.evaluate import Evaluation
from zoo.models.cost import on_meta
from zoo.objectives.mixture import Mixture
from zoo.training.devices import compiling


@pytest.mark.parametrize(
    ("task", "metrics", "judge"),
    [
        ("pydocs-topic", ["accuracy"], ("classification/accuracy", True)),
        ("pydocs-mlm", ["masked_lm/perplexity", "masked_lm/accuracy"], ("masked_lm/perplexity", False)),
        ("pydocs-mlm", ["masked_lm/accuracy", "masked_lm/perplexity"], ("masked_lm/accuracy", True)),
        ("pydocs-topic", [], ("loss", False)),
        ("wikipedia-replaced", ["f1", "accuracy"], ("loss", False)),
    ],
)
def test_a_run_is_judged_by_its_first_metric_in_the_direction_of_that_metric(
    task: str, metrics: list[str], judge: tuple[Any, ...]
):
    given = resolve_pretraining(Request("bert-nano", task, Path("run"), [parse_set(f"task.metrics={metrics}")]))
    found = validation(given, {"validation": (Mock(), Mock())}, None, Mock(), Mock())
    assert found is not None and (found.metric, found.higher_is_better) == judge


def test_a_validation_is_shared_and_generates_as_the_run_asks(monkeypatch: pytest.MonkeyPatch):
    changes = [parse_set(text) for text in ("training.batch=3", "generate.beams=2", "task.metrics=[chrf]")]
    given = resolve_pretraining(Request("transformer-nano", "numbers-words", Path("run"), changes))
    seen: list[tuple[Evaluation, Any, Any]] = []
    monkeypatch.setattr(Evaluation, "run", lambda *what: seen.append(what) or {})
    processes, progress, between, model = Mock(rank=1, count=2), Mock(), Mock(), on_meta(given.model)
    found = validation(given, {"validation": (Mock(), Mock())}, None, processes, progress)
    assert found is not None and found.measure(model, between) == {}
    ((one, loaded, wanted),) = seen
    assert (one.batch, one.generate.beams, one.process, one.processes) == (3, 2, 1, 2)
    assert (one.gather, one.progress, one.between) == (processes.gather, progress, between)
    assert loaded.model is model and wanted == ["chrf"]


def test_the_seed_decides_what_is_trained_on_and_nothing_of_a_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Runs of other seeds are measured on the same cuts; pictures are varied in training alone."""
    (tmp_path / "text.txt").write_text("a b c\n" * 9)
    files = {"train": "text.txt", "validation": "text.txt", "test": "text.txt"}  # which no training looks at
    task = {"objective": "masked_lm", "source": {"files": files}, "augment": {"flip": True}, "length": 8}
    (tmp_path / "mine.yaml").write_text(json.dumps(task))
    changes = [parse_set("training.seed=7"), parse_set("vocab_size=99")]
    given = resolve_pretraining(Request("bert-nano", str(tmp_path / "mine.yaml"), Path("run"), changes))
    rows = load_rows(given.task, inputs(), tmp_path)
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), ["a b c"])
    data = session.read_data(given, rows, tokenizer, Mock(is_main=True), Mock())
    (train, _), (held_out, _) = data["train"], data["validation"]
    assert (train.seed, train.augment) == (7, Augment(flip=True))
    assert (held_out.seed, held_out.augment) == (0, None) and data.keys() == {"train", "validation"}
    drawn = Mock(side_effect=InterruptedError)
    monkeypatch.setattr(session.Model, "drawn", drawn)
    with pytest.raises(InterruptedError):
        session.begin(Mock(), given, Mock(), data, tokenizer, Mock(), Mock())
    drawn.assert_called_once_with(given.model, 7)  # and with what the weights begin


@pytest.mark.parametrize(
    ("labels", "names", "count", "place"),
    [
        (None, ["b", "a", "c"], 3, "data"),
        (["a", "b"], ["a", "b"], 2, "--set"),
        ("number", None, 1, "--set"),
    ],
)
def test_the_data_decide_classes_and_columns_that_a_task_leaves_open(
    labels: Any, names: list[str] | None, count: int, place: str
):
    sets = [(("task",), {"objective": "classification", "labels": labels, "metrics": []})]
    given = resolve_pretraining(Request("bert-nano", "pydocs-topic", Path("run"), sets))
    found = name_data(given, Mock(inputs=["text", "label"], labels=names))
    (head,) = found.model.heads
    assert (head.option("labels"), found.task.labels) == (count, names)
    assert found.task.columns == {"text": "text", "label": "label"}
    assert origin("model.heads.classification.labels", found.origins) == place
    assert origin("task.columns", found.origins) == "data"


def test_a_metric_that_cannot_do_with_the_datas_classes_is_refused(monkeypatch: pytest.MonkeyPatch):
    sets = [(("task",), {"objective": "classification", "labels": None, "metrics": ["accuracy"]})]
    given = resolve_pretraining(Request("bert-nano", "pydocs-topic", Path("run"), sets))
    accuracy = Mock(obstacle=lambda labels: f"it counts no {labels[0]}")
    monkeypatch.setattr(settle, "metrics", {"accuracy": lambda: accuracy})
    with pytest.raises(ValueError, match="task.metrics: classification/accuracy: it counts no noun"):
        name_data(given, Mock(inputs=["text", "label"], labels=["noun", "verb"]))


@pytest.mark.parametrize(
    ("objective", "columns", "labels"),
    [
        ("classification", ["text"], None),
        ("classification", ["text"], ["a", "b"]),
        ("classification", ["text"], "number"),
        ("choice", ["context", "choices"], None),
    ],
)
def test_data_without_labels_is_refused_where_they_are_learned(objective: str, columns: list[str], labels: Any):
    sets = [(("task",), {"objective": objective, "labels": labels, "metrics": []})]
    given = resolve_pretraining(Request("bert-nano", "pydocs-topic", Path("run"), sets))
    has, lacks = Mock(inputs=[*columns, "label"]), Mock(inputs=columns, place="data.csv")
    said = f"data.csv: no column is read as 'label', which {objective} needs; found: {', '.join(columns)}; say which"
    for rows in ({"train": lacks}, {"train": has, "validation": lacks}):
        with pytest.raises(ValueError, match=said):
            refuse_unlabelled(rows, given.mixture.labelled)
    refuse_unlabelled({"train": has, "validation": has}, given.mixture.labelled)


@pytest.mark.parametrize(
    ("objective", "lengths", "wanted"),
    [
        ("similarity", {"length": 64}, 32),
        ("similarity", {"length": 64, "longest": 20}, 20),
        ("choice", {"length": 64, "longest": 40}, 32),
        ("classification", {"length": 64, "longest": 40}, 40),
    ],
)
def test_a_model_reads_what_a_document_may_have(objective: str, lengths: dict[str, int], wanted: int):
    """Texts beyond would be read at places that no training reached."""
    sets = [(("task",), {"objective": objective, "longest": None, "metrics": [], **lengths})]
    given = resolve_pretraining(Request("gpt2-nano", "pydocs-topic", Path("run"), sets))
    assert fit_length(given).model.max_length == wanted


@pytest.mark.parametrize(
    ("sets", "wanted"),
    [
        ({}, (32, 32, 32)),
        ({"encoder": 12}, (32, 12, 32)),
        ({"decoder": 20}, (32, 32, 20)),
        ({"encoder": 100, "decoder": 32}, (32, 100, 32)),
    ],
)
def test_places_that_set_names_for_one_stack_are_not_replaced(sets: dict[str, int], wanted: tuple[int, ...]):
    changes = [((side, "max_length"), most) for side, most in sets.items()]
    given = resolve_pretraining(Request("transformer-nano", "numbers-words", Path("run"), changes))
    own = [part.settings.max_length for part in given.model.parts.values()]
    assert (given.model.max_length, *own) == wanted
    assert given.origins["model.max_length"] == "tasks/numbers-words.yaml"


def test_a_stack_that_has_fewer_places_of_its_own_keeps_them(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(
        "base: transformer-nano\nencoder: {max_length: 12}\ndecoder: {max_length: 90}\n"
    )
    given = resolve_pretraining(Request(str(tmp_path / "mine.yaml"), "numbers-words", Path("run")))
    assert [part.settings.max_length for part in given.model.parts.values()] == [12, 32]


def test_token_vectors_that_set_names_for_one_stack_are_not_replaced():
    changes: list[Any] = [(("encoder", "vocab_size"), 900), (("embeddings", "shared"), False)]
    given = resolve_pretraining(Request("transformer-nano", "numbers-words", Path("run"), changes))
    fitted = fit_vocabulary(given, 500).model
    assert [fitted.vocab_size, *(part.settings.vocab_size for part in fitted.parts.values())] == [500, 900, 500]
    with pytest.raises(ValueError, match=r"encoder\.vocab_size: 900 is too small for the tokenizer's 1000 tokens"):
        fit_vocabulary(given, 1000)
    assert fit_vocabulary(given, 900).model.parts["encoder"].settings.vocab_size == 900


@pytest.mark.parametrize(
    ("size", "wanted"), [(500, (500, 900, 500)), (501, (501, 900, 501)), (900, (900, 900, 900)), (901, (901, 901, 901))]
)
def test_added_tokens_take_no_vectors_from_a_stack_that_has_more(size: int, wanted: tuple[int, ...]):
    changes: list[Any] = [(("encoder", "vocab_size"), 900), (("embeddings", "shared"), False)]
    given = resolve_pretraining(Request("transformer-nano", "numbers-words", Path("run"), changes))
    grown = grow_vocabulary(fit_vocabulary(given, 500), size).model
    assert (grown.vocab_size, *(part.settings.vocab_size for part in grown.parts.values())) == wanted


def test_added_tokens_have_vectors_in_a_stack_that_has_fewer_than_the_model():
    changes: list[Any] = [(("vocab_size",), 900), (("encoder", "vocab_size"), 600), (("embeddings", "shared"), False)]
    given = resolve_pretraining(Request("transformer-nano", "numbers-words", Path("run"), changes))
    sizes = [
        (model.vocab_size, *(part.settings.vocab_size for part in model.parts.values()))
        for model in (fit_vocabulary(given, 500).model, grow_vocabulary(given, 700).model)
    ]
    assert sizes == [(900, 600, 900), (900, 900, 900)]


def test_a_sample_is_chosen_once_and_then_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    mixture, lengths = Mixture.parse("causal_lm"), Lengths({"text": np.arange(0, 300, 10)})
    form = mixture.form(["text"], ModelTraits(causal=True))
    every = Examples(form, mixture, lengths, Mock(), NO_ROLES, RowShape(8))  # two examples a document
    split = Mock(names=["a shard"], source=Mock(split="validation"))
    chosen = every.sample(5)
    with monkeypatch.context() as once:
        times: list[int] = []
        once.setattr(Examples, "sample", lambda self, most: times.append(most) or chosen)
        found = [sampled(every, split, 5) for _ in range(2)]
        assert times == [5]
    plans = [list(each.plans(0, each.documents)) for each in (*found, chosen)]
    assert plans[0] == plans[1] == plans[2] and len(plans[0]) == 5
    assert sampled(every, split, 1000) is every and sampled(every, split, 7).count == 7


def test_counts_of_train_and_of_a_validation_held_out_of_its_shards_are_remembered_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    mixture, shards = Mixture.parse("causal_lm"), ["a shard"]
    form = mixture.form(["text"], ModelTraits(causal=True))
    for name, documents in (("train", 7), ("validation", 2)):
        lengths = Lengths({"text": np.arange(0, 5 * documents + 1, 5)})
        examples = Examples(form, mixture, lengths, Mock(), NO_ROLES, RowShape(8))
        split = Mock(names=shards, source=Mock(split=name))
        assert counted("examples", examples, split, lambda every: every.count) == documents


def test_what_decides_a_count_is_remembered_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    mixture, lengths = Mixture.parse("causal_lm"), Lengths({"text": np.arange(0, 300, 10)})
    form, split = mixture.form(["text"], ModelTraits(causal=True)), Mock(names=["a"], source=Mock(split="train"))
    first = Examples(form, mixture, lengths, Mock(), NO_ROLES, RowShape(8))
    other = Mixture.parse({"causal_lm": {"weight": 0.5}})
    changed = [replace(first, seed=1), replace(first, shape=RowShape(9)), replace(first, mixture=other)]
    changed += [
        replace(first, mix=(Ingredient("a", 1.0, lengths, Mock()),)),
        replace(first, form=Text(form.stream, True)),
    ]
    found = [counted("rows", one, split, lambda every, n=n: n) for n, one in enumerate([first, *changed, first])]
    assert found == [*range(1 + len(changed)), 0]


class OthersText(Text):
    """A form of another package."""


def test_what_a_form_of_another_package_decides_is_counted_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    mixture, lengths = Mixture.parse("causal_lm"), Lengths({"text": np.arange(0, 300, 10)})
    split = Mock(names=["a"], source=Mock(split="train"))
    form = OthersText(ModelTraits(causal=True), whole=False)
    examples = Examples(form, mixture, lengths, Mock(), NO_ROLES, RowShape(8))
    assert [counted("rows", examples, split, lambda _, n=n: n) for n in (1, 2)] == [1, 2]


def test_steps_that_are_counted_decide_whether_blocks_are_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(compiling, "missing_for", lambda device: None)
    monkeypatch.setattr(session, "counted", lambda *given: 32_000)
    given = resolve_pretraining(Request("bert-nano", "pydocs-topic", Path("run"), [parse_set("training.epochs=1")]))
    model, data = on_meta(given.model), {"train": (Mock(), Mock())}
    for device, said in (("cuda", ["blocks compiled in the first steps"]), ("cpu", [])):
        caplog.clear()
        with caplog.at_level("INFO", "zoo.experiments.session"):
            fixed = session.count_steps(given, data, model, torch.device(device))
        assert caplog.messages == said
        assert session.count_steps(fixed, data, model, torch.device(device)) is fixed


def test_it_is_said_which_attention_an_objective_takes_from_the_kernels():
    sets = [parse_set("task.objective={captioning: {coverage: 0.1}}"), parse_set("training.attention_backend=sdpa")]
    given = resolve_pretraining(Request("captioner-transformer-nano", "flickr8k", Path("run"), sets))
    found = session.attention_of(on_meta(given.model), given, torch.device("cpu"))
    assert found == "sdpa (training.attention_backend); eager in decoder.cross, whose weights captioning reads"


def test_a_single_number_that_fsdp_cannot_shard_is_refused_before_data_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    request = Request("bert-nano", "pydocs-topic", tmp_path / "run", [parse_set("training.strategy=fsdp")])
    given = resolve_pretraining(request)
    model = on_meta(given.model)
    model.pooler.gate = torch.nn.Parameter(torch.ones(()))
    monkeypatch.setattr(session, "on_meta", lambda settings: model)
    monkeypatch.setattr(session, "join", Mock(side_effect=AssertionError("it goes on")))
    with pytest.raises(ValueError, match=r"fsdp cannot shard pooler.gate, .* shape \(1,\) .*, or use strategy ddp"):
        session.run_session(request, given, Mock(), Mock())
