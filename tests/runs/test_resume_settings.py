"""Claims about resuming with other settings: every key is refused by its name, but for those that may change."""

import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zoo import config
from zoo.data.task import load_task
from zoo.experiments.fill_in import fix_training
from zoo.models.settings import dump_settings, load_settings
from zoo.runs.check import check_run
from zoo.runs.resume import refuse_changes
from zoo.runs.run import RunFiles, create_run
from zoo.runs.saved import open_run
from zoo.training.settings import MAY_CHANGE, Training

TREES = {
    "config": dump_settings(load_settings("transformer-nano")),
    "task": load_task("numbers-words").plain(),
    "training": {
        **config.dump(fix_training(Training(), rows=10, d_model=8)),
        "attention_backend": {"name": "flex"},  # a section that may change
    },
    "data": {"train": "ab", "validation": "cd"},
}


def leaves(tree: Mapping[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every value in a tree."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*place, key))
        else:
            yield (*place, key)


def with_other(tree: Any, path: tuple[str, ...]) -> Any:
    """A tree in which one value is another one."""
    return {**tree, path[0]: with_other(tree[path[0]], path[1:])} if path else "something else"


def files(**trees: Any) -> RunFiles:
    found = {**TREES, **trees}
    return RunFiles(found["config"], found["task"], found["training"], {}, {}, found["data"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a checkpoint."""
    folder = tmp_path_factory.mktemp("run") / "run"
    with create_run(folder, files()) as run:
        run.save(1, {"weights": {}}, {})
    return folder


KEYS = [(name, path) for name, tree in TREES.items() for path in leaves(tree)]


@pytest.mark.parametrize(("name", "path"), KEYS, ids=lambda value: value if isinstance(value, str) else ".".join(value))
def test_every_key_is_refused_by_its_name_or_reported(
    folder: Path, caplog: pytest.LogCaptureFixture, name: str, path: tuple[str, ...]
):
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    key = ".".join(path)
    other = files(**{name: with_other(TREES[name], path)})
    allowed = [part for part in (path[0], key) if part in MAY_CHANGE]  # a whole section, or one key of it
    if name == "training" and allowed:
        create_run(folder, other, resume=True, may_change=MAY_CHANGE).close()
        assert f"continues with changed {key}: " in caplog.text and MAY_CHANGE[allowed[0]] in caplog.text
        return
    if path[0] == "training":  # a section that training.yaml has in full
        create_run(folder, other, resume=True, may_change=MAY_CHANGE).close()
        assert open_run(folder).step == 1
        return
    with pytest.raises(ValueError, match="cannot be resumed with other settings") as refused:
        create_run(folder, other, resume=True, may_change=MAY_CHANGE)
    assert f"{name}.{'json' if name == 'data' else 'yaml'}: {key}: " in str(refused.value)
    assert before == {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_length_of_rows_is_compared_where_a_task_leaves_it_at_its_default(tmp_path: Path) -> None:
    stated = load_task("numbers-words", {"length": 128}).plain()
    with create_run(tmp_path / "run", files(task=stated)) as run:
        run.save(1, {"weights": {}}, {})
    with pytest.raises(ValueError, match="task.yaml: length: 128 -> 64"):
        create_run(tmp_path / "run", files(task={**stated, "length": 64}), resume=True)


def test_of_the_request_only_the_checkpoint_that_the_run_goes_on_from_decides(tmp_path: Path) -> None:
    def asked(start: str, weights: str) -> RunFiles:
        return replace(files(), request={"start": start, "base": {"step": 3, "weights_sha256": weights}})

    with create_run(tmp_path / "run", asked("runs/a", "ab")) as run:
        run.save(1, {"weights": {}}, {})
    create_run(tmp_path / "run", asked("../runs/a", "ab"), resume=True).close()
    with pytest.raises(ValueError, match="request.yaml: base.weights_sha256: 'ab' -> 'cd'"):
        create_run(tmp_path / "run", asked("runs/a", "cd"), resume=True)


def test_other_data_is_refused_by_its_split_and_no_hash_is_shown(folder: Path) -> None:
    with pytest.raises(ValueError) as refused:
        create_run(folder, files(data={"train": "ef", "test": "01"}), resume=True)
    said = "the data is not that of the run, or this version of zoo reads it differently"
    every = "; ".join(f"data.json: {split}: {said}" for split in ("train", "validation", "test"))
    assert str(refused.value) == f"{folder}: cannot be resumed with other settings: {every}"


def test_what_is_refused_is_not_said_to_continue(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    changed = {**TREES["training"], "save_every": 17, "seed": 17}
    with pytest.raises(ValueError, match="seed"):
        create_run(folder, files(training=changed), resume=True, may_change=MAY_CHANGE)
    assert "continues" not in caplog.text


def test_only_settings_of_training_may_change(folder: Path) -> None:
    with pytest.raises(ValueError, match="config.yaml: encoder.n_layers"):
        changed = with_other(TREES["config"], ("encoder", "n_layers"))
        create_run(folder, files(config=changed), resume=True, may_change={"encoder": ""})


def test_a_key_that_the_run_lacks_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="task.yaml: metrics.extra: None -> 7"):
        create_run(folder, files(task={**TREES["task"], "metrics.extra": 7}), resume=True)


def test_what_may_change_are_settings() -> None:
    assert {key.split(".")[0] for key in MAY_CHANGE} < TREES["training"].keys()
    assert not MAY_CHANGE.keys() & {"batch", "seed", "learning_rate", "schedule", "precision", "ema"}
    assert [key for key in MAY_CHANGE if key.startswith("optimizer")] == ["optimizer.fused"], "its kernel alone"


def test_settings_are_compared_with_those_of_the_checkpoint(folder: Path) -> None:
    longer = files(training={**TREES["training"], "steps": 7})
    create_run(folder, longer, resume=True, may_change=MAY_CHANGE).close()
    with create_run(folder, files(), resume=True, may_change={}) as run:  # nothing was saved with 7 steps
        assert run.checkpoint is not None
        with pytest.raises(ValueError, match="training.yaml: steps: 1000 -> 7"):
            refuse_changes(folder, run.checkpoint, longer.content(), {})


BROKEN = [Path.touch, lambda place: place.symlink_to("nowhere"), lambda place: (place / "half").mkdir(parents=True)]


@pytest.mark.parametrize("put", BROKEN)
def test_what_breaks_twice_in_the_place_of_a_checkpoint_is_set_aside_twice(tmp_path: Path, put: Callable[[Path], None]):
    with create_run(tmp_path, files()) as run:
        run.save(1, {"weights": {}}, {})
    place = tmp_path / "checkpoints" / "2"
    for _ in range(2):
        put(place)
        assert any(f"{place}/manifest.json" in fault for fault in check_run(tmp_path).faults)
        with create_run(tmp_path, files(), resume=True) as run:
            assert run.checkpoint is not None and run.checkpoint.step == 1
        assert [path.name for path in sorted(place.parent.iterdir())] == ["1", "2.broken"]


def test_a_damaged_checkpoint_that_may_not_be_deleted_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(folder: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(folder))

    with create_run(tmp_path, files()) as run:
        run.save(1, {"weights": {}}, {})
    (tmp_path / "checkpoints" / "2").mkdir()
    monkeypatch.setattr("zoo.runs.resume.remove_folder", refuse)
    with pytest.raises(ValueError, match="checkpoints/2.broken: cannot be written: Operation not permitted"):
        create_run(tmp_path, files(), resume=True)


@pytest.mark.parametrize("name", ["environment.json", "training.yaml", "metrics.jsonl"])
def test_a_folder_where_the_run_writes_a_file_is_refused_by_its_name(tmp_path: Path, name: str):
    with create_run(tmp_path, files()) as run:
        run.save(1, {"weights": {}}, {})
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=f"{name}: is not a file"):
        create_run(tmp_path, files(), resume=True)
    (tmp_path / name).rmdir()
    create_run(tmp_path, files(), resume=True).close()


def test_a_changed_request_is_told_of_before_it_is_sealed_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    asked = replace(files(), request={"start": "gpt2-nano", "changes": [{"training.steps": 8}]})
    with create_run(tmp_path, asked) as run:
        run.save(1, {"weights": {}}, {})
    create_run(tmp_path, asked, resume=True).close()
    assert "request.yaml" not in caplog.text
    request = tmp_path / "request.yaml"
    request.write_text(request.read_text("utf-8").replace("8", "9"), "utf-8")
    create_run(tmp_path, asked, resume=True).close()
    assert "request.yaml: damaged or changed" in caplog.text
