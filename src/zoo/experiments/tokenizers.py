"""The tokenizer that a task names."""

from collections.abc import Mapping
from typing import Any

from zoo.data.sources.rows import SplitRows
from zoo.data.store.trained import TrainingText, stored_tokenizer
from zoo.data.task import Task
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.disk import expand_user, refuse_empty
from zoo.lazy_import import import_object
from zoo.wording import refuse_unknown

OPEN = "zoo.runs.saved:open_run"  # loaded late: imports torch, which a task without `from` does not need


def check_tokenizer(task: Task) -> None:
    """Refuse a task whose tokenizer cannot be made, before any data is read."""
    if task.tokenizer is None:
        raise ValueError(
            "task.tokenizer: missing, but a model from scratch needs one: "
            f"--set task.tokenizer.name=NAME; allowed: {', '.join(tokenizers.names())}"
        )
    if "from" in task.tokenizer:
        for key in task.tokenizer:
            refuse_unknown(key, ["from"], "key", "task.tokenizer (with 'from')")
        named_run(task.tokenizer)
    else:
        TrainingText.parse(task.tokenizer, "task.tokenizer").choice.build()


def train_tokenizer(task: Task, rows: SplitRows, retrain: bool = False) -> Tokenizer:
    """The tokenizer that a task names: that of another run (`from`), or one trained on its text and kept."""
    assert task.tokenizer is not None
    if "from" in task.tokenizer:
        return Tokenizer.from_files(named_run(task.tokenizer).tokenizer)
    return stored_tokenizer(TrainingText.parse(task.tokenizer, "task.tokenizer"), rows, retrain)


def named_run(tokenizer: Mapping[str, Any]) -> Any:
    """The run whose tokenizer a task names.

    Raises:
        ValueError: its path is empty, or there is none.
    """
    path = str(tokenizer["from"])
    refuse_empty(path, "task.tokenizer.from")
    return import_object(OPEN)(expand_user(path))
