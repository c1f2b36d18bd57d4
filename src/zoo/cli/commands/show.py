"""zoo show: a model before it is trained."""

from rich.table import Table

from zoo.cli.options import Json, Model, Set, console, print_json, read_sets
from zoo.config import to_yaml
from zoo.hub.targets.choose import fits, obstacles, way_out
from zoo.models.cost import flops_per_token, memory, on_meta, parameters
from zoo.models.settings import dump_settings, load_settings

GIB = 2**30


def show(
    model: Model,
    sets: Set = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """A model's parts, size, cost, and where it can be exported to."""
    settings = load_settings(model, read_sets(sets))
    built = on_meta(settings)
    found = {
        "parameters": parameters(built),
        "flops_per_token": flops_per_token(built),
        "memory": memory(built),
        "targets": fits(settings),
        "obstacles": obstacles(settings),
    }
    if as_json:
        return print_json(found)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("parameters", f"{found['parameters']:,}")
    table.add_row("training FLOPs per token", f"{found['flops_per_token']:,.0f}")
    table.add_row("training state", f"{memory(built)['total'] / GIB:.2f} GiB (float32 weights, gradients, Adam)")
    table.add_row("exports as", ", ".join(fits(settings)) or f"no native class of transformers; {way_out(settings)}")
    for target, reason in obstacles(settings).items():
        table.add_row(f"  not {target}", reason)
    console.print(to_yaml(dump_settings(settings)).rstrip(), markup=False)
    console.print()
    console.print(table)
