"""Claims about checkpoints: whole or not there, damage is found and named, the good ones are never deleted."""

import errno
import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch

from zoo.runs import checkpoint as checkpoint_module
from zoo.runs.checkpoint import can_resume, latest, prune, steps, verify, write_checkpoint
from zoo.runs.files import remove_leftovers, to_json
from zoo.runs.metrics import Mark


def write(checkpoints: Path, step: int, value: float = 1.0, **state: bool) -> None:
    tensors = {"weights": {"w": torch.full((5,), value)}, "optimizer": {"m": torch.zeros(3)}}
    mark, depends = Mark(7 * step, "ab"), {"config.yaml": "00"}
    write_checkpoint(checkpoints / str(step), tensors, {"step": step, **state}, b"steps: 9\n", mark, depends)


def test_what_was_written_is_read(tmp_path: Path):
    write(tmp_path, 20, 0.1)
    found = verify(tmp_path / "20")
    assert (found.step, set(found.kinds)) == (20, {"weights", "optimizer"})
    assert (found.mark, found.state, found.training) == (Mark(140, "ab"), {"step": 20}, {"steps": 9})
    assert torch.equal(found.published["w"], torch.full((5,), 0.1))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["20"]


def test_averaged_weights_are_the_ones_to_use(tmp_path: Path):
    tensors = {"weights": {"w": torch.zeros(1)}, "ema": {"w": torch.ones(1)}}
    write_checkpoint(tmp_path / "1", tensors, {}, b"{}", Mark(), {})
    assert verify(tmp_path / "1").published["w"] == 1


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("harm", ["flip", "cut", "delete"])
def test_every_kind_of_damage_is_found_and_named(tmp_path: Path, name: str, harm: str):
    write(tmp_path, 3)
    path = tmp_path / "3" / name
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data if harm == "flip" else data[:-1])
    if harm == "delete":
        path.unlink()
    words = "no such file" if harm == "delete" else "damaged or changed: its SHA-256 is not the one that"
    with pytest.raises(ValueError, match=f"{name}: {words}.* the checkpoint's manifest lists"):
        verify(tmp_path / "3")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "1"}, "expected the keys format, step, .*, each with a value of its type"),
        ({"format": 2}, "written in format 2, but this zoo reads up to 1; upgrade zoo"),
        ({"step": "3"}, "expected the keys format, step, .*, each with a value of its type"),
        ({"stepp": 3}, "expected the keys format, step, "),
        ({"step": 4}, "it names step 4"),
        (
            {"files": {"weights.safetensors": "", "../w.safetensors": ""}},
            "it lists weights.safetensors, ../w.safetensors",
        ),
        ({"files": {}}, "it lists no files"),
    ],
)
def test_a_manifest_that_cannot_be_right_is_refused(tmp_path: Path, change: dict, words: str):
    write(tmp_path, 3)
    edit_manifest(tmp_path / "3", change)
    with pytest.raises(ValueError, match=f"manifest.json: .*{words}"):
        verify(tmp_path / "3")


def test_a_checkpoint_under_the_name_of_another_step_is_refused(tmp_path: Path):
    write(tmp_path, 3)
    (tmp_path / "3").rename(tmp_path / "30")
    with pytest.raises(ValueError, match="manifest.json: is damaged, it names step 3"):
        verify(tmp_path / "30")


def edit_manifest(folder: Path, change: dict, drop: tuple[str, ...] = ()) -> None:
    """Change a manifest, and its hash as whoever wrote it would have."""
    path = folder / "manifest.json"
    manifest = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("sha256", *drop)}
    manifest |= change
    seal = {} if "sha256" in drop else {"sha256": hashlib.sha256(to_json(manifest)).hexdigest()}
    path.write_bytes(to_json({**manifest, **seal}))


def test_any_change_of_a_manifest_is_found(tmp_path: Path):
    write(tmp_path, 3)
    path = tmp_path / "3" / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"metrics_bytes": 21', b'"metrics_bytes": 12'))
    with pytest.raises(ValueError, match="manifest.json: is damaged, its checksum does not match"):
        verify(tmp_path / "3")


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 100_000, '{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 2}'])
def test_a_manifest_that_is_no_map_is_refused(tmp_path: Path, text: str):
    write(tmp_path, 3)
    (tmp_path / "3" / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match="manifest.json: (not JSON|expected a JSON object)"):
        verify(tmp_path / "3")


