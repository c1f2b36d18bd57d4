"""Pushing shows a whole model in one commit, or nothing; doing it again completes it, and twice changes nothing."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _http
from local_hub import LOST, RESET, STALL, LocalHub
from local_repo import Repo

from zoo.hub.publishing.push import PushReport, push
from zoo.hub.publishing.repository import Repository
from zoo.hub.sources.failures import HubFailure, RetryPolicy, sanitize

NAME = "org/name"
QUICK = RetryPolicy(retries=1, first_wait=0, longest_wait=0, timeout=30)
HASTY = replace(QUICK, timeout=0.05)  # where it must fail anyway: being too hasty elsewhere does no harm
CARD = "---\nlibrary_name: transformers\nlicense: mit\n---\n# A model\n"
FILES = {
    "config.json": b'{"model_type": "gpt2"}',
    "model.safetensors": bytes(range(256)) * 8,
    "README.md": CARD.encode(),
}
FAULTS = [401, 403, 404, 409, 413, 429, 500, 503, RESET, STALL, LOST]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files are pushed as a model's; what may be a model is the subject of other tests."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    monkeypatch.setattr("zoo.hub.publishing.push.published_files", lambda *_: sorted(folder.iterdir()))
    return folder


def send(private: bool = False, retry_policy: RetryPolicy = QUICK) -> PushReport:
    return push("runs/mine", NAME, private, retry_policy)


def shown(repo: Repo) -> dict[str, bytes]:
    return {name: blob.content for name, blob in repo.files.items() if name != ".gitattributes"}


def test_a_new_repository_shows_everything_in_one_commit(hub: LocalHub, files: Path):
    report = send()
    assert shown(hub.repos[NAME]) == FILES and len(hub.repos[NAME].commits) == 2
    assert report.lines() == [f"{hub.url}/{NAME}", "written: README.md, config.json, model.safetensors"]
    assert not hub.repos[NAME].private


def test_a_new_repository_is_private_where_that_is_asked(hub: LocalHub, files: Path):
    send(private=True)
    assert hub.repos[NAME].private


def test_private_is_refused_where_the_repository_is_public(hub: LocalHub, files: Path):
    send()
    with pytest.raises(ValueError, match="org/name: is public already; --private is only for new repositories"):
        send(private=True)


def test_nothing_is_uploaded_or_committed_where_nothing_changed(hub: LocalHub, files: Path):
    send()
    hub.forget()
    assert send().lines()[1:] == ["nothing to commit: the repository already holds this model"]
    assert hub.requests == [f"GET /api/models/{NAME}"] and len(hub.repos[NAME].commits) == 2


def test_a_changed_card_is_one_commit_without_the_weights(hub: LocalHub, files: Path):
    send()
    hub.forget()
    (files / "README.md").write_text(CARD + "More.\n")
    assert send().written == ("README.md",)
    assert not [request for request in hub.requests if "storage" in request]
    assert shown(hub.repos[NAME])["README.md"].endswith(b"More.\n")


def test_a_file_that_the_model_no_longer_has_goes_in_the_same_commit(hub: LocalHub, files: Path):
    (files / "generation_config.json").write_text("{}")
    send()
    (files / "generation_config.json").unlink()
    assert send().lines()[1:] == ["removed: generation_config.json"]
    assert shown(hub.repos[NAME]) == FILES and len(hub.repos[NAME].commits) == 3


def test_files_of_others_stay_and_are_named(hub: LocalHub, files: Path):
    hub.repos[NAME] = Repo()
    hub.repos[NAME].write("notes.txt", b"mine")
    assert send().lines()[-1] == "left unchanged: notes.txt"
    assert shown(hub.repos[NAME]) == {**FILES, "notes.txt": b"mine"}


def test_a_file_that_somebody_else_wrote_is_never_overwritten(hub: LocalHub, files: Path):
    send()
    hub.repos[NAME].write("README.md", b"by hand")
    with pytest.raises(ValueError, match="README.md there was not written by zoo push and is not overwritten"):
        send()
    assert shown(hub.repos[NAME])["README.md"] == b"by hand"
    (files / "README.md").write_bytes(b"by hand")
    assert send().written == ()


def test_a_gitignore_that_may_keep_files_out_is_refused(hub: LocalHub, files: Path):
    hub.repos[NAME] = Repo()
    hub.repos[NAME].write(".gitignore", b"*.safetensors")
    with pytest.raises(ValueError, match=r"has a .gitignore, which may exclude files of a model; delete it there"):
        send()


def test_large_files_come_in_parts_where_the_hub_wants_it(hub: LocalHub, files: Path):
    hub.chunk = 500
    send()
    assert shown(hub.repos[NAME]) == FILES
    assert len([request for request in hub.requests if request.startswith("PUT")]) == 5


def test_a_commit_that_came_between_is_not_overwritten(hub: LocalHub, files: Path, monkeypatch: pytest.MonkeyPatch):
    send()
    (files / "config.json").write_text("{}")
    commit = Repository.commit

    def meddled(self: Repository, *given: Any) -> None:
        hub.repos[NAME].write("config.json", b"theirs")
        commit(self, *given)

    monkeypatch.setattr(Repository, "commit", meddled)
    with pytest.raises(RuntimeError, match=r"committing to org/name: somebody else changed it meanwhile \(412: "):
        send()
    assert shown(hub.repos[NAME])["config.json"] == b"theirs"


def test_an_ignored_commit_is_tried_again_and_told(hub: LocalHub, files: Path, monkeypatch: pytest.MonkeyPatch):
    (files / "config.json").rename(files / "generation_config.json")
    send()
    (files / "generation_config.json").rename(files / "config.json")
    tried: list[Any] = []
    monkeypatch.setattr(Repository, "commit", lambda *given: tried.append(given))
    with pytest.raises(RuntimeError, match=r"was committed: \['config.json', 'generation_config.json'\]"):
        send()
    assert len(tried) == QUICK.retries + 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failure_at_any_request_shows_nothing_half_written_and_a_rerun_completes(
    hub: LocalHub, files: Path, fault: int | str
):
    send()
    count = len(hub.requests)
    assert count == 10, hub.requests
    for index in range(count):
        hub.repos.clear()
        hub.stored.clear()
        hub.forget()
        hub.faults = {number: fault for number in range(index, 99)}
        with pytest.raises(RuntimeError, match="half-written is visible; to complete the push: zoo push runs/mine "):
            send(retry_policy=HASTY if fault == STALL else QUICK)
        seen = [shown(Repo(commits=[commit])) for repo in hub.repos.values() for commit in repo.commits]
        assert all(files in ({}, FILES) for files in seen)
        hub.forget()
        send()
        assert shown(hub.repos[NAME]) == FILES


@pytest.mark.parametrize("fault", [429, RESET, STALL, LOST])
def test_a_failure_that_passes_is_tried_again(hub: LocalHub, files: Path, fault: int | str):
    send()
    for index in range(len(hub.requests)):
        hub.repos.clear()
        hub.stored.clear()
        hub.forget()
        hub.faults = {index: fault}
        send(retry_policy=replace(QUICK, timeout=0.3) if fault == STALL else QUICK)
        assert shown(hub.repos[NAME]) == FILES and len(hub.repos[NAME].commits) == 2


BAD_NAMES = ["", "a/b/c", "../x", "a/../b", "org/", "/name", "org/na me", "org/name\n", "org/-name", "org/a--b"]
BAD_NAMES += ["org/a..b", "org/name.git", "org/" + "x" * 97, "org/café", "https://hub/org/name"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused_before_any_request(hub: LocalHub, name: str):
    with pytest.raises(ValueError, match="^push: .* is not the name of a Hub repository: "):
        push("runs/mine", name)
    assert not hub.requests


def test_a_name_without_an_owner_is_refused(hub: LocalHub):
    with pytest.raises(ValueError, match="'name' lacks an owner; name it ORG/NAME, such as my-name/name"):
        push("runs/mine", "name")


def test_without_a_token_or_a_network_nothing_is_asked(hub: LocalHub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(RuntimeError, match="org/name: not logged in to the Hub; run `hf auth login`, or set HF_"):
        send()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(RuntimeError, match="org/name: HF_HUB_OFFLINE is set, so the Hub cannot be reached"):
        send()
    assert not hub.requests


MESSAGES = {
    401: r"looking at org/name: the token was not accepted; log in again with `hf auth login`, or set HF_TOKEN \(401",
    403: r"the token may not do that; it needs write access to this name \(403: fault 403\)",
    404: r"exists, but this token cannot see it|not found",
    413: r"a file is too large for the Hub \(413",
    429: r"too many requests; wait before trying again \(429",
    503: r"the Hub has an error \(503: fault 503\)",
    RESET: "the connection failed .RemoteProtocolError|the connection failed .ReadError",
}


@pytest.mark.parametrize("fault", MESSAGES)
def test_every_failure_says_what_it_means(hub: LocalHub, files: Path, fault: int | str):
    hub.faults = {number: fault for number in range(99)}
    with pytest.raises(RuntimeError, match=MESSAGES[fault]):
        send()


def test_the_wait_that_the_hub_asks_for_is_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch):
    waited: list[float] = []
    monkeypatch.setattr("zoo.hub.sources.failures.time", SimpleNamespace(sleep=waited.append))
    asked = iter([0, 7, 900])

    def fail() -> None:
        raise HubFailure("busy", temporary=True, wait=next(asked, 0))

    with pytest.raises(HubFailure, match="busy"):
        RetryPolicy(retries=4, first_wait=1, longest_wait=60).run(fail)
    assert waited == [1, 7, 60, 8]


def test_the_token_is_in_nothing_that_is_said_or_uploaded(
    hub: LocalHub, files: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    hub.faults = {2: 503}
    said = "\n".join(send().lines())
    hub.token = "another"
    with pytest.raises(RuntimeError) as error:
        send()
    hub.faults = dict.fromkeys(range(99), 500)
    with pytest.raises(RuntimeError) as other:
        send()
    printed = "".join(capfd.readouterr()) + caplog.text + said + str(error.value) + str(other.value)
    assert "trying again" in printed and "hf_right" not in printed
    bodies = b"".join(seen.replace(b"Bearer hf_right", b"") for seen in hub.seen)
    assert b"hf_right" not in bodies and b"hf_right" not in b"".join(hub.stored.values())


def test_a_server_that_repeats_the_token_is_not_repeated(hub: LocalHub):
    assert sanitize("bad token hf_right\n\x1b]0;x") == "bad token … ]0;x"
    assert len(sanitize("x" * 999)) == 301


def test_weights_are_never_held_in_memory_whole(hub: LocalHub, files: Path, monkeypatch: pytest.MonkeyPatch):
    read_bytes = Path.read_bytes

    def small(self: Path) -> bytes:
        assert self.suffix != ".safetensors"
        return read_bytes(self)

    monkeypatch.setattr(Path, "read_bytes", small)
    assert "model.safetensors" in send().written
    assert send().written == ()


def test_a_file_of_the_same_size_with_other_content_is_pushed(hub: LocalHub, files: Path):
    send()
    for name in ("config.json", "model.safetensors"):
        content = (files / name).read_bytes()
        (files / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert send().written == ("config.json", "model.safetensors")


def test_the_clients_of_a_users_program_are_used_and_come_back(hub: LocalHub, files: Path):
    made: list[Any] = []

    def factory() -> Any:
        made.append(_http.default_client_factory())
        return made[-1]

    _http.set_client_factory(factory)
    try:
        send()
        assert made and all(client.timeout.read == QUICK.timeout for client in made)
        assert _http._GLOBAL_CLIENT_FACTORY is factory
    finally:
        _http.set_client_factory(_http.default_client_factory)


def test_a_download_inside_a_push_leaves_the_pushs_time_out():
    with RetryPolicy(timeout=60).patched_client():
        with RetryPolicy(timeout=10).patched_client():
            assert _http.get_session().timeout.read == 10
        assert _http.get_session().timeout.read == 60
