"""Claims about run folders in training: nothing foreign is touched, and a resumed run continues where it was saved."""

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from zoo.runs.checkpoint import steps
from zoo.runs.run import RunFiles, create_run, join_run, refuse_unwritable_folder
from zoo.runs.saved import open_run

TASK, TRAINING = {"objective": "causal_lm"}, {"steps": 5, "batch": 2}
FILES = RunFiles({"d_model": 8}, TASK, TRAINING, {"tokenizer.json": b"{}"}, {"threads": 1})
TENSORS = {"weights": {"w": torch.ones(2)}}


def begin(folder: Path, steps: int = 3) -> None:
    with create_run(folder, FILES) as run:
        for step in range(1, steps + 1):
            run.log({"step": step, "loss": 0.5})
            run.save(step, TENSORS, {"step": step})


def test_a_new_run_explains_itself(tmp_path: Path):
    begin(tmp_path / "a" / "run")
    run = tmp_path / "a" / "run"
    assert (run / "config.yaml").read_text() == "d_model: 8\n"
    assert (run / "tokenizer.json").read_bytes() == b"{}"
    assert open_run(run).environment["threads"] == 1
    assert [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()] == [1, 2, 3]


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path):
    begin(tmp_path)
    with pytest.raises(ValueError, match="already holds a run; continue it with --resume, or choose another folder"):
        create_run(tmp_path, FILES)


def test_a_run_that_trained_nothing_may_begin_again(tmp_path: Path):
    """A wrong row ended it, perhaps, and was corrected: nothing is compared with what it began with."""
    create_run(tmp_path, FILES).close()
    with pytest.raises(
        ValueError, match="holds a run without a checkpoint; continue it with --resume, or choose another folder"
    ):
        create_run(tmp_path, FILES)
    create_run(tmp_path, replace(FILES, config={"d_model": 16}), resume=True).close()
    assert (tmp_path / "config.yaml").read_text() == "d_model: 16\n"


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path, resume: bool):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ValueError, match=r"is not empty and not a run \(thesis.tex\)"):
        create_run(tmp_path, FILES, resume)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_way_is_refused(tmp_path: Path):
    (tmp_path / "run").write_text("x")
    with pytest.raises(ValueError, match="run: is a file; choose a new or empty folder"):
        create_run(tmp_path / "run", FILES)
    with pytest.raises(ValueError, match="cannot be written: Not a directory"):
        create_run(tmp_path / "run" / "deeper", FILES)


@pytest.mark.parametrize("place", ["run", "a/b/run"])
def test_a_folder_that_can_be_written_is_left_as_it_was(tmp_path: Path, place: str):
    refuse_unwritable_folder(tmp_path / place)
    assert not list(tmp_path.iterdir())
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "own").touch()
    refuse_unwritable_folder(tmp_path / "there")
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "own"]


@pytest.mark.parametrize("place", ["/proc/nope", "/proc/nope/run", "{}/file/run", "{}/" + "long" * 100])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, place: str):
    (tmp_path / "file").touch()
    folder = Path(place.format(tmp_path))
    with pytest.raises(ValueError, match=f"{folder.name}: cannot be written: "):
        refuse_unwritable_folder(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_noticed_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match="run: cannot be written: No space left on device"):
        refuse_unwritable_folder(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_resumed_run_forgets_what_was_logged_after_the_checkpoint(tmp_path: Path):
    begin(tmp_path, steps=2)
    with create_run(tmp_path, FILES, resume=True) as run:
        run.log({"step": 3})
    with create_run(tmp_path, FILES, resume=True) as run:
        assert run.checkpoint is not None and run.checkpoint.step == 2
        run.log({"step": 3, "loss": 0.25})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in lines] == [0.5, 0.5, 0.25]


def test_each_time_that_a_run_was_resumed_is_told_and_none_lies_inside_the_next(tmp_path: Path):
    begin(tmp_path, steps=1)
    for threads in (2, 3, 4):
        create_run(tmp_path, replace(FILES, environment={"threads": threads}), resume=True).close()
    told = json.loads((tmp_path / "environment.json").read_text())["resumed"]
    assert [(one["step"], one["before"]["threads"]) for one in told] == [(1, 1), (1, 2), (1, 3)]
    assert not any("resumed" in one["before"] for one in told)