def test_latest_is_the_newest_whole_one_and_says_what_it_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    for step in (5, 10, 100):
        write(tmp_path, step)
    (tmp_path / "100" / "weights.safetensors").write_bytes(b"")
    (tmp_path / "007").mkdir()
    assert steps(tmp_path) == [100, 10, 5]
    found = latest(tmp_path)
    assert found is not None and found.step == 10
    assert "skipped checkpoint 100" in caplog.text and "weights.safetensors" in caplog.text
    assert latest(tmp_path / "absent") is None


def test_whether_there_is_anything_to_resume_is_found_without_reading_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """What resumes it reads it, and says what it skips; to say so twice would confuse."""
    assert not can_resume(tmp_path / "none") and not can_resume(tmp_path)
    write(tmp_path, 1)
    (tmp_path / "1" / "state.json").write_text("")
    assert can_resume(tmp_path) and not caplog.text
    (tmp_path / "1").rename(tmp_path / ".partial-replaced-1")
    assert can_resume(tmp_path)


def test_the_last_ones_and_the_best_are_kept(tmp_path: Path):
    for step in (1, 2, 3, 10, 20):
        write(tmp_path, step)
    prune(tmp_path, keep=2, best=2)
    assert steps(tmp_path) == [20, 10, 2]


def test_what_only_a_signal_asked_for_goes_and_is_not_counted_and_what_cannot_be_read_stays(tmp_path: Path):
    for step in (1, 2, 3, 4, 5):
        write(tmp_path, step, passing=step in (2, 4, 5))
    (tmp_path / "3" / "manifest.json").write_bytes(b"")
    prune(tmp_path, keep=2, best=None)
    assert steps(tmp_path) == [5, 3]


def test_nothing_is_deleted_while_the_newest_is_broken(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    for step in (1, 2):
        write(tmp_path, step)
    (tmp_path / "2" / "weights.safetensors").write_bytes(b"")
    prune(tmp_path, keep=1, best=None)
    assert steps(tmp_path) == [2, 1]
    assert "the newest is damaged" in caplog.text


def test_a_checkpoint_that_cannot_be_replaced_has_its_name_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, 20, 0.1)
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path.name == ".partial-20":
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(RuntimeError, match="any earlier one is untouched"):
        write(tmp_path, 20, 0.2)
    assert torch.equal(verify(tmp_path / "20").published["w"], torch.full((5,), 0.1))
    assert [path.name for path in tmp_path.iterdir()] == ["20"]


@pytest.mark.parametrize(
    ("step", "error"),
    [("sync", OSError(28, "No space left on device")), ("write_tensors", RuntimeError("No space left on device"))],
)
def test_a_save_that_fails_says_so_and_leaves_the_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
):
    write(tmp_path, 1)

    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(checkpoint_module, step, full)
    words = "2: cannot write the checkpoint: .*No space left on device; any earlier one is untouched"
    with pytest.raises(RuntimeError, match=words):
        write(tmp_path, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1"]


def test_only_a_checkpoint_that_is_gone_was_deleted_since_it_was_opened(tmp_path: Path):
    write(tmp_path, 20)
    found = verify(tmp_path / "20")
    (tmp_path / "20" / "state.json").write_text("{")
    with pytest.raises(ValueError, match="state.json: not JSON"):
        print(found.state)
    shutil.rmtree(tmp_path / "20")
    with pytest.raises(ValueError, match="20: was deleted since it was opened; training deletes old checkpoints"):
        print(found.state)


def test_a_folder_that_is_deleted_during_a_save_fails_as_any_other_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def deleted(path: Path) -> None:
        shutil.rmtree(tmp_path / "run")
        path.stat()

    monkeypatch.setattr(checkpoint_module, "sync", deleted)
    with pytest.raises(RuntimeError, match="cannot write the checkpoint: .*No such file or directory"):
        write(tmp_path / "run", 2)


def test_a_checkpoint_that_cannot_be_deleted_ends_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """It belongs to another user, or another process reads it on NFS."""

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "state.json")

    for step in (1, 2, 3):
        write(tmp_path, step)
    with monkeypatch.context() as patched:
        patched.setattr("zoo.runs.files.remove", refuse)
        prune(tmp_path, keep=2, best=None)
        assert remove_leftovers(tmp_path) == []
    assert steps(tmp_path) == [3, 2] and caplog.text.count(".partial-gone-1: cannot be deleted: Permission denied") == 2
    assert remove_leftovers(tmp_path) == [".partial-gone-1"]
    monkeypatch.setattr(Path, "rename", lambda path, target: refuse(path))
    prune(tmp_path, keep=1, best=None)
    assert steps(tmp_path) == [3, 2] and f"{tmp_path / '2'}: cannot be deleted: Permission denied" in caplog.text
