"""Run a training command (pretrain or finetune), from the resolved request to the last checkpoint."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import nn

from zoo import config
from zoo.batches.mixing import feed_of
from zoo.batches.order import Examples
from zoo.data.sources.file_cache import remember
from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import SplitRows, refuse_unlabeled
from zoo.data.store.split import Split
from zoo.data.store.store import Progress
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.devices.memory import trim_heap
from zoo.discover import is_zoo_class
from zoo.experiments.experiment import Experiment
from zoo.experiments.fill_in import fit_data, fix_steps
from zoo.experiments.request import Request
from zoo.inference.evaluate_split import read_examples, refuse_unscored, report_truncated
from zoo.inference.evaluation import Evaluation, no_progress
from zoo.inference.loaded import Loaded, as_runtime_error
from zoo.models.attention_backend import kinds_in
from zoo.models.cost import flops_per_token, on_meta
from zoo.models.model import Model
from zoo.models.settings import dump_settings
from zoo.registry import plain
from zoo.runs.layout import CHECKPOINTS
from zoo.runs.metrics import Line
from zoo.runs.request import BaseRecord, RequestRecord
from zoo.runs.run import RunFiles, check_folder, refuse_unwritable_folder
from zoo.training.devices.attention_backend import choose_backends, hardware_of
from zoo.training.devices.compiling import describe_compiling
from zoo.training.devices.strategy import refuse_scalars
from zoo.training.loop import train
from zoo.training.performance import describe_performance
from zoo.training.start import check_agreement, source_digest, start_run
from zoo.training.state import State
from zoo.training.supervision.joining import join
from zoo.training.supervision.processes import Processes
from zoo.training.validation import Observers, Validation

T = TypeVar("T")
Data = dict[str, tuple[Examples, Split]]  # split name -> its examples and its tokens
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Watcher:
    """Progress callbacks: for tokenizing, for a validation, and for each step, which gets the step's logged line."""

    tokenizing: Progress = no_progress
    validating: Progress = no_progress
    step: Callable[[Line], None] = no_progress


@dataclass(frozen=True)
class Start:
    """What differs between pretraining and fine-tuning: how tokenizer and weights begin.

    Args:
        tokenizer: returns the tokenizer; called only for a model with text, in the main process.
        vocabulary: fits the model's settings to a tokenizer's number of tokens.
        fill: sets the initial weights of a model that was initialized at random.
        base: record of the checkpoint that the run starts from; None: from scratch.
    """

    tokenizer: Callable[[Experiment, Mapping[str, SplitRows]], Tokenizer]
    vocabulary: Callable[[Experiment, int], Experiment]
    fill: Callable[[Model, Experiment, Tokenizer | None], None]
    base: BaseRecord | None = None


def run_session(request: Request, experiment: Experiment, start: Start, watcher: Watcher) -> State:
    """Prepare the data and the model, then train.

    Raises:
        ValueError: the request is wrong; raised before the run's folder is written.
        RuntimeError: training failed.
    """
    check_folder(request.folder, request.resume)
    model = on_meta(experiment.model)
    refuse_scalars(model, experiment.training)
    with join(
        experiment.training, request.folder, lambda device: describe_compute(model, experiment, device)
    ) as processes:
        if processes.is_main:
            refuse_unwritable_folder(request.folder)
            refuse_unwritable_folder(request.folder / CHECKPOINTS)  # of a resumed run, it may have another owner
        rows = find_rows(request, experiment)
        experiment = fit_data(experiment, rows["train"])
        tokenizer = None
        if experiment.traits.has_text:
            # made in the main process only and sent as bytes, so that every process has the same tokenizer
            files = processes.broadcast(lambda: start.tokenizer(experiment, rows).files())
            tokenizer = Tokenizer.from_files(files)
            experiment = start.vocabulary(experiment, tokenizer.vocab_size)
        data = read_data(experiment, rows, tokenizer, processes, watcher.tokenizing)
        experiment = count_steps(experiment, data, model, processes.device)
        return start_training(request, experiment, start, data, tokenizer, processes, watcher)


