"""Training in turns: zoo's training command, and the loop that users of transformers write."""

import os
from collections.abc import Callable, Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rows.side_args import SideArgs
from rows.side_process import TurnReporter
from rows.table import PEER_BATCHES
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

ENDLESS_STEPS = 1_000_000  # the program ends the run before
COMMON_SETTINGS = (f"training.steps={ENDLESS_STEPS}", "training.evaluate_every=0", "training.save_every=0")
LONG_TIMEOUTS = ("training.peer_timeout=3600", "training.hang_timeout=36000")  # a side is stopped between turns


def report_steps(reporter: TurnReporter, run: Path, task: str, length: int) -> Watcher:
    """A Watcher that reports each step, with the tokens of the run's log: no padding, sources included."""

    def report_step(line: Line) -> None:
        if line["step"] == 1:
            model = on_meta(load_settings(str(run / "config.yaml")))
            longest = min(length, model.stream.max_length)  # of a document: a longer row holds several
            capacities = Mixture.parse(load_task(task).objective).capacities(longest)
            reporter.record(cost=flops_per_token(model, longest, capacities))
            if "WORLD_SIZE" not in os.environ:  # with several processes, one's memory is not the whole
                reporter.record(parameters=parameters(model))
            reporter.reset_peak_memory()
        reporter.report(round(line["tokens_per_second"] * line["seconds"]))

    return Watcher(step=report_step)


def train_with_zoo(reporter: TurnReporter, args: SideArgs, start: str | Path, task: str, sets: Iterable[str]) -> None:
    """`zoo pretrain`, or `zoo finetune` if `start` is a Path, with defaults for all settings that are not named."""
    kind = "compiled" if args.compiled else "plain"
    run = args.scratch / f"run-{os.environ.get('WORLD_SIZE', '1')}-{kind}"
    own = (f"training.compile={str(args.compiled).lower()}", f"training.precision={args.precision}")
    changes = [parse_set(text) for text in (*COMMON_SETTINGS, *LONG_TIMEOUTS, *own, *sets)]
    request = Request(str(start), task, run, changes, data=args.data)
    watcher = report_steps(reporter, run, task, args.sizes["length"])
    if isinstance(start, Path):
        finetune(resolve(start), request, watcher)
    else:
        pretrain(request, watcher)


def training_loop(
    reporter: TurnReporter,
    model: nn.Module,
    batches: Iterable[tuple[dict[str, Tensor], int]],
    args: SideArgs,
    get_loss: Callable[[Any], Tensor] = lambda outputs: outputs.loss,
) -> None:
    """A textbook training loop: autocast if bfloat16 is fast, fused AdamW, gradients clipped at 1.0.

    Args:
        batches: keyword arguments of the model, and the number of tokens without padding. The first PEER_BATCHES are
            repeated; they are on the device before timing starts, while zoo copies its batches during the steps.
        get_loss: takes the loss from what the model returns.
    """
    model.to(args.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    reporter.record(parameters=sum(p.numel() for p in model.parameters() if p.requires_grad))
    forward, first = torch.compile(model) if args.compiled else model, True
    for inputs, tokens in cycle(list(islice(batches, PEER_BATCHES))):
        with torch.autocast(args.device.split(":")[0], torch.bfloat16, enabled=args.precision == "bfloat16"):
            loss = get_loss(forward(**inputs))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if first:
            reporter.reset_peak_memory()
        first = False
        reporter.report(tokens)
