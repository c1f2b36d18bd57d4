"""For Python users: load a trained model, predict with it, and export it."""

import os
from pathlib import Path
from typing import Any

from zoo.devices.choose import EXACT, DeviceName, choose_placement
from zoo.devices.defaults import default_torch_settings
from zoo.devices.precision import AUTO, autocast_to
from zoo.disk import refuse_empty
from zoo.hub.checkpoint import load_checkpoint, resolve
from zoo.hub.exporting.export import ExportReport, export_model
from zoo.hub.exporting.trained_model import load_trained
from zoo.inference.model_inputs import BATCH
from zoo.inference.pipeline import Pipeline
from zoo.models.model import Model
from zoo.python_errors import for_python
from zoo.registry import check, refuse_below


@for_python
@default_torch_settings()
def load(path: str | Path, *, device: DeviceName = AUTO, precision: str = EXACT) -> Model:
    """Load the model of a CHECKPOINT, in evaluation mode.

    Args:
        path: a run, a checkpoint folder inside one, a Hugging Face folder, or `hub:ORG/NAME`.
        device: auto: CUDA, else MPS, else the CPU; inputs must be on `model.device`.
        precision: dtype of the weights: float32 as trained, bfloat16, float16, or auto (bfloat16 where the hardware
            supports it, else float32), the default of the commands that use a model.

    Raises:
        ValueError: there is no checkpoint, a file of it is damaged, or there is no such device.
    """
    check_paths(path=path)
    return load_checkpoint(path, choose_placement(device, precision)).model


@for_python
@default_torch_settings()
def pipeline(path: str | Path, *, device: DeviceName = AUTO, precision: str = AUTO, batch: int = BATCH) -> Pipeline:
    """Load the model, tokenizer and task of a CHECKPOINT as one object; call it with one text or several.

    Args:
        path: as for `load`.
        device: auto: CUDA, else MPS, else the CPU.
        precision: auto: bfloat16 where the hardware supports it, else float32; the weights are cast once.
        batch: texts per forward pass.

    Raises:
        ValueError: as `load`, or the batch is below 1.
    """
    check_paths(path=path)
    refuse_below(1, **{"--batch": check(batch, int, "--batch")})
    return Pipeline(load_checkpoint(path, choose_placement(device, precision)), batch)


@for_python
@default_torch_settings()
def export(
    path: str | Path, folder: str | Path, target: str | None = None, *, device: DeviceName = AUTO
) -> ExportReport:
    """Write a trained model into a new or empty folder that plain transformers loads.

    Args:
        path: as for `load`.
        target: one that `zoo show MODEL` lists; None: the first native one that fits.
        device: where zoo's model computes in the check.

    Raises:
        ValueError: no such checkpoint or target, a model that does not fit the target, or a folder that is not empty.
        RuntimeError: the exported model computes something else than zoo's; nothing is left behind.
    """
    check_paths(path=path, folder=folder)
    target = check(target, str | None, "target")
    return export_on(path, Path(folder), target, device)


def check_paths(**given: Any) -> None:
    """Check that these arguments, given by name, are paths.

    Raises:
        ValueError: one of them is not a path, or empty.
    """
    for name, value in given.items():
        if not isinstance(value, str | os.PathLike):
            raise ValueError(f"{name}: expected a path, as a text or a pathlib.Path, got {value!r:.80}")
        refuse_empty(os.fspath(value), name)


def export_on(path: str | Path, folder: Path, target: str | None, device: DeviceName) -> ExportReport:
    """Export for the command, as `export` does: in float32, also under the caller's autocast."""
    where = choose_placement(device, EXACT)
    with autocast_to(where.device, None):
        return export_model(load_trained(resolve(path), where), folder, target)
