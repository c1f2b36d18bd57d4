"""Row `shakespeare`: seconds of training until a GPT of nanoGPT's CPU size reaches a loss of 1.90 on Shakespeare.

Ours is `zoo pretrain` with RECIPE. The peer is a textbook GPT, trained as nanoGPT's guide says for a CPU: float32, the
default AdamW, the loss read in every step. A turn is one training, with its number as the seed. Outside the measured
time, the validation loss is computed in float32, over windows of 64 characters that do not overlap:

- `own`: as each side's log counts. zoo predicts the 64 characters of a window, the first one from `<s>` alone. nanoGPT
  reads the 64 characters and predicts the one after each.
- `same`: only the 63 characters of each window that both sides predict from the same context.

Source of the peer's settings: Karpathy, nanoGPT (2022), README.md and config/train_shakespeare_char.py.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rows.figures import Figures
from rows.side_args import SideArgs
from rows.side_process import TurnReporter
from rows.textbook_gpt import TextbookGPT
from rows.training import LONG_TIMEOUTS
from zoo.config import parse_set
from zoo.experiments.pretrain import pretrain
from zoo.experiments.request import Request
from zoo.experiments.session import Watcher
from zoo.hub.checkpoint import load_checkpoint
from zoo.models.model import Model

TASK, TEXT, TRAIN_SHARE = "shakespeare-char", "tinyshakespeare/input.txt", 0.9
LENGTH = 64
MODEL, *SIZES = "gpt2-micro", f"max_length={LENGTH}", "dropout=0", f"task.length={LENGTH}"
RECIPE = (
    "training.optimizer=muon",
    "training.learning_rate=2e-2",
    "training.betas=[0.9, 0.99]",
    "training.batch=16",
    "training.schedule=linear",
    "training.warmup_steps=0.05",
)
N_LAYERS, N_HEADS, D_MODEL = 4, 4, 128
BATCH, WEIGHT_DECAY, BETAS = 12, 0.1, (0.9, 0.99)  # nanoGPT's, as are the next ones
LEARNING_RATE, MIN_LEARNING_RATE, WARMUP_STEPS = 1e-3, 1e-4, 100
TARGET_LOSS = 1.9  # validation runs once the training loss is below it, and at the end
FIRST_TURN_STEPS, LOSS_KINDS = 10, ("own", "same")  # steps of the warm-up turn; ways to count the loss


def zoo(reporter: TurnReporter, args: SideArgs) -> None:
    for seed in count():
        run, steps = args.scratch / f"zoo-{seed}", args.sizes["zoo_steps"] if seed else FIRST_TURN_STEPS
        train_zoo(run, steps, seed, RECIPE, args.data)
        finish_turn(reporter, seed, zoo_curve(run, args.data))


def train_zoo(run: Path, steps: int, seed: int, recipe: Sequence[str], data: Path) -> None:
    """`zoo pretrain`, which keeps many checkpoints; an existing run is resumed."""
    saving = f"training.save_every={save_every(steps)}", f"training.keep={steps}", "training.evaluate_every=0"
    sets = [*SIZES, *recipe, *saving, *LONG_TIMEOUTS, f"training.steps={steps}", f"training.seed={seed}"]
    request = Request(MODEL, TASK, run, [parse_set(text) for text in sets], run.exists(), data)
    pretrain(request, Watcher())


def zoo_curve(run: Path, data: Path) -> Iterator[Figures]:
    """Yield the losses at each checkpoint of a run, with the logged seconds: those of steps, without saving."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    seconds, losses = np.cumsum([line["seconds"] for line in lines]), [line["loss"] for line in lines]
    tokenizer = load_checkpoint(run).tokenizer
    start = tokenizer.roles.id("start")
    (ids,) = tokenizer.encode([(data / TEXT).read_text("utf-8")])
    rows = cut_windows(ids[int(TRAIN_SHARE * len(ids)) :], LENGTH)
    inputs = torch.cat([torch.full((len(rows), 1), start), rows[:, :-1].clamp_min(0)], 1)
    every = save_every(len(lines))
    for step in sorted({*range(every, len(lines), every), len(lines)}):
        training_loss = float(np.mean(losses[step - every : step]))
        point = {"step": step, "seconds": float(seconds[step - 1]), "training": training_loss}
        if training_loss < TARGET_LOSS or step == len(lines):
            model = load_checkpoint(run / "checkpoints" / str(step)).model
            point |= own_and_same_loss(logits_function(model), inputs, rows, slice(1, None))
        yield point


def logits_function(model: Model) -> Callable[[Tensor], Tensor]:
    return lambda ids: model(ids).logits


def finish_turn(reporter: TurnReporter, seed: int, curve: Iterator[Figures]) -> None:
    """End a turn with the seconds until the `own` loss reached `TARGET_LOSS`; the turn with seed 0 is a warm-up."""
    points = list(curve)
    if not seed:
        return reporter.report(1)

    def first_below(kind: str) -> Figures | None:
        return next((point for point in points if point.get(kind, math.inf) <= TARGET_LOSS), None)

    first = {kind: first_below(kind) for kind in LOSS_KINDS}
    reporter.facts.setdefault("runs", []).append({"seed": seed, "first": first, "end": points[-1]})
    reached = first["own"] or points[-1]  # a run that never reached it: a lower bound
    reporter.report(1, seconds=reached["seconds"])


