"""Claims about what a session builds from a request."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from zoo.config import parse_set
from zoo.experiments.request import Request
from zoo.experiments.resolve import resolve_pretraining
from zoo.experiments.session import validation


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
