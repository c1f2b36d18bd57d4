"""How zoo's rows change the loss of nanoGPT's recipe: nanoGPT's loop on zoo's rows, and zoo with nanoGPT's settings.

    python benchmarks/windows.py runs/windows --data DATA

Models, text and the two definitions of the loss are those of row `shakespeare` (rows/characters.py); all sides train in
float32 with AdamW and nanoGPT's schedule. nanoGPT's loop reads three kinds of windows of 64 characters:

- `drawn`: at random positions, as in nanoGPT; each character predicts the next one.
- `side by side`: consecutive windows, each once per epoch, in a new order for every epoch.
- `from <s>`: the same windows with `<s>` in front and without their last character, as zoo packs a long text.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rows.characters import (
    BATCH,
    BETAS,
    DECAY,
    HEADS,
    LAYERS,
    LEAST,
    LENGTH,
    RATE,
    WARMUP,
    WAYS,
    WIDTH,
    both,
    drawn_windows,
    nano_losses,
    read_text,
    read_zoo,
    train_textbook,
    train_zoo,
    windows,
)
from rows.figures import Figures
from rows.textbook_gpt import TextbookGPT

RECIPE = (
    "training.optimizer=adamw",
    f"training.learning_rate={RATE}",
    f"training.betas=[{BETAS[0]}, {BETAS[1]}]",
    f"training.weight_decay={DECAY}",
    f"training.schedule={{name: cosine, floor: {LEAST / RATE}}}",
    f"training.warmup_steps={WARMUP}",
    f"training.batch={BATCH}",
    "training.precision=float32",
)


def in_turn(rows: Tensor, seed: int) -> Iterator[Tensor]:
    """Yield batches of rows; each row occurs once per epoch."""
    drawn, waiting = np.random.default_rng(seed), list[int]()
    while True:
        while len(waiting) < BATCH:
            waiting += drawn.permutation(len(rows)).tolist()
        yield rows[waiting[:BATCH]]
        del waiting[:BATCH]


def from_start(rows: Tensor, start: int) -> Tensor:
    """Consecutive windows of 64 characters, with `<s>` in front."""
    return F.pad(rows, (1, 0), value=start)


def textbook(kind: str, data: Path, steps: int, seed: int) -> Figures:
    """The final losses of nanoGPT's loop on one kind of windows."""
    trained, rest, known = read_text(data)
    torch.manual_seed(seed)
    begun = kind == "from <s>"
    model = TextbookGPT(known + begun, LENGTH, LAYERS, HEADS, WIDTH, bias=False)
    whole = (len(trained) - 1) // LENGTH  # windows followed by at least one character
    wide, judged = windows(trained, LENGTH + 1)[:whole], windows(rest, LENGTH)
    read = from_start(judged, known)[:, :-1].clamp_min(0)
    sides: dict[str, tuple[Iterator[Tensor], Callable[[], Figures]]] = {
        "drawn": (drawn_windows(trained), nano_losses(model, windows(rest, LENGTH + 1))),
        "side by side": (in_turn(wide, seed), nano_losses(model, windows(rest, LENGTH + 1))),
        "from <s>": (
            in_turn(from_start(wide[:, :-1], known), seed),
            lambda: both(lambda given: model(given, given)[0], read, judged, slice(1, None)),
        ),
    }
    batches, losses_of = sides[kind]
    return list(train_textbook(model, batches, steps, losses_of))[-1]


def zoo(folder: Path, data: Path, steps: int, seed: int) -> Figures:
    """The final losses of `zoo pretrain` with nanoGPT's settings."""
    run = folder / f"zoo-{steps}-{seed}"
    train_zoo(run, steps, seed, RECIPE, data)
    return list(read_zoo(run, data))[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for zoo's runs")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    sides: dict[str, Callable[[int], Any]] = {
        f"textbook, {kind}": lambda seed, kind=kind: textbook(kind, options.data, options.steps, seed)
        for kind in ("drawn", "side by side", "from <s>")
    }
    sides["zoo"] = lambda seed: zoo(options.folder, options.data, options.steps, seed)
    print("| side | as it counts, by seed | the same characters, by seed |\n|---|---|---|")
    for name, train in sides.items():
        ends = [train(seed) for seed in range(1, options.seeds + 1)]
        told = ([end[way] for end in ends] for way in WAYS)
        cells = [f"{', '.join(f'{x:.4f}' for x in found)}; median {statistics.median(found):.4f}" for found in told]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