def find_rows(request: Request, given: Experiment) -> dict[str, SplitRows]:
    """Find the rows of a task's splits; only the names of their columns are read.

    Raises:
        ValueError: a file, a column, the split `train` or the labels are missing.
    """
    inputs = given.mixture.inputs(given.task.named_inputs)
    rows = load_rows(given.task, inputs, request.data, forms=given.mixture.form_columns)
    if "train" not in rows:
        raise ValueError(f"{request.task}: its source has no split 'train'; it has: {', '.join(rows)}")
    refuse_unlabeled(rows, given.mixture.labeled)
    return rows


def count_steps(given: Experiment, data: Data, model: Model, device: torch.device) -> Experiment:
    """Turn `training.epochs` into steps; log if that changes whether blocks are compiled."""
    if given.training.steps is not None:
        return given
    fixed = fix_steps(given, cached_result("rows", *data["train"], Examples.count_rows))
    said = describe_compiling(fixed.training, model, device)
    if said != describe_compiling(given.training, model, device):
        logger.info(said)
    return fixed


def describe_compute(model: Model, given: Experiment, device: torch.device) -> str:
    """A log message: the attention backend, and whether blocks are compiled. Raises as `describe_attention`."""
    attention = f"attention: {describe_attention(model, given, device)}"
    return ", ".join(filter(None, [attention, describe_compiling(given.training, model, device)]))


def describe_attention(model: Model, given: Experiment, device: torch.device) -> str:
    """A log message: the attention backends and the reasons. A named backend that cannot run is refused."""
    said, there = choose_backends(model, given.training, hardware_of(given.training, device)).message, kinds_in(model)
    for name, member in given.mixture.members.items():
        if read := [kind for kind in member.reads_weights if kind in there]:
            said += f"; eager in {', '.join(read)}, whose weights {name} reads"  # fused kernels do not return them
    return said


def read_data(
    given: Experiment,
    rows: Mapping[str, SplitRows],
    tokenizer: Tokenizer | None,
    processes: Processes,
    progress: Progress,
) -> Data:
    """Tokenize what is not in the store yet, free the memory of that, and log how much text had to be cut off."""
    wanted = {name: split for name, split in rows.items() if name != "test"}
    model = on_meta(given.model)  # refuses a wrong combination before hours of tokenizing
    data = read_examples(wanted, given.task, given.mixture, model, tokenizer, progress)  # all processes tokenize shards
    if tokenizer is not None:
        tokenizer.clear_cache()
    trim_heap()  # before the model's weights: later, small blocks that stay would lie between the freed ones
    train, split = data["train"]
    for role in given.mixture.roles(train.form):
        train.roles.id(role)  # raises if missing: training needs every role, evaluation does not
    # validation keeps seed 0, so that runs with different seeds are measured on the same examples and masks
    data["train"] = replace(train, seed=given.training.seed, augment=given.task.augment), split
    if processes.is_main and train.truncates:
        for name, (examples, split) in data.items():
            report_truncated(name, examples, cached_result("truncated", examples, split, Examples.count_truncated))
    return data


def cached_result(what: str, examples: Examples, split: Split, find: Callable[[Examples], T]) -> T:
    """Compute something that needs planning all examples of epoch 0, such as their number, and cache it on disk.

    Not cached if another package's form or objective takes part: its code may change without a new version.

    Args:
        what: part of the cache key: names what `find` computes.
    """
    if not all(map(is_zoo_class, (examples.form, *examples.mixture.members.values()))):
        return find(examples)
    options = {name: vars(member) for name, member in examples.mixture.members.items()}
    form = [type(examples.form).__name__, vars(examples.form)]
    mixed = [[one.name, one.weight, one.lengths.documents] for one in examples.mix]
    here = [split.source.split, *split.names]  # a held-out validation split shares its shards with train
    decided = [here, mixed, repr(options), repr(form), repr(examples.shape), examples.seed, source_digest()]
    found: T = remember(["count", what, *decided], lambda: find(examples))
    return found


