"""Claims about `check_run`: what is whole has no faults, and whatever is changed in any of its files is one."""

import shutil
from pathlib import Path

import pytest
import torch

from zoo.runs.check import check_checkpoint, check_run
from zoo.runs.run import RunFiles, create_run

FILES = RunFiles({"d_model": 8}, {"objective": "causal_lm"}, {"steps": 5}, {"tokenizer.json": b"{}"}, {"threads": 1})


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
    assert report.remarks == ["2 steps are logged", "whole checkpoints: 1, 2", "best: checkpoint 1, loss 0.5"]


NAMES = ["config.yaml", "task.yaml", "tokenizer.json", "metrics.jsonl", "environment.json"]
OF_CHECKPOINT = ["weights.safetensors", "state.json", "training.yaml", "manifest.json"]


@pytest.mark.parametrize("name", [*NAMES, *(f"checkpoints/{step}/{name}" for step in (1, 2) for name in OF_CHECKPOINT)])
def test_a_changed_file_is_a_fault_that_names_it(folder: Path, name: str):
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    data[0] ^= 1
    (folder / name).write_bytes(data)
    assert any(name in fault for fault in check_run(folder).faults)


def test_a_best_checkpoint_that_is_gone_and_strays_are_reported(folder: Path):
    shutil.rmtree(folder / "checkpoints" / "1")
    (folder / "checkpoints" / ".partial-9").mkdir()
    report = check_run(folder)
    assert "no such folder, but it is the best one" in report.faults[0]
    assert "left by an interrupted save" in report.remarks[-1]


def test_lines_that_are_missing_are_a_fault(folder: Path):
    with (folder / "metrics.jsonl").open("a") as log:
        log.write('{"step": 4}\n')
    assert check_run(folder).faults == [f"{folder / 'metrics.jsonl'}: line 3 is of step 4"]


def test_a_checkpoint_is_checked_with_the_files_that_it_depends_on(folder: Path):
    report = check_checkpoint(folder / "checkpoints" / "2")
    assert report.faults == [] and "step 2: " in report.remarks[0]
    (folder / "config.yaml").write_text("d_model: 9\n")
    (fault,) = check_checkpoint(folder / "checkpoints" / "2").faults
    assert "config.yaml: is not the file that checkpoint 2 was trained with" in fault


def test_a_run_that_has_not_saved_yet_is_whole(tmp_path: Path):
    create_run(tmp_path / "run", FILES).close()
    assert check_run(tmp_path / "run").faults == []
