"""zoo tokenize: fill a task's token store ahead of a run, with several processes or machines."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo import config
from zoo.data.ids import PICTURE, StoredFields
from zoo.data.sources.file_cache import remember
from zoo.data.sources.find import load_rows
from zoo.data.sources.rows import SplitRows, refuse_unlabeled
from zoo.data.store.filling import Filling, FillRequest, plan
from zoo.data.store.store import StoreRecipe
from zoo.data.task import Task
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.discover import variant_packages
from zoo.experiments.layers import SET
from zoo.experiments.request import Pair
from zoo.experiments.tasks import resolve_task
from zoo.experiments.tokenizers import check_tokenizer, train_tokenizer
from zoo.lazy_import import import_object

# loaded late: they import torch, which takes longer than everything else before filling starts
STORED, LABELED = "zoo.objectives.mixture:stored_by", "zoo.objectives.mixture:labeled_by"
INPUTS = "zoo.objectives.mixture:inputs_of"
DECIDING = ("data/ids.py", "objectives/**/*.py", "examples/**/*.py")  # source files that decide what they return


def plan_filling(
    name: str, sets: Sequence[Pair], data: Path | None, tokenizer: Tokenizer | None, retrain: bool
) -> Filling:
    """Find what is missing in a task's token store; trains the task's tokenizer first if there is none.

    Args:
        sets: changes of the task.
        tokenizer: that of a checkpoint to fine-tune or evaluate; None: the task's own.
        retrain: train the task's own tokenizer again, even if the store has it.

    Raises:
        ValueError: the task is wrong, a file or the labels are missing, the task has no tokenizer and none is given, or
            `retrain` and `tokenizer` are both given.
    """
    if retrain and tokenizer is not None:
        raise ValueError(
            "--retrain: trains the task's own tokenizer, but --tokenizer names another; leave one of them out"
        )
    task, _ = resolve_task(name, config.read_layers(name, "tasks"), [(SET, pair) for pair in sets])
    inputs, forms = inputs_read(task)
    rows = load_rows(task, inputs, data, forms=forms)
    refuse_unlabeled(rows, ask_objectives(LABELED, task.objective))
    stored = stored_fields(task, next(iter(rows.values())).inputs)
    if stored.names == (PICTURE,):
        tokenizer = None
    elif tokenizer is None:
        tokenizer = own_tokenizer(task, rows, retrain)
    return filling_of(task, rows, data, StoreRecipe(stored, tokenizer))


def filling_of(task: Task, rows: Mapping[str, SplitRows], data: Path | None, recipe: StoreRecipe) -> Filling:
    """Find what is missing in the token store for the splits of a task."""
    files = {} if recipe.tokenizer is None else recipe.tokenizer.files()
    texts = {name: content.decode() for name, content in files.items()}
    inputs, forms = inputs_read(task)
    folder = None if data is None else str(data)
    request = FillRequest(task.plain(), inputs, folder, recipe.stored, texts, forms=forms)
    return Filling(plan(rows, recipe), request)


def inputs_read(task: Task) -> tuple[list[str], list[list[str]]]:
    """The inputs that a task reads, and the columns of each form of example.

    Raises:
        ValueError: the objectives are wrong.
    """
    inputs, forms = ask_objectives(INPUTS, task.objective, task.named_inputs)
    return inputs, forms


def stored_fields(task: Task, columns: Sequence[str]) -> StoredFields:
    """The fields that the token store keeps for a task whose data has these columns.

    Raises:
        ValueError: the objectives are wrong, or a column is missing.
    """
    return StoredFields.parse(ask_objectives(STORED, task.objective, list(columns), task.source.language))


def ask_objectives(function: str, *about: Any) -> Any:
    """Call a function of the objectives ("module:name") that returns JSON values, and cache its result on disk.

    Not cached if another package adds variants: its code may change without a new version.

    Raises:
        ValueError: as the function.
    """
    if variant_packages():
        return import_object(function)(*about)
    written = [path.read_text("utf-8") for path in cache_key_files()]
    code = hashlib.sha256(json.dumps(written).encode()).hexdigest()
    # as a string, because the order of the objectives matters
    return remember([function, code, json.dumps(about)], lambda: import_object(function)(*about))


def cache_key_files() -> list[Path]:
    """zoo's source files that decide what is stored: their content is part of the cache key."""
    return [path for pattern in DECIDING for path in sorted(config.PACKAGE.glob(pattern))]


def own_tokenizer(task: Task, rows: Mapping[str, SplitRows], retrain: bool) -> Tokenizer:
    """The tokenizer that pretraining on the task uses, trained now if the store has none.

    Raises:
        ValueError: the task has no tokenizer, or no split `train` to train one on.
    """
    check_tokenizer(task)
    if "train" not in rows:
        raise ValueError(f"source: no split 'train' to train a tokenizer on; it has: {', '.join(rows)}")
    return train_tokenizer(task, rows["train"], retrain)
