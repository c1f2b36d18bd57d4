"""The log of a run: one line per step, and warnings about numbers that are not finite and about loss spikes."""

import logging
import math

import torch

from zoo.runs.layout import TRAINING
from zoo.runs.metrics import VALIDATION, Line
from zoo.runs.run import Run
from zoo.strict_yaml import parse_yaml
from zoo.training.learner import Learner
from zoo.training.meter import EXAMPLES_SHOWN, Speed, Tally, measure_peak
from zoo.training.settings import Training
from zoo.training.state import State, advise_checkpoint, is_last
from zoo.training.validation import Observers

logger = logging.getLogger(__name__)


def start_log(learner: Learner, observers: Observers) -> Speed:
    """Start the trackers, and measure the device's peak FLOP/s if the log is to show MFU."""
    processes, settings = learner.processes, learner.settings
    if settings.trackers:
        processes.accelerator.init_trackers("trackers")
    peak = settings.peak_flops
    if peak is None and observers.flops_per_token is not None:
        peak = measure_peak(processes.device, learner.dtype or torch.float32, torch.get_num_threads())
    return Speed(observers.flops_per_token, peak and peak * processes.count, measured=settings.peak_flops is None)


def is_due(step: int, every: int | None) -> bool:
    """Whether an action that is due every `every` steps is due after this step; 0: never."""
    assert every is not None, "fix_training comes first"
    return every > 0 and step % every == 0


def log(line: Line, run: Run, learner: Learner, observers: Observers, last: bool) -> None:
    """Write a step's line to metrics.jsonl, and if it is due to the text log and the trackers."""
    if not learner.processes.is_main:
        return
    run.log(line)
    observers.report({**line, "steps": learner.settings.steps})
    validated = any(key.startswith(VALIDATION) for key in line)
    if last or validated or is_due(line["step"], learner.settings.log_every):
        numbers = {key: value for key, value in line.items() if isinstance(value, float)}
        finite = {key: value for key, value in numbers.items() if math.isfinite(value)}
        learner.processes.accelerator.log(finite, step=line["step"])
        shown = "  ".join(f"{key} {value:.4g}" for key, value in numbers.items() if key not in hidden_keys(numbers))
        logger.info("step %d of %s: %s", line["step"], learner.settings.steps, shown)


def hidden_keys(numbers: Line) -> set[str]:
    """Return the keys that the text log leaves out: `seconds`, and the term of a loss that has only one."""
    terms = [[key for key in numbers if key.startswith(prefix)] for prefix in ("loss/", f"{VALIDATION}loss/")]
    return {"seconds", *(names[0] for names in terms if len(names) == 1)}


def note_skipped(tally: Tally, state: State, learner: Learner) -> None:
    """Warn of a step that was skipped because a number was not finite, and count such steps in a row."""
    state.skipped = state.skipped + 1 if tally.skipped else 0
    if not tally.skipped:
        return
    if learner.scaler.is_enabled() and math.isfinite(tally.line.get("loss", 0.0)):
        # usual in the first steps of float16, whose loss scale begins too high; the examples are not to blame
        said = "step %d: a gradient is too large for float16: update skipped, loss scale halved"
        logger.info(said, tally.step)
        return
    examples = suspect_examples(learner.processes.gather(tally.suspects()))
    if learner.processes.is_main:
        said = "step %d: the loss or a gradient is not finite, update skipped; examples (epoch, document, number): %s"
        logger.warning(said, tally.step, examples)


def enforce_skip_limit(line: Line, state: State, learner: Learner, run: Run) -> None:
    """End a run whose steps are all skipped.

    Raises:
        RuntimeError: `training.skip_limit` steps in a row were skipped.
    """
    if state.skipped >= learner.settings.skip_limit:
        raise RuntimeError(
            f"step {line['step']}: the loss or a gradient was not finite in {state.skipped} consecutive steps "
            f"(training.skip_limit); {advise_checkpoint(run, int(line['step']) - state.skipped + 1)}"
        )


def ended_early(state: State, settings: Training) -> str:
    """Return why a finished run stopped before its last step, as the end of a sentence; '' if it did not."""
    if settings.patience is None or is_last(state.step, settings):
        return ""
    return f", after {state.stale} validations without improvement (training.patience)"


def note_complete(state: State, settings: Training, run: Run) -> None:
    """Log that a resumed run has nothing left to train, and warn if its settings were changed nevertheless."""
    logger.info("already complete: %d of %d steps%s", state.step, settings.steps, ended_early(state, settings))
    asked = parse_yaml(run.training.decode(), TRAINING)  # None in a process other than the main one
    if asked and run.checkpoint is not None and asked != run.checkpoint.training:
        logger.warning("no step was left to train, so settings changed since the last one have no effect")


def note_end(state: State, settings: Training) -> None:
    """Log why a run ended early, and warn if its last steps were skipped."""
    if early := ended_early(state, settings):
        logger.info("step %d of %d is the last one%s", state.step, settings.steps, early)
    if state.skipped:
        said = "the last %d steps were skipped: the loss or a gradient was not finite; "
        logger.warning(said + "the weights are those before them", state.skipped)


def suspect_examples(everyone: list[tuple[bool, list[tuple[int, int, int]]]]) -> list[tuple[int, int, int]]:
    """Return the examples to look at: those of the faulty micro-batches, or all if no micro-batch is faulty.

    Args:
        everyone: what `Tally.suspects` returned in each process.
    """
    faulty = [examples for guilty, examples in everyone if guilty]
    chosen = faulty or [examples for _, examples in everyone]
    return [example for examples in chosen for example in examples][:EXAMPLES_SHOWN]


def note_spike(tally: Tally, state: State) -> Line:
    """Warn of a loss far above its running mean, and return the log line's `spike`, in standard deviations."""
    if tally.skipped or "loss" not in tally.line:  # nothing of the step was scored
        return {}
    usual, loss = state.usual.mean, tally.line["loss"]
    deviations = state.usual.update(loss)
    if deviations is None:
        return {}
    examples = [example for part in tally.examples for example in part][:EXAMPLES_SHOWN]
    said = "step %d: the loss jumped to %.4g from about %.4g (%.1f standard deviations); examples of this process: %s"
    logger.warning(said, tally.step, loss, usual, deviations, examples)
    return {"spike": deviations}
