"""Packages that are not installed: those of a run's variants, and what counts a metric."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from looking import loaded

from zoo.inference.evaluate_split import read_examples
from zoo.inference.loaded import load_run, settings_of
from zoo.metrics.metric import metrics
from zoo.models.model import Model
from zoo.models.settings import dump_settings, load_settings
from zoo.runs.environment import missing_since, versions
from zoo.runs.run import RunFiles, create_run
from zoo.runs.saved import SavedRun, open_run
from zoo.runs.tensors import unique_tensors


def run_with(folder: Path, norm: str, packages: dict[str, str]) -> SavedRun:
    settings = load_settings("bert-nano")
    tree, weights = dump_settings(settings), unique_tensors(Model.from_seed(settings, 0))
    with create_run(folder, RunFiles(tree, {}, {}, environment={"versions": {**versions(), **packages}})) as run:
        run.save(1, {"weights": weights}, {"step": 1, "best": None})
    return replace(open_run(folder), config={**tree, "encoder": {**tree["encoder"], "norm": norm}})


def test_the_message_names_the_package_that_knew_the_variant(tmp_path: Path):
    words = "unknown norm 'lengthnorm'.*; the run was made with my-package 0.1, not installed here"
    with pytest.raises(ValueError, match=words):
        settings_of(run_with(tmp_path / "a", "lengthnorm", {"my-package": "0.1"}))
    with pytest.raises(ValueError, match="unknown norm 'lengthnorm'.*[^e]$"):
        settings_of(run_with(tmp_path / "b", "lengthnorm", {}))
    assert settings_of(run_with(tmp_path / "c", "rmsnorm", {"my-package": "0.1"})).encoder is not None


def test_a_missing_objective_is_blamed_on_its_package_too(tmp_path: Path):
    saved = run_with(tmp_path / "a", "layernorm", {"my-package": "0.1"})
    saved = replace(saved, task={"objective": "mine", "source": {"builtin": "pydocs"}})
    with pytest.raises(ValueError, match="unknown objective 'mine'.*; the run was made with my-package 0.1, not"):
        load_run(saved)


def test_other_mistakes_are_not_blamed_on_a_package(tmp_path: Path):
    saved = run_with(tmp_path / "a", "rmsnorm", {"my-package": "0.1"})
    with pytest.raises(ValueError, match="d_model: expected a whole number, got 'x'$"):
        settings_of(replace(saved, config={**saved.config, "d_model": "x"}))
    assert missing_since({"versions": {"torch": "1", "zoo": "0", "foo": "2"}}) == ["foo 2"]


def test_a_run_that_says_nothing_of_packages_lacks_none():
    assert missing_since({}) == missing_since({"versions": None}) == []


def test_what_counts_a_metric_is_imported_before_a_row_is_read(monkeypatch: pytest.MonkeyPatch):
    found = loaded("bert-nano", "classification")
    task, rows = replace(found.task, metrics=["f1"]), Mock(inputs=("text", "label"))
    monkeypatch.setattr(metrics["f1"], "library", "not_installed:f1_score")
    with pytest.raises(ModuleNotFoundError, match="not_installed"):
        read_examples({"validation": rows}, task, found.mixture, found.model, found.tokenizer)
