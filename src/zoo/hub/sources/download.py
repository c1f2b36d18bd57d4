"""A model of the Hugging Face hub on this disk: its config, weights and tokenizer, and nothing else of it."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TypeVar

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id

from zoo.hub.sources.failures import HubFailure, RetryPolicy, explaining
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.sources.headers import PICKLES

T = TypeVar("T")
logger = logging.getLogger(__name__)
HUB = "hub:"
WANTED = (
    "config.json",
    "generation_config.json",
    "hashes.json",
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
)
SECONDS = 10.0  # until a hub that does not answer counts as out of reach


def download(name: str) -> Path:
    """The folder of `hub:ORG/NAME`; what was fetched before is not fetched again, and serves without a network.

    Raises:
        ValueError: it is no name of a repository, there is no such one, or the hub is out of reach.
    """
    repository = name.removeprefix(HUB)
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise ValueError(f"{name}: {error}; expected {HUB}ORG/NAME") from None
    with RetryPolicy(timeout=SECONDS).applied():
        try:
            names = look(repository)
            with explaining(f"downloading {repository}"):
                folder = Path(snapshot_download(repository, allow_patterns=list(WANTED)))
            refuse_pickles(repository, folder, names)
            return folder
        except HubFailure as trouble:
            kept = fetched_before(repository)
            if kept is not None and trouble.passing:
                if not constants.is_offline_mode():  # who sets that knows it
                    logger.warning("%s: %s; using the copy that was downloaded before", name, trouble)
                return kept
            raise ValueError(
                f"{name}: {trouble}; nothing was fetched. A folder on this disk needs no network"
            ) from None


def look(repository: str) -> list[str]:
    """One quick question, so that a missing network or repository is known at once: the names of the files there."""
    if constants.is_offline_mode():
        raise HubFailure("HF_HUB_OFFLINE is set, and it was not fetched before", passing=True, wait=0)
    with explaining(f"looking for {repository} at {constants.ENDPOINT}"):
        info = within(SECONDS, lambda: HfApi().model_info(repository, timeout=SECONDS))
    return [file.rfilename for file in info.siblings or ()]


def within(seconds: float, work: Callable[[], T]) -> T:
    """What the work gives, if it does in time; a client's own limit holds for each address of a name, one by one.

    Raises:
        TimeoutError: it took longer; it is left to itself then.
    """
    done: Queue[T | Exception] = Queue()

    def carry_out() -> None:
        try:
            done.put(work())
        except Exception as error:  # whatever it is, it is raised where it is waited for
            done.put(error)

    Thread(target=carry_out, daemon=True).start()
    try:
        found = done.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer in {seconds:g} s") from None
    if isinstance(found, Exception):
        raise found
    return found


def refuse_pickles(repository: str, folder: Path, names: list[str]) -> None:
    """Refuse a repository whose weights are no safetensors, with the way out.

    Args:
        folder: what was fetched of it: the settings, and no weights then.
    """
    pickles = [name for name in names if name.endswith(PICKLES)]
    if not pickles or any(name.endswith(".safetensors") for name in names):
        return
    named = CheckpointFolder(folder).read_json("config.json").get("architectures")
    auto = named[0] if isinstance(named, list) and named and str(named[0]).isidentifier() else "AutoModel"
    steps = [f"{name}.from_pretrained('{repository}').save_pretrained('DIR')" for name in (auto, "AutoTokenizer")]
    raise ValueError(
        f"{HUB}{repository}: its weights are a pickle ({pickles[0]}), and reading one runs what its author wrote into "
        f'it. If you trust the author, convert it once: python -c "from transformers import {auto}, AutoTokenizer; '
        f'{"; ".join(steps)}"; then import DIR'
    )


def fetched_before(repository: str) -> Path | None:
    """What an earlier download left in the hub's cache."""
    try:
        found = snapshot_download(repository, allow_patterns=list(WANTED), local_files_only=True)
    except (OSError, ValueError):
        return None
    return Path(found) if os.path.isfile(os.path.join(found, "config.json")) else None
