"""zoo finetune: train a checkpoint on a task; unused heads are dropped, missing ones initialized."""

import logging
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from zoo.blocks.position import Position
from zoo.data.sources.rows import SplitRows
from zoo.data.task import read_task
from zoo.data.tokenizers.adding import ADD, add_words, pieces_of_added, words_to_add
from zoo.data.tokenizers.tokenizer import BACKEND_FILE, Tokenizer
from zoo.experiments.experiment import Experiment
from zoo.experiments.fill_in import grow_vocabulary
from zoo.experiments.request import Request
from zoo.experiments.resolve import resolve_finetuning
from zoo.experiments.session import Start, Watcher, find_rows, run_session
from zoo.inference.loaded import NO_TOKENIZER, check_sizes, settings_of
from zoo.models.cost import on_meta
from zoo.models.heads.classes import reorder_classes
from zoo.models.heads.head import has_classes
from zoo.models.model import Model
from zoo.runs.checkpoint import steps
from zoo.runs.layout import CHECKPOINTS, REQUEST
from zoo.runs.request import read_first_changes, read_request
from zoo.runs.saved import SavedRun
from zoo.runs.tensors import part_of, require_finite
from zoo.training.state import State
from zoo.wording import first_few

SCORING = ("output.weight", "output.bias", "bias")  # of a head that scores tokens: one row or number per token
logger = logging.getLogger(__name__)


def finetune(saved: SavedRun, request: Request, watcher: Watcher) -> State:
    """Train a checkpoint on a task, with the checkpoint's tokenizer.

    Raises:
        ValueError: the request is wrong or changes the architecture; nothing is written then.
    """
    if request.resume:
        request = request.repeat(read_first_changes(request.folder))
    experiment = resolve_finetuning(saved, request)
    words = words_to_add(experiment.task.tokenizer)
    if set(experiment.task.tokenizer or ()) - {ADD}:
        unused = f"only task.tokenizer.{ADD} is used" if words else "task.tokenizer is not used"
        logger.info("%s: %s keeps the checkpoint's tokenizer", unused, request.command)
    check_sizes(saved, settings_of(saved), saved.weights)

    def keep_tokenizer(settled: Experiment, rows: Mapping[str, SplitRows]) -> Tokenizer:
        if BACKEND_FILE not in saved.tokenizer:
            raise ValueError(NO_TOKENIZER)
        report_positions(settled)
        tokenizer = Tokenizer.from_files(saved.tokenizer, str(saved.folder))
        form = settled.mixture.form(rows["train"].inputs, settled.traits)
        lacking = [role for role in settled.mixture.roles(form) if getattr(tokenizer.roles, role) is None]
        if lacking:
            new = len(tokenizer.add_roles(lacking))
            logger.info("tokenizer: new roles %s; %d of them get a new embedding row", ", ".join(lacking), new)
        if words:
            added = add_words(tokenizer, words)
            said = "tokenizer: %d of %d added words are new, each with a new embedding row"
            logger.info(said, len(added), len(words))
        if sentinels := tokenizer.add_sentinels(settled.mixture.sentinels):
            logger.info("tokenizer: %d new sentinels, each with a new embedding row", sentinels)
        return tokenizer

    def fill(model: Model, settled: Experiment, tokenizer: Tokenizer | None) -> None:
        continued = request.resume and bool(steps(request.folder / CHECKPOINTS))  # then its weights replace these
        tensors = require_finite(saved.weights, str(saved.folder))
        own, wanted = read_task(saved.task, str(saved.folder)).labels or (), settled.task.labels or ()
        ordered = reorder_classes(wanted, own, tensors, model.heads)
        if own and not continued and any(name.startswith(prefixes_of_classes(model)) for name in tensors):
            logger.info(describe_classes(own, wanted, ordered is not None))
        copy_weights(model, ordered or tensors, log=not continued)
        if tokenizer is not None and words:
            init_as_mean(model, pieces_of_added(Tokenizer.from_files(saved.tokenizer, str(saved.folder)), tokenizer))

    return run_session(request, experiment, Start(keep_tokenizer, grow_vocabulary, fill, saved.record), watcher)


def describe_classes(own: Sequence[str], wanted: Sequence[str], ordered: bool) -> str:
    """A log message on how the checkpoint's classes relate to the task's.

    Args:
        own, wanted: the class names of the checkpoint and of the task.
        ordered: whether the rows of the heads were reordered to match the task's classes.
    """
    if ordered:
        return "the heads keep the checkpoint's classes, reordered or respelled for this task"
    if list(own) == list(wanted):
        return "the heads have the checkpoint's classes"
    if len(own) != len(wanted):
        return f"the heads have {len(wanted)} classes, but the checkpoint's {len(own)}"
    others = [f"{old} -> {new}" for old, new in zip(own, wanted, strict=True) if old != new]
    return f"the heads start from the checkpoint's weights for other classes: {first_few(others)}"


