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
from rows.given import Given
from rows.textbook_gpt import TextbookGPT
from rows.training import PATIENT
from rows.turns import Turn
from zoo.config import parse_set
from zoo.experiments.pretrain import pretrain
from zoo.experiments.request import Request
from zoo.experiments.session import Watcher
from zoo.hub.checkpoint import load_checkpoint
from zoo.models.model import Model

TASK, TEXT, TRAINED = "shakespeare-char", "tinyshakespeare/input.txt", 0.9
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
LAYERS, HEADS, WIDTH = 4, 4, 128
BATCH, RATE, LEAST, WARMUP, DECAY, BETAS = 12, 1e-3, 1e-4, 100, 0.1, (0.9, 0.99)  # nanoGPT's
GOAL = 1.9  # validation runs once the training loss is below it, and at the end
WARM_UP, WAYS = 10, ("own", "same")  # steps of the warm-up turn; ways to count the loss


def zoo(turn: Turn, given: Given) -> None:
    for seed in count():
        run, steps = given.folder / f"zoo-{seed}", given.sizes["zoo_steps"] if seed else WARM_UP
        train_zoo(run, steps, seed, RECIPE, given.data)
        tell(turn, seed, read_zoo(run, given.data))


def train_zoo(run: Path, steps: int, seed: int, recipe: Sequence[str], data: Path) -> None:
    """`zoo pretrain`, which keeps many checkpoints; an existing run is resumed."""
    kept = f"training.save_every={often(steps)}", f"training.keep={steps}", "training.evaluate_every=0"
    sets = [*SIZES, *recipe, *kept, *PATIENT, f"training.steps={steps}", f"training.seed={seed}"]
    request = Request(MODEL, TASK, run, [parse_set(text) for text in sets], run.exists(), data)
    pretrain(request, Watcher())


def read_zoo(run: Path, data: Path) -> Iterator[Figures]:
    """Yield the losses at each checkpoint of a run, with the logged seconds: those of steps, without saving."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    seconds, losses = np.cumsum([line["seconds"] for line in lines]), [line["loss"] for line in lines]
    tokenizer = load_checkpoint(run).tokenizer
    start = tokenizer.roles.id("start")
    (ids,) = tokenizer.encode([(data / TEXT).read_text("utf-8")])
    rows = windows(ids[int(TRAINED * len(ids)) :], LENGTH)
    read = torch.cat([torch.full((len(rows), 1), start), rows[:, :-1].clamp_min(0)], 1)
    every = often(len(lines))
    for step in sorted({*range(every, len(lines), every), len(lines)}):
        found = {
            "step": step,
            "seconds": float(seconds[step - 1]),
            "training": float(np.mean(losses[step - every : step])),
        }
        if found["training"] < GOAL or step == len(lines):
            found |= both(logits_of(load_checkpoint(run / "checkpoints" / str(step)).model), read, rows, slice(1, None))
        yield found


def logits_of(model: Model) -> Callable[[Tensor], Tensor]:
    return lambda ids: model(ids).logits


def tell(turn: Turn, seed: int, curve: Iterator[Figures]) -> None:
    """End a turn with the seconds until the side's `own` loss reached `GOAL`; the turn with seed 0 is a warm-up."""
    points = list(curve)
    if not seed:
        return turn.done(1)
    first = {way: next((point for point in points if point.get(way, math.inf) <= GOAL), None) for way in WAYS}
    turn.facts.setdefault("runs", []).append({"seed": seed, "first": first, "end": points[-1]})
    reached = first["own"] or points[-1]  # a run that never reached it: a lower bound
    turn.done(1, seconds=reached["seconds"])


def textbook(turn: Turn, given: Given) -> None:
    trained, rest, known = read_text(given.data)
    rows = windows(rest, LENGTH + 1)
    for seed in count():
        torch.manual_seed(seed)
        model = TextbookGPT(known, LENGTH, LAYERS, HEADS, WIDTH, bias=False)
        steps = given.sizes["textbook_steps"] if seed else WARM_UP
        tell(turn, seed, train_textbook(model, drawn_windows(trained), steps, nano_losses(model, rows)))


