"""Values of an experiment that data, tokenizer and model decide; after these rules nothing changes any more."""

import logging
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from zoo.data.sources.rows import SplitRows
from zoo.experiments.experiment import Experiment
from zoo.experiments.layers import DATA, TOKENIZER, origin
from zoo.models.heads.head import has_classes
from zoo.models.settings import resize, with_labels
from zoo.objectives.mixture import Mixture
from zoo.registry import Choice
from zoo.training.settings import Training
from zoo.wording import first_few

SHOWN = 20  # labels listed in the log
logger = logging.getLogger(__name__)


def fit_length(given: Experiment) -> Experiment:
    """Lower `max_length` to the task's longest document, unless `--set` names it.

    A stack whose own `max_length` is lower, or named by `--set`, keeps it.
    """
    longest = given.mixture.document_length(given.task)
    if not given.traits.has_text or given.is_set("model.max_length") or given.model.max_length <= longest:
        return given
    key = "task.longest" if given.task.longest is not None else "task.length"
    place = origin(f"{key}.target", given.origins)  # the origin of `key` itself if it is one number
    own = {side: getattr(part.settings, "max_length", longest) for side, part in given.model.parts.items()}
    kept = [side for side, most in own.items() if most < longest or given.is_set(f"model.{side}.max_length")]
    return given.decide(place, ["model.max_length"], model=resize(given.model, kept, max_length=longest))


def mark_vocabulary(given: Experiment) -> Experiment:
    """Record the tokenizer as the origin of `vocab_size`, unless `--set` names it."""
    if not given.traits.has_text or given.is_set("model.vocab_size"):
        return given
    return given.decide(TOKENIZER, ["model.vocab_size"])


def fit_data(given: Experiment, rows: SplitRows) -> Experiment:
    """Fill in the task's columns and class names from the data, and the heads' number of labels.

    Raises:
        ValueError: the data lacks a column, or the model cannot be trained on it.
    """
    task, columns = given.task, rows.inputs
    if said := given.mixture.form(columns, given.traits).describe_unread(columns):
        logger.warning(said)
    if not task.columns:
        given = given.decide(DATA, ["task.columns"], task=replace(task, columns={name: name for name in columns}))
    # the keys with the number of classes of each head that has classes
    sized = [f"model.heads.{name}.labels" for name in given.mixture.heads if has_classes(name)]
    if not sized:
        return given
    if task.label_kind == "number":
        return given.decide(origin("task.labels", given.origins), sized, model=with_labels(given.model, 1))
    if task.labels is None:
        given = given.decide(DATA, ["task.labels"])
        logger.info("labels: %d found in the data: %s", len(rows.labels), first_few(rows.labels, most=SHOWN))
    for chosen in given.metrics:
        if obstacle := chosen.variant().obstacle(rows.labels):
            raise ValueError(f"task.metrics: {chosen.name}: {obstacle}")
    named, model = replace(given.task, labels=list(rows.labels)), with_labels(given.model, len(rows.labels))
    place = origin("task.labels", given.origins)
    return given.decide(place, sized, task=named, model=model, mixture=Mixture.of(named))


def fit_vocabulary(given: Experiment, size: int) -> Experiment:
    """Set `vocab_size` to the tokenizer's number of tokens, unless `--set` names it, for the model or one stack.

    Raises:
        ValueError: a `vocab_size` named by `--set` is below the tokenizer's.
    """
    own = {side: most for side, most in sizes_of(given).items() if given.is_set(f"model.{side}.vocab_size")}
    whole = {"": given.model.vocab_size} if given.is_set("model.vocab_size") else {}
    for side, most in (whole | own).items():
        if most < size:
            name = f"{side}.vocab_size".removeprefix(".")
            raise ValueError(f"{name}: {most} is too small for the tokenizer's {size} tokens")
    if whole:
        return given
    return given.decide(TOKENIZER, ["model.vocab_size"], model=resize(given.model, own, vocab_size=size))


def sizes_of(given: Experiment) -> dict[str, int]:
    """`vocab_size` of each stack that reads tokens."""
    parts = {side: part.settings for side, part in given.model.parts.items()}
    return {side: part.vocab_size for side, part in parts.items() if "vocab_size" in vars(part)}


def grow_vocabulary(given: Experiment, size: int) -> Experiment:
    """Raise `vocab_size` to the tokenizer's number of tokens after tokens were added; a larger one stays."""
    sizes = sizes_of(given)
    if size <= min(given.model.vocab_size, *sizes.values()):
        return given
    kept = [side for side, most in sizes.items() if most >= size]
    model = resize(given.model, kept, vocab_size=max(size, given.model.vocab_size))
    return given.decide(TOKENIZER, ["model.vocab_size"], model=model)


def fix_steps(given: Experiment, rows: int | None) -> Experiment:
    """Fill in all training settings, once the number of steps is known.

    Args:
        rows: number of rows in epoch 0; None: not known yet.
    """
    if given.training.steps is None and rows is None:
        return given.decide(DATA, ["training.steps"])
    return replace(given, training=fix_training(given.training, rows or 0, given.model.d_model))


def fix_training(settings: Training, rows: int, d_model: int) -> Training:
    """Fill in the settings that depend on data and model: the result is what a run records and trains with.

    Args:
        rows: number of rows in epoch 0; used only with `training.epochs`.
    """
    steps = settings.steps
    if steps is None:
        assert settings.epochs is not None
        steps = max(1, math.ceil(exact_fraction(settings.epochs) * rows / settings.batch))
    warmup, tenth = settings.warmup_steps, max(1, steps // 10)
    fixed = replace(
        settings,
        steps=steps,
        epochs=None,
        warmup_steps=round(warmup * steps) if isinstance(warmup, float) else warmup,
        evaluate_every=tenth if settings.evaluate_every is None else settings.evaluate_every,
        save_every=min(1000, tenth) if settings.save_every is None else settings.save_every,
        schedule=with_defaults(settings.schedule.inherit(d_model=d_model)),
        optimizer=with_defaults(settings.optimizer),
    )
    warn_of_length(fixed, steps)
    return fixed


def exact_fraction(number: float) -> Fraction:
    """A float as the decimal fraction that was written: 1.1 epochs of 50 rows are 55 rows, not 55.00000000000001."""
    return Fraction(str(number))


def warn_of_length(fixed: Training, steps: int) -> None:
    """Log a warning for each setting that exceeds the length of the run."""
    if fixed.warmup_steps >= max(steps, 2):  # one step with one warm-up step does reach the peak rate
        said = (
            "training.warmup_steps (%d): the warm-up takes the whole run of %d steps, so the learning rate only rises"
        )
        logger.warning(said, fixed.warmup_steps, steps)
    for name, does in (("evaluate_every", "validates"), ("save_every", "saves")):
        if (value := getattr(fixed, name)) > steps:
            logger.warning("training.%s (%d) is beyond the run's %d steps: zoo %s at its end", name, value, steps, does)


def with_defaults(choice: Choice[Any]) -> Choice[Any]:
    """The choice with the defaults of all options written out."""
    return choice.inherit(**{name: option.default for name, option in choice.slot.options(choice.name).items()})
