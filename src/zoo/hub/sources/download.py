"""Download a model from the Hugging Face Hub: its config, weights and tokenizer, nothing else."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import TypeVar

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id

from zoo.hub.sources.failures import HubFailure, RetryPolicy, hub_errors
from zoo.hub.sources.folder import CHAT_FOLDER, CONFIG, SMALL_FILES, CheckpointFolder
from zoo.hub.sources.headers import INDEX, WEIGHTS_FILE, refuse_pickles

T = TypeVar("T")
logger = logging.getLogger(__name__)
HUB = "hub:"
ALLOW_PATTERNS = [*SMALL_FILES, f"{CHAT_FOLDER}/*.jinja", WEIGHTS_FILE, "model-*.safetensors", INDEX]
TIMEOUT = 10.0  # until a silent Hub counts as unreachable


def download(name: str) -> Path:
    """Return the local folder of `hub:ORG/NAME`, from the cache as far as possible; a complete copy needs no network.

    Raises:
        ValueError: the name is invalid, there is no such repository, its weights are pickles, or the Hub is
            unreachable.
    """
    repository = name.removeprefix(HUB)
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise ValueError(f"{name}: {error}; expected {HUB}ORG/NAME") from None
    with RetryPolicy(timeout=TIMEOUT).patched_client():
        try:
            names = list_files(repository)
            with hub_errors(f"downloading {repository}"):
                folder = Path(snapshot_download(repository, allow_patterns=ALLOW_PATTERNS))
        except HubFailure as failure:
            kept = cached_folder(repository) if failure.temporary else None
            if kept is None:
                advice = "nothing was downloaded. A local folder needs no network"
                raise ValueError(f"{name}: {failure}; {advice}") from None
            if not constants.is_offline_mode():  # a user who set offline mode expects this
                logger.warning("%s: %s; using the copy that was downloaded before", name, failure)
            return kept
    if not any(name.endswith(".safetensors") for name in names):
        refuse_pickles(CheckpointFolder(folder), names, repository, "DIR")
    return folder


def list_files(repository: str) -> list[str]:
    """List a repository's files with one quick request, so that a missing network or repository fails at once.

    `snapshot_download` alone would not do: its request has no time limit (`etag_timeout` is for files), and after an
    error it silently returns an old copy.

    Raises:
        HubFailure: offline mode is set, or the request failed.
    """
    if constants.is_offline_mode():
        raise HubFailure("HF_HUB_OFFLINE is set, and it was not downloaded before", temporary=True)
    with hub_errors(f"looking for {repository} at {constants.ENDPOINT}"):
        info = run_within(TIMEOUT, lambda: HfApi().model_info(repository, timeout=TIMEOUT))
    return [file.rfilename for file in info.siblings or ()]


def run_within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of `work`, if it finishes in time.

    A client's own timeout would apply to each address of a host name in turn.

    Raises:
        TimeoutError: it took longer; its thread is left to finish alone.
    """
    answer: Future[T] = Future()

    def carry_out() -> None:
        try:
            answer.set_result(work())
        except Exception as error:  # `answer.result` raises it in the waiting thread
            answer.set_exception(error)

    # a daemon thread and no executor: Python waits for an executor's threads at exit
    Thread(target=carry_out, daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        raise TimeoutError(f"no answer in {seconds:g} s") from None


def cached_folder(repository: str) -> Path | None:
    """The folder that an earlier download left in the Hub's cache; None if there is none."""
    try:
        found = Path(snapshot_download(repository, allow_patterns=ALLOW_PATTERNS, local_files_only=True))
    except (OSError, ValueError):
        return None
    return found if (found / CONFIG).is_file() else None
