"""What lies where in a run folder."""

from collections.abc import Sequence
from pathlib import Path

CONFIG, TASK, TRAINING, DATA = "config.yaml", "task.yaml", "training.yaml", "data.json"
REQUEST = "request.yaml"  # what the run was asked for: its words, every --set, and the checkpoint it goes on from
METRICS, ENVIRONMENT = "metrics.jsonl", "environment.json"
CHECKPOINTS, LOCK = "checkpoints", ".lock"
TOKENIZER = ("tokenizer.json", "roles.json", "chat_templates.json")  # the last one where it was imported with some
MANIFEST, STATE = "manifest.json", "state.json"  # of a checkpoint, which has its own training.yaml, too


def lacking(place: object, name: str, run: Path, there: Sequence[str]) -> str:
    """What a message says of a checkpoint that a run does not have; `there`: those that it has."""
    return f"{place}: no checkpoint '{name}' in {run}; available: {', '.join(there) or 'none'}"
