"""zoo show: a model before it is trained, or what a run of it on a task would resolve to."""

from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.cli.options import Changes, Json, Model, Set
from zoo.cli.output import as_yaml, say, say_json, say_rows
from zoo.config import parse_set
from zoo.experiments.experiment import values_of_model
from zoo.experiments.layers import DATA, TOKENIZER, Value
from zoo.experiments.request import Request
from zoo.experiments.resolve import resolve_model_alone, resolve_pretraining
from zoo.experiments.tokenizers import check_tokenizer
from zoo.hub.targets.choose import fitting_targets, obstacles, shell_advice
from zoo.models.cost import flops_per_token, memory, on_meta, parameters, parameters_of_generator
from zoo.models.settings import ModelSettings

GIB = 2**30
TASK = "A name from `zoo list tasks`, or a path to a YAML file: also show every setting of a run on it."


def show(
    model: Model,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help=TASK)] = None,
    changes: Changes = [],  # noqa: B006
    sets: Set = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Show a model's settings and where each came from, its size, its cost, and its export targets."""
    if task is not None and "=" in task:
        changes, task = [task, *changes], None
    settings, values = resolve(model, task, [*sets, *changes])
    built = on_meta(settings)
    found = {
        "parameters": parameters(built),
        "parameters_of_generator": parameters_of_generator(built),
        "flops_per_token": flops_per_token(built),
        "memory": memory(built),
        "targets": fitting_targets(settings),
        "obstacles": obstacles(settings),
    }
    if as_json:
        return say_json(
            {**found, "settings": {value.key: {"value": value.value, "from": value.origin} for value in values}}
        )
    say_rows((f"{value.key}:", as_yaml(value.value), value.origin) for value in values)
    if any(value.origin in (DATA, TOKENIZER) for value in values):
        say(f"\n{DATA}, {TOKENIZER}: decided when a run begins; until then, the file's value")
    say("")
    say_rows(summary(settings, found))


def resolve(model: str, task: str | None, changes: list[str]) -> tuple[ModelSettings, list[Value]]:
    """Return the model's settings, and every value with its origin."""
    sets = [parse_set(text) for text in changes]
    if task is None:
        settings, origins = resolve_model_alone(model, sets)
        return settings, list(values_of_model(settings, origins))
    experiment = resolve_pretraining(Request(model, task, Path(), sets))
    if experiment.traits.has_text and experiment.task.tokenizer is not None:  # without one, it is for fine-tuning
        check_tokenizer(experiment.task)
    return experiment.model, list(experiment.values())


def summary(settings: ModelSettings, found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return size, cost and export targets as rows of a table."""
    state, beside = found["memory"]["total"] / GIB, found["parameters_of_generator"]
    return [
        ("parameters", f"{found['parameters']:,}"),
        *([("  of the generator", f"{beside:,}, which only pretraining needs")] if beside else []),
        ("training FLOPs per token", f"{found['flops_per_token']:,.0f}"),
        ("training state", f"{state:.2f} GiB (float32 weights, gradients, Adam)"),
        ("exports as", ", ".join(found["targets"]) or f"no native class of transformers; {shell_advice(settings)}"),
        *((f"  not {target}", reason) for target, reason in found["obstacles"].items()),
    ]
