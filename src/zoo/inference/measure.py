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
from zoo.data.store.store import Progress, open_cache
from zoo.data.task import Task
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.devices.precision import AUTO, forward_dtype, mixed, nearest_precision, thawed
from zoo.examples.form import inputs
from zoo.inference.evaluate import Evaluation, unseen
from zoo.inference.gathered import About
from zoo.inference.loaded import Loaded, refuse_not_finite, stream_of
from zoo.inference.predictions import check_file, write_predictions
from zoo.inference.shape import row_shape
from zoo.inference.typed import BATCH
from zoo.metrics.choose import parse_metrics
from zoo.models.attention_backend import use_fastest
from zoo.models.generation.settings import GenerateSettings
from zoo.models.heads.classes import numbered_as, refuse_others, with_others
from zoo.models.heads.head import heads
from zoo.models.model import Model
from zoo.objectives.mixture import Mixture
from zoo.registry import refuse_below

logger = logging.getLogger(__name__)


class Shown(NamedTuple):
    """What is shown beside the numbers.

    Args:
        progress: as in `Evaluation`.
        predictions: a file for what the model says of each row; None: nobody asks.
    """

    progress: Progress = unseen
    predictions: Path | None = None


NOTHING = Shown()


def on_task(loaded: Loaded, task: Task) -> Loaded:
    """The same model, asked for what another task asks; classes keep the checkpoint's names.

    Where the task has the same classes, or some of them, its order and its letters hold: the data may have numbers, or
    those names.

    Raises:
        ValueError: the task needs a head, or classes, that the checkpoint does not have.
    """
    mixture = Mixture.of(task)
    lacking = [head for head in mixture.heads if head not in loaded.model.heads]
    if lacking:
        has = ", ".join(loaded.model.heads)
        raise ValueError(f"the task needs the head '{lacking[0]}', which the checkpoint does not have; it has: {has}")
    if any("labels" in heads.options(head) for head in mixture.heads):
        if task.label_kind != loaded.task.label_kind:
            kinds = f"'{task.label_kind}', but those of the checkpoint '{loaded.task.label_kind}'"
            raise ValueError(f"task.labels: the task's labels are of kind {kinds}")
        own, tensors = loaded.task.labels or (), loaded.model.state_dict()
        wanted = with_others(task.labels or (), own)
        refuse_others(wanted, own)
        if ordered := numbered_as(wanted, own, tensors, loaded.model.heads):
            model, task = copy.deepcopy(loaded.model), replace(task, labels=wanted)
            model.load_state_dict(ordered)
            return replace(loaded, model=model, task=task, mixture=Mixture.of(task))
        task = replace(task, labels=loaded.task.labels or task.labels)
    return replace(loaded, task=task, mixture=Mixture.of(task))


def measure(
    loaded: Loaded,
    split: str,
    data: Path | None,
    generate: GenerateSettings,
    precision: str = AUTO,
    batch: int = BATCH,
    show: Shown = NOTHING,
) -> dict[str, float]:
    """`examples`, `loss`, `loss/<term>` and the task's metrics on a split.

    Args:
        loaded: with weights in float32.
        precision: of the forward pass, as in training; auto: as the run's own validation computed.
        batch: rows in one pass.

    Raises:
        ValueError: the split, a file or a column is missing, a label that the checkpoint does not know, or a head that
            was never trained.
        RuntimeError: the loss is not finite.
    """
    refuse_below(1, **{"--batch": batch})
    if show.predictions is not None:
        check_file(show.predictions)
    device = loaded.model.device
    wanted = nearest_precision(loaded.trained_in, device) if precision == AUTO else precision
    dtype = forward_dtype(wanted, device, "--precision")
    use_fastest(loaded.model, dtype)
    for objective in loaded.mixture.members:
        loaded.refuse_untrained(objective)
    task, tokenizer = loaded.task, loaded.tokenizer if loaded.stream.has_text else None
    rows = load_rows(task, inputs(), data, [split])
    examples, opened = read_examples(rows, task, loaded.mixture, loaded.model, tokenizer)[split]
    if examples.truncates:
        report_truncated(split, examples, examples.truncated())
    kept = None if show.predictions is None else dict[int, list[Any]]()
    with thawed(loaded.model), mixed(device, dtype):
        asked = Evaluation(examples, opened, batch, generate, progress=show.progress, kept=kept)
        values = asked.run(loaded, task.metrics)
    # metrics are not asked: a perplexity may overflow though the loss is finite
    refuse_not_finite(value for name, value in values.items() if name.split("/")[0] == "loss")
    if show.predictions is not None and kept is not None:
        write_said(show.predictions, About(loaded, examples, opened), kept, values)
    return values


