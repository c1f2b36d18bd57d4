"""The training loop, top to bottom: counts, micro-batches, one update; then logging, evaluating, saving."""

import logging
from collections.abc import Mapping
from contextlib import closing
from typing import NoReturn

import torch
from torch import Tensor, nn

from zoo.batches.feed import Feed, build_ahead
from zoo.devices.memory import explain_memory
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import Term
from zoo.runs.run import Run
from zoo.training.judging import NOBODY, Watch, judge
from zoo.training.learner import Learner, hold_gradients, reseed_dropout
from zoo.training.logbook import begin, give_up, is_due, log, note_numbers, note_spike
from zoo.training.meter import Tally
from zoo.training.micro_batch import fit_micro_batch
from zoo.training.settings import Training
from zoo.training.state import State, is_over, resume, save
from zoo.training.supervision.processes import Processes
from zoo.training.supervision.stopping import Interrupted, Signals, Stopped, catch_signals, first_of

logger = logging.getLogger(__name__)


def train(
    model: nn.Module,
    feed: Feed,
    goal: Mixture,
    settings: Training,
    run: Run,
    processes: Processes,
    watch: Watch = NOBODY,
) -> State:
    """Train a model in its run folder, from where that stands to the last step.

    Raises:
        Stopped: a signal came; the state is saved.
        RuntimeError: too many steps in a row were not finite, memory is too small, or a checkpoint cannot be written.
    """
    learner = Learner(model, settings, processes, run.checkpoint)
    state = resume(run, feed)
    if state.line is None and is_over(state, settings):
        logger.info("already complete: %d of %d steps", state.step, settings.steps)
        return state
    speed = begin(learner, watch)
    micro_batch = state.micro_batch = fit_micro_batch(learner, feed, goal, state.micro_batch)
    assert settings.steps is not None
    share = settings.batch, micro_batch, processes.rank, processes.count
    steps = build_ahead(feed, settings.steps - state.step, *share)
    with catch_signals() as signals, explain_memory(micro_batch), closing(steps):
        # a signal may have stopped the run in a step's validation: then the step is finished first
        finished = state.line is not None and finish_step(learner, state, run, watch, signals)
        while not finished:
            processes.alive()
            speed.start()
            parts, state.position = next(steps)
            tally = Tally(count(processes, [goal.counts(part.targets) for part in parts]))
            reseed_dropout(settings.seed, state.step, processes.rank)
            for part in (part.to(processes.device) for part in parts):
                with hold_gradients(learner, len(tally.parts) + 1 < len(parts)):
                    with learner.autocast():
                        said = learner.wrapped(**part.inputs, **goal.asks)
                        terms = goal.terms(said.scores, part.targets, said.weights)
                    learner.backward(weigh(terms, tally.counts))
                    with torch.no_grad():
                        tally.add(part, terms)
                    del said, terms  # the next forward, and validation, need their memory
            tally.agree(processes, learner.clip(), signals.flags())
            rate = learner.update(state.step, finite=not tally.bad)
            state.step += 1
            note_numbers(tally, state, learner)
            state.line = {"step": state.step, **tally.line, "learning_rate": rate, **speed.line(tally.tokens)}
            state.line |= note_spike(tally, state)
            finished = finish_step(learner, state, run, watch, signals, first_of(tally.signals))
    return state


def finish_step(
    learner: Learner, state: State, run: Run, watch: Watch, signals: Signals, stop: int | None = None
) -> bool:
    """Validate, log and save what is due after a step; whether it was the last one.

    Args:
        stop: the signal that the processes agreed on in this step.

    Raises:
        Stopped: after it, or in its validation; the state is saved.
    """
    settings = learner.settings
    assert settings.steps is not None and settings.evaluate_every is not None and settings.save_every is not None
    finished, improved, line = state.step >= settings.steps, False, state.line or {}
    if finished or is_due(state.step, settings.evaluate_every):
        try:
            line |= (judged := judge(learner, state, run, watch, finished, signals))
        except Interrupted as interrupted:
            save(learner, state, run, passing=True)
            leave(learner, interrupted.signal, f"in the validation after step {state.step}")
        improved = bool(judged) and state.stale == 0
        finished = is_over(state, settings)
    state.line = None
    log(line, run, learner, watch, finished)
    give_up(state, learner, run)
    due = finished or improved or is_due(state.step, settings.save_every)
    if due or stop is not None:
        save(learner, state, run, passing=not due)
    if stop is not None and not finished:
        leave(learner, stop, f"after step {state.step}")
    return finished


def leave(learner: Learner, number: int, where: str) -> NoReturn:
    """End the run for a signal, in all processes when the state is on the disk."""
    learner.processes.accelerator.wait_for_everyone()
    raise Stopped(number, f"{where}; the state is saved, --resume continues", saved=True)


def count(processes: Processes, counts: list[dict[str, Tensor]]) -> dict[str, float]:
    """By term, the scored places of all micro-batches of all processes."""
    names = list(counts[0])
    local = [float(sum(int(part[name]) for part in counts)) for name in names]
    return dict(zip(names, processes.add_up(local), strict=True))


def weigh(terms: Mapping[str, Term], counts: Mapping[str, float]) -> Tensor:
    """The loss: each term's sum by its count over all processes, times its weight; a term without places adds 0."""
    weighed = [term.sum * (term.weight / max(1.0, counts[name])) for name, term in terms.items()]
    return torch.stack(weighed).sum()
