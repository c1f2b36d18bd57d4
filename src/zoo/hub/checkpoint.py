"""What a CHECKPOINT means: a run folder, a checkpoint folder inside one, or a model of transformers."""

import logging
import weakref
from pathlib import Path

from zoo.data.scratch import Scratch
from zoo.devices.choose import AS_STORED, Placement
from zoo.disk import at_home
from zoo.hub.exporting.hashes import hash_faults
from zoo.hub.importing.importing import ImportReport, import_folder
from zoo.hub.sources.download import HUB, download
from zoo.hub.sources.folder import CONFIG
from zoo.inference.loaded import Loaded, load_run
from zoo.runs.saved import SavedRun, is_run, open_run

logger = logging.getLogger(__name__)


def resolve(path: str | Path) -> SavedRun:
    """The run, and the one of its checkpoints, that a CHECKPOINT means.

    A Hugging Face folder is imported into a temporary run, which goes with the object that is returned.

    Raises:
        ValueError: there is none, a file of it is damaged, or it is a model that zoo cannot express.
    """
    place = at_home(path)
    if not str(path).startswith(HUB) and (is_run(place) or not (place / CONFIG).is_file()):
        return open_run(place)
    scratch = Scratch()
    try:
        name = place.resolve().name  # which a card shows; hidden ones are the scratch folder's own
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
    """Write a Hugging Face folder, or `hub:ORG/NAME`, as a new run.

    Raises:
        ValueError: there is none, it is damaged, or it holds a model that zoo cannot express; nothing is written.
        RuntimeError: the run cannot be written.
    """
    folder = download(str(source)) if str(source).startswith(HUB) else at_home(source)
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    for fault in hash_faults(folder, missing=False):
        raise ValueError(fault)
    return import_folder(folder, at_home(run))


def load_checkpoint(path: str | Path, where: Placement = AS_STORED) -> Loaded:
    """The model, tokenizer and task that a CHECKPOINT means.

    Raises:
        ValueError: as `resolve`, or what lies there does not fit together.
    """
    return load_run(resolve(path), where)
