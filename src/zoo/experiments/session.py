"""One training command from its request to its last checkpoint: pretrain and finetune."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from zoo import config
from zoo.batches.feed import Feed
from zoo.batches.order import Examples, RowStream
from zoo.config import Tree
from zoo.data.ids import NO_ROLES
from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import SplitRows
from zoo.data.store.split import Split
from zoo.data.store.store import Progress, open_cache
from zoo.data.task import Task
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.examples.form import inputs
from zoo.experiments.request import Plan, Request
from zoo.inference.evaluate import Evaluation
from zoo.inference.loaded import Loaded, stream_of
from zoo.inference.measure import row_shape
from zoo.models.cost import flops_per_token, on_meta
from zoo.models.heads.head import heads
from zoo.models.model import Model
from zoo.models.settings import ModelSettings, dump_settings
from zoo.registry import plain
from zoo.runs.run import RunFiles, check_folder, try_folder
from zoo.training.attention_backend import check_backend
from zoo.training.beginning import begin_run, check_agreement
from zoo.training.judging import Validation, Watch
from zoo.training.loop import train
from zoo.training.meter import Line
from zoo.training.settings import fix_training
from zoo.training.state import State
from zoo.training.supervision.joining import join
from zoo.training.supervision.processes import Processes

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Watcher:
    """Who looks on: called with what is being tokenised, and with each step's line."""

    tokenising: Progress
    step: Callable[[Line], None]


@dataclass(frozen=True)
class Start:
    """How a run's model begins.

    Args:
        first: the model's settings before the tokenizer and the labels are known.
        tokenizer, settings, fill: what makes the tokenizer (None: the model has no text), the settings for it, and the
            first weights.
    """

    first: ModelSettings
    tokenizer: Callable[[Plan, Mapping[str, SplitRows]], Tokenizer | None]
    settings: Callable[[Plan, Tokenizer | None, int], ModelSettings]
    fill: Callable[[Model, Plan, Tokenizer | None], None]


def run_session(request: Request, plan: Plan, start: Start, watcher: Watcher) -> State:
    """Prepare the data and the model, then train.

    Raises:
        ValueError: anything about the request that cannot be, before the run's folder is written.
    """
    check_folder(request.folder, request.resume)
    with join(plan.training, request.folder) as processes:
        if processes.is_main:
            try_folder(request.folder)
        check_backend(on_meta(start.first), plan.training, processes.device)
        rows = load_rows(plan.task, inputs(), request.data)
        if "train" not in rows:
            raise ValueError(f"{request.task}: its source has no split 'train'; it has: {', '.join(rows)}")
        plan = replace(plan, task=name_columns(plan.task, rows["train"], plan, start.first))
        plan = replace(plan, task=name_labels(plan.task, rows["train"], plan))
        tokenizer = agree_on(processes, lambda: start.tokenizer(plan, rows))
        settings = start.settings(plan, tokenizer, len(plan.task.labels or ()))
        on_meta(settings)  # refuses what does not combine before hours of tokenising
        data = Data.read(plan, settings, rows, tokenizer, processes, watcher.tokenising)
        model = Model(settings).initialize(plan.training.seed)
        start.fill(model, plan, tokenizer)
        return begin(request, plan, data, model, tokenizer, processes, watcher)


def agree_on(processes: Processes, make: Callable[[], Tokenizer | None]) -> Tokenizer | None:
    """A tokenizer made by the main process, the same in every one."""
    files = processes.agree(lambda: None if (made := make()) is None else made.files())
    return None if files is None else Tokenizer.from_files(files)


def name_columns(task: Task, rows: SplitRows, plan: Plan, first: ModelSettings) -> Task:
    """The task with the columns that it reads; refused before anything slow where the model cannot be trained on it."""
    columns = rows.data.column_names
    plan.mixture.form(columns, stream_of(on_meta(first)))
    return task if task.columns else replace(task, columns={name: name for name in columns})


def name_labels(task: Task, rows: SplitRows, plan: Plan) -> Task:
    """The task with its classes by name, as the data has them."""
    if not any("labels" in heads.options(name) for name in plan.mixture.heads):
        return task
    if not rows.labels:
        found, names = ", ".join(rows.data.column_names), " and ".join(plan.mixture.members)
        raise ValueError(f"columns: 'label' is missing, which {names} needs; the task gives: {found}")
    return replace(task, labels=list(rows.labels))


