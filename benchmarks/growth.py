"""Training steps of GPTs, 128 to 4,096 tokens long and 10M to 350M parameters large, by zoo and by transformers.

    python benchmarks/growth.py [--repeats 3] [--data DIR] [--small] [--write]

Each point is row `gpt` of benchmarks/bench.py in another size: the sides alternate, with one or a few steps per turn.
The articles are joined into one long text, so all rows are full and both sides attend to the same positions. --write
replaces this machine's figures in docs/pictures/growth.json, and updates the plot of all machines beside it and their
tables in docs/benchmarks.md.
"""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib

from bench import DOCS, add_options, measure, put, show
from rows.figures import OURS, Figures, beyond, number, spread
from rows.table import ROWS, Row

matplotlib.use("Agg")
from matplotlib import pyplot as plt

BEGIN, PEER = "<!-- begin: python benchmarks/growth.py --write -->", "hf"
VOCABULARY = 16384
STYLES = ("-", "--", ":", "-.")  # line style per machine
Axes = Mapping[str, Sequence[Mapping[str, Any]]]  # axis ("length" or "parameters") -> its points
Size = tuple[int, int, int, int, int]  # layers, d_model, length, rows, steps per turn
LENGTHS: dict[str, Size] = {f"{n} tokens": (8, 256, n, 4096 // n, 2) for n in (128, 256, 512, 1024, 2048, 4096)}
PARAMETERS: dict[str, Size] = {
    "10M": (8, 256, 256, 8, 4),
    "34M": (8, 512, 256, 8, 1),
    "70M": (12, 640, 256, 8, 1),
    "126M": (16, 768, 256, 8, 1),
    "345M": (26, 1024, 256, 4, 1),
}
SMALL: dict[str, dict[str, Size]] = {
    "length": {"16 tokens": (2, 32, 16, 4, 1), "64 tokens": (2, 32, 64, 1, 1)},
    "parameters": {"small": (1, 32, 32, 2, 1)},
}
AXES = {"length": LENGTHS, "parameters": PARAMETERS}


def row_of(name: str, size: Size) -> Row:
    """The benchmark row for one point."""
    layers, width, length, rows, each = size
    shape = [f"d_model={width}", f"max_length={length}", f"decoder.n_layers={layers}"]
    shape += [f"decoder.d_ff={4 * width}", f"decoder.n_heads={max(1, width // 64)}"]
    sizes = {"model": "gpt2", "vocabulary": VOCABULARY, "shape": shape, "length": length, "rows": rows}
    sizes |= {"dropout": 0.0, "articles": 60, "joined": True}
    sides = {side: f"gpt.{side}" for side in (OURS, PEER)}
    return replace(
        ROWS["gpt"],
        title=name,
        sizes=sizes,
        small=sizes,
        sides=sides,
        goals={PEER: ("1x", "1x")},
        each=each,
        rate=None,
        kept=False,
        repeats=3,
    )


def point(name: str, size: Size, options: argparse.Namespace) -> Figures:
    """The figures of one point that are kept."""
    result = measure(f"growth-{name}", row_of(name, size), options)
    show(result)
    (found,) = result["columns"].values()
    facts, (layers, width, length, rows, _) = found["facts"], size
    memory = {side: {"peak": noted["gpu"] or noted["peak"], "beyond": beyond(noted)} for side, noted in facts.items()}
    about = {"layers": layers, "width": width, "length": length, "rows": rows, "parameters": facts[OURS]["parameters"]}
    kept = {key: found[key] for key in ("rates", "ratios")}
    return {"point": name, **about, **kept, "memory": memory, "machine": result["machine"], "date": result["date"]}


def table(figures: Axes) -> str:
    """A machine's table for docs/benchmarks.md."""
    head = "| point | parameters | layers x width | rows x length | zoo, tokens/s | transformers | ratio | memory |\n"
    lines = [head + "|" + "---|" * 8]
    for one in (one for points in figures.values() for one in points):
        shape = f"{one['layers']} x {one['width']} | {one['rows']} x {one['length']}"
        rates = [spread(one["rates"][side]) for side in (OURS, PEER)]
        ours, theirs = (one["memory"][side]["beyond"] for side in (OURS, PEER))
        cells = [one["point"], f"{one['parameters'] / 1e6:.0f}M", shape, *rates, f"{spread(one['ratios'][PEER])}x"]
        lines.append(f"| {' | '.join(cells)} | {ours / theirs:.2f}x |")
    return f"{figures['length'][0]['machine']}\n\n" + "\n".join(lines)


def draw(machines: Mapping[str, Axes], path: Path) -> None:
    """Plot tokens per second and memory over length and over parameters."""
    places = plt.subplots(2, 2, figsize=(9, 7.5), sharex="col")[1]
    for (machine, figures), style in zip(machines.items(), cycle(STYLES), strict=False):
        for (axis, points), column in zip(figures.items(), places.T, strict=True):
            at = [one[axis] / (1 if axis == "length" else 1e6) for one in points]
            for side, color, name in ((OURS, "tab:blue", "zoo"), (PEER, "tab:gray", "transformers")):
                rates = [one["rates"][side]["median"] for one in points]
                memory = [one["memory"][side]["beyond"] / 2**30 for one in points]
                label = f"{name}, {machine}"
                for place, values in zip(column, (rates, memory), strict=True):
                    place.plot(at, values, marker="o", color=color, linestyle=style, label=label)
            for place in column:
                place.set(xscale="log", xticks=at, xticklabels=[number(value) for value in at])
                place.minorticks_off()
                place.grid(alpha=0.3)
            column[0].set(yscale="log" if axis == "parameters" else "linear", ylabel="tokens a second")
            column[1].set(ylabel="peak memory beyond weights,\ngradients and moments, GiB")
            column[1].set_xlabel("tokens in a row" if axis == "length" else "parameters, millions")
    for place in places.flat:
        place.set_ylim(bottom=None if place.get_yscale() == "log" else 0)
    handles, labels = places[0, 0].get_legend_handles_labels()
    places[0, 0].figure.legend(handles, labels, loc="upper center", fontsize=8, frameon=False)
    plt.tight_layout(rect=(0, 0, 1, 0.97 - 0.025 * len(labels)))
    plt.savefig(path, dpi=90)
    plt.close()


def write(figures: Axes, docs: Path) -> None:
    """Replace a machine's figures, and redraw the plot and the tables."""
    kept = docs / "pictures" / "growth.json"
    machine = re.split(r", [0-9]+ cores", figures["length"][0]["machine"])[0]  # the machine's name without versions
    machines = json.loads(kept.read_text("utf-8")) | {machine: figures}
    kept.write_text(json.dumps(machines, indent=1) + "\n", "utf-8")
    draw(machines, kept.with_suffix(".png"))
    tables = [table(axes) for axes in machines.values()]
    put("\n\n".join([*tables, "![Growth](pictures/growth.png)"]), docs / "benchmarks.md", BEGIN)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.set_defaults(device="cpu", plain=True)
    options = parser.parse_args()
    axes = SMALL if options.small else AXES
    figures = {axis: [point(n, size, options) for n, size in points.items()] for axis, points in axes.items()}
    behind = [one["point"] for points in figures.values() for one in points if one["ratios"][PEER]["median"] < 1]
    print("behind at: " + ", ".join(behind) if behind else "ahead at every point")
    if options.write:
        write(figures, DOCS)


if __name__ == "__main__":
    main()
