"""The training loop, top to bottom: counts, micro-batches, one update; then logging, evaluating, saving."""

import logging
from collections.abc import Mapping
from typing import Protocol

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from zoo.objectives.objective import Term
from zoo.runs.run import Run
from zoo.training.feed import Feed, Steps
from zoo.training.judging import NOBODY, Watch, judge
from zoo.training.learner import Learner, hold_gradients, reseed_dropout
from zoo.training.logbook import begin, is_due, log, note_numbers, note_spike
from zoo.training.memory import explain_memory
from zoo.training.meter import Tally
from zoo.training.micro_batch import fit_micro_batch
from zoo.training.processes import add_up
from zoo.training.settings import Training
from zoo.training.state import State, is_complete, resume, save
from zoo.training.stopping import Stopped, catch_signals, first_of

Named = Mapping[str, Tensor]
logger = logging.getLogger(__name__)


class Goal(Protocol):
    """What is asked of a model: losses as sums and counts, by term."""

    def counts(self, targets: Named) -> dict[str, Tensor]: ...

    def terms(self, heads: Named, targets: Named) -> dict[str, Term]: ...

    def measure(self, heads: Named, targets: Named) -> dict[str, tuple[Tensor, Tensor]]: ...


def train(
    model: nn.Module,
    feed: Feed,
    goal: Goal,
    settings: Training,
    run: Run,
    accelerator: Accelerator,
    watch: Watch = NOBODY,
) -> State:
    """Train a model in its run folder, from where that stands to the last step.

    Raises:
        Stopped: a signal came; the state is saved.
        RuntimeError: too many steps in a row were not finite, memory is too small, or a checkpoint cannot be written.
    """
    learner = Learner(model, settings, accelerator, run.checkpoint)
    state = resume(run, feed)
    assert settings.steps is not None and settings.evaluate_every is not None and settings.save_every is not None
    if is_complete(state, settings):
        logger.info("already complete: %d of %d steps", state.step, settings.steps)
        return state
    speed = begin(learner, watch)
    micro_batch = state.micro_batch = fit_micro_batch(learner, feed, goal, state.micro_batch)
    share = settings.batch, micro_batch, accelerator.process_index, accelerator.num_processes
    finished = False
    with catch_signals() as signals, explain_memory(micro_batch), Steps(feed, *share) as steps:
        while not finished:
            watch.alive()
            speed.start()
            parts, state.position = steps.take(last=state.step + 1 == settings.steps)
            tally = Tally(count(accelerator, [goal.counts(part.targets) for part in parts]))
            reseed_dropout(settings.seed, state.step, accelerator.process_index)
            for part in (part.to(accelerator.device) for part in parts):
                with hold_gradients(accelerator, learner.wrapped, len(tally.parts) + 1 < len(parts)):
                    with learner.autocast():
                        heads = learner.wrapped(**part.inputs).heads
                        terms = goal.terms(heads, part.targets)
                    learner.backward(weigh(terms, tally.counts))
                    with torch.no_grad():
                        tally.add(part, terms, goal.measure(heads, part.targets))
            tally.agree(accelerator, learner.clip(), signals.flags())
            rate = learner.update(state.step, finite=not tally.bad)
            state.step += 1
            line = {"step": state.step, **tally.line, "learning_rate": rate, **speed.line(tally.tokens)}
            line |= note_spike(tally, state)

            signal = first_of(tally.signals)
            finished = state.step == settings.steps
            improved = False
            if finished or is_due(state.step, settings.evaluate_every):
                line |= (judged := judge(learner, state, run, watch, finished))
                improved = bool(judged) and state.stale == 0
                finished = finished or (settings.patience is not None and state.stale >= settings.patience)
            log(line, run, learner, watch, finished)
            note_numbers(tally, state, learner, run)
            if finished or improved or signal is not None or is_due(state.step, settings.save_every):
                save(learner, state, run)
            if signal is not None and not finished:
                accelerator.wait_for_everyone()  # nobody leaves before the state is on the disk
                raise Stopped(signal, state.step)
    return state


def count(accelerator: Accelerator, counts: list[dict[str, Tensor]]) -> dict[str, float]:
    """By term, the scored places of all micro-batches of all processes."""
    names = list(counts[0])
    local = [float(sum(int(part[name]) for part in counts)) for name in names]
    return dict(zip(names, add_up(accelerator, local), strict=True))


def weigh(terms: Mapping[str, Term], counts: Mapping[str, float]) -> Tensor:
    """The loss: each term's sum by its count over all processes, times its weight; a term without places adds 0."""
    weighed = [term.sum * (term.weight / max(1.0, counts[name])) for name, term in terms.items()]
    return torch.stack(weighed).sum()
