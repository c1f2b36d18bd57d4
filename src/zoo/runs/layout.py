"""Names of the files and folders in a run."""

from collections.abc import Sequence
from pathlib import Path

CONFIG, TASK, TRAINING, DATA = "config.yaml", "task.yaml", "training.yaml", "data.json"
REQUEST = "request.yaml"  # the command's arguments, every --set, and the checkpoint that the run started from
METRICS, ENVIRONMENT = "metrics.jsonl", "environment.json"
CHECKPOINTS, LOCK = "checkpoints", ".lock"
TOKENIZER = ("tokenizer.json", "roles.json", "chat_templates.json")  # the last one only if imported
MANIFEST, STATE = "manifest.json", "state.json"  # of a checkpoint, which has its own training.yaml, too


def no_checkpoint_message(place: object, name: str, run: Path, available: Sequence[str]) -> str:
    """The message for a checkpoint that a run does not have; `available`: the names of those that it has."""
    return f"{place}: no checkpoint '{name}' in {run}; available: {', '.join(available) or 'none'}"
