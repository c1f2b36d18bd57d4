"""Training in turns: zoo's training command, and the loop that users of transformers write."""

import os
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rows.given import Given
from rows.table import BATCHES
from rows.turns import Turn
from zoo.config import parse_set
from zoo.data.task import load_task
from zoo.experiments.finetune import finetune
from zoo.experiments.pretrain import pretrain
from zoo.experiments.request import Request
from zoo.experiments.session import Watcher
from zoo.hub.checkpoint import resolve
from zoo.models.cost import flops_per_token, on_meta, parameters
from zoo.models.settings import load_settings
from zoo.objectives.mixture import Mixture
from zoo.runs.metrics import Line

MANY = 1_000_000  # steps; the program ends the run before
ORDINARY = (f"training.steps={MANY}", "training.evaluate_every=0", "training.save_every=0")
PATIENT = ("training.peer_timeout=3600", "training.hang_timeout=36000")  # a side is stopped between turns


def watcher(turn: Turn, run: Path, task: str, length: int) -> Watcher:
    """A Watcher that ends a turn after each step, with the tokens of the run's log: no padding, sources included."""

    def step(line: Line) -> None:
        if line["step"] == 1:
            model = on_meta(load_settings(str(run / "config.yaml")))
            scored = Mixture.parse(load_task(task).objective).capacities(length)
            turn.note(cost=flops_per_token(model, length, scored))
            if "WORLD_SIZE" not in os.environ:  # with several processes, one's memory is not the whole
                turn.note(parameters=parameters(model))
            turn.forget_peak()
        turn.done(round(line["tokens_per_second"] * line["seconds"]))

    return Watcher(step=step)


def zoo_training(turn: Turn, given: Given, start: str | Path, task: str, sets: Iterable[str]) -> None:
    """`zoo pretrain`, or `zoo finetune` if `start` is a Path, with defaults for all settings that are not named."""
    kind = "compiled" if given.compiled else "plain"
    run = given.folder / f"run-{os.environ.get('WORLD_SIZE', '1')}-{kind}"
    own = (f"training.compile={str(given.compiled).lower()}", f"training.precision={given.precision}")
    changes = [parse_set(text) for text in (*ORDINARY, *PATIENT, *own, *sets)]
    request = Request(str(start), task, run, changes, data=given.data)
    watching = watcher(turn, run, task, given.sizes["length"])
    if isinstance(start, Path):
        finetune(resolve(start), request, watching)
    else:
        pretrain(request, watching)


def loop(
    turn: Turn,
    model: nn.Module,
    batches: Iterable[tuple[dict[str, Tensor], int]],
    given: Given,
    loss_of: Callable[[Any], Tensor] = lambda said: said.loss,
) -> None:
    """A textbook training loop: autocast if bfloat16 is fast, fused AdamW, gradients clipped at 1.0.

    Args:
        batches: keyword arguments of the model, and the number of tokens without padding. The first BATCHES are
            repeated; they are on the device before timing starts, while zoo copies its batches during the steps.
    """
    model.to(given.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    turn.note(parameters=sum(p.numel() for p in model.parameters() if p.requires_grad))
    called, first = torch.compile(model) if given.compiled else model, True
    for inputs, tokens in cycle(list(islice(batches, BATCHES))):
        with torch.autocast(given.device.split(":")[0], torch.bfloat16, enabled=given.precision == "bfloat16"):
            loss = loss_of(called(**inputs))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if first:
            turn.forget_peak()
        first = False
        turn.done(tokens)
