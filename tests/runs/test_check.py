"""Claims about `check_run`: what is whole has no faults, and whatever is changed in any of its files is one."""

import os
import re
import shutil
from pathlib import Path
from threading import Thread

import pytest
import torch

from zoo.runs.check import check_checkpoint, check_run
from zoo.runs.checkpoint import Checkpoint, verify
from zoo.runs.run import RunFiles, check_folder, create_run
from zoo.runs.saved import open_run

WORDS = {"tokenizer.json": b'{"a": 15}', "roles.json": b'{"a": 5}'}
FILES = RunFiles(
    {"d_model": 15}, {"length": 15}, {"steps": 15}, WORDS, {"threads": 1}, {"train": "15"}, {"start": "15"}
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with create_run(tmp_path / "run", FILES) as run:
        for step in (1, 2):
            run.log({"step": step, "loss": 0.5})
            best = {"step": 1, "metric": "loss", "value": 0.5}
            run.save(step, {"weights": {"w": torch.full((2,), float(step))}}, {"best": best})
    return tmp_path / "run"


def test_a_whole_run_has_no_faults_and_says_what_it_holds(folder: Path):
    report = check_run(folder)
    assert report.faults == []
    assert report.remarks == [
        "undamaged: config.yaml, task.yaml, tokenizer.json, roles.json, data.json, training.yaml, environment.json, "
        "request.yaml",
        "2 steps logged",
        "undamaged checkpoints, by step: 1, 2",
        "best: checkpoint 1, loss 0.5",
    ]


LOST = "no weights are lost"
NEEDED = ["config.yaml", "task.yaml", "tokenizer.json", "roles.json", "data.json"]
NAMES = [*NEEDED, "training.yaml", "metrics.jsonl", "environment.json", "request.yaml"]
OF_CHECKPOINT = ["weights.safetensors", "state.json", "training.yaml", "manifest.json"]


@pytest.mark.parametrize("name", [*NAMES, *(f"checkpoints/{step}/{name}" for step in (1, 2) for name in OF_CHECKPOINT)])
def test_a_changed_file_is_a_fault_that_names_it(folder: Path, name: str):
    data = (folder / name).read_bytes()
    for changed in (data.replace(b"5", b"6").replace(b"1", b"2"), data[:-3], b""):
        if changed != data:
            (folder / name).write_bytes(changed)
            faults = check_run(folder).faults
            assert any(name in fault for fault in faults), changed
            assert name not in NAMES or len(faults) == 1 and (LOST in faults[0]) != (name in NEEDED)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_missing_is_a_fault_that_says_what_it_costs(folder: Path, name: str):
    (folder / name).unlink()
    (fault,) = check_run(folder).faults
    cost = "without it, the run can be neither used nor resumed" if name in NEEDED else LOST
    assert name in fault and cost in fault


def test_what_is_no_file_or_no_folder_is_a_fault(folder: Path):
    for name in ("metrics.jsonl", "checkpoints"):
        (folder / name).rename(folder.parent / name)
    os.mkfifo(folder / "metrics.jsonl")
    # whoever reads it finds its end, and does not wait for ever
    Thread(target=(folder / "metrics.jsonl").write_bytes, args=[b""], daemon=True).start()
    (folder / "checkpoints").touch()
    faults = check_run(folder).faults
    assert any(f"{folder / 'metrics.jsonl'}: is not a file: no weights are lost" in fault for fault in faults)
    assert f"{folder / 'checkpoints'}: is not a folder: the run can be neither used nor resumed" in faults


def test_a_link_that_leads_nowhere_is_no_folder_of_checkpoints(folder: Path):
    (folder / "checkpoints").rename(folder / "elsewhere")
    (folder / "checkpoints").symlink_to("nowhere")
    assert any("checkpoints: is not a folder" in fault for fault in check_run(folder).faults)
    with pytest.raises(ValueError, match="checkpoints: is a broken link"):
        check_folder(folder, resume=True)


def test_a_pipe_in_the_place_of_the_lock_is_not_waited_for(folder: Path):
    (folder / ".lock").unlink(missing_ok=True)
    os.mkfifo(folder / ".lock")
    reader = Thread(target=check_run, args=[folder], daemon=True)
    reader.start()
    reader.join(20)
    assert not reader.is_alive()


def test_every_damaged_file_is_reported_and_which_checkpoint_is_taken(folder: Path):
    for name in ("config.yaml", "tokenizer.json", "checkpoints/2/state.json"):
        (folder / name).write_bytes(b"x")
    report = check_run(folder)
    assert len(report.faults) == 3
    assert "--resume continues from checkpoint 1, the newest undamaged one" in report.remarks
    (folder / "checkpoints/1/manifest.json").unlink()
    assert "all are damaged: the run cannot be resumed" in str(check_run(folder).faults)


def test_a_checkpoint_that_was_being_replaced_is_not_called_safe_to_delete(folder: Path):
    (folder / "checkpoints/2").rename(folder / "checkpoints/.partial-replaced-2")
    report = check_run(folder)
    assert any("is checkpoint 2, whose replacement was interrupted" in fault for fault in report.faults)
    assert not any("safe to delete" in remark for remark in report.remarks)
    shutil.copytree(folder / "checkpoints/.partial-replaced-2", folder / "checkpoints/2")
    report = check_run(folder)
    assert report.faults == [] and any("safe to delete" in remark for remark in report.remarks)


def test_a_best_checkpoint_that_is_gone_and_strays_are_reported(folder: Path):
    shutil.rmtree(folder / "checkpoints" / "1")
    (folder / "checkpoints" / ".partial-9").mkdir()
    (folder / "checkpoints" / "8.broken").mkdir()
    report = check_run(folder)
    assert "no such folder, but it was the best checkpoint" in report.faults[0]
    assert [remark.partition(": left by an interrupted save")[0] for remark in report.remarks[-2:]] == [
        str(folder / "checkpoints" / name) for name in (".partial-9", "8.broken")
    ]


def test_the_best_checkpoint_is_that_of_the_newest_usable_one(folder: Path):
    """Only --resume reads the moments, so RUN still stands for the checkpoint that has damaged ones."""
    with create_run(folder, FILES, resume=True) as run:
        best = {"step": 3, "metric": "loss", "value": 0.25}
        run.log({"step": 3})
        run.save(3, {"weights": {"w": torch.ones(2)}, "optimizer": {"m": torch.ones(2)}}, {"best": best})
    (folder / "checkpoints/3/optimizer.safetensors").write_bytes(b"x")
    report = check_run(folder)
    assert open_run(folder).step == 3 and "best: checkpoint 3, loss 0.25" in report.remarks
    assert "--resume continues from checkpoint 2, the newest undamaged one" in report.remarks


def test_a_run_that_is_being_trained_is_whole_while_its_checkpoints_come_and_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def late(place: Path) -> Checkpoint:
        if place.name == "1" and place.is_dir():  # the process that trains is faster
            shutil.rmtree(place)
        return verify(place)

    monkeypatch.setattr("zoo.runs.check.verify", late)
    with create_run(folder, FILES, resume=True):
        (folder / "checkpoints" / ".partial-9").mkdir()
        report = check_run(folder)
    assert report.faults == []
    assert report.remarks[0] == f"process {os.getpid()} is writing to it, so its checkpoints may change"
    assert "undamaged checkpoints, by step: 2" in report.remarks and report.remarks[-1].endswith("leave it alone")
    assert "no such folder, but it was the best checkpoint" in check_run(folder).faults[0]


def test_a_damaged_checkpoint_of_a_run_that_is_being_trained_is_a_fault(folder: Path):
    (folder / "checkpoints" / "1" / "state.json").write_bytes(b"x")
    with create_run(folder, FILES, resume=True):
        (fault,) = check_run(folder).faults
    assert "checkpoints/1/state.json: damaged or changed" in fault


def test_lines_that_are_missing_are_a_fault(folder: Path):
    with (folder / "metrics.jsonl").open("a") as log:
        log.write('{"step": 4}\n')
    (fault,) = check_run(folder).faults
    assert fault.startswith(f"{folder / 'metrics.jsonl'}: line 3: is damaged, it names step 4: {LOST}; ")


def test_a_log_that_started_again_is_whole_and_says_what_was_lost(folder: Path):
    (folder / "metrics.jsonl").unlink()
    with create_run(folder, FILES, resume=True) as run:
        run.log({"step": 3})
        assert "metrics.jsonl: starts at step 3, since the log before it was lost" in check_run(folder).faults[0]
        run.save(3, {"weights": {"w": torch.ones(2)}}, {})
    report = check_run(folder)
    assert report.faults == [] and "1 step logged; the log before step 3 was lost" in report.remarks


def test_a_checkpoint_is_checked_with_the_files_that_it_depends_on(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder / "checkpoints" / "2")
    for place in (folder / "checkpoints" / "2", Path(".")):
        report = check_checkpoint(place)
        assert report.faults == [] and "step 2: " in report.remarks[0]
    (folder / "config.yaml").write_text("d_model: 9\n")
    (fault,) = check_checkpoint(folder / "checkpoints" / "2").faults
    assert "config.yaml: damaged or changed: its SHA-256 is not the one that checkpoint 2 lists" in fault


def test_a_run_that_has_not_saved_yet_is_whole(tmp_path: Path):
    with create_run(tmp_path / "run", FILES) as run:
        assert check_run(tmp_path / "run").faults == []
        run.log({"step": 1})
        assert check_run(tmp_path / "run").faults == []


@pytest.mark.parametrize("place", ["checkpoints", "checkpoints/*"])
def test_a_run_that_was_trained_and_has_no_checkpoint_cannot_be_used(folder: Path, place: str):
    for path in folder.glob(place):
        shutil.rmtree(path)
    (fault,) = check_run(folder).faults
    said = "no checkpoint, but metrics.jsonl has 2 steps: the run cannot be used; --resume starts from step 0"
    assert fault == f"{folder / 'checkpoints'}: {said}"


@pytest.mark.parametrize(("bad", "named"), [(float("nan"), "NaN"), (float("-inf"), "-inf"), (1e300, r"1e\+300")])
def test_a_weight_that_is_no_number_is_a_fault_that_names_the_tensor(tmp_path: Path, bad: float, named: str):
    spoiled = torch.tensor([1.0, bad], dtype=torch.float64)
    with create_run(tmp_path / "run", RunFiles({"a": 1})) as run:
        own = {"heads.b": spoiled, "empty": torch.zeros(0), "n": torch.ones(2).long()}
        run.save(1, {"optimizer": {"a": torch.ones(1)}, "weights": own}, {})
    faults = str(check_run(tmp_path / "run").faults) + str(check_checkpoint(tmp_path / "run/checkpoints/1").faults)
    assert len(re.findall(f"checkpoints/1: weights: heads.b holds {named}, not a finite float32 number", faults)) == 2
