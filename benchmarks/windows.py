"""How zoo's rows change the loss of nanoGPT's recipe: nanoGPT's loop on zoo's rows, and zoo with nanoGPT's settings.

    python benchmarks/windows.py runs/windows --data DATA

Models, text and the two ways to count the loss are those of row `shakespeare` (rows/shakespeare.py); all sides train
in float32 with AdamW and nanoGPT's schedule. nanoGPT's loop reads three kinds of windows of 64 characters:

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

from rows.figures import Figures
from rows.shakespeare import (
    BATCH,
    BETAS,
    D_MODEL,
    LEARNING_RATE,
    LENGTH,
    LOSS_KINDS,
    MIN_LEARNING_RATE,
    N_HEADS,
    N_LAYERS,
    WARMUP_STEPS,
    WEIGHT_DECAY,
    cut_windows,
    encode_text,
    nanogpt_losses,
    own_and_same_loss,
    random_windows,
    train_textbook,
    train_zoo,
    zoo_curve,
)
from rows.textbook_gpt import TextbookGPT

NANOGPT_SETTINGS = (
    "training.optimizer=adamw",
    f"training.learning_rate={LEARNING_RATE}",
    f"training.betas=[{BETAS[0]}, {BETAS[1]}]",
    f"training.weight_decay={WEIGHT_DECAY}",
    f"training.schedule={{name: cosine, floor: {MIN_LEARNING_RATE / LEARNING_RATE}}}",
    f"training.warmup_steps={WARMUP_STEPS}",
    f"training.batch={BATCH}",
    "training.precision=float32",
)


def shuffled_batches(rows: Tensor, seed: int) -> Iterator[Tensor]:
    """Yield batches of rows; each row occurs once per epoch."""
    generator, order = np.random.default_rng(seed), list[int]()
    while True:
        while len(order) < BATCH:
            order += generator.permutation(len(rows)).tolist()
        yield rows[order[:BATCH]]
        del order[:BATCH]


def prepend_start(rows: Tensor, start: int) -> Tensor:
    """Put `<s>` in front of each row.

    Args:
        start: the id of `<s>`.
    """
    return F.pad(rows, (1, 0), value=start)


def textbook_final_losses(kind: str, data: Path, steps: int, seed: int) -> Figures:
    """The final losses of nanoGPT's loop on one kind of windows."""
    train_ids, validation_ids, vocab_size = encode_text(data)
    torch.manual_seed(seed)
    has_start = kind == "from <s>"
    model = TextbookGPT(vocab_size + has_start, LENGTH, N_LAYERS, N_HEADS, D_MODEL, bias=False)
    count = (len(train_ids) - 1) // LENGTH  # windows followed by at least one character
    start = vocab_size  # the id of <s>
    train_windows, targets = cut_windows(train_ids, LENGTH + 1)[:count], cut_windows(validation_ids, LENGTH)
    inputs = prepend_start(targets, start)[:, :-1].clamp_min(0)
    as_nanogpt = nanogpt_losses(model, cut_windows(validation_ids, LENGTH + 1))
    sides: dict[str, tuple[Iterator[Tensor], Callable[[], Figures]]] = {
        "drawn": (random_windows(train_ids), as_nanogpt),
        "side by side": (shuffled_batches(train_windows, seed), as_nanogpt),
        "from <s>": (
            shuffled_batches(prepend_start(train_windows[:, :-1], start), seed),
            lambda: own_and_same_loss(lambda ids: model(ids, ids)[0], inputs, targets, slice(1, None)),
        ),
    }
    batches, compute_losses = sides[kind]
    return list(train_textbook(model, batches, steps, compute_losses))[-1]


def zoo_final_losses(folder: Path, data: Path, steps: int, seed: int) -> Figures:
    """The final losses of `zoo pretrain` with nanoGPT's settings."""
    run = folder / f"zoo-{steps}-{seed}"
    train_zoo(run, steps, seed, NANOGPT_SETTINGS, data)
    return list(zoo_curve(run, data))[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for zoo's runs")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    sides: dict[str, Callable[[int], Any]] = {
        f"textbook, {kind}": lambda seed, kind=kind: textbook_final_losses(kind, options.data, options.steps, seed)
        for kind in ("drawn", "side by side", "from <s>")
    }
    sides["zoo"] = lambda seed: zoo_final_losses(options.folder, options.data, options.steps, seed)
    print("| side | as it counts, by seed | the same characters, by seed |\n|---|---|---|")
    for name, train in sides.items():
        ends = [train(seed) for seed in range(1, options.seeds + 1)]
        by_kind = ([end[kind] for end in ends] for kind in LOSS_KINDS)
        cells = [f"{', '.join(f'{x:.4f}' for x in each)}; median {statistics.median(each):.4f}" for each in by_kind]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