def test_a_broken_newest_checkpoint_is_set_aside_on_resume(tmp_path: Path):
    begin(tmp_path)
    (tmp_path / "checkpoints" / "3" / "state.json").write_text("")
    (tmp_path / "checkpoints" / ".partial-4").mkdir()
    with create_run(tmp_path, FILES, resume=True) as run:
        assert run.checkpoint is not None and run.checkpoint.step == 2
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["1", "2", "3.broken"]


def test_a_run_without_a_whole_checkpoint_cannot_be_resumed(tmp_path: Path):
    begin(tmp_path, steps=1)
    (tmp_path / "checkpoints" / "1" / "state.json").write_text("")
    with pytest.raises(ValueError, match="all its checkpoints are damaged"):
        create_run(tmp_path, FILES, resume=True)


def test_resuming_where_nothing_is_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with create_run(tmp_path / "new", FILES, resume=True) as run:
        assert run.checkpoint is None
    assert "has no checkpoint yet; starting from step 0" in caplog.text
    caplog.clear()
    with create_run(tmp_path / "new", FILES, resume=True) as run:  # all but a checkpoint is there
        assert run.checkpoint is None
    assert "has no checkpoint yet; starting from step 0" in caplog.text


def test_a_log_without_a_checkpoint_is_kept_when_its_run_starts_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    begin(tmp_path, steps=1)
    shutil.rmtree(tmp_path / "checkpoints")
    for number in (1, 2):
        with create_run(tmp_path, FILES, resume=True) as run:
            run.log({"step": 1, "loss": number})
        assert f"starting from step 0; the log of an earlier start is kept as metrics.jsonl.{number}" in caplog.text
    kept = [json.loads((tmp_path / f"metrics.jsonl{name}").read_text())["loss"] for name in (".1", ".2", "")]
    assert kept == [0.5, 1, 2]


