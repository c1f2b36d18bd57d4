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

from bench import DOCS_FOLDER, add_options, measure, print_row, replace_section
from rows.figures import OURS, Figures, format_number, format_spread, memory_overhead
from rows.table import ROWS, Row

matplotlib.use("Agg")
from matplotlib import pyplot as plt

TABLES_MARK, PEER = "<!-- begin: python benchmarks/growth.py --write -->", "hf"
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


def benchmark_row(name: str, size: Size) -> Row:
    """The benchmark row for one point."""
    n_layers, d_model, length, rows, steps_per_turn = size
    shape = [f"d_model={d_model}", f"max_length={length}", f"decoder.n_layers={n_layers}"]
    shape += [f"decoder.d_ff={4 * d_model}", f"decoder.n_heads={max(1, d_model // 64)}"]
    sizes = {"model": "gpt2", "vocabulary": VOCABULARY, "shape": shape, "length": length, "rows": rows}
    sizes |= {"dropout": 0.0, "articles": 60, "joined": True}
    sides = {side: f"gpt.{side}" for side in (OURS, PEER)}
    return replace(
        ROWS["gpt"],
        title=name,
        sizes=sizes,
        small_sizes=sizes,
        sides=sides,
        goals={PEER: ("1x", "1x")},
        steps_per_turn=steps_per_turn,
        peak_rate=None,
        compare_allocators=False,
        repeats=3,
    )


def measure_point(name: str, size: Size, options: argparse.Namespace) -> Figures:
    """Measure one point; returns the figures that are kept."""
    result = measure(f"growth-{name}", benchmark_row(name, size), options)
    print_row(result)
    (measured,) = result["columns"].values()
    facts, (n_layers, d_model, length, rows, _) = measured["facts"], size
    memory = {side: {"peak": one["gpu"] or one["peak"], "beyond": memory_overhead(one)} for side, one in facts.items()}
    sizes = {"layers": n_layers, "width": d_model, "length": length, "rows": rows}
    found = {"parameters": facts[OURS]["parameters"], "rates": measured["rates"], "ratios": measured["ratios"]}
    return {"point": name, **sizes, **found, "memory": memory, "machine": result["machine"], "date": result["date"]}


def markdown_table(figures: Axes) -> str:
    """A machine's table for docs/benchmarks.md."""
    header = "| point | parameters | layers x width | rows x length | zoo, tokens/s | transformers | ratio | memory |\n"
    lines = [header + "|" + "---|" * 8]
    for point in (point for points in figures.values() for point in points):
        shape = f"{point['layers']} x {point['width']} | {point['rows']} x {point['length']}"
        cells = [point["point"], f"{point['parameters'] / 1e6:.0f}M", shape]
        cells += [format_spread(point["rates"][side]) for side in (OURS, PEER)]
        ours, theirs = (point["memory"][side]["beyond"] for side in (OURS, PEER))
        cells += [f"{format_spread(point['ratios'][PEER])}x", f"{ours / theirs:.2f}x"]
        lines.append(f"| {' | '.join(cells)} |")
    return f"{figures['length'][0]['machine']}\n\n" + "\n".join(lines)


def plot(machines: Mapping[str, Axes], path: Path) -> None:
    """Plot tokens per second and memory over length and over parameters."""
    panels = plt.subplots(2, 2, figsize=(9, 7.5), sharex="col")[1]
    for (machine, figures), style in zip(machines.items(), cycle(STYLES), strict=False):
        for (axis, points), column in zip(figures.items(), panels.T, strict=True):
            x = [point[axis] / (1 if axis == "length" else 1e6) for point in points]
            for side, color, name in ((OURS, "tab:blue", "zoo"), (PEER, "tab:gray", "transformers")):
                rates = [point["rates"][side]["median"] for point in points]
                memory = [point["memory"][side]["beyond"] / 2**30 for point in points]
                label = f"{name}, {machine}"
                for panel, values in zip(column, (rates, memory), strict=True):
                    panel.plot(x, values, marker="o", color=color, linestyle=style, label=label)
            for panel in column:
                panel.set(xscale="log", xticks=x, xticklabels=[format_number(value) for value in x])
                panel.minorticks_off()
                panel.grid(alpha=0.3)
            column[0].set(yscale="log" if axis == "parameters" else "linear", ylabel="tokens a second")
            column[1].set(ylabel="peak memory beyond weights,\ngradients and moments, GiB")
            column[1].set_xlabel("tokens in a row" if axis == "length" else "parameters, millions")
    for panel in panels.flat:
        panel.set_ylim(bottom=None if panel.get_yscale() == "log" else 0)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    panels[0, 0].figure.legend(handles, labels, loc="upper center", fontsize=8, frameon=False)
    plt.tight_layout(rect=(0, 0, 1, 0.97 - 0.025 * len(labels)))
    plt.savefig(path, dpi=90)
    plt.close()


def write_docs(figures: Axes, docs: Path) -> None:
    """Replace a machine's figures, and redraw the plot and the tables."""
    json_path = docs / "pictures" / "growth.json"
    machine = re.split(r", [0-9]+ cores", figures["length"][0]["machine"])[0]  # the machine's name without versions
    machines = json.loads(json_path.read_text("utf-8")) | {machine: figures}
    json_path.write_text(json.dumps(machines, indent=1) + "\n", "utf-8")
    plot(machines, json_path.with_suffix(".png"))
    tables = [markdown_table(axes) for axes in machines.values()]
    replace_section("\n\n".join([*tables, "![Growth](pictures/growth.png)"]), docs / "benchmarks.md", TABLES_MARK)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.set_defaults(device="cpu", plain=True)
    options = parser.parse_args()
    axes = SMALL if options.small else AXES
    figures = {axis: [measure_point(n, size, options) for n, size in points.items()] for axis, points in axes.items()}
    slower = [point["point"] for points in figures.values() for point in points if point["ratios"][PEER]["median"] < 1]
    print("behind at: " + ", ".join(slower) if slower else "ahead at every point")
    if options.write:
        write_docs(figures, DOCS_FOLDER)


if __name__ == "__main__":
    main()
