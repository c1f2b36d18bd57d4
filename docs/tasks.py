"""The table of objectives in docs/tasks.md, from the registries: `python docs/tasks.py` writes it anew."""

from pathlib import Path

from zoo.data.ids import PICTURE
from zoo.examples.form import forms
from zoo.hub.targets.declare.registry import targets
from zoo.objectives.objective import objectives

PAGE = Path(__file__).with_name("tasks.md")
BEGIN, END = "<!-- written by make variants -->\n", "<!-- end -->\n"
HEADER = "| objective | columns of the data | models | metrics | transformers classes |\n|---|---|---|---|---|\n"
MODELS = {None: "encoders, decoders", True: "decoders", False: "encoders"}  # by `causal`


def page() -> str:
    """The whole page, with the table as the registries have it."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def table() -> str:
    """A row for each objective of zoo's own."""
    own = [name for name in objectives.names() if objectives[name].__module__.startswith("zoo.")]
    return HEADER + "".join(f"| {' | '.join(cells(name))} |\n" for name in own)


def cells(name: str) -> list[str]:
    """What a row says of an objective."""
    objective = objectives[name]
    read = [forms[form] for form in objective.forms or objective.prefers]
    ways = dict.fromkeys(", ".join(f"`{column}`" for column in form.stored.columns) for form in read)
    models = "encoder and decoder" if all(form.source for form in read) else MODELS[objective.causal]
    metrics = ", ".join(f"`{metric}`" for metric in objective.metrics) or "loss"
    both, pictures = all(form.source for form in read), all(PICTURE in form.stored.names for form in read)
    return [f"`{name}`", " **or** ".join(ways), models, metrics, classes(objective.head, both, pictures)]


def classes(head: str, both: bool, pictures: bool) -> str:
    """The classes that carry a head, families of one stack or of both; zoo's own carry all."""
    if pictures:
        return "zoo's own"
    sides = [target for target in targets.values() if (len(target.sides) == 2) == both]
    found = [f"`{known.name}`" for target in sides for known in target.classes if head in known.heads]
    return ", ".join(found) or "zoo's own"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
