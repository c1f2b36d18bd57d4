"""Publish a checkpoint on the Hugging Face Hub: export it, check it, and show it with one commit."""

from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, ModelInfo, get_token, is_offline_mode
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id

from zoo.data.scratch import Scratch
from zoo.hub.publishing.published import published_files
from zoo.hub.publishing.repository import Repository, file_names, holds
from zoo.hub.sources.failures import HubFailure, RetryPolicy

GITIGNORE = ".gitignore"


@dataclass(frozen=True)
class PushReport:
    """What a push did.

    Args:
        written, removed: files that the commit wrote and removed; if both are empty, nothing had changed.
        others: files in the repository that zoo did not write.
    """

    url: str
    written: tuple[str, ...]
    removed: tuple[str, ...]
    others: tuple[str, ...]

    def lines(self) -> list[str]:
        """The report as a terminal shows it."""
        changed = [f"written: {', '.join(self.written)}"] * bool(self.written)
        changed += [f"removed: {', '.join(self.removed)}"] * bool(self.removed)
        others = [f"left unchanged: {', '.join(self.others)}"] * bool(self.others)
        return [self.url, *(changed or ["nothing to commit: the repository already holds this model"]), *others]


def push(
    checkpoint: str | Path, name: str, private: bool = False, retry_policy: RetryPolicy | None = None
) -> PushReport:
    """Export a checkpoint, or take a Hugging Face folder unchanged, and publish it as `org/name` in one commit.

    Args:
        private: whether a new repository is private.
        retry_policy: how temporary failures are retried; None: as `RetryPolicy` does by default.

    Raises:
        ValueError: a wrong name or checkpoint, `private` for a public repository, or files of others that it would have
            to overwrite; nothing is changed.
        RuntimeError: the Hub cannot be reached or refuses; the same call again completes the push.
    """
    check_name(name)
    check_access(name)
    retry_policy = retry_policy or RetryPolicy()
    with Scratch() as scratch, retry_policy.patched_client():
        files = published_files(checkpoint, scratch.folder / "export", name)
        repository = Repository(name, HfApi(), retry_policy.timeout)
        try:
            return retry_policy.run(lambda: attempt(repository, files, private))
        except HubFailure as failure:
            again = f"zoo push {checkpoint} {name}{' --private' * private}"
            raise RuntimeError(
                f"{failure}. Nothing half-written is visible; to complete the push: {again}"
            ) from failure


def check_name(name: str) -> None:
    """Refuse an invalid repository name, before any request.

    Raises:
        ValueError: it is not ORG/NAME.
    """
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ValueError(f"push: {name!r} is not the name of a Hub repository: {error}") from None
    if "/" not in name:
        raise ValueError(f"push: {name!r} lacks an owner; name it ORG/NAME, such as my-name/{name}")


def check_access(name: str) -> None:
    """Refuse a push that is bound to fail, before spending time on the export.

    Raises:
        RuntimeError: offline mode is set, or nobody is logged in.
    """
    if is_offline_mode():
        raise RuntimeError(f"{name}: HF_HUB_OFFLINE is set, so the Hub cannot be reached; unset it to push")
    if get_token() is None:
        raise RuntimeError(f"{name}: not logged in to the Hub; run `hf auth login`, or set HF_TOKEN")


def attempt(repository: Repository, files: list[Path], private: bool) -> PushReport:
    """Make one attempt: look, upload what is missing, commit, look again. It is safe to repeat after a failure.

    Raises:
        ValueError: the repository is public although `private` is asked for.
        HubFailure: a request failed.
    """
    before = repository.info() or repository.create(private)
    if private and not before.private:
        raise ValueError(f"{repository.name}: is public already; --private is only for new repositories")
    changed = [path for path in files if not holds(before, path)]
    # .gitattributes is the Hub's own
    rest = [name for name in file_names(before) - {path.name for path in files} if not name.startswith(".git")]
    others = repository.written_by_others(sorted(rest), before.sha)
    gone = sorted(set(rest) - set(others))
    if changed or gone:
        refuse_files_of_others(repository, before, changed)
        repository.commit(before.sha, repository.upload(changed), gone)
        check_committed(repository, files, gone)
    url = f"{repository.api.endpoint}/{repository.name}"
    return PushReport(url, tuple(path.name for path in changed), tuple(gone), tuple(others))


def refuse_files_of_others(repository: Repository, before: ModelInfo, changed: list[Path]) -> None:
    """Refuse to overwrite files that zoo did not write, and a repository with a .gitignore, which may exclude files."""
    if GITIGNORE in file_names(before):
        raise ValueError(f"{repository.name}: has a {GITIGNORE}, which may exclude files of a model; delete it there")
    there = [path.name for path in changed if path.name in file_names(before)]
    others = repository.written_by_others(there, before.sha)
    if others:
        raise ValueError(
            f"{repository.name}: {', '.join(others):.200} there was not written by zoo push and is not overwritten; "
            "push to another name, delete it there, or push a folder that holds the same file"
        )


def check_committed(repository: Repository, files: list[Path], gone: list[str]) -> None:
    """Check that the repository holds what was committed: the Hub may report success and ignore a file.

    Raises:
        HubFailure: it does not.
    """
    after = repository.info()
    missing = [path.name for path in files if after is None or not holds(after, path)]
    missing += [name for name in gone if after is not None and name in file_names(after)]
    if missing:
        raise HubFailure(f"{repository.name}: holds something else than was committed: {missing}", temporary=True)
