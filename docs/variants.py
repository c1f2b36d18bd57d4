"""The tables of variants, from the registry: `python docs/variants.py` writes docs/variants.md anew."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from zoo.blocks.backends.backend import backends
from zoo.cli import slots
from zoo.cli.output import as_yaml
from zoo.data.formats.format import formats
from zoo.examples.form import forms
from zoo.metrics.choose import ChosenMetric
from zoo.metrics.metric import metrics
from zoo.objectives.objective import objectives
from zoo.registry import Slot

PAGE = Path(__file__).with_name("variants.md")
INTRODUCTION = """\
# Variants

Every place that has a choice, with the variants that zoo comes with. `make variants` writes this page from the
registry. You choose a variant by its name (`norm: rmsnorm`) or with options (`norm: {name: rmsnorm, eps: 1e-6}`).
"""
SLOTS = slots.SLOTS
Cell = Callable[[str], str]


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([INTRODUCTION, *map(section, SLOTS)])


def section(slot: Slot[Any]) -> str:
    """One slot: a row for each variant of zoo's own."""
    columns = {"what it does": lambda name: first_line(slot, name), **MORE.get(slot.name, {})}
    columns["options and defaults"] = lambda name: options(slot, name)
    rows = [[f"`{name}`", *(cell(name) or "-" for cell in columns.values())] for name in own_names(slot)]
    return "\n".join(
        [f"## {slot.name}\n", row(["variant", *columns]), "|---" * (len(columns) + 1) + "|", *map(row, rows), ""]
    )


def row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def own_names(slot: Slot[Any]) -> list[str]:
    """The variants that zoo comes with: another installed package must not change the page."""
    return [name for name in slot.names() if slot[name].__module__.startswith("zoo.")]


def first_line(slot: Slot[Any], name: str) -> str:
    """The first sentence of a variant's docstring, or nothing where it has none of its own."""
    written = vars(slot[name]).get("__doc__") or ""
    return inspect.cleandoc(written).partition("\n")[0].replace("|", r"\|")


def options(slot: Slot[Any], name: str) -> str:
    """A variant's options with their defaults."""
    return ", ".join(f"`{key}`: {as_yaml(default)}" for key, default in slots.options(slot, name).items())


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def offering(name: str) -> list[str]:
    """The objectives that offer a metric; one that has its own of that name does not."""
    pairs = [(objective, metric) for objective in objectives.names() for metric in objectives[objective].metrics]
    return [objective for objective, metric in pairs if ChosenMetric(objective, metric).registered == name]


def objectives_with(attribute: str, wanted: str) -> list[str]:
    """The objectives whose attribute is, or holds, a name."""
    return [name for name in own_names(objectives) if wanted in one_or_more(getattr(objectives[name], attribute))]


def one_or_more(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def forms_of(name: str) -> str:
    """The forms that an objective takes; one that names none follows the others of its task."""
    return listed(objectives[name].forms) or f"any (alone: {listed(objectives[name].prefers)})"


def direction(name: str) -> str:
    return "higher" if metrics[name].higher_is_better else "lower"


def device(name: str) -> str:
    return backends[name].device or "any"


MORE: dict[str, dict[str, Cell]] = {  # what a slot's table shows beside the sentence and the options
    "head": {"trained by": lambda name: listed(objectives_with("head", name))},
    "backend": {"device": device},
    "objective": {
        "head": lambda name: f"`{objectives[name].head}`",
        "forms": forms_of,
        "metrics": lambda name: listed(objectives[name].metrics),
    },
    "form": {
        "reads the columns": lambda name: listed(forms[name].stored.names),
        "taken by": lambda name: listed(objectives_with("forms", name)),
    },
    "metric": {
        "better": direction,
        "measures": lambda name: metrics[name].needs,
        "offered by": lambda name: listed(offering(name)),
    },
    "format": {"extensions": lambda name: listed(formats[name].extensions)},
}


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