def read_text(data: Path) -> tuple[Any, Any, int]:
    """The training and the validation text as ids of characters, and the number of different characters."""
    text = (data / TEXT).read_text("utf-8")
    known = {character: number for number, character in enumerate(sorted(set(text)))}
    ids = np.array([known[character] for character in text], dtype=np.int64)
    return *np.split(ids, [int(TRAINED * len(ids))]), len(known)


def drawn_windows(ids: Any) -> Iterator[Tensor]:
    """Yield nanoGPT's batches: windows at random positions, each with one character more."""
    while True:
        places = torch.randint(len(ids) - LENGTH, (BATCH,)).tolist()
        yield torch.stack([torch.from_numpy(ids[at : at + LENGTH + 1]) for at in places])


def nano_losses(model: TextbookGPT, rows: Tensor) -> Callable[[], Figures]:
    """The function that computes the losses of a model trained like nanoGPT."""
    return lambda: both(lambda ids: model(ids, ids)[0], rows[:, :-1].clamp_min(0), rows[:, 1:], slice(0, -1))


def train_textbook(
    model: TextbookGPT, batches: Iterator[Tensor], steps: int, losses_of: Callable[[], Figures]
) -> Iterator[Figures]:
    """nanoGPT's loop; yields seconds and losses as often as zoo's runs save.

    Args:
        batches: windows one character longer than the input, for the targets.
    """
    weights = list(model.parameters())
    groups = [{"params": [p for p in weights if p.dim() >= 2], "weight_decay": DECAY}]
    groups.append({"params": [p for p in weights if p.dim() < 2], "weight_decay": 0.0})
    optimizer, seconds, losses, every = torch.optim.AdamW(groups, RATE, BETAS), 0.0, list[float](), often(steps)
    for step in range(steps):
        began = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        windows = next(batches)
        loss = model(windows[:, :-1], windows[:, 1:])[1]
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds += time.perf_counter() - began
        if (step + 1) % every == 0 or step + 1 == steps:
            found = {"step": step + 1, "seconds": seconds, "training": float(np.mean(losses[-every:]))}
            if found["training"] < GOAL or step + 1 == steps:
                found |= losses_of()
            yield found


def rate(step: int, steps: int) -> float:
    """nanoGPT's learning rate: linear warm-up, then cosine decay to `LEAST`."""
    if step < WARMUP:
        return RATE * (step + 1) / (WARMUP + 1)
    done = min(1.0, (step - WARMUP) / (steps - WARMUP))
    return LEAST + (RATE - LEAST) * (1 + math.cos(math.pi * done)) / 2


def often(steps: int) -> int:
    """Steps between two measurements: a fiftieth of a run."""
    return max(1, round(steps / 50))


def windows(ids: Any, width: int) -> Tensor:
    """Windows of a text at every 64 characters, -1 beyond its end; a larger `width` overlaps the next window."""
    padded = F.pad(torch.from_numpy(np.asarray(ids, dtype=np.int64)), (0, LENGTH + width), value=-1)
    return padded.unfold(0, width, LENGTH)[: -(-len(ids) // LENGTH)]


@torch.no_grad()
def both(logits: Callable[[Tensor], Tensor], read: Tensor, wanted: Tensor, same: slice) -> Figures:
    """The two losses of a model in nats per character.

    Args:
        same: the positions of a window that both sides predict from the same context.
    """
    found = [
        F.cross_entropy(logits(some).transpose(1, 2), targets, ignore_index=-1, reduction="none")
        for some, targets in zip(read.split(256), wanted.split(256), strict=True)
    ]
    losses, scored = torch.cat(found).double(), wanted >= 0
    return {
        "own": float(losses.sum() / scored.sum()),
        "same": float(losses[:, same].sum() / scored[:, same].sum()),
    }
