"""A model repository on the Hugging Face Hub: what it holds, and one commit that changes it."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, ModelInfo
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils.sha import git_hash

from zoo.hub.sources.failures import HubFailure, hub_errors, sanitize
from zoo.runs.files import digest

COMMIT_TITLE = "zoo push"  # the title of zoo's commits, which distinguishes the files that zoo wrote from others
logger = logging.getLogger(__name__)


def file_names(found: ModelInfo) -> set[str]:
    """The names of a repository's files."""
    return {file.rfilename for file in found.siblings or ()}


def holds(found: ModelInfo, path: Path) -> bool:
    """Return whether a repository holds this file with this content."""
    there = next((file for file in found.siblings or () if file.rfilename == path.name), None)
    if there is None or there.size != path.stat().st_size:
        return False
    if there.lfs is not None:
        return there.lfs.sha256 == digest(path)  # reads in chunks: weights may be larger than memory
    return there.blob_id == git_hash(path.read_bytes())  # files outside LFS are small


class Repository:
    """One repository; every method raises `HubFailure` if a request fails.

    Args:
        name: `org/name`.
        timeout: seconds until a silent connection counts as broken.
    """

    def __init__(self, name: str, api: HfApi, timeout: float) -> None:
        self.name, self.api, self.timeout = name, api, timeout

    def info(self) -> ModelInfo | None:
        """The current state of the repository; None if there is no such repository."""
        with hub_errors(f"looking at {self.name}"):
            try:
                return self.api.model_info(self.name, files_metadata=True, timeout=self.timeout)
            except HfHubHTTPError as error:
                # not RepositoryNotFoundError: the client raises that for a bad token (401) too
                if error.response.status_code == 404:
                    return None
                raise

    def create(self, private: bool) -> ModelInfo:
        """Create the repository, unless it exists by now, and return its state."""
        with hub_errors(f"creating {self.name}"):
            self.api.create_repo(self.name, private=private or None, exist_ok=True)
        found = self.info()
        if found is None:
            raise HubFailure(f"{self.name} exists, but this token cannot see it", temporary=False)
        return found

    def written_by_others(self, names: Sequence[str], head: str | None) -> list[str]:
        """The files among `names` whose last commit is not one of `zoo push`."""
        if not names:
            return []
        with hub_errors(f"asking who wrote the files of {self.name}"):
            found = self.api.get_paths_info(self.name, list(names), expand=True, revision=head)
        titles = {file.path: file.last_commit.title if file.last_commit else "" for file in found}
        return [name for name in names if not titles.get(name, "").startswith(COMMIT_TITLE)]

    # `upload_folder` does both in one call, but does not tell whether the client has already retried a failed request.
    def upload(self, paths: Sequence[Path]) -> list[CommitOperationAdd]:
        """Upload large files; they remain invisible until they are committed."""
        additions = [CommitOperationAdd(path.name, path) for path in paths]
        with hub_errors(f"uploading to {self.name}", retried=True):  # the client itself retries these requests
            self.api.preupload_lfs_files(self.name, additions, free_memory=False)
        return additions

    def commit(self, head: str | None, additions: Sequence[CommitOperationAdd], gone: Sequence[str]) -> None:
        """Add and delete files in one commit on top of `head`."""
        operations: list[CommitOperationAdd | CommitOperationDelete] = [*additions, *map(CommitOperationDelete, gone)]
        with hub_errors(f"committing to {self.name}"), log_warnings():
            self.api.create_commit(self.name, operations, commit_message=COMMIT_TITLE, parent_commit=head)


@contextmanager
def log_warnings() -> Iterator[None]:
    """Log the Hub's warnings about a model card."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    for warning in said:
        logger.warning("%s", sanitize(str(warning.message)))