@dataclass(frozen=True)
class Data:
    """A task's examples, ready to be packed into rows."""

    train: Examples
    validation: Examples | None
    splits: Mapping[str, Split]

    @staticmethod
    def read(
        plan: Plan,
        settings: ModelSettings,
        rows: Mapping[str, SplitRows],
        tokenizer: Tokenizer | None,
        processes: Processes,
        progress: Progress,
    ) -> "Data":
        """Tokenise what is not cached yet, and report what had to be cut off."""
        wanted = {name: split for name, split in rows.items() if name != "test"}
        model = on_meta(settings)
        columns = rows["train"].data.column_names
        form = plan.mixture.form(columns, stream_of(model))
        with processes.main_first():
            splits = open_cache(wanted, form.stored, tokenizer, progress)
        shape, roles = row_shape(plan.task, model), NO_ROLES if tokenizer is None else tokenizer.roles
        for role in plan.mixture.roles(form):
            roles.id(role)  # training does without none; evaluating reads texts as an imported tokenizer writes them
        seeds = {name: plan.training.seed if name == "train" else 0 for name in splits}
        made = {
            name: Examples(
                form, plan.mixture, split.lengths, split.reader(form.stream.image_size), roles, shape, seeds[name]
            )
            for name, split in splits.items()
        }
        made["train"] = replace(made["train"], augment=plan.task.augment)
        if processes.is_main and (plan.mixture.whole or form.source):
            report_truncated(made)
        return Data(made["train"], made.get("validation"), splits)


def report_truncated(made: Mapping[str, Examples]) -> None:
    for name, examples in made.items():
        count, tokens = examples.truncated()
        if count:
            said = "%s: %d of %d rows are longer than the model reads: %d tokens are left out"
            logger.warning(said, name, count, examples.lengths.documents, tokens)


def begin(
    request: Request,
    plan: Plan,
    data: Data,
    model: Model,
    tokenizer: Tokenizer | None,
    processes: Processes,
    watcher: Watcher,
) -> State:
    """Write the run's files and train."""
    rows = RowStream(data.train).rows_of_epoch() if plan.training.steps is None else 0
    training = fix_training(plan.training, rows, model.settings.d_model)
    task: Tree = plain(plan.task.plain())
    hashes = {name: split.source.fingerprint for name, split in data.splits.items()}
    words = {} if tokenizer is None else tokenizer.files()
    files = RunFiles(dump_settings(model.settings), task, config.dump(training), words, data=hashes)
    length = data.train.shape.limits.longest
    flops = flops_per_token(on_meta(model.settings), length, plan.mixture.capacities(length))
    watch = Watch(validation(plan, data, tokenizer, processes), watcher.step, flops)
    check_agreement(processes, {**vars(files), "weights": fingerprint(model)})
    with begin_run(processes, request.folder, files, request.resume) as run:
        check_agreement(processes, {"checkpoint": run.checkpoint and run.checkpoint.step})
        return train(model, Feed.of(data.train), plan.mixture, training, run, processes, watch)


def fingerprint(model: nn.Module) -> list[float]:
    """The sum of each weight: what tells two models of the same settings apart."""
    return [weight.detach().sum(dtype=torch.float64).item() for weight in model.parameters()]


def validation(plan: Plan, data: Data, tokenizer: Tokenizer | None, processes: Processes) -> Validation | None:
    """How the run judges its model: by the task's first metric, else by the loss."""
    if data.validation is None:
        return None
    evaluation = Evaluation(
        data.validation,
        data.splits["validation"],
        plan.training.evaluation_batch,
        plan.generate,
        process=processes.rank,
        processes=processes.count,
        gather=processes.gather,
    )

    def measure(model: nn.Module, between: Callable[[], None]) -> dict[str, float]:
        assert isinstance(model, Model)
        loaded = Loaded(model, tokenizer, plan.task, plan.mixture)
        return replace(evaluation, between=between).run(loaded, plan.task.metrics)

    if not plan.metrics:
        return Validation(measure, "loss", higher_is_better=False)
    return Validation(measure, plan.metrics[0].name, plan.metrics[0].higher_is_better)
