"""Claims about reading runs: RUN is its best validated checkpoint, and a file that was changed is named."""

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

from zoo.runs import checkpoint, files
from zoo.runs.check import check_run
from zoo.runs.checkpoint import latest, steps, verify
from zoo.runs.request import BaseRecord, RequestRecord, read_request
from zoo.runs.run import RunFiles, check_folder, create_run
from zoo.runs.saved import is_run, open_run

TOKENIZER = {"tokenizer.json": b"{}", "roles.json": b"[]"}
FILES = RunFiles({"d_model": 8}, {"objective": "causal_lm"}, {"steps": 5}, TOKENIZER)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with create_run(tmp_path, FILES) as run:
        for step in (1, 2, 3):
            weights = {"w": torch.full((2,), float(step))}
            run.save(step, {"weights": weights}, {"step": step, "best": {"step": 2, "metric": "loss", "value": 0.5}})
    return tmp_path


def test_a_run_means_its_best_checkpoint(folder: Path):
    run = open_run(folder)
    assert (run.step, run.config, run.task, run.training) == (2, FILES.config, FILES.task, FILES.training)
    assert run.tokenizer == TOKENIZER
    assert run.weights["w"].tolist() == [2.0, 2.0]


def test_a_checkpoint_can_be_named(folder: Path, monkeypatch: pytest.MonkeyPatch):
    assert open_run(folder / "checkpoints" / "3").step == 3
    monkeypatch.chdir(folder)
    assert open_run(Path("checkpoints/1")).step == 1
    assert open_run(Path(".")).step == 2
    monkeypatch.chdir("checkpoints")
    assert (open_run(Path("..")).step, open_run(Path("3")).step) == (2, 3)
    monkeypatch.chdir("1")
    assert (open_run(Path(".")).step, open_run(Path("../3")).step, open_run(Path("../..")).step) == (1, 3, 2)


