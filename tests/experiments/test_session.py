"""Claims about what a session builds from a request."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from zoo.batches.order import Examples, MixedSource
from zoo.batches.packing import RowShape
from zoo.config import parse_set
from zoo.data.columns.pictures import Augment
from zoo.data.ids import NO_ROLES, Lengths
from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import SplitRows
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import ModelTraits, inputs
from zoo.examples.forms.text import Text
from zoo.experiments import session
from zoo.experiments.experiment import Experiment
from zoo.experiments.request import Request
from zoo.experiments.resolve import resolve_pretraining
from zoo.experiments.session import cached_result, sampled, validation
from zoo.inference.evaluation import Evaluation
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


@pytest.mark.parametrize("is_main", [True, False])
def test_a_sample_in_which_nothing_is_predicted_is_refused_in_every_process(
    is_main: bool, monkeypatch: pytest.MonkeyPatch
):
    changes = [parse_set("training.evaluation_examples=3")]
    given = resolve_pretraining(Request("bert-nano", "pydocs-mlm", Path("run"), changes))
    monkeypatch.setattr(session, "sampled", lambda *_: Mock(count=3))
    monkeypatch.setattr(session, "cached_result", lambda *_: 9)
    monkeypatch.setattr(session, "refuse_unscored", Mock(side_effect=ValueError("nothing to predict")))
    with pytest.raises(ValueError, match="nothing to predict"):
        validation(given, {"validation": (Mock(), Mock())}, None, Mock(is_main=is_main), Mock())


def small_texts(folder: Path) -> tuple[Experiment, dict[str, SplitRows], Tokenizer]:
    """A training of seed 7 on nine lines, the rows of its splits, and its tokenizer."""
    (folder / "text.txt").write_text("a b c\n" * 9)
    files = {"train": "text.txt", "validation": "text.txt", "test": "text.txt"}  # which no training looks at
    task = {"objective": "masked_lm", "source": {"files": files}, "augment": {"flip": True}, "length": 8}
    (folder / "mine.yaml").write_text(json.dumps(task))
    changes = [parse_set("training.seed=7"), parse_set("vocab_size=99")]
    given = resolve_pretraining(Request("bert-nano", str(folder / "mine.yaml"), Path("run"), changes))
    tokenizer = Tokenizer.train(tokenizers.parse({"name": "characters"}, "tokenizer"), ["a b c"])
    return given, load_rows(given.task, inputs(), folder), tokenizer


def test_the_memory_of_tokenizing_is_freed_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    given, rows, tokenizer = small_texts(tmp_path)
    cached: list[bool] = []
    monkeypatch.setattr(session, "trim_heap", lambda: cached.append("word_cache" in vars(tokenizer)))
    session.read_data(given, rows, tokenizer, Mock(is_main=True), Mock())
    assert cached == [False]  # trimmed once, after the cache was cleared


def test_the_seed_decides_what_is_trained_on_and_nothing_of_a_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Runs of other seeds are measured on the same cuts; pictures are varied in training alone."""
    given, rows, tokenizer = small_texts(tmp_path)
    data = session.read_data(given, rows, tokenizer, Mock(is_main=True), Mock())
    (train, _), (held_out, _) = data["train"], data["validation"]
    assert (train.seed, train.augment) == (7, Augment(flip=True))
    assert (held_out.seed, held_out.augment) == (0, None) and data.keys() == {"train", "validation"}
    drawn = Mock(side_effect=InterruptedError)
    monkeypatch.setattr(session.Model, "from_seed", drawn)
    with pytest.raises(InterruptedError):
        session.start_training(Mock(), given, Mock(), data, tokenizer, Mock(), Mock())
    drawn.assert_called_once_with(given.model, 7)  # and with what the weights begin


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
        assert cached_result("examples", examples, split, lambda every: every.count) == documents


def test_what_decides_a_count_is_remembered_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    mixture, lengths = Mixture.parse("causal_lm"), Lengths({"text": np.arange(0, 300, 10)})
    form, split = mixture.form(["text"], ModelTraits(causal=True)), Mock(names=["a"], source=Mock(split="train"))
    first = Examples(form, mixture, lengths, Mock(), NO_ROLES, RowShape(8))
    other = Mixture.parse({"causal_lm": {"weight": 0.5}})
    changed = [replace(first, seed=1), replace(first, shape=RowShape(9)), replace(first, mixture=other)]
    changed += [
        replace(first, mix=(MixedSource("a", 1.0, lengths, Mock()),)),
        replace(first, form=Text(form.traits, True)),
    ]
    found = [cached_result("rows", one, split, lambda every, n=n: n) for n, one in enumerate([first, *changed, first])]
    assert found == [*range(1 + len(changed)), 0]


class OthersText(Text):
    """A form of another package."""


def test_what_a_form_of_another_package_decides_is_counted_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    mixture, lengths = Mixture.parse("causal_lm"), Lengths({"text": np.arange(0, 300, 10)})
    split = Mock(names=["a"], source=Mock(split="train"))
    form = OthersText(ModelTraits(causal=True), whole=False)
    examples = Examples(form, mixture, lengths, Mock(), NO_ROLES, RowShape(8))
    assert [cached_result("rows", examples, split, lambda _, n=n: n) for n in (1, 2)] == [1, 2]


def test_steps_that_are_counted_decide_whether_blocks_are_compiled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(compiling, "missing_for", lambda device: None)
    monkeypatch.setattr(session, "cached_result", lambda *given: 32_000)
    given = resolve_pretraining(Request("bert-nano", "pydocs-topic", Path("run"), [parse_set("training.epochs=1")]))
    model, data = on_meta(given.model), {"train": (Mock(), Mock())}
    for device, said in (("cuda", ["blocks compiled in the first steps"]), ("cpu", [])):
        caplog.clear()
        with caplog.at_level("INFO", "zoo.experiments.session"):
            fixed = session.count_steps(given, data, model, torch.device(device))
        assert caplog.messages == said
        assert session.count_steps(fixed, data, model, torch.device(device)) is fixed


READS = "; eager in decoder.cross, whose weights captioning reads"


@pytest.mark.parametrize(
    ("model", "change", "said"),
    [
        ("captioner-transformer-nano", "training.attention_backend=sdpa", f"sdpa (training.attention_backend){READS}"),
        ("captioner-rnn-nano", "decoder.attention=direct", f"none to choose{READS}"),
        ("captioner-rnn-nano", "decoder.attention=null", "none to choose"),
    ],
)
def test_it_is_said_which_attention_an_objective_takes_from_the_kernels(model: str, change: str, said: str):
    sets = [parse_set("task.objective={captioning: {coverage: 0.1}}"), parse_set(change)]
    given = resolve_pretraining(Request(model, "flickr8k", Path("run"), sets))
    assert session.describe_attention(on_meta(given.model), given, torch.device("cpu")) == said


def test_a_single_number_that_fsdp_cannot_shard_is_refused_before_data_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    request = Request("bert-nano", "pydocs-topic", tmp_path / "run", [parse_set("training.strategy=fsdp")])
    given = resolve_pretraining(request)
    model = on_meta(given.model)
    model.pooler.gate = torch.nn.Parameter(torch.ones(()))
    monkeypatch.setattr(session, "on_meta", lambda settings: model)
    monkeypatch.setattr(session, "join", Mock(side_effect=AssertionError("it goes on")))
    with pytest.raises(ValueError, match=r"fsdp cannot shard .* pooler.gate; .* shape \(1,\), or use strategy ddp"):
        session.run_session(request, given, Mock(), Mock())
