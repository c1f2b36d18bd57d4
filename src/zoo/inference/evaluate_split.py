"""Evaluate a loaded run on a split of its own task, or of another one."""

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from zoo.batches.order import Examples, MixedSource
from zoo.data.ids import NO_ROLES
from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import SplitRows
from zoo.data.store.split import Split
from zoo.data.store.store import Progress, open_store
from zoo.data.task import Task
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.devices.precision import AUTO, autocast_to, forward_dtype, nearest_precision, require_gradients
from zoo.inference.evaluation import Evaluation, no_progress
from zoo.inference.loaded import Loaded, model_traits, refuse_not_finite
from zoo.inference.metric_inputs import EvaluatedSplit
from zoo.inference.model_inputs import BATCH
from zoo.inference.predictions import check_predictions_file, write_predictions
from zoo.inference.shape import row_shape
from zoo.metrics.choose import parse_metrics
from zoo.models.attention_backend import use_fastest
from zoo.models.generation.settings import GenerateSettings
from zoo.models.heads.classes import append_other_classes, refuse_different_classes, reorder_classes
from zoo.models.heads.head import has_classes
from zoo.models.model import Model
from zoo.objectives.mixture import Mixture
from zoo.registry import refuse_below

logger = logging.getLogger(__name__)


class Reporting(NamedTuple):
    """What is reported beside the returned values.

    Args:
        progress: as in `Evaluation`.
        predictions: a file to write the predictions to; None: none is written.
    """

    progress: Progress = no_progress
    predictions: Path | None = None


NO_REPORTING = Reporting()


def on_task(loaded: Loaded, task: Task) -> Loaded:
    """Return the same model for another task; classes keep the checkpoint's names.

    If the task's classes are the checkpoint's, or some of them, the task's order and spelling are used instead, since
    its data refers to classes by these numbers or names. The weights are reordered to match.

    Raises:
        ValueError: the task needs a head, or classes, that the checkpoint does not have.
    """
    mixture = Mixture.of(task)
    lacking = [head for head in mixture.heads if head not in loaded.model.heads]
    if lacking:
        has = ", ".join(loaded.model.heads)
        raise ValueError(f"the task needs the head '{lacking[0]}', which the checkpoint does not have; it has: {has}")
    if any(map(has_classes, mixture.heads)):
        if task.label_kind != loaded.task.label_kind:
            kinds = f"'{task.label_kind}', but those of the checkpoint '{loaded.task.label_kind}'"
            raise ValueError(f"task.labels: the task's labels are of kind {kinds}")
        own, tensors = loaded.task.labels or (), loaded.model.state_dict()
        wanted = append_other_classes(task.labels or (), own)
        refuse_different_classes(wanted, own)
        if ordered := reorder_classes(wanted, own, tensors, loaded.model.heads):
            model, task = copy.deepcopy(loaded.model), replace(task, labels=wanted)
            model.load_state_dict(ordered)
            return replace(loaded, model=model, task=task, mixture=Mixture.of(task), data={})
        task = replace(task, labels=loaded.task.labels or task.labels)
    return replace(loaded, task=task, mixture=Mixture.of(task), data={})


def evaluate_split(
    loaded: Loaded,
    split: str,
    data: Path | None,
    generate: GenerateSettings,
    precision: str = AUTO,
    batch: int = BATCH,
    reporting: Reporting = NO_REPORTING,
) -> dict[str, float]:
    """Evaluate on a split of the task; return `examples`, `loss`, `loss/<objective>` and the task's metrics.

    Args:
        loaded: with weights in float32.
        data: the folder of the task's relative files (`--data`); None: the default places.
        generate: how text is generated, if a metric compares texts.
        precision: of the forward pass, as in training; auto: that of the run's own validation.
        batch: rows per forward pass.

    Raises:
        ValueError: the split, a file or a column is missing, the checkpoint lacks a label, or a head was never trained.
        RuntimeError: the loss is not finite.
    """
    refuse_below(1, **{"--batch": batch})
    if reporting.predictions is not None:
        check_predictions_file(reporting.predictions)
    device = loaded.model.device
    wanted = nearest_precision(loaded.training_precision, device) if precision == AUTO else precision
    dtype = forward_dtype(wanted, device, "--precision")
    use_fastest(loaded.model, dtype)
    for objective in loaded.mixture.members:
        loaded.refuse_untrained(objective)
    task, tokenizer = loaded.task, loaded.tokenizer if loaded.traits.has_text else None
    rows = load_rows(task, loaded.mixture.inputs(task.named_inputs), data, [split], loaded.mixture.form_columns)
    warn_of_other_data(loaded, rows[split])
    examples, opened = read_examples(rows, task, loaded.mixture, loaded.model, tokenizer)[split]
    if examples.truncates:
        report_truncated(split, examples, examples.count_truncated())
    collected = None if reporting.predictions is None else dict[int, list[Any]]()
    with require_gradients(loaded.model), autocast_to(device, dtype):
        asked = Evaluation(examples, opened, batch, generate, progress=reporting.progress, collected=collected)
        values = asked.run(loaded, task.metrics)
    # metrics are not checked: perplexity may overflow even if the loss is finite
    refuse_not_finite(value for name, value in values.items() if name.split("/")[0] == "loss")
    if reporting.predictions is not None and collected is not None:
        save_predictions(reporting.predictions, EvaluatedSplit(loaded, examples, opened), collected, values)
    return values


