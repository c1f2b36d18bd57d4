"""README.md of an exported folder: what it is, how to use it, how it came to be, how good it is, how it was checked."""

import shlex

from zoo.config import to_yaml
from zoo.hub.exporting.card.front_matter import front_matter
from zoo.hub.exporting.card.prose import block, folded, plain, table, visible, without_folders
from zoo.hub.exporting.card.snippets import snippets
from zoo.hub.exporting.exportable import ADDRESS, Exportable
from zoo.hub.exporting.record import RunRecord
from zoo.hub.exporting.verify import Check
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.models.settings import dump_settings
from zoo.report.curves import draw_curves

CARD, CURVES = "README.md", "curves.png"


def card_files(
    given: Exportable, target: Target, chosen: NativeClass, check: Check, left_out: list[str]
) -> dict[str, bytes]:
    """The model card, and the picture that it shows where there is one."""
    record = given.record
    picture = draw_curves(record.lines, record.step) if record is not None else None
    lines = [
        *front_matter(chosen, record, name_of(given, chosen)),
        *title(given, target, chosen),
        *loading(given, target, chosen),
        *about(given, left_out),
        *(told(record, picture is not None, given.address) if record is not None else []),
        *limits(given),
        *checked(check, "" if target.imports else "plain "),
    ]
    return {CARD: "\n".join(lines).encode()} | ({CURVES: picture} if picture is not None else {})


def name_of(given: Exportable, chosen: NativeClass) -> str:
    """What the model is called: the name of its run."""
    return visible(given.record.name) if given.record is not None else chosen.name


def title(given: Exportable, target: Target, chosen: NativeClass) -> list[str]:
    """What it is."""
    count = sum(parameter.numel() for parameter in given.model.parameters())
    purpose = f", trained for {', '.join(given.record.objectives)}" if given.record is not None else ""
    loads = f"and one of {target.family} classes: plain `transformers` loads it"
    if target.imports:
        loads = f"in zoo's own class: `transformers` loads it where zoo is installed, after `import {target.imports}`"
    return [
        f"# {plain(name_of(given, chosen))}",
        "",
        f"A `{chosen.name}` with {count:,} parameters{purpose}. Trained with zoo, {loads}.",
        "",
    ]


def loading(given: Exportable, target: Target, chosen: NativeClass) -> list[str]:
    """How it is used."""
    pairs = given.record is not None and "pair" in given.record.task.columns
    programs = snippets(chosen, given.address, pairs, target.imports, given.tokenizer is not None)
    return ["## How to use it", "", *(line for program in programs for line in block(program, "python"))]


def about(given: Exportable, left_out: list[str]) -> list[str]:
    """Sizes and choices."""
    settings, tokenizer = given.settings, given.tokenizer
    known = "no tokenizer" if tokenizer is None else f"{tokenizer.vocab_size:,} tokens"
    lines = [f"{known}, d_model {settings.d_model}"]
    tree = {key: value for key, value in dump_settings(settings).items() if key != "training"}
    for side in settings.parts:
        sizes = [f"{key} {value}" for key, value in tree[side].items() if type(value) in (int, str)]
        lines.append(f"{side}: {', '.join(sizes)}")
    if any(head.name == "classification" for head in settings.heads):
        lines.append(f"classes: {', '.join(map(plain, given.class_names))}")
    if left_out:
        lines.append(f"heads that this class lacks and that were left out: {', '.join(left_out)}")
    choices = block(without_folders(to_yaml(tree)), "yaml")
    return ["## Model", "", *(f"- {line}" for line in lines), "", *folded("Every choice", choices)]


def told(record: RunRecord, picture: bool, address: str) -> list[str]:
    """Data, training and what came of it."""
    return [*data(record), *training(record, picture), *measured(record, address), *environment(record)]


def data(record: RunRecord) -> list[str]:
    """What it was trained on."""
    unread = ("training", "card", "tokenizer") if record.base else ("training", "card")  # it kept its base's tokenizer
    task = {key: value for key, value in record.task.plain().items() if key not in unread}
    lines = table(("split", "SHA-256 of the data and of how it is read"), record.data.items()) if record.data else []
    settings = block(without_folders(to_yaml(task)), "yaml")
    return ["## Data", "", *lines, *folded("The task", settings)]


def training(record: RunRecord, picture: bool) -> list[str]:
    """How it was trained."""
    chosen = {key: value for key, value in record.training.items() if value is not None}
    said = [f"objective: {', '.join(record.objectives)}", f"steps of training: {record.step:,}"]
    if record.base:
        said.insert(0, f"fine-tuned from: {plain(without_folders(record.base))}")
    curves = ["![loss and metrics by step](curves.png)", "", "The dotted line is at the step of these weights.", ""]
    shown = curves if picture else []
    settings = folded("Every setting", block(without_folders(to_yaml(chosen)), "yaml")) if chosen else []
    return ["## Training", "", *(f"- {line}" for line in said), "", *shown, *settings]


def measured(record: RunRecord, address: str) -> list[str]:
    """What validation gave, and the command that gives it again."""
    if not record.measured:
        return []
    task = visible(without_folders(record.task_name))
    place = address if address == ADDRESS else f"hub:{address}"
    command = shlex.join(["zoo", "evaluate", place, *([task] if task else []), "--split", "validation"])
    rows = [(name, f"{value:.4f}") for name, value in record.measured.items()]
    known = record.training.get("precision")
    rounded = known is not None and known != "float32"
    how = f", measured with `precision: {known}` as in training; the command computes in float32" * rounded
    said = f"On the validation split{how}:"
    return ["## Evaluation", "", said, "", *table(("metric", "value"), rows), *block(command)]


def environment(record: RunRecord) -> list[str]:
    """What it ran on."""
    known = record.environment
    rows = [(name, str(version)) for name, version in known.get("versions", {}).items()]
    rows += [(key, str(known[key])) for key in ("python", "platform", "processes", "threads") if known.get(key)]
    rows += [("devices", ", ".join(map(str, known["devices"])))] if known.get("devices") else []
    return ["## Environment", "", *folded("Versions and machine", table(("what", "which"), rows))] if rows else []


def limits(given: Exportable) -> list[str]:
    """What not to expect of it."""
    size = given.stream.image_size
    reads = [f"the middle square of a picture, brought to {size} x {size} pixels"] * (size is not None)
    reads += [f"at most {part.max_length:,} tokens ({side})" for side, part in given.readers.items()]
    lines = [f"It reads {' and '.join(reads)}."]
    if given.record is not None:
        own = given.record.card.limitations
        lines += [plain(own)] if own else ["Its author has not said what it should not be used for."]
        lines.append("It knows only what its data holds, the mistakes and prejudices of the data included.")
        split = "It was measured on the validation split by which it was chosen; other data may give other figures."
        lines += [split] if given.record.measured else ["It was not measured on data that it was not trained on."]
    return ["## Limitations", "", *(f"- {line}" for line in lines), ""]


def checked(check: Check, which: str) -> list[str]:
    """The figures of the check, made by `which` transformers."""
    largest = ", ".join(f"{value:.1e} in {dtype}" for dtype, value in check.differences.items())
    same = [f"{check.same} are the same."] if check.same else ["it has no tokenizer, so rows were of random ids."]
    return [
        "## Check",
        "",
        f"Before this folder got its name, {which}`transformers` loaded it and was compared with the trained model:",
        f"the largest difference of logits over {check.rows} rows is {largest};",
        *same,
        "",
    ]
