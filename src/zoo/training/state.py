"""The progress of a run: the content of a checkpoint's state.json."""

import logging
import math
from dataclasses import asdict, dataclass, field

from zoo.batches.feed import Feed
from zoo.config import build
from zoo.runs.layout import STATE
from zoo.runs.metrics import Line, finite_only
from zoo.runs.run import Run
from zoo.strict_yaml import Tree
from zoo.training.learner import Learner
from zoo.training.settings import Training
from zoo.training.spikes import RunningLoss

ADVICE = "Lower training.learning_rate, or raise training.warmup_steps"
logger = logging.getLogger(__name__)


@dataclass
class State:
    """The progress of a run.

    Args:
        step: optimizer steps done.
        position: the data position (`Feed.position`).
        best: step, metric, value and loss of the best validated checkpoint.
        stale: validations since then.
        skipped: consecutive steps, up to the last one, whose loss or gradient was not finite.
        scale: the state of float16's GradScaler.
        usual: the running mean and variance of the loss.
        micro_batch: rows per forward pass, as set or as `auto` found; None: the whole share of a process.
        line: the log line of a step whose validation was interrupted; a resumed run repeats that validation first.
        passing: whether only a signal is the reason for this checkpoint; an uninterrupted run does not have it.
    """

    step: int = 0
    position: Tree = field(default_factory=dict)
    best: Tree | None = None
    stale: int = 0
    skipped: int = 0
    scale: Tree = field(default_factory=dict)
    usual: RunningLoss = field(default_factory=RunningLoss)
    micro_batch: int | None = None
    line: Line | None = None
    passing: bool = False


def resume(run: Run, feed: Feed) -> State:
    """Return the state of the run's checkpoint and move the feed to its position; a new state without a checkpoint."""
    if run.checkpoint is None:
        return State()
    state = build(State, run.checkpoint.state, str(run.checkpoint.folder / STATE))
    feed.seek(state.position)
    # JSON has no NaN: `save` wrote null in its place
    state.line = state.line and {key: math.nan if value is None else value for key, value in state.line.items()}
    logger.info("resumed after step %d%s", state.step, ", in its validation" if state.line else "")
    return state


def is_over(state: State, settings: Training) -> bool:
    """Whether a run ends here: all steps are done, or `training.patience` is exhausted."""
    stale = settings.patience is not None and state.stale >= settings.patience
    return stale or is_last(state.step, settings)


def is_last(step: int, settings: Training) -> bool:
    """Whether all steps are done."""
    assert settings.steps is not None, "fix_training comes first"
    return step >= settings.steps


def save(learner: Learner, state: State, run: Run, passing: bool = False) -> None:
    """Write a checkpoint, and delete those that are neither recent nor the best.

    Args:
        passing: whether only a signal is the reason.

    Raises:
        RuntimeError: a weight is no longer finite, or the checkpoint cannot be written; the earlier ones stay.
    """
    broken = learner.nonfinite_weight()  # each process checks its own shard, then all of them agree
    (count,) = learner.processes.sum_numbers([float(broken is not None)])
    if count:
        raise RuntimeError(
            f"step {state.step}: {broken or 'a weight'} is no longer finite, so nothing is saved; "
            f"{advise_checkpoint(run, state.step)}"
        )
    state.scale, state.passing = dict(learner.scaler.state_dict()), passing
    line = state.line and finite_only(state.line)
    run.save(state.step, learner.tensors(), {**asdict(state), "line": line}, learner.extra_files())
    best = None if state.best is None else int(state.best["step"])
    run.prune(max(learner.settings.keep, learner.settings.average or 1), best)


def advise_checkpoint(run: Run, before: int) -> str:
    """Return advice for a broken run: which checkpoint to continue from, and what to change.

    Args:
        before: the first step that went wrong; its own and later checkpoints hold its initial weights, or worse ones.
    """
    earlier = next((one for one in run.undamaged_checkpoints() if one.step < before), None)
    where = f"the last checkpoint before that is {earlier.folder}" if earlier else "there is no checkpoint before that"
    return f"{where}. {ADVICE}"
