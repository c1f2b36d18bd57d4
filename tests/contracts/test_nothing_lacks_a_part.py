"""Whatever is registered has all that belongs to it; what is missing is named with the file to write."""

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from programs import load_program
from registered import REGISTERED, SLOTS
from zoo.examples.form import forms
from zoo.inference.predictors.predictor import predictors
from zoo.metrics.choose import ChosenMetric
from zoo.metrics.metric import metrics
from zoo.models.heads.head import heads
from zoo.objectives.document_label import DocumentLabel
from zoo.objectives.objective import Objective, objectives
from zoo.registry import Slot

PAGE = Path(__file__).parents[2] / "docs" / "variants.md"
WRITE: dict[str, str] = {  # by slot, the file of a variant; `make test` and `make variants` do the rest
    "head": "src/zoo/models/heads/{name}.py",
    "form": "src/zoo/examples/forms/{name}.py",
    "metric": "src/zoo/metrics/{name}.py",
    "predictor": "src/zoo/inference/predictors/{name}.py",
}


def missing(slot: Slot[Any], names: Iterable[str], why: str) -> list[str]:
    """A line for each name that a slot lacks: why it is needed, and where to write it."""
    return [
        f"{why} the {slot.name} '{name}', which is not registered: write {WRITE[slot.name].format(name=name)} "
        f'with a class under @{variable(slot)}.register("{name}")'
        for name in names
        if name not in slot.names()
    ]


def variable(slot: Slot[Any]) -> str:
    """What modules call a slot."""
    return "metrics" if slot is metrics else f"{slot.name}s"


def lacks(name: str, objective: type[Objective]) -> list[str]:
    """What an objective needs and zoo does not have."""
    head = getattr(objective, "head", None)
    if head is None:
        return [f"objective '{name}' trains no head: set `head` in {place_of(objective)}"]
    found = missing(heads, [head], f"objective '{name}' trains")
    found += missing(forms, objective.forms, f"objective '{name}' takes")
    measured = [ChosenMetric(name, metric).registered for metric in objective.metrics]
    found += missing(metrics, measured, f"objective '{name}' offers")
    found += missing(predictors, [name], f"`zoo predict` needs, for objective '{name}',")
    if not objective.metrics:
        found.append(f"objective '{name}' offers no metric, so it cannot be judged: set `metrics` in "
                     f"{place_of(objective)}; registered: {', '.join(metrics.names())}")  # fmt: skip
    return found


def place_of(variant: type[Any]) -> str:
    """The file of a class, as the repository has it."""
    return f"src/{variant.__module__.replace('.', '/')}.py"


@pytest.mark.parametrize("name", objectives.names())
def test_an_objective_has_its_head_forms_metrics_and_predictor(name: str):
    assert not lacks(name, objectives[name]), "\n" + "\n".join(lacks(name, objectives[name]))


def unused(slot: Slot[Any], used: Iterable[str], how: str) -> list[str]:
    """A line for each variant that no objective names."""
    return [
        f"no objective {how} the {slot.name} '{name}': name it in one of src/zoo/objectives/*.py, or remove "
        f"{place_of(slot[name])}"
        for name in sorted(set(slot.names()) - set(used))
    ]


def test_every_head_form_and_metric_is_used_by_an_objective():
    known = [objectives[name] for name in objectives.names()]
    found = unused(heads, [objective.head for objective in known], "trains")
    found += unused(forms, [form for objective in known for form in (*objective.forms, *objective.prefers)], "takes")
    offered = [(name, metric) for name in objectives.names() for metric in objectives[name].metrics]
    found += unused(metrics, [ChosenMetric(*pair).registered for pair in offered], "offers")
    assert not found, "\n" + "\n".join(found)


def test_every_predictor_is_named_for_an_objective():
    strays = [f"{place_of(predictors[name])}: no objective '{name}'" for name in predictors.names()
              if name not in objectives.names()]  # fmt: skip
    assert not strays, "\n" + "\n".join(strays)


@pytest.mark.parametrize(("slot", "name"), REGISTERED)
def test_a_variant_says_in_a_sentence_what_it_does(slot: str, name: str):
    variant = SLOTS[slot][name]
    sentence = inspect.cleandoc(vars(variant).get("__doc__") or "").partition("\n")[0]
    wanted = f"{place_of(variant)}: {variant.__name__} needs a docstring of its own whose first line is a sentence"
    assert sentence.endswith("."), wanted


@pytest.mark.parametrize("slot", SLOTS)
def test_every_slot_has_a_table(slot: str):
    tables = [each.name for each in load_program("docs/variants.py").SLOTS]
    assert slot in tables, f"put the slot '{slot}' into SLOTS of src/zoo/cli/slots.py, then: make variants"


@pytest.mark.parametrize(("slot", "name"), REGISTERED)
def test_a_variant_has_a_row_in_the_table(slot: str, name: str):
    section = re.search(rf"^## {re.escape(slot)}\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert section and f"\n| `{name}` |" in section[1], (
        f"docs/variants.md has no row for {slot} '{name}': make variants"
    )


class Unfinished(DocumentLabel):
    """An objective with nothing around it."""

    head: ClassVar[str] = "length"
    forms: ClassVar[tuple[str, ...]] = ("text", "triple")
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "kendall")


def test_an_unfinished_objective_is_told_each_file_to_write():
    found = "\n".join(lacks("text_length", Unfinished))
    for file, decorator in (
        ("src/zoo/models/heads/length.py", '@heads.register("length")'),
        ("src/zoo/examples/forms/triple.py", '@forms.register("triple")'),
        ("src/zoo/metrics/kendall.py", '@metrics.register("kendall")'),
        ("src/zoo/inference/predictors/text_length.py", '@predictors.register("text_length")'),
    ):
        assert re.search(rf"write {file} with a class under {re.escape(decorator)}", found), found
    assert len(found.splitlines()) == 4


def test_an_objective_without_metrics_is_told_so():
    Bare = type("Bare", (Unfinished,), {"metrics": (), "head": "classification", "forms": ()})
    assert "offers no metric" in "\n".join(lacks("classification", Bare))


def test_a_head_that_no_objective_trains_is_named():
    others = [name for name in heads.names() if name != "masked_lm"]
    assert unused(heads, others, "trains") == [
        "no objective trains the head 'masked_lm': name it in one of src/zoo/objectives/*.py, or remove "
        "src/zoo/models/heads/masked_lm.py"
    ]
