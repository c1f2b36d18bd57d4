"""What the benchmark for GPUs does with its time, and with what fails; and its checks with one process, on a CPU."""

import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed

from programs import ROOT, load_program


@pytest.fixture
def gpu() -> Any:
    return load_program("benchmarks/gpu.py")


def options_in(folder: Path, seconds: float = 1000.0) -> Namespace:
    deadline, report = time.monotonic() + seconds, folder / "found" / "gpu.json"
    machine = {"device": "cpu", "threads": 1}
    return Namespace(deadline=deadline, json=report, write=False, made=folder, only=None, **machine)


def empty() -> dict[str, Any]:
    return {"left out": [], "checks": [], "rows": []}


def figures(name: str) -> dict[str, Any]:
    rates = {side: {"median": 2.0, "least": 1.0, "most": 3.0} for side in ("zoo", "hf")}
    column = {
        "rates": rates,
        "ratios": {"hf": rates["hf"]},
        "shares": {},
        "memory_ratios": {},
        "units": {},
        "facts": {},
    }
    about = {"row": name, "title": "a step", "unit": "tokens/s", "goals": {"hf": "2x"}, "machine": "a GPU"}
    return {**about, "columns": {"as it comes": column}, "told": {}, "load before": 0.0}


def test_a_row_that_fails_is_noted_and_the_next_goes_on(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def measure(name: str, row: Any, options: Any) -> dict[str, Any]:
        if name == "gpu-gpt":
            raise ValueError("side hf ended with status 1; the end of its log:\nTraceback\nno such kernel\n")
        return figures(name)

    monkeypatch.setattr(gpu, "measure", measure)
    report, options = empty(), options_in(tmp_path)
    rows = {name: gpu.TRAINING[name] for name in ("gpu-gpt", "gpu-bert")}
    assert not gpu.run_rows(rows, options, report)
    assert [(row["row"], bool(row["columns"])) for row in report["rows"]] == [("gpu-gpt", False), ("gpu-bert", True)]
    said = "side hf ended with status 1; the end of its log: … no such kernel"
    assert report["rows"][0]["told"] == {"failed": said} and "Traceback" in report["rows"][0]["error"]
    assert json.loads(options.json.read_text()) == report


def test_a_row_that_cannot_be_written_into_the_guide_is_in_the_report(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gpu, "measure", lambda name, row, options: figures(name))
    options = options_in(tmp_path)
    options.write = True
    monkeypatch.setattr(gpu, "DOCS_FOLDER", tmp_path / "none")
    with pytest.raises(OSError, match="none"):
        gpu.run_rows({"gpu-gpt": gpu.TRAINING["gpu-gpt"]}, options, empty())
    assert [row["row"] for row in json.loads(options.json.read_text())["rows"]] == ["gpu-gpt"]


def test_a_failure_stands_in_the_table_but_in_the_place_of_no_figures(gpu: Any, tmp_path: Path):
    page = tmp_path / "benchmarks.md"
    bench = load_program("benchmarks/bench.py")
    sections = (f"{mark}\nold\n{bench.END_MARK}\n" for mark in (bench.OVERVIEW_MARK, bench.TABLES_MARK))
    page.write_text("".join(sections), "utf-8")
    bad = gpu.failed_row("gpu-bert", gpu.TRAINING["gpu-bert"], options_in(tmp_path), ValueError("no such kernel"))
    for result in (figures("gpu-gpt"), {**bad, "machine": "a GPU"}, {**bad, "row": "gpu-gpt", "machine": "a GPU"}):
        gpu.write_docs([result], tmp_path)
    text = page.read_text("utf-8")
    assert "| `gpu-gpt`: tokens/s | hf |" in text and "`gpu-bert`, failed: no such kernel." in text
    assert "`gpu-gpt`, failed" not in text
    gpu.write_docs([figures("gpu-bert")], tmp_path)
    assert "failed" not in page.read_text("utf-8")


def test_no_row_and_no_check_is_begun_that_the_time_may_not_suffice_for(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(gpu, "measure", None)
    monkeypatch.setattr(gpu, "all_checks", lambda options: {"a check": None})
    report, options = empty(), options_in(tmp_path, seconds=gpu.MIN_CHECK_SECONDS - 1)
    assert not gpu.run_rows({"gpu-gpt": gpu.TRAINING["gpu-gpt"]}, options, report)
    assert not gpu.run_checks(options, report)
    assert report["rows"] == report["checks"] == []
    assert report["left out"] == ["gpu-gpt", "a check"] == json.loads(options.json.read_text())["left out"]
    assert "left out, for want of time: gpu-gpt\n" in capsys.readouterr().out


def test_a_check_that_fails_is_told_and_the_others_run(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    faults = {"one": None, "two": "it differs", "three": None, "four": "ZeroDivisionError: division by zero"}
    found = {name: (lambda deadline, fault=fault: fault) for name, fault in faults.items()}
    found["four"] = lambda deadline: 1 / 0
    monkeypatch.setattr(gpu, "all_checks", lambda options: found)
    report = empty()
    assert not gpu.run_checks(options_in(tmp_path), report)
    assert {check["check"]: check["fault"] for check in report["checks"]} == faults


def test_a_program_is_ended_when_the_time_is_over(gpu: Any):
    began = time.monotonic()
    slow = "import subprocess, time; print('one test FAILED', flush=True); print(400 * (9 * '.' + chr(10)), flush=True)"
    slow += "; subprocess.Popen(['sleep', '60']); time.sleep(60)"  # with one that would hold a pipe open
    said = gpu.run_program(["-c", slow], began + 3)
    assert said.startswith("was not done in time: one test FAILED\n.........\n...") and len(said) < 3100
    assert gpu.last_output(b"ERROR at setup\n" + b".\n" * gpu.MAX_OUTPUT).startswith("ERROR at setup\n.\n")
    assert gpu.run_program(["-c", "raise SystemExit('it differs')"], began + 60) == "status 1: it differs\n"
    assert gpu.run_program(["-c", ""], began + 60) is None and time.monotonic() - began < 50


@pytest.mark.parametrize(
    ("program", "words"),
    [("import time; time.sleep(60)", "side ours was not done in time"), ("raise SystemExit(3)", "ended with status 3")],
)
def test_a_side_that_is_late_or_fails_is_ended(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, words: str
):
    turns = load_program("benchmarks/rows/side_process.py")
    path = tmp_path / "side.py"
    path.write_text(f"print('what it said', flush=True)\n{program}\n")
    monkeypatch.setattr(turns, "PROGRAM", path)
    side = turns.SideProcess("ours", [], tmp_path, 1, deadline=time.monotonic() + (0.5 if "sleep" in program else 60))
    with pytest.raises(RuntimeError, match=f"{words}; the end of its log:\n"):
        side.warm_up()
    assert side.process.returncode is not None


def test_the_checks_of_a_cpu_leave_the_kernels_of_gpus_out(gpu: Any, tmp_path: Path):
    on_gpu, on_cpu = (gpu.all_checks(Namespace(device=device, made=tmp_path)) for device in ("cuda", "cpu"))
    assert {name.split()[0] for name in on_gpu.keys() - on_cpu.keys()} == {"flex", "float16", "varlen"}
    assert {f"{way} with one process, {choice}" for way, choice in gpu.STRATEGIES} < set(on_cpu)
    choices = load_program("benchmarks/rows/one_process.py").CHOICES
    assert {choice for _, choice in gpu.STRATEGIES} == set(choices)
    assert all(f"pytest {path}" in on_gpu for path in gpu.TEST_PATHS)
    pytest_words = next(iter(on_gpu.values())).args[0]
    assert "-W default" in " ".join(pytest_words)  # torch's compiler warns on GPUs that tf32 is not enabled


def test_losses_that_are_not_finite_agree_with_none(gpu: Any, tmp_path: Path):
    agreeing = load_program("benchmarks/rows/device_checks.py")
    (tmp_path / "metrics.jsonl").write_text('{"loss": 7.0}\n{"loss": null}\n')
    found = agreeing.logged_losses(tmp_path)
    assert found[0] == 7.0 and agreeing.compare_losses(found[:1], [7.0], 0.0) is None
    assert agreeing.compare_losses(found, found, 1.0) == "losses [7.0, nan], wanted [7.0, nan]"
    assert agreeing.compare_losses([7.0], [7.0, 6.0], 1.0) == "losses [7.0], wanted [7.0, 6.0]"  # it ended early


def test_it_begins_where_packages_are_missing(tmp_path: Path):
    """Whatever needs them fails then, one thing after the other, and is noted."""
    missing = ["accelerate", "datasets", "evaluate", "sacrebleu", "seqeval", "zstandard"]
    words = ["gpu.py", "--part", "tests", "--device", "cpu", "--small", "--seconds", "0", "--made", str(tmp_path)]
    program = f"import runpy, sys; sys.modules.update(dict.fromkeys({missing})); sys.argv = {words}; "
    program += "runpy.run_path('benchmarks/gpu.py', run_name='__main__')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "benchmarks"), *sys.path])}
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    found = json.loads((tmp_path / "gpu-tests.json").read_text("utf-8"))
    assert not ended.stderr and len(found["left out"]) > 10 and not found["checks"]


@pytest.fixture
def alone(gpu: Any) -> Iterator[Any]:
    """The program of one process, in a group of this process alone."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield load_program("benchmarks/rows/one_process.py")
    distributed.destroy_process_group()


@pytest.mark.parametrize(("strategy", "choice"), [("ddp", "float32"), ("fsdp", "sgd")])
def test_one_process_learns_with_a_strategy_what_it_learns_without(alone: Any, strategy: str, choice: str):
    assert alone.find_difference(strategy, choice, torch.device("cpu")) is None


def test_a_strategy_that_learns_something_else_is_found(alone: Any, monkeypatch: pytest.MonkeyPatch):
    found = {"one process": ([2.0], {"weights/a": torch.ones(2)}), "ddp": ([2.0], {"weights/a": torch.zeros(2)})}
    monkeypatch.setattr(alone, "train", lambda wanted, choice, device: found[wanted])
    assert alone.find_difference("ddp", "float32", torch.device("cpu")) == "weights/a is off by 1.0"
    found["ddp"] = ([float("nan")], {})
    assert alone.find_difference("ddp", "float32", torch.device("cpu")).startswith("the loss of step 1 is nan")


def test_packages_that_are_not_there_are_named(gpu: Any, monkeypatch: pytest.MonkeyPatch):
    machine = load_program("benchmarks/rows/machine.py")
    monkeypatch.setattr(machine, "is_installed", lambda name: name not in ("datasets", "beartype"))
    assert machine.missing_packages("test") == ["datasets", "beartype"]


def test_the_last_turn_of_ours_on_a_gpu_says_what_its_time_was_spent_on(gpu: Any):
    kernels = load_program("benchmarks/rows/gpu_profile.py")
    spent = {
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm": 0.4,
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT": 0.1,
        "pytorch_flash::flash_fwd_kernel": 0.2,
        "triton_poi_fused__to_copy_add": 0.1,
        "Memcpy HtoD": 0.05,
        "weird": 0.004,
    }
    said = {"attention": "20%", "matrix products": "50%", "copies and casts": "5%", "no kernel": "15%"}
    said |= {"compiled: norms, activations, loss": "10%"}
    assert kernels.shares_by_kind(spent, kernels.KERNEL_KINDS, kernels.IDLE) == said
    assert kernels.idle_time([(30.0, 40.0), (0.0, 10.0), (12.0, 15.0), (13.0, 14.0)]) == {"short": 2.0, "long": 15.0}
    row = gpu.TRAINING["gpu-bert"]
    assert row.sides_to_profile("cuda") == ["zoo"] and not row.sides_to_profile("cpu")


def test_rows_can_be_named(gpu: Any):
    chosen = gpu.selected_rows(gpu.TRAINING, Namespace(only=["gpu-head", "gpu-greedy-1"]))
    assert list(chosen) == ["gpu-head"] and gpu.selected_rows(gpu.TRAINING, Namespace(only=None)) == gpu.TRAINING


@pytest.mark.parametrize(("part", "allowed"), [("train", "gpu-gpt, gpu-bert"), ("tests", "none")])
def test_a_row_of_another_part_is_refused(
    part: str, allowed: str, gpu: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--part", part, "--device", "cpu", "--only", "gpu-greedy-1"])
    with pytest.raises(SystemExit, match="2"):
        gpu.parse_options()
    assert f"part {part} has no row 'gpu-greedy-1'; allowed: {allowed}" in capsys.readouterr().err


def test_names_of_kernels_stay_out_of_the_guides(gpu: Any, tmp_path: Path):
    bench = load_program("benchmarks/bench.py")
    sections = (f"{mark}\n{bench.END_MARK}\n" for mark in (bench.OVERVIEW_MARK, bench.TABLES_MARK))
    (tmp_path / "benchmarks.md").write_text("".join(sections))
    result = figures("gpu-gpt")
    result["columns"]["as it comes"]["profiles"] = {"zoo": {"kinds": {}, "longest": ["1 %: a kernel"]}}
    bench.write_docs([result], tmp_path)
    assert "profiles" not in (tmp_path / "benchmarks.json").read_text("utf-8")
    assert "profiles" in result["columns"]["as it comes"]


def test_a_profiler_that_fails_leaves_the_rows_figures(gpu: Any, monkeypatch: pytest.MonkeyPatch):
    kernels, bench = load_program("benchmarks/rows/gpu_profile.py"), load_program("benchmarks/bench.py")
    nothing = {"kinds": {}, "fault": "no kernel was recorded"}
    assert kernels.KernelRecorder().stop(1.0) == nothing  # as on a CPU

    def fail(recorder: Any) -> None:
        raise RuntimeError("busy")

    monkeypatch.setattr(kernels.profile, "start", fail)
    monkeypatch.setattr(kernels.profile, "stop", None)
    assert kernels.KernelRecorder().stop(1.0) == {**nothing, "fault": "busy"}
    given, row = Namespace(device="cuda"), gpu.TRAINING["gpu-bert"]
    assert bench.extra_facts(row, given, None, {"zoo": nothing}) == bench.extra_facts(row, given, None, {}) == {}
    assert bench.extra_facts(row, given, None, {"zoo": {"kinds": {"attention": "9%"}}}) == {
        "our time": {"attention": "9%"}
    }


def test_sides_that_are_not_compiled_do_the_same_work(gpu: Any, tmp_path: Path):
    bench, side_args = load_program("benchmarks/bench.py"), load_program("benchmarks/rows/side_args.py").SideArgs
    for row in (gpu.TRAINING[name] for name in ("gpu-bert", "gpu-translation")):
        assert row.sides["not compiled"] == row.sides["zoo"] and set(row.uncompiled) <= set(row.sides)
        all_ = side_args(row.sizes, tmp_path, tmp_path, tmp_path, "cuda", row.steps_per_turn, row.compiled)
        found = {name: bench.args_of_side(name, row, all_) for name in ("zoo", "not compiled", "machine")}
        assert [one.compiled for one in found.values()] == [True, False, True]
        assert [one.steps_per_turn for one in found.values()] == [row.steps_per_turn, row.steps_per_turn, 1]
