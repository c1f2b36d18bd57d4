"""Recurrence, convolution and self-attention compared: cost by length, path length, and quality.

    python benchmarks/three_ways.py
    python benchmarks/three_ways.py --train runs/three-ways --model gpt2-tiny --task shakespeare-char --steps 1000

The first command measures one layer of each mixer, forward and backward, on one document: milliseconds (minimum of
several), bytes saved for the backward pass, and the number of layers until the last position depends on the first.
The second command also trains the same model with each mixer (`zoo pretrain`, equal steps, equal parameters up to
rounding; existing runs are resumed). Both write docs/pictures/three-ways.json and three-ways.png.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.axes import Axes
from torch import Tensor

from zoo.blocks.attention import FullAttention
from zoo.blocks.mixer import Mixer, mixers
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import Recorder, View
from zoo.models.cost import on_meta, parameters
from zoo.models.settings import load_settings

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
KERNEL = 4  # a convolution with 4 taps has as many parameters as attention's 4 projections
Figures = dict[str, Any]
Curves = dict[str, list[float]]


def mixer_choices(d_model: int) -> dict[str, Any]:
    """The mixers, each with about 4 d_model^2 parameters; a GRU with state size s has 4 d_model s + 3 s^2."""
    return {
        "attention": "attention",
        "convolution": {"name": "convolution", "kernel": KERNEL},
        "recurrent": {"name": "recurrent", "d_state": 2 * d_model // 3},
    }


def build(choice: Any, d_model: int) -> Mixer:
    return mixers.build(choice, d_model, True, lambda: FullAttention(d_model, max(1, d_model // 32)))


def document_view(length: int) -> View:
    """The causal view of a row that is one document."""
    return View.of(Documents(torch.ones(1, length, dtype=torch.long), whole=True), causal=True)


def fresh_view(view: View, eager: bool) -> View:
    """A copy of a view without cached masks.

    Args:
        eager: ask for the attention weights, so that they are computed as a tensor.
    """
    return View(view.without_cache().visibility, recorder=Recorder() if eager else None)


def min_milliseconds(mixer: Mixer, x: Tensor, view: View, eager: bool, repeats: int) -> float:
    """The minimal time of a forward and backward pass; other load on the machine can only add to it."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        mixer(x, fresh_view(view, eager)).sum().backward()
        seconds.append(time.perf_counter() - start)
    return 1000 * min(seconds)


def saved_bytes(mixer: Mixer, x: Tensor, view: View, eager: bool) -> int:
    """Bytes that a forward pass saves for the backward pass, each storage once, without parameters."""
    parameter_storages = {p.untyped_storage().data_ptr() for p in mixer.parameters()}
    storages: dict[int, int] = {}
    tensors = []

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameter_storages:
            storages[storage.data_ptr()] = storage.nbytes()
            tensors.append(tensor)  # keep it alive, so that its address is not reused
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        out = mixer(x, fresh_view(view, eager))
    del out
    return sum(storages.values())


def measure_cost(lengths: list[int], d_model: int, repeats: int) -> dict[str, Curves]:
    """Time and memory of each mixer at each length; attention also with its weights as a tensor."""
    costs: dict[str, Curves] = {}
    sides = [(name, choice, False) for name, choice in mixer_choices(d_model).items()]
    for name, choice, eager in [*sides, ("attention, weights kept", "attention", True)]:
        mixer = build(choice, d_model)
        costs[name] = {"milliseconds": [], "megabytes": []}
        for length in lengths:
            x, view = torch.randn(1, length, d_model, requires_grad=True), document_view(length)
            costs[name]["megabytes"].append(saved_bytes(mixer, x, view, eager) / 1e6)
            costs[name]["milliseconds"].append(min_milliseconds(mixer, x, view, eager, repeats))
            print(f"{name:>24} {length:6} {costs[name]['milliseconds'][-1]:9.2f} ms", flush=True)
    return costs


def layers_needed(choice: Any, length: int) -> int:
    """The number of layers of a mixer until the last position depends on the first."""
    torch.manual_seed(0)
    x, view = torch.randn(1, length, 6, dtype=torch.float64, requires_grad=True), document_view(length)
    states, layers = x, 0
    while True:
        states, layers = build(choice, 6).double()(states, view), layers + 1
        (gradient,) = torch.autograd.grad(states[0, -1].sum(), x, retain_graph=True)
        if gradient[0, 0].any():
            return layers