def sampled(examples: Examples, split: Split, most: int) -> Examples:
    """A fixed sample of at most `most` examples; choosing them plans every document, so the choice is cached."""

    def choose(every: Examples) -> list[tuple[int, int]] | None:
        """(document, number of the example in it) of each chosen example; None if all are."""
        chosen = every.sample(most)
        return None if chosen is every else [(plan.document, plan.number) for plan in chosen.plans(0, chosen.documents)]

    found = cached_result(f"sample of {most}", examples, split, choose)
    if found is None:
        return examples
    subset: dict[int, set[int]] = {}
    for document, number in found:
        subset.setdefault(document, set()).add(number)
    return replace(examples, subset=subset)


def start_training(
    request: Request,
    given: Experiment,
    start: Start,
    data: Data,
    tokenizer: Tokenizer | None,
    processes: Processes,
    watcher: Watcher,
) -> State:
    """Write the run's files and train."""
    model = Model.from_seed(given.model, given.training.seed)
    start.fill(model, given, tokenizer)
    files = RunFiles(
        dump_settings(given.model),
        plain(given.task.plain()),
        config.dump(given.training),
        {} if tokenizer is None else tokenizer.files(),
        data={name: split.source.fingerprint for name, (_, split) in data.items()},
        request=config.dump(RequestRecord(request.start, request.task, request.changes, start.base)),
    )
    examples, _ = data["train"]
    length = examples.shape.limits.longest
    flops = flops_per_token(on_meta(given.model), length, given.mixture.capacities(length))
    observers = Observers(validation(given, data, tokenizer, processes, watcher.validating), watcher.step, flops)
    check_agreement(processes, {**vars(files), "weights": fingerprint(model)})
    environment = {
        "attention": describe_attention(model, given, processes.device),
        **describe_performance(given.training, processes, model),
    }
    with start_run(processes, request.folder, replace(files, environment=environment), request.resume) as run:
        check_agreement(processes, {"checkpoint": run.checkpoint and run.checkpoint.step})
        with as_runtime_error():  # an error from here on is a failure of the work (exit 1), not of the request
            return train(model, feed_of(examples), given.mixture, given.training, run, processes, observers)


def fingerprint(model: nn.Module) -> dict[str, float]:
    """Weight name -> sum of its values, to check that all processes begin with the same weights."""
    return {name: weight.detach().sum(dtype=torch.float64).item() for name, weight in model.named_parameters()}


def validation(
    given: Experiment, data: Data, tokenizer: Tokenizer | None, processes: Processes, progress: Progress
) -> Validation | None:
    """The run's validation, which picks the best checkpoint by the task's first metric, else by the loss.

    The loss is also used if metrics of that objective cannot select a checkpoint (`Objective.selects_best`). None
    without a validation split.
    """
    if "validation" not in data:
        return None
    (examples, split), most = data["validation"], given.training.evaluation_examples
    chosen = examples if most is None else sampled(examples, split, most)
    if chosen is not examples:
        if processes.is_main:
            said = "validation: a fixed sample of %d of %d examples (training.evaluation_examples)"
            logger.info(said, chosen.count, cached_result("examples", examples, split, lambda every: every.count))
        refuse_unscored("validation", chosen)
    evaluation = Evaluation(
        chosen,
        split,
        given.training.evaluation_batch,
        given.generate,
        process=processes.rank,
        processes=processes.count,
        gather=processes.gather,
        progress=progress,
    )

    def measure(model: nn.Module, between: Callable[[], None]) -> dict[str, float]:
        assert isinstance(model, Model)
        loaded = Loaded(model, tokenizer, given.task, given.mixture)
        return replace(evaluation, between=between).run(loaded, given.task.metrics)

    first = next(iter(given.metrics), None)
    if first is None or not given.mixture.members[first.objective].selects_best:
        return Validation(measure, "loss")
    return Validation(measure, first.name, first.variant.higher_is_better)
