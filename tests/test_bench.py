"""What the benchmark makes of the seconds of its sides: alternation, medians, ratios in pairs, and the table."""

import io
import json
import os
import re
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from programs import ROOT, load_program

OPTIONS = {"device": "cpu", "threads": 1, "small": True, "plain": True}  # of a row


@pytest.fixture
def bench() -> Any:
    return load_program("benchmarks/bench.py")


class Side:
    """A side that needs the seconds that it is given for 10 units of work, and notes that it was asked."""

    def __init__(self, name: str, seconds: list[float], asked: list[str]) -> None:
        self.name, self.left, self.asked = name, list(seconds), asked

    def run_turn(self) -> dict[str, float]:
        self.asked.append(self.name)
        return {"units": 10, "seconds": self.left.pop(0)}


def compared(bench: Any, asked: list[str]) -> Any:
    """A comparison in which we are 4, 2 and 3 times as fast, on a machine of 40 units a second."""
    seconds = {"zoo": [1, 2, 1], "hf": [4, 4, 3], "machine": [0.25, 0.25, 0.25]}
    sides = {name: Side(name, values, asked) for name, values in seconds.items()}
    facts = {"zoo": {"parameters": 1, "peak": 26, "gpu": 0, "cost": 2.0}, "hf": {"parameters": 1, "peak": 56, "gpu": 0}}
    return bench.summarize_comparison(bench.alternate_turns(sides, 3), facts)


def result_of(bench: Any, column: str) -> dict[str, Any]:
    about = {"row": "gpt", "title": "a step", "unit": "tokens/s", "goals": {"hf": "1.6x"}, "machine": "two cores"}
    return {**about, "columns": {column: compared(bench, [])}}


def test_sides_take_turns(bench: Any):
    asked: list[str] = []
    compared(bench, asked)
    assert asked == ["zoo", "hf", "machine"] * 3


def test_ratios_are_medians_of_turns_that_followed_each_other(bench: Any):
    found = compared(bench, [])
    assert found["ratios"] == {"hf": {"median": 3, "least": 2, "most": 4}}  # of the medians of rates it would be 4
    assert found["rates"]["zoo"] == {"median": 10, "least": 5, "most": 10}


def test_the_share_is_of_what_the_machine_did_in_the_same_round(bench: Any):
    shares = compared(bench, [])["shares"]
    assert shares["zoo"] == pytest.approx(10 * 2 / 40)
    assert shares["hf"] == pytest.approx(10 / 4 * 2 / 40)


def test_memory_is_what_a_step_needs_beyond_weights_gradients_and_moments(bench: Any):
    assert compared(bench, [])["memory_ratios"] == {"hf": (26 - 16) / (56 - 16)}
    figures = load_program("benchmarks/rows/figures.py")
    assert figures.memory_overhead({"parameters": 1, "peak": 56, "gpu": 36}) == 36 - 16  # of the GPU, if it is on one


