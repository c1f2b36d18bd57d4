"""`hub:ORG/NAME` fetches config, weights and tokenizer of a repository, and nothing else of it."""

import json
from pathlib import Path
from threading import Event

import pytest
import torch
from huggingface_hub import HfApi, constants
from local_hub import LocalHub
from strangers import saved

import zoo
from zoo.hub.checkpoint import resolve
from zoo.hub.sources.download import download, run_within
from zoo.hub.sources.failures import HubFailure


@pytest.fixture
def published(hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model that the hub shows as org/model, with files that nobody should fetch."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    at = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", at)
    folder = saved(tmp_path / "hf", "GPT2LMHeadModel")
    for name in ("modeling.py", "pytorch_model.bin", "training_args.bin", ".env"):
        (folder / name).write_text("raise SystemExit")
    HfApi().create_repo("org/model")
    HfApi().upload_folder(repo_id="org/model", folder_path=folder)
    return folder


def test_a_repository_is_read_like_its_folder(published: Path):
    ours, theirs = zoo.load("hub:org/model").state_dict(), zoo.load(published).state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    fetched = {path.name for path in download("hub:org/model").iterdir()}
    assert fetched <= {"config.json", "generation_config.json", "model.safetensors"}


def test_what_was_fetched_serves_without_a_network(
    published: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    before = download("hub:org/model")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert download("hub:org/model") == before and not caplog.records  # who asks for it need not be told
    (before / "config.json").unlink()  # a download that was cut off
    with pytest.raises(ValueError, match="HF_HUB_OFFLINE is set, and it was not downloaded before"):
        download("hub:org/model")


def test_a_copy_does_not_serve_for_a_repository_that_is_gone(published: Path, monkeypatch: pytest.MonkeyPatch):
    download("hub:org/model")

    def fail(repository: str) -> list[str]:
        raise HubFailure("looking for org/model: not found (404)", temporary=False)

    monkeypatch.setattr("zoo.hub.sources.download.list_files", fail)
    with pytest.raises(ValueError, match="hub:org/model: looking for org/model: not found"):
        download("hub:org/model")


def test_a_copy_that_serves_because_the_hub_failed_is_said(
    published: Path, hub: LocalHub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    before = download("hub:org/model")
    assert not caplog.records

    def fail(repository: str) -> list[str]:
        raise HubFailure("looking for org/model: the Hub has an error (503)", temporary=True, wait=0)

    monkeypatch.setattr("zoo.hub.sources.download.list_files", fail)
    assert download("hub:org/model") == before
    words = (
        "hub:org/model: looking for org/model: the Hub has an error (503); using the copy that was downloaded before"
    )
    assert caplog.messages == [words]


def test_an_unknown_name_a_wrong_one_and_a_missing_network_are_said_at_once(
    hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ValueError, match="hub:org/none: looking for org/none at .*: not found.*404"):
        resolve("hub:org/none")
    with pytest.raises(ValueError, match="expected hub:ORG/NAME"):
        resolve("hub:../../outside")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="hub:org/none: HF_HUB_OFFLINE is set, and it was not downloaded before"):
        resolve("hub:org/none")


def test_a_repository_of_pickles_is_refused_with_the_way_out(published: Path):
    HfApi().delete_file("model.safetensors", "org/model")
    way_out = r"GPT2LMHeadModel.from_pretrained\('org/model'\).save_pretrained\('DIR'\); AutoTokenizer.from_pretrained"
    with pytest.raises(ValueError, match=rf"org/model: pytorch_model.bin is a pickle.*{way_out}.*import DIR"):
        resolve("hub:org/model")


def test_an_export_comes_with_its_hashes_and_damaged_weights_are_refused(published: Path):
    hashes = json.dumps({"sha256": {"model.safetensors": "0" * 64, "README.md": "0" * 64}}).encode()
    HfApi().upload_file(path_or_fileobj=hashes, path_in_repo="hashes.json", repo_id="org/model")
    with pytest.raises(ValueError, match=r"model.safetensors: damaged or changed after the export"):
        resolve("hub:org/model")


def test_what_does_not_answer_is_left_to_itself():
    answer = Event()
    with pytest.raises(TimeoutError, match="no answer in 0.01 s"):
        run_within(0.01, answer.wait)
    answer.set()
    assert run_within(60, lambda: 7) == 7
    with pytest.raises(KeyError, match="this"):
        run_within(60, lambda: {}["this"])
