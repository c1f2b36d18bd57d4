"""Resolve a CHECKPOINT: a run folder, a checkpoint folder inside one, a Hugging Face folder, or `hub:ORG/NAME`."""

import logging
import weakref
from pathlib import Path

from zoo.data.scratch import Scratch
from zoo.devices.choose import AS_STORED, Placement
from zoo.disk import expand_user, is_file, is_folder, refuse_empty
from zoo.hub.exporting.hashes import hash_faults
from zoo.hub.importing.importing import import_folder
from zoo.hub.importing.report import ImportReport
from zoo.hub.sources.download import HUB, download
from zoo.hub.sources.folder import CONFIG
from zoo.inference.loaded import Loaded, load_run
from zoo.runs.files import refuse_unreadable
from zoo.runs.saved import SavedRun, is_run, open_run

logger = logging.getLogger(__name__)


def resolve(path: str | Path) -> SavedRun:
    """Open the run, and the checkpoint inside it, that a CHECKPOINT names.

    A Hugging Face folder is imported into a temporary run, which is deleted with the returned object.

    Raises:
        ValueError: there is none, a file of it is damaged, or zoo cannot express the model.
    """
    refuse_empty(path, "CHECKPOINT")
    place = expand_user(path)
    with refuse_unreadable(place):
        own = not str(path).startswith(HUB) and (is_run(place) or not is_file(place / CONFIG))
    if own:
        return open_run(place)
    scratch = Scratch()
    try:
        name = place.resolve().name  # model cards show it; the scratch folder may use hidden names
        report = import_checkpoint(path, scratch.folder / ("run" if name.startswith(".") else name or "run"))
        saved = open_run(report.run)
    except BaseException:
        scratch.remove()
        raise
    weakref.finalize(saved, scratch.remove)
    for remark in report.remarks():
        logger.warning("%s: %s", path, remark)
    return saved


def import_checkpoint(source: str | Path, run: str | Path) -> ImportReport:
    """Import a Hugging Face folder, or `hub:ORG/NAME`, as a new run.

    Raises:
        ValueError: there is none, it is damaged, or zoo cannot express the model; nothing is written.
        RuntimeError: the run cannot be written.
    """
    folder = download(str(source)) if str(source).startswith(HUB) else expand_user(source)
    with refuse_unreadable(folder):
        missing = not is_folder(folder)
    if missing:
        raise ValueError(f"{folder}: no such folder")
    for fault in hash_faults(folder, missing=False):
        raise ValueError(fault)
    return import_folder(folder, expand_user(run))


def load_checkpoint(path: str | Path, where: Placement = AS_STORED) -> Loaded:
    """Load the model, tokenizer and task of a CHECKPOINT.

    Raises:
        ValueError: as `resolve`, or its files do not fit together.
    """
    return load_run(resolve(path), where)