def warn_of_other_data(loaded: Loaded, rows: SplitRows) -> None:
    """Log a warning if a split of the run's own task is not what the run recorded: other files have these names now."""
    recorded = loaded.data.get(rows.split)
    # classes that were found in the data are in the run's task, but were not yet when it was recorded
    if recorded is not None and all(recorded != rows.fingerprint_of(named) for named in (True, False)):
        why = "its files, or how zoo reads them, have changed, or these are others of the same name"
        logger.warning("%s: the run recorded other data than %s: %s", rows.split, rows.place, why)


def compares_texts(loaded: Loaded) -> bool:
    """Whether a metric of the task compares generated texts with the data's."""
    return any(chosen.variant.needs == "texts" for chosen in parse_metrics(loaded.task.metrics, loaded.mixture.metrics))


def save_predictions(
    path: Path, evaluated: EvaluatedSplit, collected: Mapping[int, Sequence[Any]], values: Mapping[str, float]
) -> None:
    """Write the predictions.

    Raises:
        RuntimeError: they cannot be written; the message holds the measured values, which would be lost otherwise.
    """
    try:
        write_predictions(path, evaluated, collected)
    except OSError as error:
        measured = ", ".join(f"{name} {value:.6g}" for name, value in values.items())
        said = f"{path}: cannot be written: {error.strerror}"
        raise RuntimeError(f"{said}; what was measured: {measured}") from None


def read_examples(
    rows: Mapping[str, SplitRows],
    task: Task,
    mixture: Mixture,
    model: Model,
    tokenizer: Tokenizer | None,
    progress: Progress | None = None,
) -> dict[str, tuple[Examples, Split]]:
    """Return the examples and the tokens of each split, all of one form; texts are tokenized unless they are cached.

    Args:
        tokenizer: None for a model that neither reads nor writes text.

    Raises:
        ValueError: a column is missing, the model cannot read such examples, the tokenizer lacks a special token, or an
            objective cannot be trained on the data.
    """
    form = mixture.form(next(iter(rows.values())).inputs, model_traits(model))
    for chosen in parse_metrics(task.metrics, mixture.metrics):
        metric = chosen.variant()  # imports the metric's library, so that a missing one is noticed before any work
        if metric.needs == "texts" and not form.writes:
            raise ValueError(
                f"task.metrics: {chosen.name} compares generated texts; it needs a column 'prompt' or 'messages'"
            )
    splits = open_store(rows, mixture.stored_fields_in(form, task.source.language), tokenizer, progress)
    shape, roles = row_shape(task, model), NO_ROLES if tokenizer is None else tokenizer.roles
    size = form.traits.image_size

    def examples_of(name: str, split: Split) -> Examples:
        mixture.refuse_obstacles({name: split}, shape.limits)
        found = Examples(form, mixture, split.lengths, split.reader(size), roles, shape)
        if next(found.rows_in_order(), None) is None:
            raise ValueError(f"{name}: no document is long enough for an example")
        refuse_unscored(name, found)
        return found

    found = {name: examples_of(name, split) for name, split in splits.items()}
    if mixed_from := splits.get("train"):  # training reads each source separately, so each must have examples
        for source in mixed_from.source.weights:
            examples_of(f"train, {source}", mixed_from.of_source(source))
    return {name: (replace(examples, mix=mix(splits[name], size)), splits[name]) for name, examples in found.items()}


def refuse_unscored(name: str, examples: Examples) -> None:
    """Refuse a split in which an objective has no position to predict; usually the first rows show that it has some.

    Raises:
        ValueError: it has none, such as `masked_lm` with `whole_word` if every word is longer than what it may mask.
    """
    waiting = {member.head: which for which, member in examples.mixture.members.items() if not member.labeled}
    for example in (example for row in examples.rows_in_order() for example in examples.build(row)):
        chosen = example.places  # lacks heads that score every position
        waiting = {head: which for head, which in waiting.items() if head in chosen and not len(chosen[head])}
        if not waiting:
            return
    for which in waiting.values():
        raise ValueError(f"{name}: {which} finds nothing to predict: texts are too short, or words too long")


def report_truncated(split: str, examples: Examples, found: tuple[int, int]) -> None:
    """Log how many rows of a split are truncated, and how much they lose, as `Examples.count_truncated` counts it."""
    count, lost = found
    if count:
        said = "%s: %d of %d rows are too long for an example and truncated: %d %s are lost"
        logger.warning(said, split, count, examples.lengths.documents, lost, examples.form.truncation_unit)


def mix(split: Split, image_size: int | None) -> tuple[MixedSource, ...]:
    """The sources that a split is mixed from; empty if there is only one."""
    parts = {name: split.of_source(name) for name in split.source.weights}
    return tuple(
        MixedSource(name, split.source.weights[name], part.lengths, part.reader(image_size))
        for name, part in parts.items()
    )
