"""Large files over xet: the real client uploads into a folder, which a local hub names as its store."""

import importlib.util
from pathlib import Path

import pytest
from huggingface_hub import constants
from local_hub import LocalHub, local_hub

from zoo.hub.push import push
from zoo.hub.trouble import Patience

pytestmark = pytest.mark.skipif(importlib.util.find_spec("hf_xet") is None, reason="hf_xet is not installed")
QUICK = Patience(retries=0, timeout=30)


def connect(hub: LocalHub, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub whose large files go to xet's own store."""
    hub.xet = store
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setenv("HF_XET_CLIENT_RETRY_MAX_ATTEMPTS", "1")


def test_large_files_go_through_xet_and_are_shown_by_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model, store = tmp_path / "model", tmp_path / "store"
    model.mkdir()
    store.mkdir()
    (model / "README.md").write_text("---\nlicense: mit\n---\n")
    (model / "model.safetensors").write_bytes(bytes(range(256)) * 500)
    monkeypatch.setattr("zoo.hub.push.published_files", lambda *_: sorted(model.iterdir()))
    with local_hub() as hub:
        connect(hub, store, monkeypatch)
        assert push("runs/mine", "org/name", patience=QUICK).written == ("README.md", "model.safetensors")
        repo = hub.repos["org/name"]
        assert "GET /api/models/org/name/xet-write-token/main" in hub.requests and len(repo.commits) == 2
        assert not [request for request in hub.requests if "storage" in request or "lfs" in request]
        assert repo.files["model.safetensors"].large and list(store.rglob("*.mdb"))
        assert push("runs/mine", "org/name", patience=QUICK).written == ()
        (model / "model.safetensors").write_bytes(b"other weights" * 500)
        hub.forget()
        hub.faults = {2: 403}
        with pytest.raises(RuntimeError, match="uploading to org/name: .*; to complete it: zoo push runs/mine"):
            push("runs/mine", "org/name", patience=QUICK)
        assert len(repo.commits) == 2
        hub.forget()
        assert push("runs/mine", "org/name", patience=QUICK).written == ("model.safetensors",)
