"""zoo pretrain: a model from scratch, with a tokenizer trained on the task's own text."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from zoo.data.sources.rows import SplitRows, each, text_columns
from zoo.data.task import Task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.experiments.request import Plan, Request, make_plan, names_key, split_heads
from zoo.experiments.session import Start, Watcher, run_session
from zoo.inference.loaded import stream_of
from zoo.models.cost import on_meta
from zoo.models.heads.head import heads
from zoo.models.model import Model
from zoo.models.settings import ModelSettings, Sets, dump_settings, load_settings, parse_settings, with_heads
from zoo.models.vectors import refuse_missing, start_from_vectors
from zoo.objectives.mixture import Mixture
from zoo.registry import refuse_unknown
from zoo.runs.checkpoint import latest
from zoo.runs.layout import CHECKPOINTS, TOKENIZER
from zoo.runs.saved import open_run
from zoo.training.state import State

logger = logging.getLogger(__name__)


def pretrain(model: str, request: Request, watcher: Watcher) -> State:
    """Train a model from scratch.

    Args:
        model: a name, or a path to a YAML file.

    Raises:
        ValueError: the request cannot be met; nothing is written then.
    """
    first = load_settings(model, split_heads(request.model_sets)[1])
    plan = make_plan(request, first.training)
    stream = stream_of(on_meta(first))
    if plan.task.columns:
        plan.mixture.form(plan.task.columns, stream)
    has_text = stream.has_text
    if has_text:
        check_tokenizer(plan.task)
    vectors = vectors_to_start_from(first, request)

    def make_tokenizer(plan: Plan, rows: Mapping[str, SplitRows]) -> Tokenizer | None:
        if not has_text:
            return None
        stored = {name: request.folder / name for name in TOKENIZER}
        if request.resume and all(path.is_file() for path in stored.values()):
            return Tokenizer.from_files({name: path.read_bytes() for name, path in stored.items()}, str(request.folder))
        return train_tokenizer(plan.task, rows["train"])

    def settle(plan: Plan, tokenizer: Tokenizer | None, labels: int) -> ModelSettings:
        return settle_model(model, request, plan, tokenizer, labels)

    def fill(built: Model, plan: Plan, tokenizer: Tokenizer | None) -> None:
        if vectors is not None and tokenizer is not None:
            found, size = start_from_vectors(built, vectors, tokenizer.words())
            logger.info("embeddings: %d of %d tokens (%.1f %%) found in %s", found, size, 100 * found / size, vectors)

    return run_session(request, plan, Start(first, make_tokenizer, settle, fill), watcher)


def vectors_to_start_from(settings: ModelSettings, request: Request) -> Path | None:
    """The file that token vectors start from; None where there is none, or a checkpoint has gone on from them.

    Raises:
        ValueError: no such file.
    """
    if settings.embeddings.vectors is None or (request.resume and latest(request.folder / CHECKPOINTS) is not None):
        return None
    path = Path(settings.embeddings.vectors)
    refuse_missing(path)
    return path


def check_tokenizer(task: Task) -> None:
    """Refuse a task whose tokenizer cannot be made, before any data is read."""
    if task.tokenizer is None:
        raise ValueError(
            "task.tokenizer: the task names none, and a model from scratch needs one: "
            f"--set task.tokenizer.name=NAME with one of {', '.join(tokenizers.names())}"
        )
    if "from" in task.tokenizer:
        for key in task.tokenizer:
            refuse_unknown(key, ["from"], "key beside 'from'", "task.tokenizer")
        open_run(Path(str(task.tokenizer["from"])))
    else:
        tokenizers.parse(task.tokenizer, "task.tokenizer").build()


def train_tokenizer(task: Task, rows: SplitRows) -> Tokenizer:
    """The tokenizer that a task asks for: another run's, or one trained on its own text."""
    assert task.tokenizer is not None
    if "from" in task.tokenizer:
        return Tokenizer.from_files(open_run(Path(str(task.tokenizer["from"]))).tokenizer)
    choice = tokenizers.parse(task.tokenizer, "task.tokenizer")

    def texts() -> Iterator[str]:
        for column in text_columns(rows.data):
            yield from each(rows.data, column)

    tokenizer = Tokenizer.train(choice, texts())
    logger.info("tokenizer: %s with %d tokens, trained on the task's text", choice.name, tokenizer.vocab_size)
    return tokenizer


def settle_model(model: str, request: Request, plan: Plan, tokenizer: Tokenizer | None, labels: int) -> ModelSettings:
    """The model for this tokenizer and task: real vocabulary, no more positions than examples have, the task's heads.

    Raises:
        ValueError: `--set vocab_size` is below what the tokenizer needs.
    """
    about_heads, others = split_heads(request.model_sets)
    sets = list(others)
    settings = load_settings(model, sets)
    if tokenizer is None:
        return settle_heads(settings, about_heads, plan.mixture, labels)
    if not names_key(sets, "vocab_size"):
        sets.append((("vocab_size",), tokenizer.vocab_size))
    elif settings.vocab_size < tokenizer.vocab_size:
        size = tokenizer.vocab_size
        raise ValueError(f"vocab_size: {settings.vocab_size} is too small for the tokenizer's {size} tokens")
    if not names_key(sets, "max_length"):
        sets.append((("max_length",), min(settings.max_length, max(plan.task.example_length))))
    return settle_heads(load_settings(model, sets), about_heads, plan.mixture, labels)


def settle_heads(settings: ModelSettings, sets: Sets, mixture: Mixture, labels: int) -> ModelSettings:
    """The settings with exactly the heads that the objectives train, changed by `--set` pairs about heads.

    A classifier has as many labels as the data.
    """
    known = {name: heads.options(name) for name in mixture.heads}
    wanted = [heads.parse({"name": n, "labels": labels} if "labels" in options else n) for n, options in known.items()]
    settled = with_heads(settings, wanted)
    return with_heads(parse_settings(dump_settings(settled), sets), wanted) if sets else settled