def test_other_settings_are_refused_on_resume_unless_they_may_change(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    begin(tmp_path)
    other = RunFiles({"d_model": 9}, FILES.task, {"steps": 7, "batch": 2}, {"tokenizer.json": b"[]"}, FILES.environment)
    words = "config.yaml: d_model: 8 -> 9; training.yaml: steps: 5 -> 7; tokenizer.json differs"
    with pytest.raises(ValueError, match=words):
        create_run(tmp_path, other, resume=True)
    longer = RunFiles(FILES.config, FILES.task, {"steps": 7, "batch": 2}, FILES.tokenizer, {"threads": 2})
    create_run(tmp_path, longer, resume=True, may_change={"steps": "so there"}).close()
    assert "continues with changed steps: 5 -> 7 (so there)" in caplog.text
    assert "the resumed run may differ in its last bits: threads: 1 -> 2" in caplog.text
    assert "steps: 7" in (tmp_path / "training.yaml").read_text()
    assert open_run(tmp_path).training["steps"] == 5, "the checkpoint was trained with the old settings"


@pytest.mark.parametrize("name", ["tokenizer.json", "config.yaml"])
def test_a_file_that_is_not_the_one_of_the_checkpoint_is_refused_on_resume(tmp_path: Path, name: str):
    """A resumed run takes its tokenizer from the folder, so that comparing the two finds nothing."""
    begin(tmp_path)
    changed = (tmp_path / name).read_bytes() + b" "
    (tmp_path / name).write_bytes(changed)
    there = replace(FILES, tokenizer={"tokenizer.json": (tmp_path / "tokenizer.json").read_bytes()})
    with pytest.raises(ValueError, match=f"{name}: damaged or changed: its SHA-256 is not the one that checkpoint 3"):
        create_run(tmp_path, there, resume=True)
    assert (tmp_path / name).read_bytes() == changed


def test_an_edited_file_of_the_run_is_not_taken_for_a_change_that_the_command_makes(tmp_path: Path):
    begin(tmp_path)
    (tmp_path / "config.yaml").write_text("d_model: 9\n")
    with pytest.raises(ValueError, match="config.yaml: damaged or changed"):
        create_run(tmp_path, FILES, resume=True)


def test_a_file_that_changes_during_the_training_is_not_the_one_of_a_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """What it holds now is not what the weights were trained with: `zoo evaluate` would give other answers."""
    with create_run(tmp_path, FILES) as run:
        (tmp_path / "config.yaml").write_text("d_model: 9\n")
        (tmp_path / "training.yaml").write_text("steps: 9\n")
        run.save(1, TENSORS, {"step": 1})
    assert "config.yaml: changed during training, which continues with the old content; restore that" in caplog.text
    with pytest.raises(ValueError, match="config.yaml: damaged or changed: its SHA-256 is not the one that checkpoint"):
        open_run(tmp_path)
    (tmp_path / "config.yaml").write_text("d_model: 8\n")
    assert open_run(tmp_path).training == TRAINING


def test_a_file_that_is_deleted_during_the_training_costs_no_step(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with create_run(tmp_path, FILES) as run:
        content = (tmp_path / "config.yaml").read_bytes()
        (tmp_path / "config.yaml").unlink()
        run.save(1, TENSORS, {"step": 1})
    assert "config.yaml: was deleted during training, which continues without it; restore it" in caplog.text
    (tmp_path / "config.yaml").write_bytes(content)
    assert open_run(tmp_path).training == TRAINING


def test_a_run_whose_folder_is_gone_leaves_no_half_of_one(tmp_path: Path):
    with create_run(tmp_path / "run", FILES) as run:
        (tmp_path / "run").rename(tmp_path / "moved")
        with pytest.raises(RuntimeError, match="run: was deleted or moved during training"):
            run.save(1, TENSORS, {"step": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]


@pytest.mark.parametrize("deleted", [True, False])
def test_a_run_whose_folder_another_run_made_again_leaves_that_alone(tmp_path: Path, deleted: bool):
    folder = tmp_path / "run"
    with create_run(folder, FILES) as run:
        run.save(9, TENSORS, {"step": 9})
        shutil.rmtree(folder) if deleted else folder.rename(tmp_path / "moved")
        begin(folder)
        with pytest.raises(RuntimeError, match="run: was deleted or moved .*, and another folder is there now"):
            run.save(10, TENSORS, {"step": 10})
    assert steps(folder / "checkpoints") == [3, 2, 1]


def test_a_run_whose_folder_moved_behind_a_link_goes_on(tmp_path: Path):
    """So does one whose lock file was deleted, as a run without locks would."""
    with create_run(tmp_path / "run", FILES) as run:
        (tmp_path / "run").rename(tmp_path / "moved")
        (tmp_path / "run").symlink_to("moved")
        (tmp_path / "moved" / ".lock").unlink()
        (tmp_path / "moved" / ".lock").touch()
        run.save(1, TENSORS, {"step": 1})
        assert (opened := run.opened) is not None
    assert steps(tmp_path / "moved" / "checkpoints") == [1]
    with pytest.raises(OSError, match="Bad file descriptor"):  # closed with the run
        os.fstat(opened)


def test_a_checkpoint_that_a_kill_left_half_replaced_is_the_one_to_go_on_from(tmp_path: Path):
    begin(tmp_path)
    (tmp_path / "checkpoints" / "3").rename(tmp_path / "checkpoints" / ".partial-replaced-3")
    with create_run(tmp_path, FILES, resume=True) as run:
        assert run.checkpoint is not None and run.checkpoint.step == 3


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl"])
def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, name: str):
    begin(tmp_path / "run", 1)
    (tmp_path / "run" / name).unlink()
    (tmp_path / "run" / name).symlink_to(name)
    with pytest.raises(ValueError, match=f"run/{name}: cannot be written: "):
        create_run(tmp_path / "run", FILES, resume=True)


def test_a_kill_while_the_run_begins_does_not_block_the_next_start(tmp_path: Path):
    (tmp_path / ".partial-config.yaml").write_text("half")
    (tmp_path / ".lock").write_text("")
    create_run(tmp_path, FILES).close()
    assert not list(tmp_path.glob(".partial-*"))


def test_what_is_not_finite_is_logged_as_null(tmp_path: Path):
    with create_run(tmp_path, FILES) as run:
        run.log({"loss": float("nan"), "gradient_norm": float("inf")})
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"loss": None, "gradient_norm": None}


def test_other_processes_read_the_run_and_never_write(tmp_path: Path):
    begin(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with join_run(tmp_path) as run:
        run.log({"step": 4})
        run.save(4, TENSORS, {})
        run.prune(1, None)
        assert run.checkpoint is not None and run.checkpoint.step == 3
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_values_that_occur_twice_are_written_without_aliases(tmp_path: Path):
    widths = [3, 5]
    with create_run(tmp_path, RunFiles({"a": widths, "b": widths})) as run:
        run.save(1, TENSORS, {})
    assert open_run(tmp_path).config == {"a": [3, 5], "b": [3, 5]}
    assert os.path.getsize(tmp_path / "task.yaml")
