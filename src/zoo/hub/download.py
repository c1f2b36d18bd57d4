"""A model of the Hugging Face hub on this disk: its config, weights and tokenizer, and nothing else of it."""

import os
from pathlib import Path

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id

from zoo.hub.trouble import Patience, Trouble, explaining

HUB = "hub:"
WANTED = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
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
    with Patience(timeout=SECONDS).applied():
        try:
            look(repository)
            with explaining(f"downloading {repository}"):
                return Path(snapshot_download(repository, allow_patterns=list(WANTED)))
        except Trouble as trouble:
            kept = fetched_before(repository)
            if kept is not None and trouble.passing:
                return kept
            raise ValueError(
                f"{name}: {trouble}; nothing was fetched. A folder on this disk needs no network"
            ) from None


def look(repository: str) -> None:
    """One quick question, so that a missing network or repository is known at once."""
    if constants.is_offline_mode():
        raise Trouble("HF_HUB_OFFLINE is set, and it was not fetched before", passing=True, wait=0)
    with explaining(f"looking for {repository} at {constants.ENDPOINT}"):
        HfApi().model_info(repository, timeout=SECONDS)


def fetched_before(repository: str) -> Path | None:
    """What an earlier download left in the hub's cache."""
    try:
        found = snapshot_download(repository, allow_patterns=list(WANTED), local_files_only=True)
    except (OSError, ValueError):
        return None
    return Path(found) if os.path.isfile(os.path.join(found, "config.json")) else None
