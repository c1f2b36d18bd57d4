"""For Python users: load a trained model, and export one."""

from pathlib import Path

from zoo.hub.checkpoint import load_checkpoint, resolve
from zoo.hub.export import ExportReport, export_model
from zoo.hub.exportable import Exportable
from zoo.inference.loaded import Loaded, load_run
from zoo.models.model import Model
from zoo.runs.saved import SavedRun


def load(path: str | Path) -> Model:
    """The model of a run folder or a checkpoint folder inside one, in evaluation mode.

    Raises:
        ValueError: there is none there, or a file of it is damaged.
    """
    return load_checkpoint(path).model


def export(path: str | Path, folder: str | Path, target: str | None = None) -> ExportReport:
    """Write a trained model into a new or empty folder that plain transformers loads.

    Args:
        path: a run folder or a checkpoint folder inside one.
        target: a native target; None: the first one that fits.

    Raises:
        ValueError: no such run or target, a choice that the target lacks, or a folder that holds something.
        RuntimeError: what was written does not give what the model gives; nothing is left behind.
    """
    saved = resolve(path)
    loaded = load_run(saved)
    given = Exportable(
        model=loaded.model,
        tokenizer=loaded.tokenizer,
        heads=loaded.mixture.heads,
        labels=loaded.task.labels or (),
        generate=loaded.task.generate,
        facts=facts_of_run(loaded, saved),
    )
    return export_model(given, Path(folder), target)


def facts_of_run(loaded: Loaded, saved: SavedRun) -> list[str]:
    """What a model card tells of the run."""
    facts = [f"objective: {', '.join(loaded.mixture.members)}", f"steps of training: {saved.step:,}"]
    best = saved.checkpoint.state.get("best")
    if best and best["step"] == saved.step:
        facts.append(f"in validation: {best['metric']} {best['value']:.4g}")
    return facts
