"""A model of the Hugging Face hub on this disk: its config, weights and tokenizer, and nothing else of it."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import TypeVar

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id

from zoo.hub.sources.failures import HubFailure, RetryPolicy, explaining
from zoo.hub.sources.folder import CHATS, CONFIG, SMALL_FILES, CheckpointFolder
from zoo.hub.sources.headers import INDEX, WHOLE, refuse_pickles

T = TypeVar("T")
logger = logging.getLogger(__name__)
HUB = "hub:"
WANTED = [*SMALL_FILES, f"{CHATS}/*.jinja", WHOLE, "model-*.safetensors", INDEX]
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
                folder = Path(snapshot_download(repository, allow_patterns=WANTED))
        except HubFailure as failure:
            kept = fetched_before(repository) if failure.passing else None
            if kept is None:
                advice = "nothing was downloaded. A local folder needs no network"
                raise ValueError(f"{name}: {failure}; {advice}") from None
            if not constants.is_offline_mode():  # who sets that knows it
                logger.warning("%s: %s; using the copy that was downloaded before", name, failure)
            return kept
    if not any(name.endswith(".safetensors") for name in names):
        refuse_pickles(CheckpointFolder(folder), names, repository, "DIR")
    return folder


def look(repository: str) -> list[str]:
    """One quick question, so that a missing network or repository is known at once: the names of the files there.

    `snapshot_download` alone would not do: its question has no time limit (`etag_timeout` is for files), and after an
    error it gives an old copy without a word.
    """
    if constants.is_offline_mode():
        raise HubFailure("HF_HUB_OFFLINE is set, and it was not downloaded before", passing=True)
    with explaining(f"looking for {repository} at {constants.ENDPOINT}"):
        info = within(SECONDS, lambda: HfApi().model_info(repository, timeout=SECONDS))
    return [file.rfilename for file in info.siblings or ()]


def within(seconds: float, work: Callable[[], T]) -> T:
    """What the work gives, if it does in time; a client's own limit holds for each address of a name, one by one.

    Raises:
        TimeoutError: it took longer; it is left to itself then.
    """
    answer: Future[T] = Future()

    def carry_out() -> None:
        try:
            answer.set_result(work())
        except Exception as error:  # whatever it is, it is raised where it is waited for
            answer.set_exception(error)

    # a daemon, which no executor starts: Python waits for an executor's threads before it ends
    Thread(target=carry_out, daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        raise TimeoutError(f"no answer in {seconds:g} s") from None


def fetched_before(repository: str) -> Path | None:
    """What an earlier download left in the hub's cache."""
    try:
        found = Path(snapshot_download(repository, allow_patterns=WANTED, local_files_only=True))
    except (OSError, ValueError):
        return None
    return found if (found / CONFIG).is_file() else None
