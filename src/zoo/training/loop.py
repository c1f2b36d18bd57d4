"""The training loop, top to bottom: counts, micro-batches, one update; then logging, evaluating, saving."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from zoo.config import Tree, build
from zoo.objectives.objective import Term
from zoo.runs.layout import STATE
from zoo.runs.run import Run
from zoo.training.feed import Feed, Steps
from zoo.training.learner import Learner, hold_gradients, reseed_dropout
from zoo.training.meter import Line, Speed, Tally, measure_peak
from zoo.training.processes import add_up, describe_processes
from zoo.training.settings import Training
from zoo.training.stopping import Stopped, catch_signals, first_of

Named = Mapping[str, Tensor]
logger = logging.getLogger(__name__)


class Goal(Protocol):
    """What is asked of a model: losses as sums and counts, by term."""

    def counts(self, targets: Named) -> dict[str, Tensor]: ...

    def terms(self, heads: Named, targets: Named) -> dict[str, Term]: ...

    def measure(self, heads: Named, targets: Named) -> dict[str, tuple[Tensor, Tensor]]: ...


@dataclass(frozen=True)
class Validation:
    """How a model is judged during training.

    Args:
        measure: called in every process, with the model in evaluation mode; the main process's values are used.
        metric: which of its values decides.
        higher_is_better: whether more of it is better.
    """

    measure: Callable[[nn.Module], dict[str, float]]
    metric: str
    higher_is_better: bool = False


def ignore(line: Line) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Watch:
    """Who looks on.

    Args:
        validation: None: nobody judges, and the last checkpoint is the one to use.
        report: given each step's log line, with `steps` added; in the main process.
        flops_per_token: of the model, forward and backward; None: no MFU.
    """

    validation: Validation | None = None
    report: Callable[[Line], None] = ignore
    flops_per_token: float | None = None


@dataclass
class State:
    """Where a run stands; what a checkpoint's state.json holds.

    Args:
        step: optimizer steps done.
        position: of the data.
        best: step, metric and value of the best validated checkpoint.
        stale: validations since then.
        skipped: steps in a row whose loss or gradient was not finite.
        scale: the loss scale of float16.
    """

    step: int = 0
    position: Tree = field(default_factory=dict)
    best: Tree | None = None
    stale: int = 0
    skipped: int = 0
    scale: Tree = field(default_factory=dict)


def train(
    model: nn.Module,
    feed: Feed,
    goal: Goal,
    settings: Training,
    run: Run,
    accelerator: Accelerator,
    watch: Watch = Watch(),
) -> State:
    """Train a model in its run folder, from where that stands to the last step.

    Raises:
        Stopped: a signal came; the state is saved.
        RuntimeError: too many steps in a row were not finite, or a checkpoint cannot be written.
    """
    learner = Learner(model, settings, accelerator)
    state = restore(learner, feed, run)
    assert settings.steps is not None and settings.evaluate_every is not None and settings.save_every is not None
    if is_complete(state, settings):
        logger.info("already complete: %d of %d steps", state.step, settings.steps)
        return state
    speed = begin(learner, run, watch)
    finished = False
    share = settings.batch, settings.micro_batch, accelerator.process_index, accelerator.num_processes
    with catch_signals() as signals, Steps(feed, *share) as steps:
        while not finished:
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

            signal = first_of(tally.signals)
            finished = state.step == settings.steps
            improved = False
            if finished or (is_due(state.step, settings.evaluate_every) and signal is None):
                line |= (judged := judge(learner, state, run, watch, finished))
                improved = bool(judged) and state.stale == 0
                finished = finished or (settings.patience is not None and state.stale >= settings.patience)
            log(line, run, learner, watch, finished)
            note_skipped(tally, state, settings)
            if finished or improved or signal is not None or is_due(state.step, settings.save_every):
                save(learner, state, run)
            if signal is not None and not finished:
                raise Stopped(signal, state.step)
    return state


def restore(learner: Learner, feed: Feed, run: Run) -> State:
    """Continue from the run's checkpoint, or begin."""
    if run.checkpoint is None:
        return State()
    learner.restore(run.checkpoint)
    state = build(State, run.checkpoint.state, str(run.checkpoint.folder / STATE))
    feed.seek(state.position)
    logger.info("resumed after step %d", state.step)
    return state


def is_complete(state: State, settings: Training) -> bool:
    """Whether nothing is left to do: all steps done, or stopped for want of progress."""
    stale = settings.patience is not None and state.stale >= settings.patience
    return stale or (settings.steps is not None and state.step >= settings.steps)


