"""A model repository of the Hugging Face hub: what it shows, and one commit that changes it."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, ModelInfo
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils.sha import git_hash

from zoo.hub.sources.failures import HubFailure, clean, explaining
from zoo.runs.files import digest

TITLE = "zoo push"  # the title of our commits: how the files that zoo wrote are told from those of others
logger = logging.getLogger(__name__)


def names_of(found: ModelInfo) -> set[str]:
    """The files that a repository shows."""
    return {file.rfilename for file in found.siblings or ()}


def shows(found: ModelInfo, path: Path) -> bool:
    """Whether a repository shows this file with this content."""
    there = next((file for file in found.siblings or () if file.rfilename == path.name), None)
    if there is None or there.size != path.stat().st_size:
        return False
    if there.lfs is not None:
        return there.lfs.sha256 == digest(path)  # read in pieces: weights may be larger than memory
    return there.blob_id == git_hash(path.read_bytes())  # what is not in LFS is small


class Repository:
    """One repository; every method raises `HubFailure` where the hub does not do what it is asked.

    Args:
        name: `org/name`.
        timeout: seconds until a silent connection counts as broken.
    """

    def __init__(self, name: str, api: HfApi, timeout: float) -> None:
        self.name, self.api, self.timeout = name, api, timeout

    def look(self) -> ModelInfo | None:
        """What it holds now; None if there is no such repository."""
        with explaining(f"looking at {self.name}"):
            try:
                return self.api.model_info(self.name, files_metadata=True, timeout=self.timeout)
            except HfHubHTTPError as error:
                # not RepositoryNotFoundError: the client raises that for a bad token (401) too
                if error.response.status_code == 404:
                    return None
                raise

    def create(self, private: bool) -> ModelInfo:
        """Make it, unless somebody else has made it meanwhile; what it holds then."""
        with explaining(f"creating {self.name}"):
            self.api.create_repo(self.name, private=private or None, exist_ok=True)
        found = self.look()
        if found is None:
            raise HubFailure(f"{self.name} exists, but this token cannot see it", passing=False)
        return found

    def of_others(self, names: Sequence[str], head: str | None) -> list[str]:
        """Which of its files were last written by something else than `zoo push`."""
        if not names:
            return []
        with explaining(f"asking who wrote the files of {self.name}"):
            found = self.api.get_paths_info(self.name, list(names), expand=True, revision=head)
        titles = {file.path: file.last_commit.title if file.last_commit else "" for file in found}
        return [name for name in names if not titles.get(name, "").startswith(TITLE)]

    # `upload_folder` does these two in one call, and says of no failure whether the client has repeated the request.
    def upload(self, paths: Sequence[Path]) -> list[CommitOperationAdd]:
        """Bring large files there; nothing shows them until they are committed."""
        additions = [CommitOperationAdd(path.name, path) for path in paths]
        with explaining(f"uploading to {self.name}", persisted=True):  # the client itself tries these requests again
            self.api.preupload_lfs_files(self.name, additions, free_memory=False)
        return additions

    def commit(self, head: str | None, additions: Sequence[CommitOperationAdd], gone: Sequence[str]) -> None:
        """Put files in and take others out, all in one commit on top of `head`."""
        operations: list[CommitOperationAdd | CommitOperationDelete] = [*additions, *map(CommitOperationDelete, gone)]
        with explaining(f"committing to {self.name}"), warnings_logged():
            self.api.create_commit(self.name, operations, commit_message=TITLE, parent_commit=head)


@contextmanager
def warnings_logged() -> Iterator[None]:
    """What the hub finds odd about a card becomes a line of the log."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    for warning in said:
        logger.warning("%s", clean(str(warning.message)))
