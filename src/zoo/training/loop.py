"""The training loop, top to bottom: counts, micro-batches, one update; then logging, evaluating, saving."""

import logging
import time
from collections.abc import Generator
from contextlib import closing
from typing import NoReturn

from torch import Tensor, nn

from zoo.batches.ahead import Step, StepDataset, build_ahead
from zoo.batches.feed import Feed
from zoo.devices.copying import has_async_copies
from zoo.devices.memory import explain_memory, keep_large_blocks
from zoo.devices.workers import count_workers, describe_workers
from zoo.objectives.mixture import Mixture
from zoo.runs.metrics import Line
from zoo.runs.run import Run
from zoo.training.learner import Learner
from zoo.training.logbook import (
    enforce_skip_limit,
    is_due,
    log,
    note_complete,
    note_end,
    note_skipped,
    note_spike,
    start_log,
)
from zoo.training.meter import Speed, Tally
from zoo.training.micro_batch import fit_micro_batch
from zoo.training.settings import Training
from zoo.training.state import State, is_last, is_over, resume, save
from zoo.training.step import take_step
from zoo.training.supervision.processes import Processes
from zoo.training.supervision.stopping import Interrupted, Signals, Stopped, catch_signals, first_of
from zoo.training.validation import NO_OBSERVERS, Observers, validate

logger = logging.getLogger(__name__)


def train(
    model: nn.Module,
    feed: Feed,
    mixture: Mixture,
    settings: Training,
    run: Run,
    processes: Processes,
    observers: Observers = NO_OBSERVERS,
) -> State:
    """Train a model from its run's last checkpoint, or from step 0, to the last step; return the final state.

    Raises:
        Stopped: a signal arrived; the state is saved.
        RuntimeError: too many steps in a row were not finite, memory is too small, or a checkpoint cannot be written.
    """
    learner = Learner(model, settings, processes, run.checkpoint)
    state = resume(run, feed)
    if state.line is None and is_over(state, settings):
        note_complete(state, settings, run)
        return state
    speed = start_log(learner, observers)
    micro_batch = state.micro_batch = fit_micro_batch(learner, feed, mixture, state.micro_batch)
    steps = remaining_steps(feed, state, settings, processes)
    with catch_signals() as signals, explain_memory(micro_batch), closing(steps):
        # a signal may have interrupted the last step's validation: finish that step first
        finished = state.line is not None and finish_step(learner, state, run, observers, signals)
        waiting: Tally | None = None  # the previous step; its numbers are read while the device computes the next one
        while not finished:
            processes.alive()
            parts, state.position = next(steps)
            # before the first forward pass: each micro-batch's loss is divided by the counts of the whole step
            counts = count_scored(processes, [mixture.counts(part.targets) for part in parts])
            tally = Tally(state.step + 1, counts, feed.rows_taken(state.position))
            take_step(learner, mixture, parts, tally, signals.flags())
            state.step += 1
            if waiting is None and settings.keep_memory:  # needed after the first step only; repeating it is harmless
                keep_large_blocks()
            stop = None
            if waiting is not None:
                state.line, stop = read_line(waiting, learner, state, speed, tally.began), first_of(waiting.signals)
                write(learner, state, run, observers)
            if processes.count == 1:  # no other process needs to agree, so stop one step earlier
                stop = first_of(signals.flags())
            waiting = tally
            if stop is not None or is_milestone(state.step, settings):
                state.line, waiting = read_line(tally, learner, state, speed, time.perf_counter()), None
                finished = finish_step(learner, state, run, observers, signals, stop or first_of(tally.signals))
    return state


def remaining_steps(feed: Feed, state: State, settings: Training, processes: Processes) -> Generator[Step, None, None]:
    """Return a generator of the remaining steps' batches, built ahead by a thread or by worker processes."""
    assert settings.steps is not None, "fix_training comes first"
    if workers := count_workers(settings.workers, processes.device, processes.local_count):
        logger.info("batches are built by %s (training.workers)", describe_workers(workers))
    left = settings.steps - state.step
    steps = StepDataset(feed, left, settings.batch, state.micro_batch, processes.rank, processes.count)
    return build_ahead(steps, settings.pin_memory and has_async_copies(processes.device), workers)


def is_milestone(step: int, settings: Training) -> bool:
    """Whether a step is followed by a validation, a checkpoint or the end of the run."""
    return is_last(step, settings) or is_due(step, settings.evaluate_every) or is_due(step, settings.save_every)


def read_line(tally: Tally, learner: Learner, state: State, speed: Speed, ended: float) -> Line:
    """Read the numbers of a step and return its log line. Call it in the order of the steps.

    Args:
        ended: when the step ended, on the clock of `time.perf_counter`.
    """
    tally.read()
    note_skipped(tally, state, learner)
    return {**tally.line, **speed.line(tally.tokens, tally.seconds(ended)), **note_spike(tally, state)}


def write(learner: Learner, state: State, run: Run, observers: Observers, finished: bool = False) -> None:
    """Log the newest step whose numbers are known.

    Raises:
        RuntimeError: too many steps in a row were skipped.
    """
    line, state.line = state.line or {}, None
    log(line, run, learner, observers, finished)
    enforce_skip_limit(line, state, learner, run)


def finish_step(
    learner: Learner, state: State, run: Run, observers: Observers, signals: Signals, stop: int | None = None
) -> bool:
    """Validate, log and save as is due after a step; return whether it was the last one.

    Args:
        stop: the signal that the processes agreed on in this step.

    Raises:
        Stopped: a signal arrived in the step or in its validation; the state is saved.
        RuntimeError: too many steps in a row were skipped, or the checkpoint cannot be written.
    """
    settings = learner.settings
    finished, improved, line = is_last(state.step, settings), False, state.line or {}
    if finished or is_due(state.step, settings.evaluate_every):
        try:
            line |= (validated := validate(learner, state, run, observers, finished, signals))
        except Interrupted as interrupted:
            save(learner, state, run, passing=True)
            stop_run(learner, interrupted.signal, f"in the validation after step {state.step}")
        improved = bool(validated) and state.stale == 0
        finished = is_over(state, settings)
    state.line = line
    write(learner, state, run, observers, finished)
    if finished:
        note_end(state, settings)
    due = finished or improved or is_due(state.step, settings.save_every)
    if due or stop is not None:
        save(learner, state, run, passing=not due)
    if stop is not None and not finished:
        stop_run(learner, stop, f"after step {state.step}")
    return finished


def stop_run(learner: Learner, number: int, where: str) -> NoReturn:
    """End the run because of a signal, once all processes are done with saving the state.

    Raises:
        Stopped: always.
    """
    learner.processes.accelerator.wait_for_everyone()
    raise Stopped(number, f"{where}; the state is saved, --resume continues", saved=True)


def count_scored(processes: Processes, counts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return on the device, by term, the number of scored positions in all micro-batches of all processes."""
    names = list(counts[0])
    # the targets are still on the CPU, so `item` waits for no device
    local = [float(sum(part[name].item() for part in counts)) for name in names]
    return dict(zip(names, processes.sum(processes.to_device(local)).unbind(), strict=True))
