"""For Python users: load a trained model, and export one."""

from pathlib import Path

from zoo.hub.checkpoint import load_checkpoint, resolve
from zoo.hub.exporting.export import ExportReport, export_model
from zoo.hub.exporting.trained_model import load_trained
from zoo.models.model import Model


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
    return export_model(load_trained(resolve(path)), Path(folder), target)
