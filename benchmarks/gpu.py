"""Does everything that uses CUDA work on a GPU, and how fast is it? Each part ends within nine minutes.

    python benchmarks/gpu.py --part tests
    python benchmarks/gpu.py --part train [--write]
    python benchmarks/gpu.py --part generate [--write]

`tests` trains a few steps with DDP and FSDP2 in one process (benchmarks/rows/one_process.py), runs the tests that use a
GPU if there is one, and compares commands of zoo on the GPU with the same on the CPU
(benchmarks/rows/device_checks.py). `train` and `generate` measure the rows `gpu-…` of docs/benchmarks.md as
benchmarks/bench.py measures the others. If a row fails, the next one still runs. A row that may not finish in time is
not started, and one that is running at the deadline is killed; the report names both. --json FILE holds the whole
report and is updated after each row. `--device cpu --small` tests this program itself on any machine.
"""

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import psutil
import torch

from bench import DOCS_FOLDER, add_options, failed_row, measure, print_row, write_docs
from rows.device_checks import check_names, run_check
from rows.gpu_table import GENERATION, GPU_ROWS, TRAINING
from rows.machine import describe_machine, missing_packages, today, usable_cores
from rows.table import Row

ROOT = DOCS_FOLDER.parent
TEST_PATHS = ("tests/contracts/test_every_backend.py", "tests/devices", "tests/cli/test_cli_devices.py")
# the choices of one_process.py, repeated, because importing it here would fail if a package is missing
STRATEGIES = [(strategy, choice) for strategy in ("ddp", "fsdp") for choice in ("float32", "bfloat16", "sgd")]
PARTS = {"train": TRAINING, "generate": GENERATION}
MIN_ROW_SECONDS, MIN_CHECK_SECONDS = 100, 20  # that must be left to start a row, a check
CORES_PER_CHECK = 2  # pytest's workers get half of all cores
MAX_OUTPUT = 3000  # characters that are kept of a program's output, the last ones
REPORT_LOCK = Lock()  # concurrent checks report through one lock
Report = dict[str, Any]
Check = Callable[[float], str | None]