def measure_paths(lengths: list[int]) -> dict[str, list[int]]:
    """The path length (layers) from the first to the last position, for each mixer."""
    return {name: [layers_needed(choice, length) for length in lengths] for name, choice in mixer_choices(6).items()}


def train(folder: Path, options: argparse.Namespace) -> dict[str, Figures]:
    """Train the same model with each mixer; returns validation losses, parameters and speed."""
    results: dict[str, Figures] = {}
    for name, choice in mixer_choices(load_settings(options.model).d_model).items():
        run = folder / f"{name}-{options.steps}"
        sets = [f"decoder.mixer={json.dumps(choice)}", f"training.steps={options.steps}"]
        sets += [f"training.evaluate_every={max(1, options.steps // 10)}", "training.save_every=0", "task.metrics=[]"]
        resume = ["--resume"] if run.exists() else []
        zoo("pretrain", options.model, options.task, "-o", str(run), *sets, *resume)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        validations = [line for line in lines if "validation/loss" in line]
        results[name] = {
            "parameters": parameters(on_meta(load_settings(str(run / "config.yaml")))),
            "steps": [line["step"] for line in validations],
            "loss": [line["validation/loss"] for line in validations],
            "tokens_per_second": statistics.median(line["tokens_per_second"] for line in lines[1:]),
        }
    return results


def zoo(*words: str) -> None:
    """Run a command of zoo."""
    print("zoo", *words, flush=True)
    subprocess.run([sys.executable, "-m", "zoo", *words], check=True)


def plot(figures: Figures, path: Path) -> None:
    """Plot time, memory and path length, and quality if models were trained."""
    count = 4 if "quality" in figures else 3
    panels, cost = plt.subplots(1, count, figsize=(4.3 * count, 4))[1], figures["cost"]
    for panel, key, title in (
        (panels[0], "milliseconds", "time of a layer, ms"),
        (panels[1], "megabytes", "kept for the backward pass, MB"),
    ):
        curves = {name: curve[key] for name, curve in cost["ways"].items()}
        plot_lines(panel, cost["lengths"], curves, title)
    paths = figures["paths"]
    layers = {**paths["layers"], "steps inside the recurrent layer": paths["lengths"]}
    plot_lines(panels[2], paths["lengths"], layers, "layers from the first place to the last")
    if "quality" in figures:
        for name, run in figures["quality"]["ways"].items():
            panels[3].plot(run["steps"], run["loss"], label=f"{name}, {run['parameters'] / 1e6:.2f} M parameters")
        panels[3].set(title="validation loss, nats a token", xlabel="steps")
    for panel in panels:
        panel.legend(fontsize=7)
        panel.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    plt.tight_layout()
    plt.savefig(path, dpi=90)
    plt.close()


def plot_lines(panel: Axes, x: list[int], curves: dict[str, Any], title: str) -> None:
    """Plot curves over lengths, on logarithmic axes."""
    for name, curve in curves.items():
        panel.plot(x, curve, marker="o", markersize=3, label=name)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set(title=title, xlabel="length, tokens")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048, 4096])
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--train", type=Path, help="folder of the runs")
    parser.add_argument("--model", default="gpt2-tiny")
    parser.add_argument("--task", default="shakespeare-char")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    options = parser.parse_args()
    file = options.pictures / "three-ways.json"
    figures: Figures = json.loads(file.read_text()) if file.exists() else {}
    machine = f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    if options.train is None or "cost" not in figures:
        cost = measure_cost(options.lengths, options.d_model, options.repeats)
        figures["cost"] = {
            "machine": machine, "d_model": options.d_model, "lengths": options.lengths, "ways": cost
        }  # fmt: skip
        paths = [8, 16, 32, 64, 128]
        figures["paths"] = {"lengths": paths, "layers": measure_paths(paths)}
    if options.train is not None:
        settings = {"model": options.model, "task": options.task, "machine": machine}
        figures["quality"] = {**settings, "ways": train(options.train, options)}
    options.pictures.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(figures, indent=1) + "\n")
    plot(figures, options.pictures / "three-ways.png")


if __name__ == "__main__":
    main()