def begin(learner: Learner, run: Run, watch: Watch) -> Speed:
    """Say what trains on what, start the trackers, and measure the machine where its use is to be logged."""
    accelerator, settings = learner.accelerator, learner.settings
    if accelerator.is_main_process:
        logger.info("training on %s", describe_processes(accelerator, settings))
    if settings.trackers:
        accelerator.init_trackers("trackers")
    peak = settings.peak_flops
    if peak is None and watch.flops_per_token is not None:
        peak = measure_peak(accelerator.device, learner.dtype or torch.float32)
    return Speed(watch.flops_per_token, peak and peak * accelerator.num_processes)


def count(accelerator: Accelerator, counts: list[dict[str, Tensor]]) -> dict[str, float]:
    """By term, the scored places of all micro-batches of all processes."""
    names = list(counts[0])
    local = [float(sum(int(part[name]) for part in counts)) for name in names]
    return dict(zip(names, add_up(accelerator, local), strict=True))


def weigh(terms: Mapping[str, Term], counts: Mapping[str, float]) -> Tensor:
    """The loss: each term's sum by its count over all processes, times its weight; a term without places adds 0."""
    weighed = [term.sum * (term.weight / max(1.0, counts[name])) for name, term in terms.items()]
    return torch.stack(weighed).sum()


def note_skipped(tally: Tally, state: State, settings: Training) -> None:
    """Report a step that changed nothing because it was not finite.

    Raises:
        RuntimeError: as many in a row as the settings allow.
    """
    state.skipped = state.skipped + 1 if tally.bad else 0
    if tally.bad:
        logger.warning(
            "step %d: the loss or a gradient is not finite, nothing is updated; examples (epoch, document, number): %s",
            state.step,
            tally.suspects(),
        )
    if state.skipped >= settings.skip_limit:
        raise RuntimeError(
            f"step {state.step}: the loss or a gradient was not finite in {state.skipped} steps in a row; the last "
            "checkpoint is from before. Lower training.learning_rate, or raise training.warmup_steps"
        )


def is_due(step: int, every: int) -> bool:
    """Whether something that happens every so many steps happens now; 0: never."""
    return every > 0 and step % every == 0


def judge(learner: Learner, state: State, run: Run, watch: Watch, last: bool) -> Line:
    """Validate what a user of the run would get now; the best so far is noted in the state.

    Args:
        last: whether this is the end of the run, when the last checkpoints are averaged.
    """
    if last and learner.settings.average is not None:
        learner.take_mean([c for c in run.recent(learner.settings.average - 1) if c.step < state.step])
    if watch.validation is None:
        return {}
    with learner.showing() as model:
        values = watch.validation.measure(model)
    value = values[watch.validation.metric]
    sign = 1 if watch.validation.higher_is_better else -1
    better = math.isfinite(value) and (state.best is None or sign * value > sign * state.best["value"])
    accelerator = learner.accelerator
    # the main process's values decide in all of them, so that no last bit can set them apart
    (improved, decisive) = add_up(accelerator, [float(better), value] if accelerator.is_main_process else [0.0, 0.0])
    state.stale = 0 if improved else state.stale + 1
    if improved:
        state.best = {"step": state.step, "metric": watch.validation.metric, "value": decisive}
    return {f"validation/{name}": number for name, number in values.items()}


def log(line: Line, run: Run, learner: Learner, watch: Watch, last: bool) -> None:
    """Write a step's line to metrics.jsonl, and every so often to the text log and the trackers."""
    if not learner.accelerator.is_main_process:
        return
    run.log(line)
    watch.report({**line, "steps": learner.settings.steps})
    validated = any(key.startswith("validation/") for key in line)
    if last or validated or is_due(line["step"], learner.settings.log_every):
        numbers = {key: value for key, value in line.items() if isinstance(value, float) and math.isfinite(value)}
        learner.accelerator.log(numbers, step=line["step"])
        shown = "  ".join(f"{key} {value:.4g}" for key, value in numbers.items() if key not in silent(numbers))
        logger.info("step %d of %s: %s", line["step"], learner.settings.steps, shown)


def silent(numbers: Line) -> set[str]:
    """What a line of the text log leaves out: the seconds, and the terms of a loss that has but one."""
    terms = [[key for key in numbers if key.startswith(prefix)] for prefix in ("loss/", "validation/loss/")]
    return {"seconds", *(names[0] for names in terms if len(names) == 1)}


def save(learner: Learner, state: State, run: Run) -> None:
    """Write a checkpoint, and let go of those that are neither recent nor the best."""
    state.scale = learner.scale()
    run.save(state.step, learner.tensors(), asdict(state))
    best = None if state.best is None else int(state.best["step"])
    run.prune(max(learner.settings.keep, learner.settings.average or 1), best)