def test_written_rows_keep_those_that_are_there_and_fill_the_table(bench: Any, tmp_path: Path):
    page = tmp_path / "benchmarks.md"
    page.write_text(page_of(bench), "utf-8")
    later = {**result_of(bench, "as it comes"), "row": "bert", "told": {"BLEU": {"float32": 20.5, "bfloat16": 20.4}}}
    bench.write_docs([later], tmp_path)
    bench.write_docs([result_of(bench, "as it comes")], tmp_path)
    bench.write_docs([result_of(bench, "zoo's")], tmp_path)
    bench.write_docs([{**later, "machine": "another", "told": {}}], tmp_path)
    text = page.read_text("utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    over = "| row | beside | two cores | another |\n| --- | --- | --- | --- |\n| `gpt` | hf | **3x of 1.6x** |  |\n"
    assert f"{over}| `bert` | hf | **3x of 1.6x** | **3x of 1.6x** |\n" in text
    ratio = "| 10 (5 to 10) | 2.5 (2.5 to 3.33) | 3 (2 to 4)x | 1.6x | 50% | 0.25x |"
    assert f"| `gpt`: tokens/s | hf | zoo's {ratio}\n| `bert`: tokens/s | hf | as it comes {ratio}\n" in text
    assert "|\n\n`bert`, BLEU: float32 20.5, bfloat16 20.4.\n\nanother\n\n" in text
    assert text.count("| `gpt`:") == 1 and text.count("| `bert`:") == 2


def page_of(bench: Any) -> str:
    """A guide before anything was measured."""
    places = (f"{mark}\nold\n{bench.END_MARK}" for mark in (bench.OVERVIEW_MARK, bench.TABLES_MARK))
    return "\n".join(["before", *places, "after", ""])


def test_the_overview_has_goals_and_says_which_are_met(bench: Any):
    missed = {**result_of(bench, "as it comes"), "goals": {"hf": "4x"}, "row": "gpu-gpt", "machine": "a GPU, torch 2"}
    turns = {name: [{"units": 1, "seconds": 0.4, "processor": 0.25}] for name in ("list", "help")}
    goals = {"list": "0.3 s", "help": "0.5 s"}
    about = {"row": "start-up", "goals": goals, "machine": "a processor, 2 cores, 1 thread"}
    commands = {**about, "columns": {"as it comes": bench.summarize_comparison(turns, {})}}
    bad = {"row": "bert", "goals": {"hf": "1x"}, "machine": "a processor, 2 cores", "columns": {}}
    unwanted = {**result_of(bench, "as it comes"), "goals": {"hf": ""}, "row": "head"}
    found = bench.overview_tables([commands, bad, unwanted, missed]).split("\n\n")
    assert [table.splitlines()[2:] for table in found] == [
        ["| `start-up` | list | 0.4 s of 0.3 s |", "| `start-up` | help | **0.4 s of 0.5 s** |"],
        ["| `gpu-gpt` | hf | 3x of 4x |"],
    ]
    assert found[0].startswith("| row | beside | a processor |\n") and found[1].startswith("| row | beside | a GPU |\n")


def test_a_row_of_commands_shows_seconds_of_the_clock_and_of_the_processor(bench: Any):
    turns = {"list": [{"units": 1, "seconds": seconds, "processor": 0.25} for seconds in (0.5, 4, 0.25)]}
    result = {"goals": {"list": "0.3 s"}, "columns": {"as it comes": bench.summarize_comparison(turns, {})}}
    shown = ["0.5 (0.25 to 4) s", "processor 0.25 (0.25 to 0.25) s"]
    assert bench.row_cells(result, "as it comes") == [["list", "as it comes", *shown, "", "0.3 s", "", ""]]


@pytest.mark.parametrize("program", ["bench", "growth", "gpu"])
def test_no_turns_are_refused_before_anything_is_measured(
    program: str, bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    found = load_program(f"benchmarks/{program}.py")
    for name in ("measure", "measure_point", "run_rows"):
        monkeypatch.setattr(found, name, None, raising=False)
    words = ["--part", "train", "--device", "cpu"] if program == "gpu" else []
    for turns in ("-1", "0"):
        monkeypatch.setattr(sys, "argv", [program, *words, "--repeats", turns])
        with pytest.raises(SystemExit, match="2"):
            found.main()
        assert f"--repeats: expected a whole number of at least 1, got '{turns}'" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(bench, "measure", None)
    monkeypatch.setattr(sys, "argv", ["bench.py", "gpt", "--device", "cuda"])
    with pytest.raises(SystemExit, match="2"):
        bench.main()
    assert "error: there is no GPU here" in capsys.readouterr().err


def test_a_row_that_fails_ends_no_other(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def measure(name: str, row: Any, options: Any) -> dict[str, Any]:
        if name == "gpt":
            raise RuntimeError("gpt.prepare ended with status 1:\nTraceback\nno such file")
        return {**result_of(bench, "as it comes"), "row": name, "load before": 0.0, "told": {}}

    monkeypatch.setattr(bench, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["bench.py", "gpt", "bert"])
    with pytest.raises(SystemExit, match="1"):
        bench.main()
    said = capsys.readouterr().out
    assert "failed: gpt.prepare ended with status 1: … no such file" in said and "\nbert: a step" in said


class Asks(io.StringIO):
    """A program that lets a side work once, and then ends it."""

    words = iter(("go\n", "end\n"))

    def readline(self, size: int | None = -1, /) -> str:
        return next(self.words)


def test_a_side_says_at_its_end_why_its_compiler_failed(bench: Any, monkeypatch: pytest.MonkeyPatch):
    turns = load_program("benchmarks/rows/side_process.py")
    monkeypatch.setattr(turns, "failures", ["no compiler"])
    monkeypatch.setattr(os, "_exit", lambda status: None)
    turn = turns.TurnReporter(None, 1)
    turn.stream = Asks()
    turn.report(3)
    turn.report(3)
    assert json.loads(turn.stream.getvalue().splitlines()[-1])["failures"] == ["no compiler"]


def test_a_row_tells_of_sides_that_went_on_without_a_compiler(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    facts = {"zoo": {"failures": ["no compiler", "the same"]}, "hf": {"failures": []}}
    monkeypatch.setattr(bench, "compare_sides", lambda *given: {"profiles": {}, "facts": facts})
    monkeypatch.setattr(bench, "extra_facts", lambda *given: {})
    options = Namespace(**OPTIONS, made=tmp_path, data=tmp_path)
    found = bench.measure("gpu-gpt", bench.GPU_ROWS["gpu-gpt"], options)
    assert found["told"] == {"compiling failed in zoo": "no compiler"}


def test_sides_keep_compiled_modules_also_where_the_environment_forbids_it(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def compare(*given: Any) -> dict[str, Any]:
        assert "PYTHONDONTWRITEBYTECODE" not in os.environ
        return {"profiles": {}, "facts": {}}

    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(bench, "compare_sides", compare)
    monkeypatch.setattr(bench, "extra_facts", lambda *given: {})
    bench.measure("gpu-gpt", bench.GPU_ROWS["gpu-gpt"], Namespace(**OPTIONS, made=tmp_path, data=tmp_path))


def test_every_side_of_a_row_is_a_function_of_its_module(bench: Any):
    works = {
        work
        for row in [*bench.ROWS.values(), *bench.GPU_ROWS.values()]
        for work in [row.prepare, row.extra_facts, *row.sides.values()]
        if work
    }
    for module, name in (work.split(".") for work in works):
        text = (ROOT / "benchmarks" / "rows" / f"{module}.py").read_text("utf-8")
        assert re.search(rf"^def {name}\(reporter: TurnReporter, args: SideArgs\)", text, re.MULTILINE)


def test_the_tables_of_the_guide_are_what_was_measured(bench: Any):
    text, file = (ROOT / "docs" / "benchmarks.md").read_text("utf-8"), ROOT / "docs" / "benchmarks.json"
    measured = json.loads(file.read_text("utf-8"))
    for mark, made in ((bench.OVERVIEW_MARK, bench.overview_tables), (bench.TABLES_MARK, bench.all_tables)):
        assert text.split(mark)[1].split(bench.END_MARK)[0].strip() == made(measured)


def test_the_memory_that_the_guide_names_is_what_was_measured(bench: Any):
    text = (ROOT / "docs" / "benchmarks.md").read_text("utf-8").partition("**Memory** (goal")[2].partition("\n\n")[0]
    (said,) = re.findall(r"With AMX it is (.*?)\. It was", text, re.DOTALL)
    measured = json.loads((ROOT / "docs" / "benchmarks.json").read_text("utf-8"))
    of = {one["row"]: one["columns"]["as it comes"] for one in measured if "(AMX," in one["machine"]}
    rows = re.findall(r"([\d.]+)x in `(\w+)`", said)
    assert len(rows) == 4 and rows == [(f"{of[row]['memory_ratios']['hf']:.2f}", row) for _, row in rows]
    assert f"({of['gpt']['memory_ratios']['textbook']:.2f}x of the textbook's)" in said
    assert f"{of['bert']['memory']['zoo'] / 1e9:.2f} GB of `bert`" in text


def test_what_is_made_once_is_made_anew_of_other_sizes(bench: Any, tmp_path: Path):
    given, written = bench.SideArgs({}, tmp_path, tmp_path, tmp_path), []
    for text, steps in [("first", 1), ("not made", 1), ("second", 2)]:
        made = given.make_once("run", partial(Path.write_text, data=text), {"steps": steps})
        written.append(made.read_text("utf-8"))
    assert written == ["first", "first", "second"]


def test_shares_of_time_are_those_of_the_fastest_units(monkeypatch: pytest.MonkeyPatch, capsys: Any):
    profiling, now = load_program("benchmarks/rows/cpu_profile.py"), [0.0]
    monkeypatch.setattr(profiling.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(profiling.os, "_exit", lambda code: None)
    turn = profiling.ProfilingReporter()
    for seconds, products in [(9, 0), (9, 0), (9, 0), (2, 0), (4, 0), (3, 0), (5, 4), (2, 1), (9, 8)]:
        now[0] += seconds
        turn.timer.seconds["aten::mm"] += products
        turn.report(1)
    turn.timer.__exit__(None, None, None)
    assert json.loads(capsys.readouterr().out) == {"matrix products": "50%", "all else": "50%"}


def test_a_row_of_other_sizes_says_so(bench: Any):
    row = bench.with_sizes("gpt", bench.ROWS["gpt"], ["length=512", "rows=4", "dropout=0"])
    assert row.title == "a step of `gpt2`, 124M, 8 rows of 256 (length=512, rows=4, dropout=0)"
    for sizes in (row.sizes, row.small_sizes):
        assert (sizes["length"], sizes["rows"], sizes["dropout"]) == (512, 4, 0)
    for size, problem in {
        "row=4": r"did you mean 'rows'",
        "rows=x": "rows=x: expected a value such as 8",
        "rows": "NAME=VALUE",
    }.items():
        with pytest.raises(ValueError, match=problem):
            bench.with_sizes("gpt", bench.ROWS["gpt"], [size])


def test_operations_are_those_of_documents_where_rows_are_longer_than_a_model_reads(bench: Any, tmp_path: Path):
    training, sides = load_program("benchmarks/rows/training.py"), load_program("benchmarks/rows/side_process.py")
    (tmp_path / "config.yaml").write_bytes((ROOT / "configs" / "gpt2-nano.yaml").read_bytes())
    counted = {}
    for length in (64, 200):  # the model reads 64
        turn = sides.TurnReporter(None, 1)
        step = training.report_steps(turn, tmp_path, "wikipedia-lm", length).step
        step({"step": 1, "tokens_per_second": 8.0, "seconds": 1.0})
        counted[length] = turn.facts["cost"]
    assert counted[64] == counted[200] > 0
