"""Does everything that uses CUDA work on a GPU, and how fast is it? Each part ends within nine minutes.

    python benchmarks/gpu.py --part tests
    python benchmarks/gpu.py --part train [--write]
    python benchmarks/gpu.py --part generate [--write]

`tests` trains a few steps with DDP and FSDP2 in one process (benchmarks/rows/one_process.py), runs the tests that use a
GPU if there is one, and compares commands of zoo on the GPU with the same on the CPU (benchmarks/rows/agreeing.py).
`train` and `generate` measure the rows `gpu-…` of docs/benchmarks.md as benchmarks/bench.py measures the others. If a
row fails, the next one still runs. A row that may not finish in time is not started, and one that is running at the
deadline is killed; the report names both. --json FILE holds the whole report and is updated after each row. `--device
cpu --small` tests this program itself on any machine.
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

from bench import DOCS, add_options, failed, measure, show, write
from rows.agreeing import agree, checks_on
from rows.gpu_table import GENERATION, GPU_ROWS, TRAINING
from rows.machine import cores, describe, lacking, today
from rows.table import Row

ROOT = DOCS.parent
TESTS = ("tests/contracts/test_every_backend.py", "tests/devices", "tests/cli/test_cli_devices.py")
# the choices of one_process.py, repeated, because importing it here would fail if a package is missing
STRATEGIES = [(strategy, choice) for strategy in ("ddp", "fsdp") for choice in ("float32", "bfloat16", "sgd")]
PARTS = {"train": TRAINING, "generate": GENERATION}
ROW, CHECK = 100, 20  # seconds that must be left to start a row, a check
BESIDE = 2  # cores per concurrent check; pytest's workers get half of all cores
SAID = 3000  # last characters of a program's output that are kept
ONE = Lock()  # concurrent checks report through one lock
Report = dict[str, Any]
Check = Callable[[float], str | None]


def checks(options: argparse.Namespace) -> dict[str, Check]:
    """Name -> check: a function of the deadline that returns what is wrong, or None."""
    workers = ["-n", str(max(1, cores() // 2)), "--dist", "worksteal"] if importlib.util.find_spec("xdist") else []
    # -v: names a failed test at once. Warnings are not errors here: GPU compilers raise some about themselves
    tests = ["-m", "pytest", "-v", "-W", "default", *workers]
    # the slowest checks first
    found: dict[str, Check] = {f"pytest {path}": partial(fault_of, [*tests, path]) for path in TESTS}
    for strategy, choice in STRATEGIES:
        program = [str(ROOT / "benchmarks/rows/one_process.py"), strategy, choice, options.device]
        found[f"{strategy} with one process, {choice}"] = partial(fault_of, program)
    for name in checks_on(options.device):
        found[name] = partial(agree, name, options.made.absolute())
    return found


def fault_of(program: list[str], until: float) -> str | None:
    """Run a Python program; returns the end of its output if it failed or timed out, else None."""
    with tempfile.TemporaryFile() as printed:  # a file: a pipe stays open as long as any pytest worker
        began = subprocess.Popen(
            [sys.executable, *program], cwd=ROOT, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            status = began.wait(max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end(began)
        printed.seek(0)
        said = last_of(printed.read())
    ended = "was not done in time" if status is None else f"status {status}"
    return None if status == 0 else f"{ended}: {said}"


def end(program: subprocess.Popen[bytes]) -> None:
    """Kill a program and its process group."""
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()


def last_of(printed: bytes) -> str:
    """The end of a program's output, after all earlier lines that name a failed test."""
    text = printed.decode("utf-8", "replace")
    last = text.rfind("\n", 0, max(0, len(text) - SAID)) + 1  # at the start of a line
    named = [line for line in text[:last].splitlines() if "FAILED" in line or "ERROR" in line]
    return "\n".join([*named, text[last:]])


def run_checks(options: argparse.Namespace, report: Report) -> bool:
    """Run the checks concurrently, and report each when it ends; returns whether all passed."""

    def run(name: str, check: Check) -> bool:
        if time.monotonic() > options.until - CHECK:
            report["left out"].append(name)
            tell(f"left out, for want of time: {name}", options, report)
            return False
        began = time.monotonic()
        try:
            fault = check(options.until)
        except Exception as error:  # go on: the next checks may work
            fault = f"{type(error).__name__}: {error}"
        report["checks"].append({"check": name, "fault": fault, "seconds": round(time.monotonic() - began, 1)})
        tell(f"passed: {name}" if fault is None else f"FAILED: {name}: {fault}", options, report)
        return fault is None

    with ThreadPoolExecutor(max_workers=max(1, cores() // BESIDE)) as several:
        return all(list(several.map(lambda both: run(*both), checks(options).items())))


def run_rows(rows: dict[str, Row], options: argparse.Namespace, report: Report) -> bool:
    """Measure the rows, and report and write each when it ends; returns whether all were measured."""
    for name, row in chosen(rows, options).items():
        if time.monotonic() > options.until - ROW:
            report["left out"].append(name)
            tell(f"left out, for want of time: {name}", options, report)
            continue
        try:
            result = measure(name, row, options)
        except Exception as error:  # go on: the next rows may work
            result = failed(name, row, options, error)
        show(result)
        report["rows"].append(result)
        tell("", options, report)
        if options.write:
            write([result], DOCS)
    return not report["left out"] and all(result["columns"] for result in report["rows"])


def chosen(rows: dict[str, Row], options: argparse.Namespace) -> dict[str, Row]:
    """The rows that --only names; without it, all."""
    return {name: row for name, row in rows.items() if not options.only or name in options.only}


def tell(line: str, options: argparse.Namespace, report: Report) -> None:
    """Print a line and write the report so far, atomically: if this program is killed, the file is complete."""
    unfinished = options.json.with_suffix(".partial")
    with ONE:
        if line:
            print(line, flush=True)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
        unfinished.replace(options.json)


def parse() -> argparse.Namespace:
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
    options.until = began + options.seconds
    options.together = options.device != "cpu"  # sides start concurrently on a GPU, in turn on a CPU
    options.json = options.json or options.made / f"gpu-{options.part}.json"
    if options.device != "cpu" and not torch.cuda.is_available():
        parser.error("there is no GPU here; --device cpu --small shows that this program works")
    allowed = PARTS.get(options.part, {})
    for name in options.only or ():
        if name not in allowed:
            parser.error(f"--only: part {options.part} has no row '{name}'; allowed: {', '.join(allowed) or 'none'}")
    return options


def main() -> None:
    options = parse()
    report: Report = {"part": options.part, "machine": describe(options.device, options.threads), "date": today()}
    report |= {"not installed": lacking("test"), "left out": [], "checks": [], "rows": []}
    tell(report["machine"], options, report)
    if report["not installed"]:
        tell(f"not installed here, and what needs them fails: {', '.join(report['not installed'])}", options, report)
    if options.part == "tests":
        os.environ["OMP_NUM_THREADS"] = "1"  # for every check: several run at once, and tiny models need no more
    well = run_checks(options, report) if options.part == "tests" else run_rows(PARTS[options.part], options, report)
    print(f"all of it is in {options.json}")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