def textbook(reporter: TurnReporter, args: SideArgs) -> None:
    train_ids, validation_ids, vocab_size = encode_text(args.data)
    rows = cut_windows(validation_ids, LENGTH + 1)
    for seed in count():
        torch.manual_seed(seed)
        model = TextbookGPT(vocab_size, LENGTH, N_LAYERS, N_HEADS, D_MODEL, bias=False)
        steps = args.sizes["textbook_steps"] if seed else FIRST_TURN_STEPS
        curve = train_textbook(model, random_windows(train_ids), steps, nanogpt_losses(model, rows))
        finish_turn(reporter, seed, curve)


def encode_text(data: Path) -> tuple[Any, Any, int]:
    """The training and the validation text as ids of characters, and the number of different characters."""
    text = (data / TEXT).read_text("utf-8")
    vocabulary = {character: id_ for id_, character in enumerate(sorted(set(text)))}
    ids = np.array([vocabulary[character] for character in text], dtype=np.int64)
    return *np.split(ids, [int(TRAIN_SHARE * len(ids))]), len(vocabulary)


def random_windows(ids: Any) -> Iterator[Tensor]:
    """Yield nanoGPT's batches: windows at random positions, one character longer than the input."""
    while True:
        starts = torch.randint(len(ids) - LENGTH, (BATCH,)).tolist()
        yield torch.stack([torch.from_numpy(ids[start : start + LENGTH + 1]) for start in starts])


def nanogpt_losses(model: TextbookGPT, rows: Tensor) -> Callable[[], Figures]:
    """The function that computes the losses of a model trained like nanoGPT."""
    inputs, targets = rows[:, :-1].clamp_min(0), rows[:, 1:]
    return lambda: own_and_same_loss(lambda ids: model(ids, ids)[0], inputs, targets, slice(0, -1))


def train_textbook(
    model: TextbookGPT, batches: Iterator[Tensor], steps: int, compute_losses: Callable[[], Figures]
) -> Iterator[Figures]:
    """nanoGPT's loop; yields seconds and losses as often as zoo's runs save.

    Args:
        batches: windows one character longer than the input, for the targets.
    """
    weights = list(model.parameters())
    groups = [{"params": [p for p in weights if p.dim() >= 2], "weight_decay": WEIGHT_DECAY}]
    groups.append({"params": [p for p in weights if p.dim() < 2], "weight_decay": 0.0})
    optimizer, seconds = torch.optim.AdamW(groups, LEARNING_RATE, BETAS), 0.0
    losses, every = list[float](), save_every(steps)
    for step in range(steps):
        began = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        windows = next(batches)
        loss = model(windows[:, :-1], windows[:, 1:])[1]
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds += time.perf_counter() - began
        if (step + 1) % every == 0 or step + 1 == steps:
            point = {"step": step + 1, "seconds": seconds, "training": float(np.mean(losses[-every:]))}
            if point["training"] < TARGET_LOSS or step + 1 == steps:
                point |= compute_losses()
            yield point


def learning_rate(step: int, steps: int) -> float:
    """nanoGPT's learning rate: linear warm-up, then cosine decay to `MIN_LEARNING_RATE`."""
    if step < WARMUP_STEPS:
        return LEARNING_RATE * (step + 1) / (WARMUP_STEPS + 1)
    progress = min(1.0, (step - WARMUP_STEPS) / (steps - WARMUP_STEPS))
    return MIN_LEARNING_RATE + (LEARNING_RATE - MIN_LEARNING_RATE) * (1 + math.cos(math.pi * progress)) / 2


def save_every(steps: int) -> int:
    """Steps between two checkpoints: a fiftieth of a run."""
    return max(1, round(steps / 50))


def cut_windows(ids: Any, width: int) -> Tensor:
    """Windows of a text at every 64 characters, -1 beyond its end; a `width` above 64 overlaps the next window."""
    padded = F.pad(torch.from_numpy(np.asarray(ids, dtype=np.int64)), (0, LENGTH + width), value=-1)
    return padded.unfold(0, width, LENGTH)[: -(-len(ids) // LENGTH)]


@torch.no_grad()
def own_and_same_loss(logits: Callable[[Tensor], Tensor], inputs: Tensor, targets: Tensor, same: slice) -> Figures:
    """The losses of a model, counted in both ways, in nats per character.

    Args:
        logits: computes the logits of ids.
        same: the positions of a window that both sides predict from the same context.
    """
    parts = [
        F.cross_entropy(logits(ids).transpose(1, 2), labels, ignore_index=-1, reduction="none")
        for ids, labels in zip(inputs.split(256), targets.split(256), strict=True)
    ]
    losses, scored = torch.cat(parts).double(), targets >= 0
    return {
        "own": float(losses.sum() / scored.sum()),
        "same": float(losses[:, same].sum() / scored[:, same].sum()),
    }
