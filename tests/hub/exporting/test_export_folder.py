"""Where an export is written, by which child it is checked, and how damage to it is found."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from zoo.cli.commands.check import check_folder
from zoo.hub.exporting import child
from zoo.hub.exporting import export as export_module
from zoo.hub.exporting.child import reload_in_child
from zoo.hub.exporting.export import ExportReport, export_model
from zoo.hub.exporting.hashes import hash_faults, untrained_heads
from zoo.hub.exporting.reloading import reload
from zoo.hub.sources.folder import HASHES, CheckpointFolder
from zoo.runs.run import RunFiles, create_run

FILES = {"README.md", "config.json", "generation_config.json", HASHES, "model.safetensors", "tokenizer.json"}
FILES |= {"tokenizer_config.json"}
SOURCE = str(Path(zoo.__file__).parents[1])
PROGRAM = """import json, sys
from pathlib import Path
import only_here
from safetensors.numpy import save_file
folder, asked, place = map(Path, sys.argv[1:])
try:
    import zoo.registry
except ImportError:
    (place / "report.json").write_text(json.dumps({"value": only_here.VALUE}))
    save_file({}, place / "logits.safetensors")
"""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("how", ["path", "environment"])
def test_the_child_finds_the_packages_of_its_parent_but_not_zoo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
):
    site = tmp_path / "site: of Jane Doe"
    site.mkdir()
    (site / "only_here.py").write_text("VALUE = 7")
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(child, "PROGRAM", tmp_path / "program.py")
    if how == "path":
        monkeypatch.syspath_prepend(site)
        assert reload_in_child(tmp_path, {"imports": ""})[0] == {"value": 7}
        return
    (site / "only_here.py").rename(tmp_path / "only_here.py")
    code = "from pathlib import Path; from zoo.hub.exporting import child; place = Path({!r}); "
    code += "child.PROGRAM = place / 'program.py'; print(child.reload_in_child(place, {{'imports': ''}})[0])"
    path = os.pathsep.join([SOURCE, str(tmp_path)])
    told = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", code.format(str(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, env=told, check=True)
    assert done.stdout == "{'value': 7}\n"


def test_an_empty_folder_stays_the_folder_that_it_is(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "here"
    folder.mkdir()
    number = folder.stat().st_ino
    monkeypatch.chdir(folder)
    export_model(build("gpt2-nano"), Path("."), reload=reload)
    assert (Path.cwd() / "config.json").is_file() and names(folder) == FILES
    assert folder.stat().st_ino == number and names(tmp_path) == {"here"}


def test_a_mounted_folder_is_written_to(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "mounted"
    folder.mkdir()
    rename = Path.rename

    def refuse(self: Path, other: Path) -> Path:
        if folder in (self, other) or not (self.is_relative_to(folder) and other.is_relative_to(folder)):
            raise OSError(errno.EBUSY, "Device or resource busy")
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", refuse)
    export_model(build("gpt2-nano"), folder, reload=reload)
    assert names(folder) == FILES


def test_a_failure_leaves_an_empty_folder_empty_and_a_new_one_absent(build: Any, tmp_path: Path):
    def fail(folder: Path, request: dict[str, Any]) -> Any:
        raise RuntimeError("no")

    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        with pytest.raises(RuntimeError, match="export to gpt2: no. Nothing was written to"):
            export_model(build("gpt2-nano"), tmp_path / name, reload=fail)
    assert names(tmp_path) == {"empty"} and not names(tmp_path / "empty")


def test_of_two_exports_into_one_folder_the_second_is_refused_and_the_first_succeeds(build: Any, tmp_path: Path):
    given, folder = build("gpt2-nano"), tmp_path / "new"

    def second(aside: Path, request: dict[str, Any]) -> Any:
        with pytest.raises(ValueError, match=f"new: process {os.getpid()} is writing to it; wait for it, or choose"):
            export_model(given, folder, reload=reload)
        with pytest.raises(ValueError, match="new: process .* is writing to it"):
            create_run(folder, RunFiles({}))
        return reload(aside, request)

    export_model(given, folder, reload=second)
    assert names(folder) == FILES


def test_an_export_that_ends_while_another_begins_stays(build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    given, folder = build("gpt2-nano"), tmp_path / "new"
    take_lock = export_module.take_lock

    def late(folder: Path) -> Any:
        monkeypatch.setattr(export_module, "take_lock", take_lock)
        export_model(given, folder, reload=reload)
        return take_lock(folder)

    monkeypatch.setattr(export_module, "take_lock", late)
    with pytest.raises(ValueError, match="new: is not empty .*; choose a new or empty folder"):
        export_model(given, folder, reload=reload)
    assert names(folder) == FILES


@pytest.mark.parametrize("held", ["mine", "1" * 50, None])
def test_a_lock_that_is_none_of_zoos_stays_as_it_is(build: Any, tmp_path: Path, held: str | None):
    folder, other = tmp_path / "new", tmp_path / "other.txt"
    folder.mkdir()
    other.write_text("7")
    (folder / ".lock").symlink_to(other) if held is None else (folder / ".lock").write_text(held)
    with pytest.raises(ValueError, match=r"new: is not empty \(.lock\); choose a new or empty folder"):
        export_model(build("gpt2-nano"), folder, reload=reload)
    assert other.read_text() == "7" and (folder / ".lock").read_text() == (held or "7")


@pytest.mark.parametrize("made", [True, False])
def test_a_disk_too_full_for_the_lock_is_left_as_it_was(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool
):
    def full() -> int:  # when the lock's content is written
        raise OSError(errno.ENOSPC, "No space left on device")

    if not made:
        (tmp_path / "new").mkdir()
    monkeypatch.setattr("os.getpid", full)
    with pytest.raises(ValueError, match="new: cannot be written: No space left on device"):
        export_model(build("gpt2-nano"), tmp_path / "new", reload=reload)
    assert (tmp_path / "new").exists() != made and not list(tmp_path.glob("new/.*"))


def test_where_a_disk_knows_no_locks_an_export_goes_on_and_says_so(
    build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    export_model(build("gpt2-nano"), tmp_path / "new", reload=reload)
    assert names(tmp_path / "new") == FILES and "new: its file system has no locks" in caplog.text


def test_a_failed_export_leaves_what_another_program_wrote(build: Any, tmp_path: Path):
    def fail(aside: Path, request: dict[str, Any]) -> Any:
        (aside.parent / "notes.txt").write_text("mine")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="export to gpt2: no"):
        export_model(build("gpt2-nano"), tmp_path / "new", reload=fail)
    assert names(tmp_path / "new") == {"notes.txt"}


def test_what_a_killed_export_left_is_removed_by_the_next_one(build: Any, export: Callable[..., Any], tmp_path: Path):
    (tmp_path / "out" / ".partial-export" / "reload-x").mkdir(parents=True)
    (tmp_path / "out" / ".partial-export" / "config.json").write_text("{}")
    (tmp_path / "out" / ".lock").write_text("7\n")
    export(build("gpt2-nano"))
    assert names(tmp_path / "out") == FILES


def test_the_file_that_makes_a_folder_a_model_comes_last_and_a_failure_takes_all_back(
    build: Any, export: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    moved: list[str] = []
    rename = Path.rename

    def note(self: Path, other: Path) -> Path:
        moved.append(other.name)
        if other.name == "config.json":
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, other)

    monkeypatch.setattr(Path, "rename", note)
    (tmp_path / "out").mkdir()
    with pytest.raises(RuntimeError, match="Input/output error"):
        export(build("gpt2-nano"))
    assert set(moved) == FILES and moved[-1] == "config.json" and not names(tmp_path / "out")


def test_a_full_disk_is_told_with_the_name_of_the_file(
    build: Any, export: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RuntimeError, match="No space left on device: '.*config.json'"):
        export(build("gpt2-nano"))
    assert not names(tmp_path)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_weight_that_is_no_number_is_named(build: Any, export: Callable[..., Any], tmp_path: Path, value: float):
    given = build("gpt2-nano")
    with torch.no_grad():
        given.model.decoder.stack.norm.weight[3] = value
    with pytest.raises(ValueError, match="export: decoder.stack.norm.weight holds (NaN|inf)"):
        export(given)
    assert not names(tmp_path)


def test_every_flip_of_a_bit_is_found(build: Any, export: Callable[..., ExportReport]):
    folder = export(build("gpt2-nano")).folder
    assert hash_faults(folder, missing=True) == []
    for name in sorted(FILES - {"README.md", HASHES}):
        content = (folder / name).read_bytes()
        for place in range(5, len(content), len(content) // 4):
            (folder / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            (fault,) = hash_faults(folder, missing=True)
            assert fault.startswith(f"{folder / name}: damaged or changed after the export (its SHA-256 is not")
            with pytest.raises(ValueError, match=f"{name}: damaged or changed after the export"):
                zoo.load(folder)
        (folder / name).write_bytes(content)
    zoo.load(folder)


def test_a_missing_file_is_a_fault_an_edited_card_is_none_and_a_folder_without_hashes_is_loaded(
    build: Any, export: Callable[..., ExportReport]
):
    folder = export(build("gpt2-nano")).folder
    (folder / "README.md").write_text("my own words")
    assert hash_faults(folder, missing=True) == []
    (folder / "tokenizer_config.json").unlink()
    assert hash_faults(folder, missing=True) == [
        f"{folder / 'tokenizer_config.json'}: no such file, but hashes.json names it"
    ]
    assert hash_faults(folder, missing=False) == []
    (folder / HASHES).unlink()
    zoo.load(folder)


@pytest.mark.parametrize("text", ['{"sha256": 3}', '{"sha256": {"../outside": "ab"}}', "[1]"])
def test_hashes_that_are_none_are_refused(tmp_path: Path, text: str):
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / HASHES).write_text(text)
    with pytest.raises(ValueError, match="hashes.json|outside"):
        hash_faults(tmp_path / "model", missing=False)


def test_a_name_longer_than_names_are_is_a_file_that_is_missing(tmp_path: Path):
    (tmp_path / HASHES).write_text(f'{{"sha256": {{"{"a" * 5000}": "ab"}}}}')
    (fault,) = hash_faults(tmp_path, missing=True)
    assert fault.endswith("aaa: no such file, but hashes.json names it")


@pytest.mark.parametrize("untrained", [{"masked_lm": 1}, [["masked_lm"]]])
def test_untrained_heads_are_a_list_of_names(tmp_path: Path, untrained: Any):
    (tmp_path / HASHES).write_text(json.dumps({"untrained": untrained}))
    with pytest.raises(ValueError, match=re.escape(f"hashes.json: untrained must be a list of heads, got {untrained}")):
        untrained_heads(CheckpointFolder(tmp_path))


def test_check_compares_the_hashes(build: Any, export: Callable[..., ExportReport]):
    folder = export(build("gpt2-nano")).folder
    assert not check_folder(folder).faults
    (folder / "generation_config.json").write_text('{"max_new_tokens": 3}')
    (fault,) = check_folder(folder).faults
    assert fault.startswith(f"{folder / 'generation_config.json'}: damaged or changed after the export")
