"""The files that a push publishes: a run's export, or the files of a Hugging Face folder."""

import logging
from pathlib import Path

from zoo.devices.choose import EXACT, choose_placement
from zoo.disk import expand_user
from zoo.hub.checkpoint import load_checkpoint, resolve
from zoo.hub.exporting.card.card import CARD, CURVES
from zoo.hub.exporting.export import export_model
from zoo.hub.exporting.trained_model import load_trained
from zoo.hub.importing.importing import CODE_KEYS
from zoo.hub.sources.folder import CONFIG, GENERATION, PREPROCESSOR, SMALL_FILES, TOKENIZER_CONFIG
from zoo.runs.files import read_json
from zoo.runs.saved import is_run

SETTINGS = (CONFIG, GENERATION, PREPROCESSOR, TOKENIZER_CONFIG)
MODEL_FILES = (CARD, CURVES, PREPROCESSOR, *SMALL_FILES)
WEIGHT_SUFFIXES = (".safetensors", ".safetensors.index.json")
MOST_BYTES = 1 << 26  # bytes; only weights may be larger
logger = logging.getLogger(__name__)


def published_files(checkpoint: str | Path, aside: Path, address: str) -> list[Path]:
    """Export a run into the folder `aside`, or check a Hugging Face folder; return the files to publish.

    Raises:
        ValueError: there is no such checkpoint, it cannot be exported, or a file of the folder must not be published.
        RuntimeError: transformers computes something else than zoo's model.
    """
    place = expand_user(checkpoint)
    if (place / CONFIG).is_file() and not is_run(place):
        return files_of_folder(place)
    trained = load_trained(resolve(checkpoint), choose_placement(precision=EXACT), address)
    export_model(trained, aside)
    return sorted(aside.iterdir())


def files_of_folder(folder: Path) -> list[Path]:
    """The model's own files in a Hugging Face folder, which must hold a model that zoo can load.

    Raises:
        ValueError: the model cannot be loaded, or a file must not be published.
    """
    found = sorted(folder.iterdir())
    ours = [path for path in found if path.name in MODEL_FILES or path.name.endswith(WEIGHT_SUFFIXES)]
    for path in ours:
        refuse_file(path)
        asked = [key for key in CODE_KEYS if key in read_json(path)] if path.name in SETTINGS else []
        if asked:
            raise ValueError(f"{path}: {asked[0]} asks readers to run other people's code, which zoo does not publish")
    load_checkpoint(folder)  # refuses damaged files, and models that cannot be loaded
    if rest := [path.name for path in found if path not in ours]:
        logger.warning("%s: not pushed, since these are not files of a model: %.300s", folder, ", ".join(rest))
    return ours


def refuse_file(path: Path) -> None:
    """Refuse a link, which may publish a file from elsewhere, any other special file, and a large file without weights.

    Raises:
        ValueError: the file is one of these.
    """
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"{path}: is not a regular file of the folder; zoo publishes nothing else")
    if path.stat().st_size > MOST_BYTES and not path.name.endswith(WEIGHT_SUFFIXES[0]):
        raise ValueError(f"{path}: has {path.stat().st_size:,} bytes; only weights may be that large")
