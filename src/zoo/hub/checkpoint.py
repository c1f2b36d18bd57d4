"""What a CHECKPOINT means: a run folder, or a checkpoint folder inside one."""

from pathlib import Path

from zoo.inference.loaded import Loaded, load_run
from zoo.runs.saved import SavedRun, is_run, open_run

ALLOWED = "give a run folder or RUN/checkpoints/<step>"


def resolve(path: str | Path) -> SavedRun:
    """The run, and the one of its checkpoints, that a CHECKPOINT means.

    Raises:
        ValueError: there is none, a file of it is damaged, or it is a Hugging Face model.
    """
    if str(path).startswith("hub:"):
        raise ValueError(f"{path}: importing from the Hugging Face hub is not in this version; {ALLOWED}")
    place = Path(path).expanduser()
    if not is_run(place) and (place / "config.json").is_file():
        raise ValueError(f"{path}: is a Hugging Face folder; importing one is not in this version; {ALLOWED}")
    return open_run(place)


def load_checkpoint(path: str | Path) -> Loaded:
    """The model, tokenizer and task that a CHECKPOINT means.

    Raises:
        ValueError: as `resolve`, or what lies there does not fit together.
    """
    return load_run(resolve(path))