def report_positions(given: Experiment) -> None:
    """Log if the model has fewer positions than the task's longest documents have tokens."""
    longest, places = given.mixture.document_length(given.task), on_meta(given.model).stream.max_length
    if places < longest:
        said = "examples have at most %d tokens, as many as the checkpoint has positions; max_length=%d adds some"
        logger.info(said, places, longest)


def check_finetuning(saved: SavedRun, request: Request) -> None:
    """Refuse a wrong request early, reading only settings and the names of the data's columns.

    Raises:
        ValueError: as `finetune`; the folder has a run that started from other weights; or a file or column is missing.
    """
    if (request.folder / REQUEST).exists():
        base = read_request(request.folder).base
        if base is not None and base.weights_sha256 != saved.record.weights_sha256:
            raise ValueError(
                f"{request.folder}: holds a run that started from other weights, those of step {base.step}, but "
                f"{request.start} has step {saved.step} now; name another folder with -o, or remove this one"
            )
    experiment = resolve_finetuning(saved, request)
    experiment.mixture.form(find_rows(request, experiment)["train"].inputs, experiment.traits)


@torch.no_grad()
def init_as_mean(model: Model, pieces: Mapping[int, Sequence[int]]) -> None:
    """Initialize each added token's embedding as the mean of the tokens that its word was split into before.

    Source: Hewitt 2021, "Initializing New Word Embeddings for Pretrained Language Models". There the mean is over the
    whole vocabulary; here only over the word's pieces.

    Args:
        pieces: id of an added token -> the ids of its word in the old tokenizer.
    """
    parts = (part.embeddings for part in (model.encoder, model.decoder) if part is not None)
    tables = [embeddings.tokens.weight for embeddings in parts if embeddings is not None]
    rows = {len(table) for table in tables}
    own = (named for head in model.heads.values() for named in head.named_parameters())
    scoring = [weight for name, weight in own if name in SCORING and len(weight) in rows]
    # by storage, so that a table shared by encoder, decoder or head is written once
    for table in {table.data_ptr(): table for table in [*tables, *scoring]}.values():
        for token, ids in pieces.items():
            table[token] = table[list(ids)].mean(0)


def prefixes_of_classes(model: Model) -> tuple[str, ...]:
    """The weight name prefixes of the model's heads that have classes."""
    return tuple(f"heads.{name}." for name in model.heads if has_classes(name))


def prefixes_of_another_stack(model: Model, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The weight name prefixes of the model's heads that read another stack in the checkpoint.

    Such heads (`guesses`) read the generator if there is one. If only one of checkpoint and model has a generator, the
    head's width differs, so its weights cannot be used.
    """
    if (model.generator is not None) == any(name.startswith("generator.") for name in tensors):
        return ()
    return tuple(f"heads.{name}." for name, head in model.heads_by_name().items() if head.guesses)


def copy_weights(model: Model, tensors: Mapping[str, Tensor], log: bool = True) -> None:
    """Copy a checkpoint's weights into a model; log what is left out and what is newly initialized.

    Heads with another number of classes, or that read another stack, keep their new initialization.

    Raises:
        ValueError: a weight has another shape than the model's; fewer rows are allowed, for added tokens.
    """
    own = model.state_dict()
    classes = prefixes_of_classes(model)
    other = [n for n in tensors if n.startswith(classes) and n in own and tensors[n].shape != own[n].shape]
    left = (*(classes if other else ()), *prefixes_of_another_stack(model, tensors))
    taken = {name for name in tensors if name in own and not name.startswith(left)}
    with torch.no_grad():
        for name in taken:
            theirs, mine = tensors[name], own[name]
            if theirs.shape != mine.shape and (theirs.shape[1:] != mine.shape[1:] or len(theirs) > len(mine)):
                raise ValueError(f"{name}: the checkpoint has {tuple(theirs.shape)}, the model {tuple(mine.shape)}")
            # rows of added tokens come after the checkpoint's
            (mine[: len(theirs)] if theirs.dim() else mine).copy_(theirs)
    extend_positions(model, {name: tensors[name] for name in taken}, log)
    # a tied weight has two names and one storage: it is not missing if it was copied under either name
    storages = {own[name].data_ptr() for name in taken}
    missing = {name for name, tensor in own.items() if name not in taken and tensor.data_ptr() not in storages}
    fresh = sorted({part_of(name) for name in missing})
    dropped = sorted({part_of(name) for name in tensors if name not in own})
    if dropped and log:
        logger.info("left out (the task does not train it): %s", ", ".join(dropped))
    if fresh and log:
        logger.info("newly initialized (missing from the checkpoint): %s", ", ".join(fresh))


def extend_positions(model: Model, tensors: Mapping[str, Tensor], log: bool) -> None:
    """Initialize the positions beyond the checkpoint's, if `max_length` was raised."""
    for name, module in model.named_modules():
        if not isinstance(module, Position):
            continue
        own = {f"{name}.{key}": len(parameter) for key, parameter in module.named_parameters()}
        fewer = [len(tensors[key]) for key, rows in own.items() if key in tensors and len(tensors[key]) < rows]
        if fewer:
            module.extend(min(fewer))
            if log:
                logger.info("%s: positions from %d on start as copies of those before", name, min(fewer))
