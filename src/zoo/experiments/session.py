"""One training command from its settled request to its last checkpoint: pretrain and finetune."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import nn

from zoo import config
from zoo.batches.mixing import feed_of
from zoo.batches.order import Examples
from zoo.data.sources.find import load_rows
from zoo.data.sources.known import remember
from zoo.data.sources.rows import SplitRows, refuse_unlabelled
from zoo.data.store.split import Split
from zoo.data.store.store import Progress
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.discover import is_own
from zoo.examples.form import inputs
from zoo.experiments.experiment import Experiment
from zoo.experiments.request import Request
from zoo.experiments.settle import fix_steps, name_data
from zoo.inference.evaluate import Evaluation, unseen
from zoo.inference.loaded import Loaded, working
from zoo.inference.measure import read_examples, refuse_unscored, report_truncated
from zoo.models.attention_backend import kinds_in
from zoo.models.cost import flops_per_token, on_meta
from zoo.models.model import Model
from zoo.models.settings import dump_settings
from zoo.registry import plain
from zoo.runs.layout import CHECKPOINTS
from zoo.runs.metrics import Line
from zoo.runs.request import BaseRecord, RequestRecord
from zoo.runs.run import RunFiles, check_folder, try_folder
from zoo.training.beginning import begin_run, check_agreement, code
from zoo.training.devices.attention_backend import choose_backends, hardware_of
from zoo.training.devices.compiling import compiling_said
from zoo.training.devices.strategy import refuse_single_numbers
from zoo.training.fast import fast_settings
from zoo.training.judging import Validation, Watch
from zoo.training.loop import train
from zoo.training.state import State
from zoo.training.supervision.joining import join
from zoo.training.supervision.processes import Processes
from zoo.training.weights.freezing import choose_trained

T = TypeVar("T")
Data = dict[str, tuple[Examples, Split]]  # by split, its examples and its tokens
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Watcher:
    """Functions that show progress: of tokenising, of a validation, and of each step, by its line."""

    tokenising: Progress = unseen
    validating: Progress = unseen
    step: Callable[[Line], None] = unseen


@dataclass(frozen=True)
class Start:
    """How a run's model begins.

    Args:
        tokenizer: makes or takes it, for a model that has text.
        vocabulary: the rule that fits the model to a tokenizer of so many tokens.
        fill: puts the first weights into the model.
        base: what the run keeps of the checkpoint that it goes on from.
    """

    tokenizer: Callable[[Experiment, Mapping[str, SplitRows]], Tokenizer]
    vocabulary: Callable[[Experiment, int], Experiment]
    fill: Callable[[Model, Experiment, Tokenizer | None], None]
    base: BaseRecord | None = None


def run_session(request: Request, experiment: Experiment, start: Start, watcher: Watcher) -> State:
    """Prepare the data and the model, then train.

    Raises:
        ValueError: anything about the request that cannot be, before the run's folder is written.
        RuntimeError: the work failed.
    """
    check_folder(request.folder, request.resume)
    model = on_meta(experiment.model)
    refuse_single_numbers(model, experiment.training)
    with join(experiment.training, request.folder, lambda device: chosen_for(model, experiment, device)) as processes:
        if processes.is_main:
            try_folder(request.folder)
            try_folder(request.folder / CHECKPOINTS)  # of a run that is resumed, it may be somebody else's
        # it refuses what this model does not have
        choose_trained(on_meta(experiment.model), experiment.training.freeze, experiment.training.lora)
        rows = load_rows(experiment.task, inputs(), request.data)
        if "train" not in rows:
            raise ValueError(f"{request.task}: its source has no split 'train'; it has: {', '.join(rows)}")
        refuse_unlabelled(rows, experiment.mixture.labelled)
        experiment = name_data(experiment, rows["train"])
        tokenizer = None
        if experiment.stream.has_text:
            # made in the main process alone, and exchanged as bytes: every process has the same one
            files = processes.agree(lambda: start.tokenizer(experiment, rows).files())
            tokenizer = Tokenizer.from_files(files)
            experiment = start.vocabulary(experiment, tokenizer.vocab_size)
        data = read_data(experiment, rows, tokenizer, processes, watcher.tokenising)
        experiment = count_steps(experiment, data, model, processes.device)
        return begin(request, experiment, start, data, tokenizer, processes, watcher)


def count_steps(given: Experiment, data: Data, model: Model, device: torch.device) -> Experiment:
    """The experiment with its steps, where it named epochs; the log says what they decide of compiling."""
    if given.training.steps is not None:
        return given
    fixed = fix_steps(given, remembered("rows", *data["train"], Examples.rows_of_epoch))
    said = compiling_said(fixed.training, model, device)
    if said != compiling_said(given.training, model, device):
        logger.info(said)
    return fixed


def chosen_for(model: Model, given: Experiment, device: torch.device) -> str:
    """What computes attention, and whether blocks are compiled, for the log; refuses as `attention_of`."""
    attention = f"attention: {attention_of(model, given, device)}"
    return ", ".join(filter(None, [attention, compiling_said(given.training, model, device)]))


def attention_of(model: Model, given: Experiment, device: torch.device) -> str:
    """What computes attention, and why; a backend that cannot is refused."""
    said, there = choose_backends(model, given.training, hardware_of(given.training, device)).said, kinds_in(model)
    for name, member in given.mixture.members.items():
        if read := [kind for kind in member.reads_weights if kind in there]:
            said += f"; eager in {', '.join(read)}, whose weights {name} reads"  # no kernel shows its weights
    return said


def read_data(
    given: Experiment,
    rows: Mapping[str, SplitRows],
    tokenizer: Tokenizer | None,
    processes: Processes,
    progress: Progress,
) -> Data:
    """Tokenise what is not cached yet, and report what had to be cut off."""
    wanted = {name: split for name, split in rows.items() if name != "test"}
    model = on_meta(given.model)  # refuses what does not combine before hours of tokenising
    data = read_examples(wanted, given.task, given.mixture, model, tokenizer, progress)  # every process makes shards
    train, split = data["train"]
    for role in given.mixture.roles(train.form):
        train.roles.id(role)  # training does without none; evaluating reads texts as an imported tokenizer writes them
    # validation keeps seed 0, so that runs of other seeds are measured on the same cuts, pairs and masks
    data["train"] = replace(train, seed=given.training.seed, augment=given.task.augment), split
    if processes.is_main and train.truncates:
        for name, (examples, split) in data.items():
            report_truncated(name, examples, remembered("truncated", examples, split, Examples.truncated))
    return data


def remembered(what: str, examples: Examples, split: Split, find: Callable[[Examples], T]) -> T:
    """What takes planning all examples of epoch 0, such as counting them: found once, then remembered.

    Not where a package of somebody else's plans them: what it does may change, and its version with it or not.
    """
    if not all(map(is_own, (examples.form, *examples.mixture.members.values()))):
        return find(examples)
    options = {name: vars(member) for name, member in examples.mixture.members.items()}
    form = [type(examples.form).__name__, vars(examples.form)]
    mixed = [[one.name, one.weight, one.lengths.documents] for one in examples.mix]
    here = [split.source.split, *split.names]  # a validation that is held out of train stands in the same shards
    decided = [here, mixed, repr(options), repr(form), repr(examples.shape), examples.seed, code()]
    found: T = remember(["count", what, *decided], lambda: find(examples))
    return found


def sampled(examples: Examples, split: Split, most: int) -> Examples:
    """So many examples of a split, or all of them; choosing plans every document, so the choice is remembered."""

    def choose(every: Examples) -> list[tuple[int, int]] | None:
        """The document and the number of each; None: all."""
        chosen = every.sample(most)
        return None if chosen is every else [(plan.document, plan.number) for plan in chosen.plans(0, chosen.documents)]

    found = remembered(f"sample of {most}", examples, split, choose)
    if found is None:
        return examples
    only: dict[int, set[int]] = {}
    for document, number in found:
        only.setdefault(document, set()).add(number)
    return replace(examples, only=only)


def begin(
    request: Request,
    given: Experiment,
    start: Start,
    data: Data,
    tokenizer: Tokenizer | None,
    processes: Processes,
    watcher: Watcher,
) -> State:
    """Write the run's files and train."""
    model = Model.drawn(given.model, given.training.seed)
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
    watch = Watch(validation(given, data, tokenizer, processes, watcher.validating), watcher.step, flops)
    check_agreement(processes, {**vars(files), "weights": fingerprint(model)})
    environment = {
        "attention": attention_of(model, given, processes.device),
        **fast_settings(given.training, processes, model),
    }
    with begin_run(processes, request.folder, replace(files, environment=environment), request.resume) as run:
        check_agreement(processes, {"checkpoint": run.checkpoint and run.checkpoint.step})
        with working():  # the request is settled and written: what fails from here on is the work
            return train(model, feed_of(examples), given.mixture, given.training, run, processes, watch)


def fingerprint(model: nn.Module) -> dict[str, float]:
    """The sum of each weight, by name: what tells two models of the same settings apart."""
    return {name: weight.detach().sum(dtype=torch.float64).item() for name, weight in model.named_parameters()}


def validation(
    given: Experiment, data: Data, tokenizer: Tokenizer | None, processes: Processes, progress: Progress
) -> Validation | None:
    """How the run judges its model: by the task's first metric, else, or where that does not decide, by the loss."""
    if "validation" not in data:
        return None
    (examples, split), most = data["validation"], given.training.evaluation_examples
    chosen = examples if most is None else sampled(examples, split, most)
    if chosen is not examples:
        if processes.is_main:
            said = "validation: a fixed sample of %d of %d examples (training.evaluation_examples)"
            logger.info(said, chosen.count, remembered("examples", examples, split, lambda every: every.count))
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
    if first is None or not given.mixture.members[first.objective].decides:
        return Validation(measure, "loss")
    return Validation(measure, first.name, first.variant.higher_is_better)
