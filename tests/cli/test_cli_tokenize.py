"""Claims about `zoo tokenize`, and `zoo check` of what it fills."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Said

from zoo.data import processes
from zoo.data.home import home
from zoo.data.store.filling import Filling

Zoo = Callable[..., Said]
WORDS = ["the", "cat", "sees", "a", "dog"]
TASK = """# many.yaml: several files
objective: causal_lm
source: {files: {train: "part-*.txt"}}
tokenizer: {name: byte_bpe, vocab_size: 270}
length: 32
training: {steps: 1, batch: 2, evaluate_every: 0, precision: float32}
"""


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a task and three files, and a store of its own."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "many.yaml").write_text(TASK)
    for part in range(3):
        lines = [f"{WORDS[line % 5]} {WORDS[line % 3]} {line} {part}\n" for line in range(30)]
        (tmp_path / f"part-{part}.txt").write_text("".join(lines))
    return tmp_path


def test_parts_fill_the_store_that_a_run_starts_from(zoo: Zoo, several: Path):
    words = ("tokenize", several / "many.yaml", "--data", several, "--part")
    first, second = (zoo(*words, part) for part in ("1/2", "2/2"))
    assert "trained on the task's text" in first.log and "1 still missing" in first.out
    assert "trained before" in second.log and "3 shards; documents: train 8" in second.out
    shards = {path: path.stat().st_mtime_ns for path in (home() / "shards").iterdir()}
    said = zoo("pretrain", "gpt2-nano", several / "many.yaml", "-o", several / "run", "--data", several)
    assert said.status == 0 and "trained before on the task's text" in said.log
    assert {path: path.stat().st_mtime_ns for path in (home() / "shards").iterdir()} == shards


def test_rows_that_a_filter_leaves_out_are_counted(zoo: Zoo, several: Path):
    said = zoo("tokenize", several / "many.yaml", "--data", several, "task.source.filter.shortest=11")
    form = r"documents: train (\d+), validation (\d+); source.filter leaves out (\d+) rows of train\n"
    kept, held_out, left_out = map(int, re.findall(form, said.out)[0])
    assert left_out > 0 and kept + held_out + left_out == 90


def test_data_without_the_labels_that_the_objective_needs_fills_no_store(zoo: Zoo, several: Path):
    (several / "rows.csv").write_text("text,label\nthe cat,0\na dog,1\n")  # the first file decides what is read
    changes = ("task.objective=classification", "task.source.files.train=[part-0.txt, rows.csv]")
    said = zoo("tokenize", several / "many.yaml", "--data", several, *changes)
    assert said.status == 2 and "'label', which classification needs; found: text; name it" in said.err
    assert not (home() / "shards").exists()


def test_what_check_finds_damaged_is_made_again(zoo: Zoo, several: Path):
    words = ("tokenize", several / "many.yaml", "--data", several, "--part", "1/1")
    assert zoo(*words).status == 0
    broken = sorted((home() / "shards").glob("*/train/text.ids"))[0]
    broken.write_bytes(bytes(len(broken.read_bytes())))
    said = zoo("check", home())
    assert said.status == 1 and "undamaged shards: 2;" in said.out
    assert "text.ids: its checksum does not match" in said.out
    assert zoo(*words).status == 0 and zoo("check", home()).status == 0


BESIDE = ["tokenizers/*/tokenizer.json", "tokenizers/*/source.json", "codes/*/codes", "repeated/*/marks"]


@pytest.mark.parametrize("name", BESIDE)
def test_what_lies_beside_the_shards_is_checked_too(zoo: Zoo, several: Path, name: str):
    words = (
        "tokenize",
        several / "many.yaml",
        "--data",
        several,
        "--part",
        "1/1",
        "task.source.filter.deduplicate=true",
    )
    assert zoo(*words).status == 0 and zoo("check", home()).status == 0
    broken = sorted(home().glob(name))[0]
    broken.write_bytes(bytes(byte ^ 1 for byte in broken.read_bytes()))
    said = zoo("check", home())
    assert said.status == 1 and f"fault: {broken.parent}: " in said.out and "undamaged shards: 3;" in said.out


@pytest.mark.parametrize("key", ["vocab_size", "training.steps"])
def test_a_change_that_filling_would_not_read_is_refused(zoo: Zoo, several: Path, key: str):
    said = zoo("tokenize", several / "many.yaml", f"{key}=300", "--data", several)
    assert said.status == 2 and f"--set {key}: zoo tokenize does not read it; allowed: task.…" in said.err


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "a/b"])
def test_a_part_that_is_none_is_refused(zoo: Zoo, several: Path, part: str):
    said = zoo("tokenize", several / "many.yaml", "--part", part)
    assert said.status == 2 and f"--part: expected I/N with I from 1 to N, such as 1/4, got '{part}'" in said.err


def test_a_given_tokenizer_is_not_trained_again(zoo: Zoo, several: Path, run_of: Callable[[str], Path]):
    said = zoo("tokenize", several / "many.yaml", "--tokenizer", run_of("mlm"), "--retrain")
    assert said.status == 2 and "--retrain: trains the task's own tokenizer, but --tokenizer names another" in said.err


def test_without_a_part_each_core_has_one(zoo: Zoo, several: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []
    monkeypatch.setattr(processes, "available_cores", lambda: 8)
    monkeypatch.setattr(Filling, "fill_together", lambda self, count: asked.append(count))
    assert zoo("tokenize", several / "many.yaml", "task.length=16", "--data", several).status == 0
    assert asked == [3]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system gives no process some of its cores")
def test_cores_that_belong_to_others_are_not_counted(monkeypatch: pytest.MonkeyPatch):
    mine = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    os.sched_setaffinity(0, {min(mine)})
    try:
        assert processes.processes_for(16) == 1
    finally:
        os.sched_setaffinity(0, mine)
