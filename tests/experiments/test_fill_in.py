"""What the data decide of an experiment: its classes, lengths and vocabulary."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch.nn import functional as F

from zoo.data.sources.rows import refuse_unlabeled
from zoo.experiments.fill_in import fit_data, fit_length, fit_vocabulary, grow_vocabulary
from zoo.experiments.layers import origin
from zoo.experiments.request import Request
from zoo.experiments.resolve import resolve_pretraining
from zoo.metrics.metric import metrics
from zoo.models.heads.scores import Scores
from zoo.models.settings import load_settings


@pytest.mark.parametrize(
    ("labels", "names", "count", "place"),
    [
        (None, ["b", "a", "c"], 3, "data"),
        (["a", "b"], ["a", "b"], 2, "--set"),
        ("number", None, 1, "--set"),
    ],
)
def test_the_data_decide_classes_and_columns_that_a_task_leaves_open(
    labels: Any, names: list[str] | None, count: int, place: str, caplog: pytest.LogCaptureFixture
):
    sets = [(("task",), {"objective": "classification", "labels": labels, "metrics": []})]
    given = resolve_pretraining(Request("bert-nano", "pydocs-topic", Path("run"), sets))
    found = fit_data(given, Mock(inputs=["text", "label"], labels=names))
    (head,) = found.model.heads
    assert (head.option("labels"), found.task.labels) == (count, names)
    assert found.task.columns == {"text": "text", "label": "label"}
    assert origin("model.heads.classification.labels", found.origins) == place
    assert origin("task.columns", found.origins) == "data" and "task.columns" not in caplog.text
    fit_data(given, Mock(inputs=["text", "prompt", "label"], labels=names))
    assert (
        "examples are made of text only, but tokenizer, filters and held-out rows also depend on prompt" in caplog.text
    )


def test_class_weights_are_those_of_classes_that_only_the_data_name():
    objective = {"classification": {"class_weights": {"noun": 3.0}}}
    sets = [(("task",), {"objective": objective, "labels": None, "metrics": []})]
    given = resolve_pretraining(Request("bert-nano", "pydocs-topic", Path("run"), sets))
    member: Any = fit_data(given, Mock(inputs=["text", "label"], labels=["verb", "noun"])).mixture.members[
        "classification"
    ]
    logits, labels = torch.tensor([[0.5, -1.0], [2.0, 0.3], [0.1, 0.2]]), torch.tensor([0, 1, 1])
    found = member.answer.cost(Scores.from_logits(logits), labels, label_smoothing=0.0)
    wanted = F.cross_entropy(logits, labels, torch.tensor([1.0, 3.0]))
    torch.testing.assert_close((found.sum / found.count).float(), wanted)
    with pytest.raises(ValueError, match="class_weights: unknown class 'noun'"):
        fit_data(given, Mock(inputs=["text", "label"], labels=["verb", "name"]))


def test_a_metric_that_cannot_do_with_the_datas_classes_is_refused(monkeypatch: pytest.MonkeyPatch):
    sets = [(("task",), {"objective": "classification", "labels": None, "metrics": ["accuracy"]})]
    given = resolve_pretraining(Request("bert-nano", "pydocs-topic", Path("run"), sets))
    monkeypatch.setattr(metrics["accuracy"], "obstacle", lambda accuracy, labels: f"it counts no {labels[0]}")
    with pytest.raises(ValueError, match="task.metrics: classification/accuracy: it counts no noun"):
        fit_data(given, Mock(inputs=["text", "label"], labels=["noun", "verb"]))


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
    has, lacks = Mock(inputs=[*columns, "label"]), Mock(inputs=columns, columns=[*columns, "Label"], place="data.csv")
    found = ", ".join([*columns, "Label"])
    said = f"data.csv: no column is read as 'label', which {objective} needs; found: {found}; name it"
    for rows in ({"train": lacks}, {"train": has, "validation": lacks}):
        with pytest.raises(ValueError, match=said):
            refuse_unlabeled(rows, given.mixture.labeled)
    refuse_unlabeled({"train": has, "validation": has}, given.mixture.labeled)


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
    """Texts beyond would be read at positions that no training reached."""
    sets = [(("task",), {"objective": objective, "longest": None, "metrics": [], **lengths})]
    given = resolve_pretraining(Request("gpt2-nano", "pydocs-topic", Path("run"), sets))
    assert fit_length(given).model.max_length == wanted


def test_a_task_of_longer_texts_adds_no_positions():
    request = Request(
        "bert-nano", "pydocs-topic", Path("run"), [(("task", "length"), 4096), (("task", "longest"), None)]
    )
    assert resolve_pretraining(request).model.max_length == load_settings("bert-nano").max_length < 4096


@pytest.mark.parametrize(
    ("sets", "wanted"),
    [
        ({}, (32, 32, 32)),
        ({"encoder": 12}, (32, 12, 32)),
        ({"decoder": 20}, (32, 32, 20)),
        ({"encoder": 100, "decoder": 32}, (32, 100, 32)),
    ],
)
def test_positions_that_set_names_for_one_stack_are_not_replaced(sets: dict[str, int], wanted: tuple[int, ...]):
    changes = [((side, "max_length"), most) for side, most in sets.items()]
    given = resolve_pretraining(Request("transformer-nano", "numbers-words", Path("run"), changes))
    own = [part.settings.max_length for part in given.model.parts.values()]
    assert (given.model.max_length, *own) == wanted
    assert given.origins["model.max_length"] == "tasks/numbers-words.yaml"


def test_a_stack_that_has_fewer_positions_of_its_own_keeps_them(tmp_path: Path):
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
