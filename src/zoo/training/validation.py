"""Validation during training, of the weights that a user of the run would get now; the state keeps the best so far."""

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch import nn

from zoo.models.generation.reordered import clear_reordered_matrices
from zoo.runs.checkpoint import is_signal_checkpoint
from zoo.runs.metrics import VALIDATION, Line
from zoo.runs.run import Run
from zoo.training.learner import Learner
from zoo.training.state import State
from zoo.training.supervision.stopping import Interrupted, Signals, first_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Validation:
    """How a model is validated during training.

    Args:
        measure: takes the model in evaluation mode, and a function to call between batches; returns values by name.
            Every process must call both equally often; the main process's values are used.
        metric: the name of the value that decides which step is best.
        higher_is_better: whether a higher value of `metric` is better.
    """

    measure: Callable[[nn.Module, Callable[[], None]], dict[str, float]]
    metric: str
    higher_is_better: bool = False


def discard_line(line: Line) -> None:
    """Do nothing with a log line."""


@dataclass(frozen=True)
class Observers:
    """What observes a training: a validation, and a report of each step.

    Args:
        validation: None: there is none, and the last checkpoint is the one to use.
        report: called in the main process with each step's log line, with `steps` added.
        flops_per_token: of the model, forward and backward; None: the log has no MFU.
    """

    validation: Validation | None = None
    report: Callable[[Line], None] = discard_line
    flops_per_token: float | None = None


NO_OBSERVERS = Observers()


def validate(learner: Learner, state: State, run: Run, observers: Observers, last: bool, signals: Signals) -> Line:
    """Validate the weights that a user of the run would get now, and note in the state whether they are the best.

    Args:
        last: whether this is the end of the run, when `training.average` averages the last checkpoints.

    Returns:
        The log line's entries `validation/NAME`; {} without a validation.

    Raises:
        Interrupted: a process received a signal; the state is unchanged.
    """
    if last and learner.settings.average is not None:
        average(learner, learner.settings.average, state, run)
    if observers.validation is None:
        return {}

    def between() -> None:
        number = first_of(learner.processes.sum_numbers(signals.flags()))
        if number is not None:
            raise Interrupted(number)

    with learner.published_model() as model, report_progress(model, learner.processes.alive):
        values = observers.validation.measure(model, between)
    clear_reordered_matrices()
    # what validations are compared by; NaN if nothing was scored
    found = {"value": values.get(observers.validation.metric, math.nan), "loss": values.get("loss", math.nan)}
    best = state.best
    better = math.isfinite(found["value"]) and (best is None or is_better(found, best, observers.validation))
    # the main process decides for all, and the others add zeros: their values may differ in the last bit
    mine = [float(better), *found.values()] if learner.processes.is_main else [0.0] * (1 + len(found))
    improved, *decisive = learner.processes.sum_numbers(mine)
    state.stale = 0 if improved else state.stale + 1
    if improved:
        known = {name: value for name, value in zip(found, decisive, strict=True) if math.isfinite(value)}
        state.best = {"step": state.step, "metric": observers.validation.metric, **known}
    return {f"{VALIDATION}{name}": number for name, number in values.items()}


def is_better(found: Mapping[str, float], best: Mapping[str, Any], validation: Validation) -> bool:
    """Whether a validation is better than the best one; the loss breaks ties.

    Many metrics stay at 0 until a model answers something right; the first of those checkpoints should not remain best.
    """
    if found["value"] == best["value"]:
        return bool(found["loss"] < best.get("loss", -math.inf))
    return bool(found["value"] > best["value"]) == validation.higher_is_better


def average(learner: Learner, most: int, state: State, run: Run) -> None:
    """Publish the mean of the current weights and the last checkpoints, `most` in all, and log their steps."""
    earlier = (c for c in run.undamaged_checkpoints() if c.step < state.step and not is_signal_checkpoint(c.folder))
    taken = list(islice(earlier, most - 1))
    learner.average_checkpoints(taken)
    if learner.processes.is_main:
        steps = ", ".join(str(step) for step in [*sorted(checkpoint.step for checkpoint in taken), state.step])
        which = f"step{'s' if taken else ''} {steps}"
        few = "" if len(taken) == most - 1 else f"; only {len(taken) + 1} of training.average={most} were kept"
        logger.log(logging.WARNING if few else logging.INFO, "averaged: the weights of %s%s", which, few)


@contextmanager
def report_progress(model: nn.Module, alive: Callable[[], None]) -> Iterator[None]:
    """Call `alive` whenever one of a model's leaf modules is called, so that the watchdog sees progress.

    Hooks on the whole model would miss generation, which calls encoder, decoder and heads one by one. nn.Linear gets
    none: a hook marks a layer that does more than multiply, as LoRA's do, and logits would be computed all at once.
    """
    leaves = [module for module in model.modules() if not any(module.children()) and type(module) is not nn.Linear]
    hooks = [module.register_forward_pre_hook(lambda *_: alive()) for module in leaves]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
