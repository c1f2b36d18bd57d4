"""Large files over xet: the real client uploads into a folder, which a local hub names as its store.

What the hub itself answers can fail here in every way. What passes between the client and the store cannot: it is
compiled into hf_xet, which speaks to a folder here, and shows no request; a store that is not there is all that fails.
"""

import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _http
from local_hub import STALL, LocalHub, local_hub
from local_repo import Blob
from test_push import FAULTS, NAME

from zoo.hub.publishing.push import push
from zoo.hub.sources.failures import RetryPolicy

pytestmark = pytest.mark.skipif(importlib.util.find_spec("hf_xet") is None, reason="hf_xet is not installed")
QUICK = RetryPolicy(retries=0, timeout=30)
CARD = b"---\nlicense: mit\n---\n"
FILES = {"README.md": CARD, "model.safetensors": bytes(range(256)) * 500}
WHOLE = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}


def connect(hub: LocalHub, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub whose large files go to xet's own store."""
    hub.xet = store
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setenv("HF_XET_CLIENT_RETRY_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=lambda seconds: None))  # between the client's retries
    monkeypatch.setitem(_http.http_backoff.__kwdefaults__, "max_retries", 1)


def hashes(files: Mapping[str, Blob]) -> dict[str, str]:
    """What is shown; the content of large files is in the store, and the hub knows its hash."""
    return {name: blob.sha256 for name, blob in files.items() if name != ".gitattributes"}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is pushed."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    monkeypatch.setattr("zoo.hub.publishing.push.published_files", lambda *_: sorted(folder.iterdir()))
    return folder


def test_large_files_go_through_xet_and_are_shown_by_one_commit(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = tmp_path / "store"
    store.mkdir()
    with local_hub() as hub:
        connect(hub, store, monkeypatch)
        assert push("runs/mine", "org/name", retry_policy=QUICK).written == ("README.md", "model.safetensors")
        repo = hub.repos["org/name"]
        assert "GET /api/models/org/name/xet-write-token/main" in hub.requests and len(repo.commits) == 2
        assert not [request for request in hub.requests if "storage" in request or "lfs" in request]
        assert repo.files["model.safetensors"].large and list(store.rglob("*.mdb"))
        assert push("runs/mine", "org/name", retry_policy=QUICK).written == ()
        (model / "model.safetensors").write_bytes(b"other weights" * 500)
        hub.forget()
        hub.faults = {2: 403}
        with pytest.raises(RuntimeError, match="uploading to org/name: .*; to complete the push: zoo push runs/mine"):
            push("runs/mine", "org/name", retry_policy=QUICK)
        assert len(repo.commits) == 2
        hub.forget()
        assert push("runs/mine", "org/name", retry_policy=QUICK).written == ("model.safetensors",)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failure_at_any_request_shows_nothing_half_written_and_a_rerun_completes(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int | str
):
    (tmp_path / "store").mkdir()
    hasty = RetryPolicy(retries=0, timeout=0.2) if fault == STALL else QUICK
    with local_hub() as hub:
        connect(hub, tmp_path / "store", monkeypatch)
        push("runs/mine", NAME, retry_policy=QUICK)
        count = len(hub.requests)
        assert count >= 7, hub.requests
        for index in range(count):
            hub.repos.clear()
            hub.forget()
            hub.faults = {number: fault for number in range(index, 99)}
            with pytest.raises(
                RuntimeError, match="Nothing half-written is visible; to complete the push: zoo push runs/mine "
            ):
                push("runs/mine", NAME, retry_policy=hasty)
            commits = [commit for repo in hub.repos.values() for commit in repo.commits]
            assert all(hashes(commit) in ({}, WHOLE) for commit in commits)
            hub.forget()
            push("runs/mine", NAME, retry_policy=QUICK)
            assert hashes(hub.repos[NAME].files) == WHOLE


def test_a_store_that_is_not_there_is_one_message_and_a_rerun_completes(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "store").write_text("no folder")
    with local_hub() as hub:
        connect(hub, tmp_path / "store", monkeypatch)
        with pytest.raises(RuntimeError, match="uploading to org/name: .*; to complete the push: zoo push runs/mine"):
            push("runs/mine", NAME, retry_policy=QUICK)
        assert hashes(hub.repos[NAME].files) == {}
        (tmp_path / "store").unlink()
        (tmp_path / "store").mkdir()
        push("runs/mine", NAME, retry_policy=QUICK)
        assert hashes(hub.repos[NAME].files) == WHOLE