def write_said(path: Path, about: About, kept: Mapping[int, Sequence[Any]], values: Mapping[str, float]) -> None:
    """Write the predictions.

    Raises:
        RuntimeError: they cannot be written; it says what was measured, which took longer.
    """
    try:
        write_predictions(path, about, kept)
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
    """The examples of each split, of one form for all, and its tokens, which are made where they are not cached yet.

    Args:
        tokenizer: None for a model that neither reads nor writes text.

    Raises:
        ValueError: a column is missing, the model cannot read such examples, the tokenizer lacks a role, or the data is
            none that an objective can be trained on.
    """
    form = mixture.form(next(iter(rows.values())).inputs, stream_of(model))
    for chosen in parse_metrics(task.metrics, mixture.metrics):
        metric = chosen.variant()  # imports what counts it, before any work
        if metric.needs == "texts" and not form.writes:
            raise ValueError(
                f"task.metrics: {chosen.name} compares generated texts; it needs a column 'prompt' or 'messages'"
            )
    splits = open_cache(rows, mixture.keep(form, task.source.language), tokenizer, progress)
    shape, roles = row_shape(task, model), NO_ROLES if tokenizer is None else tokenizer.roles
    size = form.stream.image_size

    def examples_of(name: str, split: Split) -> Examples:
        mixture.refuse_obstacles({name: split}, shape.limits)
        found = Examples(form, mixture, split.lengths, split.reader(size), roles, shape)
        if next(found.rows_in_order(), None) is None:
            raise ValueError(f"{name}: no document is long enough for an example")
        refuse_unscored(name, found)
        return found

    found = {name: examples_of(name, split) for name, split in splits.items()}
    if mixed_from := splits.get("train"):  # each source is read by itself; other splits are read as a whole
        for source in mixed_from.source.weights:
            examples_of(f"train, {source}", mixed_from.of(source))
    return {name: (replace(examples, mix=mix(splits[name], size)), splits[name]) for name, examples in found.items()}


def refuse_unscored(name: str, examples: Examples) -> None:
    """Refuse a split in which an objective finds no place to predict; where it finds some, the first rows tell it.

    Raises:
        ValueError: it finds none, as `masked_lm` of whole words does where all words are longer than what it may hide.
    """
    waiting = {member.head: which for which, member in examples.mixture.members.items() if not member.labelled}
    for example in (example for row in examples.rows_in_order() for example in examples.build(row)):
        chosen = example.places  # a head without a capacity scores every place and is not named here
        waiting = {head: which for head, which in waiting.items() if head in chosen and not len(chosen[head])}
        if not waiting:
            return
    for which in waiting.values():
        raise ValueError(f"{name}: {which} finds nothing to predict: texts are too short, or words too long")


def report_truncated(split: str, examples: Examples, found: tuple[int, int]) -> None:
    """Say in the log what a split loses: of how many rows how much, as `Examples.truncated` counts it."""
    count, lost = found
    if count:
        said = "%s: %d of %d rows are too long for an example and truncated: %d %s are lost"
        logger.warning(said, split, count, examples.lengths.documents, lost, examples.form.truncates)


def mix(split: Split, image_size: int | None) -> tuple[MixedSource, ...]:
    """The sources that a split is mixed from; none where it has one."""
    parts = {name: split.of(name) for name in split.source.weights}
    return tuple(
        MixedSource(name, split.source.weights[name], part.lengths, part.reader(image_size))
        for name, part in parts.items()
    )