def test_a_run_may_lie_in_a_folder_called_checkpoints(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    run = tmp_path_factory.mktemp("models") / "checkpoints" / "my-run"
    shutil.copytree(folder, run)
    assert is_run(run) and open_run(run).folder == run
    assert open_run(run / "checkpoints" / "3").folder == run


def test_behind_a_link_a_path_leads_where_the_system_says(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(folder, elsewhere / folder.name)
    link = elsewhere / "link"
    link.symlink_to(folder / "checkpoints")
    assert open_run(link / "..").folder == folder
    assert open_run(link / ".." / ".." / folder.name).folder == folder
    assert open_run(elsewhere / folder.name).folder == elsewhere / folder.name


def test_the_last_stands_in_for_a_broken_best(folder: Path, caplog: pytest.LogCaptureFixture):
    (folder / "checkpoints" / "2" / "weights.safetensors").unlink()
    assert open_run(folder).step == 3
    assert "using the last checkpoint, 3, since the best one is damaged" in caplog.text


def test_a_run_is_opened_while_training_replaces_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    asked = list[Path]()

    def verify_later(place: Path, *skip: Any) -> checkpoint.Checkpoint:
        asked.append(place)
        if len(asked) <= 4:  # training goes on before this checkpoint is read
            step = len(asked) + 1
            run.save(step, {"weights": {"w": torch.full((2,), float(step))}}, {"step": step, "best": None})
            shutil.rmtree(place)
        return verify(place, *skip)

    with create_run(tmp_path, FILES) as run:
        run.save(1, {"weights": {"w": torch.ones(2)}}, {"step": 1, "best": None})
        monkeypatch.setattr(checkpoint, "verify", verify_later)
        caplog.clear()
        opened = open_run(tmp_path)
    assert (opened.step, opened.weights["w"].tolist(), caplog.text) == (5, [5.0, 5.0], "")
    shutil.rmtree(opened.checkpoint.folder)
    with pytest.raises(ValueError, match=r"checkpoints/5: was deleted since it was opened; training deletes old"):
        _ = opened.weights


def test_a_link_to_itself_is_a_broken_file_like_any_other(folder: Path):
    state = folder / "checkpoints" / "2" / "state.json"
    state.unlink()
    state.symlink_to(state.name)
    assert open_run(folder).step == 3


def test_a_file_that_the_disk_cannot_read_is_a_broken_one(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def read(path: Path) -> str:
        if path.parent.name == "3":
            raise OSError(errno.EIO, "Input/output error")  # that of `read` names no file
        return sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(files, "digest", read)
    with pytest.raises(ValueError, match=r"checkpoints/3/state.json: cannot be read: Input/output error"):
        open_run(folder / "checkpoints" / "3")
    newest = latest(folder / "checkpoints")
    assert newest is not None and newest.step == 2 and open_run(folder).step == 2


def close(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody enter a folder, whoever runs the test."""
    stat = Path.stat

    def enter(path: Path, **options: bool) -> os.stat_result:
        if folder in path.parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", enter)


@pytest.mark.parametrize(
    ("place", "read"),
    [
        ("", is_run),
        ("", read_request),
        ("", lambda folder: steps(folder / "checkpoints")),
        ("checkpoints", open_run),
        ("checkpoints/3", lambda folder: verify(folder / "checkpoints" / "3")),
    ],
)
def test_a_folder_that_nobody_may_enter_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, read: Callable[[Path], Any]
):
    close(folder / place, monkeypatch)
    with pytest.raises(ValueError, match=f"{folder / place}.*: (cannot be read: )?Permission denied"):
        read(folder)


def test_a_checkpoint_that_nobody_may_enter_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch):
    close(folder / "checkpoints" / "3", monkeypatch)
    assert open_run(folder).step == 2
    create_run(folder, FILES, resume=True).close()


def test_a_check_names_the_checkpoints_of_a_folder_that_nobody_may_enter(folder: Path, monkeypatch: pytest.MonkeyPatch):
    close(folder / "checkpoints", monkeypatch)
    assert f"{folder / 'checkpoints' / '3' / 'manifest.json'}: Permission denied" in check_run(folder).faults


def test_a_run_that_nobody_may_enter_is_not_written_over(folder: Path, monkeypatch: pytest.MonkeyPatch):
    close(folder, monkeypatch)
    with pytest.raises(ValueError, match="already holds a run; continue it with --resume"):
        check_folder(folder, resume=False)


def test_moments_are_not_read_where_only_weights_are_needed(folder: Path):
    weights = {"w": torch.ones(2)}
    with create_run(folder, FILES, resume=True) as run:
        run.save(4, {"weights": weights, "optimizer": weights}, {"step": 4})
    (folder / "checkpoints" / "4" / "optimizer.safetensors").write_bytes(b"damaged")
    assert open_run(folder / "checkpoints" / "4").weights["w"].tolist() == [1.0, 1.0]
    newest = latest(folder / "checkpoints")  # what --resume goes on from
    assert newest is not None and newest.step == 3 and open_run(folder).step == 4
    with create_run(folder, FILES, resume=True) as run:
        best = {"step": 4, "metric": "loss", "value": 0.5}
        run.save(4, {"weights": weights, "optimizer": weights}, {"step": 4})
        run.save(5, {"weights": weights}, {"step": 5, "best": best})
    (folder / "checkpoints" / "4" / "optimizer.safetensors").write_bytes(b"damaged")
    assert open_run(folder).step == 4


def test_a_run_that_never_validated_means_its_last_checkpoint(tmp_path: Path):
    with create_run(tmp_path, RunFiles({})) as run:
        run.save(0, {"weights": {"w": torch.zeros(1)}}, {})
    assert open_run(tmp_path).step == 0


def test_only_runs_and_their_checkpoints_are_runs(folder: Path):
    assert is_run(folder) and is_run(folder / "checkpoints" / "1")
    assert not is_run(folder / "checkpoints") and not is_run(folder.parent)
    shutil.rmtree(folder / "checkpoints")
    assert not is_run(folder)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent", "absent: no such folder"),
        ("checkpoints", "checkpoints: is not a run: it has no config.yaml"),
        ("absent/checkpoints/7", "7: no such folder"),
        ("checkpoints/7", "7: no checkpoint '7' in .*; available: 3, 2, 1"),
        ("checkpoints/draft", "draft: no checkpoint 'draft' in .*; available: 3, 2, 1"),
    ],
)
def test_what_is_no_run_is_refused(folder: Path, name: str, words: str):
    (folder / "checkpoints" / "draft").mkdir()
    with pytest.raises(ValueError, match=words):
        open_run(folder / name)


def test_a_tokenizer_that_was_changed_is_named(folder: Path):
    (folder / "tokenizer.json").write_text("{ }")
    with pytest.raises(
        ValueError, match="tokenizer.json: damaged or changed: its SHA-256 is not the one that checkpoint 2 lists"
    ):
        open_run(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="tokenizer.json: no such file, but checkpoint 2 lists it"):
        open_run(folder)


def test_a_run_without_checkpoints_is_refused(tmp_path: Path):
    create_run(tmp_path, FILES).close()
    with pytest.raises(ValueError, match="has no undamaged checkpoint"):
        open_run(tmp_path)


def test_the_record_of_a_base_has_the_hash_of_the_weights_that_are_published(tmp_path: Path):
    own = {"start": "some/where", "changes": [], "base": {"step": 4, "weights_sha256": "ab"}}
    tensors = {"weights": {"w": torch.ones(2)}, "ema": {"w": torch.zeros(2)}}
    with create_run(tmp_path, replace(FILES, request=own, data={"train": "cd"})) as run:
        run.log({"step": 1})
        run.save(1, tensors, {"step": 1})
    saved = open_run(tmp_path)
    files = {name: sha256((saved.checkpoint.folder / f"{name}.safetensors").read_bytes()) for name in tensors}
    assert saved.weights["w"].tolist() == [0.0, 0.0] and saved.record.weights_sha256 == files["ema"].hexdigest()
    assert (saved.record.step, saved.record.start, saved.record.base) == (1, "some/where", BaseRecord(4, "ab"))
    assert saved.record.data == {"train": "cd"} and saved.metrics == [{"step": 1}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"", "is damaged, it has 0 bytes, but had 12 at the checkpoint"),
        (b'{"step":01}\n', "is damaged, the checksum of its first 12 bytes does not match"),
    ],
)
def test_a_log_that_is_lost_or_changed_costs_its_lines_and_no_weights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None, reason: str
):
    with create_run(tmp_path, FILES) as run:
        run.log({"step": 1})
        run.save(1, {"weights": {"w": torch.ones(2)}}, {"step": 1})
    path = tmp_path / "metrics.jsonl"
    path.unlink() if content is None else path.write_bytes(content)
    saved = open_run(tmp_path)
    assert saved.metrics == [] and saved.weights["w"].tolist() == [1.0, 1.0]
    assert f"{path}: {reason}; without it, the results and curves of the training are unknown" in caplog.text


@pytest.mark.parametrize("content", [None, "start: ["])
def test_a_request_or_environment_that_is_lost_or_damaged_costs_no_weights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None
):
    with create_run(tmp_path, replace(FILES, request={"start": "some/where"})) as run:
        run.save(1, {"weights": {"w": torch.ones(2)}}, {"step": 1})
    path = tmp_path / "request.yaml"
    path.unlink() if content is None else path.write_text(content)
    saved = open_run(tmp_path)
    assert saved.request == RequestRecord() and saved.record.step == 1
    assert f"{path}: " in caplog.text and "without it, what the training started from is unknown" in caplog.text
    (tmp_path / "environment.json").write_text("{")
    assert saved.environment == {}
    assert "without it, the versions and the machine of the training are unknown" in caplog.text
