"""Tokens needed to reach a loss: gpt-modern with Muon against gpt2 with AdamW, on the same text.

    python benchmarks/muon.py runs/muon

Both sides have about 6.5 M parameters and read the same tokens of `wikipedia-lm`. For each side, the learning rate is
first chosen from the same candidates, in short runs of seed 0, by the loss on a fixed sample of the validation split.
Then, for every seed, gpt2 with AdamW trains on all tokens and gpt-modern with Muon on a share of them (default: half),
each with its full schedule. Final losses are over the whole validation split (`zoo evaluate`); the curves are over the
sample. Finished runs are reused and interrupted ones resumed. Writes docs/pictures/muon.json and muon.png.
"""

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import torch

from zoo.models.cost import on_meta, parameters
from zoo.models.settings import load_settings

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
TASK, BATCH, LENGTH, EVALUATIONS = "wikipedia-lm", 16, 256, 10
MODEL = ["d_model=256", "max_length=256", "decoder.n_layers=6", "decoder.n_heads=4", "dropout=0"]  # of both sides
TRAINING = ["training.schedule=cosine", "training.warmup_steps=0.05", "training.clip=1.0", f"training.batch={BATCH}"]
SIDES: dict[str, list[str]] = {
    "gpt2, adamw": ["gpt2", "decoder.d_ff=1024", "training.weight_decay=0.1", "training.betas=[0.9, 0.95]"],
    "gpt-modern, muon": ["gpt-modern", "decoder.d_ff=688", "decoder.attention.n_kv_heads=2", "training.optimizer=muon"],
}
BASELINE, CHALLENGER = SIDES
Figures = dict[str, Any]


def zoo(*words: str) -> str:
    """Run a command of zoo; returns its standard output."""
    print("zoo", *words, file=sys.stderr, flush=True)
    return subprocess.run([sys.executable, "-m", "zoo", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def train(runs: Path, side: str, tokens: float, rate: float, seed: int, whole_split: bool = True) -> Figures:
    """Train a run unless it is finished; returns its curve and its final validation loss.

    Args:
        runs: the folder of all runs.
        rate: the learning rate.
        whole_split: take the loss over the whole validation split; else that of the fixed sample, at the curve's end.
    """
    label = seed if whole_split else "search"
    folder = runs / f"{side.replace(', ', '-')}-{tokens:g}-{rate}-{label}"
    result = folder / "result.json"
    if not result.exists():
        steps = max(1, round(tokens / (BATCH * LENGTH)))
        model, *sets = SIDES[side]
        sets += [
            *MODEL,
            *TRAINING,
            f"training.steps={steps}",
            f"training.learning_rate={rate}",
            f"training.seed={seed}",
        ]
        sets += [f"training.evaluate_every={max(1, steps // EVALUATIONS)}", "training.evaluation_examples=200"]
        if not whole_split:
            sets.append(f"training.skip_limit={steps}")  # a rate that diverges is a result, not an error
        resume = ["--resume"] if folder.exists() else []
        zoo("pretrain", model, TASK, "-o", str(folder), *sets, *resume)
        curve = validation_curve(folder)
        final = {"loss": curve["losses"][-1]}
        if whole_split:
            final = json.loads(zoo("evaluate", str(folder), "--split", "validation", "--json"))
        result.write_text(json.dumps({"side": side, "rate": rate, "seed": seed, **final, **curve}))
    figures: Figures = json.loads(result.read_text())
    return figures


def validation_curve(folder: Path) -> Figures:
    """The loss on the fixed sample over the tokens read, and the model's number of parameters."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    validations = [line for line in lines if "validation/loss" in line]
    return {
        "tokens": [line["step"] * BATCH * LENGTH for line in validations],
        "losses": [line["validation/loss"] for line in validations],
        "parameters": parameters(on_meta(load_settings(str(folder / "config.yaml")))),
    }


def best_rate(side: str, options: argparse.Namespace) -> tuple[float, dict[str, float | None]]:
    """The learning rate with the lowest loss after a short run, and the losses of all candidates; None: it diverged."""
    short = options.runs, side, options.search_tokens
    losses = {rate: train(*short, rate, seed=0, whole_split=False)["loss"] for rate in options.rates}
    best = min(losses, key=lambda rate: math.inf if losses[rate] is None else losses[rate])
    return best, {str(rate): loss for rate, loss in losses.items()}


def plot(figures: Figures, path: Path) -> None:
    """Plot the curves of all seeds over the number of tokens read."""
    for color, side in zip(("tab:gray", "tab:blue"), SIDES, strict=True):
        for number, one in enumerate(figures["sides"][side]["runs"]):
            millions = [tokens / 1e6 for tokens in one["tokens"]]
            plt.plot(millions, one["losses"], color=color, alpha=0.7, label=None if number else side)
    plt.axhline(figures["baseline"], color="tab:gray", linestyle=":", label=f"{BASELINE}: its end, whole split")
    plt.gca().set(xlabel="tokens, millions", ylabel="validation loss, nats a token")
    plt.legend()
    plt.grid(alpha=0.3)
    plt.tight_layout()
    plt.savefig(path, dpi=90)
    plt.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of the runs")
    parser.add_argument("--tokens", type=float, default=10e6, help="of a run with AdamW")
    parser.add_argument("--share", type=float, default=0.5, help="of them in a run with Muon")
    parser.add_argument("--search-tokens", type=float, default=2e6, help="of a run that looks for a rate")
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-4, 1e-3, 2e-3, 4e-3, 8e-3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    sides: Figures = {}
    for side in SIDES:
        rate, searched = best_rate(side, options)
        tokens = options.tokens * (options.share if side == CHALLENGER else 1)
        runs = [train(options.runs, side, tokens, rate, seed) for seed in options.seeds]
        sides[side] = {"rate": rate, "searched": searched, "tokens": tokens, "runs": runs}
    baseline = statistics.median(one["loss"] for one in sides[BASELINE]["runs"])
    machine = f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    figures = {"machine": machine, "task": TASK, "baseline": baseline, "sides": sides}
    options.pictures.mkdir(parents=True, exist_ok=True)
    (options.pictures / "muon.json").write_text(json.dumps(figures, indent=1) + "\n")
    plot(figures, options.pictures / "muon.png")
    print("side | parameters | tokens | rate | loss by seed")
    for side, one in sides.items():
        losses = " ".join(f"{r['loss']:.4f}" for r in one["runs"])
        print(f"{side} | {one['runs'][0]['parameters']} | {one['tokens']:.3g} | {one['rate']} | {losses}")


if __name__ == "__main__":
    main()