def all_checks(options: argparse.Namespace) -> dict[str, Check]:
    """Name -> check: a function of the deadline that returns what is wrong, or None."""
    # -v: names a failed test at once. Warnings are not errors here: GPU compilers raise some about themselves
    pytest = ["-m", "pytest", "-v", "-W", "default"]
    if importlib.util.find_spec("xdist"):
        pytest += ["-n", str(max(1, usable_cores() // 2)), "--dist", "worksteal"]
    # the slowest checks first
    checks: dict[str, Check] = {f"pytest {path}": partial(run_program, [*pytest, path]) for path in TEST_PATHS}
    for strategy, choice in STRATEGIES:
        program = [str(ROOT / "benchmarks/rows/one_process.py"), strategy, choice, options.device]
        checks[f"{strategy} with one process, {choice}"] = partial(run_program, program)
    for name in check_names(options.device):
        checks[name] = partial(run_check, name, options.made.absolute())
    return checks


def run_program(program: list[str], deadline: float) -> str | None:
    """Run a Python program; returns the end of its output if it failed or timed out, else None."""
    with tempfile.TemporaryFile() as output:  # a file: a pipe stays open as long as any pytest worker
        process = subprocess.Popen(
            [sys.executable, *program], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            status = None
        finally:
            kill_group(process)
        output.seek(0)
        last = last_output(output.read())
    outcome = "was not done in time" if status is None else f"status {status}"
    return None if status == 0 else f"{outcome}: {last}"


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def last_output(output: bytes) -> str:
    """The end of a program's output, after all earlier lines that name a failed test."""
    text = output.decode("utf-8", "replace")
    start = text.rfind("\n", 0, max(0, len(text) - MAX_OUTPUT)) + 1  # at the start of a line
    failures = [line for line in text[:start].splitlines() if "FAILED" in line or "ERROR" in line]
    return "\n".join([*failures, text[start:]])


def run_checks(options: argparse.Namespace, report: Report) -> bool:
    """Run the checks concurrently, and report each when it ends; returns whether all passed."""

    def run(name: str, check: Check) -> bool:
        if time.monotonic() > options.deadline - MIN_CHECK_SECONDS:
            report["left out"].append(name)
            print_and_save(f"left out, for want of time: {name}", options, report)
            return False
        began = time.monotonic()
        try:
            problem = check(options.deadline)
        except Exception as error:  # go on: the next checks may work
            problem = f"{type(error).__name__}: {error}"
        report["checks"].append({"check": name, "fault": problem, "seconds": round(time.monotonic() - began, 1)})
        print_and_save(f"passed: {name}" if problem is None else f"FAILED: {name}: {problem}", options, report)
        return problem is None

    with ThreadPoolExecutor(max_workers=max(1, usable_cores() // CORES_PER_CHECK)) as pool:
        return all(list(pool.map(lambda item: run(*item), all_checks(options).items())))


def run_rows(rows: dict[str, Row], options: argparse.Namespace, report: Report) -> bool:
    """Measure the rows, and report and write each when it ends; returns whether all were measured."""
    for name, row in selected_rows(rows, options).items():
        if time.monotonic() > options.deadline - MIN_ROW_SECONDS:
            report["left out"].append(name)
            print_and_save(f"left out, for want of time: {name}", options, report)
            continue
        try:
            result = measure(name, row, options)
        except Exception as error:  # go on: the next rows may work
            result = failed_row(name, row, options, error)
        print_row(result)
        report["rows"].append(result)
        print_and_save("", options, report)
        if options.write:
            write_docs([result], DOCS_FOLDER)
    return not report["left out"] and all(result["columns"] for result in report["rows"])


def selected_rows(rows: dict[str, Row], options: argparse.Namespace) -> dict[str, Row]:
    """The rows that --only names; without it, all."""
    return {name: row for name, row in rows.items() if not options.only or name in options.only}


def print_and_save(line: str, options: argparse.Namespace, report: Report) -> None:
    """Print a line, unless it is empty, and write the report so far, atomically in case this program is killed."""
    partial_path = options.json.with_suffix(".partial")
    with REPORT_LOCK:
        if line:
            print(line, flush=True)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        partial_path.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
        partial_path.replace(options.json)


def parse_options() -> argparse.Namespace:
    """Parse the command line."""
    # count from the start of the process, since importing torch takes time, too; some sandboxes do not know that start
    began = time.monotonic() - min(60.0, max(0.0, time.time() - psutil.Process().create_time()))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["tests", *PARTS], required=True)
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=GPU_ROWS, help=f"of {', '.join(GPU_ROWS)}")
    parser.add_argument("--seconds", type=float, default=9 * 60, help="after which the part ends; default: 540")
    parser.add_argument("--json", type=Path, help="all that was found; default: gpu-PART.json in the folder of --made")
    parser.add_argument("--device", default="cuda")
    add_options(parser)
    parser.set_defaults(plain=True)
    options = parser.parse_args()
    options.deadline = began + options.seconds
    options.start_together = options.device != "cpu"  # sides start concurrently on a GPU, in turn on a CPU
    options.json = options.json or options.made / f"gpu-{options.part}.json"
    if options.device != "cpu" and not torch.cuda.is_available():
        parser.error("there is no GPU here; --device cpu --small shows that this program works")
    allowed = PARTS.get(options.part, {})
    for name in options.only or ():
        if name not in allowed:
            parser.error(f"--only: part {options.part} has no row '{name}'; allowed: {', '.join(allowed) or 'none'}")
    return options


def main() -> None:
    options = parse_options()
    machine, missing = describe_machine(options.device, options.threads), missing_packages("test")
    report: Report = {"part": options.part, "machine": machine, "date": today()}
    report |= {"not installed": missing, "left out": [], "checks": [], "rows": []}
    print_and_save(machine, options, report)
    if missing:
        print_and_save(f"not installed here, and what needs them fails: {', '.join(missing)}", options, report)
    if options.part == "tests":
        os.environ["OMP_NUM_THREADS"] = "1"  # for every check: several run at once, and tiny models need no more
        passed = run_checks(options, report)
    else:
        passed = run_rows(PARTS[options.part], options, report)
    print(f"all of it is in {options.json}")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
