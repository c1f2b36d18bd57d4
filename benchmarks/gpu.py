"""Does everything that CUDA takes work on a GPU, and how fast is it? Each part ends within nine minutes.

    python benchmarks/gpu.py --part tests
    python benchmarks/gpu.py --part train [--write]
    python benchmarks/gpu.py --part generate [--write]

`tests` trains a little with DDP and FSDP2 in one process (benchmarks/rows/one_process.py), runs the tests that find the
GPU by themselves, and compares commands of zoo on the GPU with the same on the CPU (benchmarks/rows/agreeing.py).
`train` and `generate` measure the rows `gpu-…` of docs/benchmarks.md as benchmarks/bench.py measures the others. A row
that fails is noted, and the next one goes on. Nothing is begun that the time may not suffice for, and what runs when
the time is over is ended; both are named. --json has it all, after each row. `--device cpu --small` shows on any
machine that this program works.
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
# choices of one_process.py, which is not imported: this program also runs, and says so, where packages are missing
STRATEGIES = [(strategy, choice) for strategy in ("ddp", "fsdp") for choice in ("float32", "bfloat16", "sgd")]
PARTS = {"train": TRAINING, "generate": GENERATION}
ROW, CHECK = 100, 20  # seconds without which a row, and a check, is not begun
BESIDE = 2  # cores for each check that runs beside others; pytest's workers have half of all
SAID = 3000  # characters at the end of what a program printed
ONE = Lock()  # checks that run side by side tell their ends
Report = dict[str, Any]
Check = Callable[[float], str | None]


def checks(options: argparse.Namespace) -> dict[str, Check]:
    """By name, what tells what is wrong (None: nothing), given when it must be done."""
    workers = ["-n", str(max(1, cores() // 2)), "--dist", "worksteal"] if importlib.util.find_spec("xdist") else []
    # -v: what failed is named at once. A warning is no error here: compilers for GPUs have some about themselves
    tests = ["-m", "pytest", "-v", "-W", "default", *workers]
    # the longest first
    found: dict[str, Check] = {f"pytest {path}": partial(fault_of, [*tests, path]) for path in TESTS}
    for strategy, choice in STRATEGIES:
        program = [str(ROOT / "benchmarks/rows/one_process.py"), strategy, choice, options.device]
        found[f"{strategy} with one process, {choice}"] = partial(fault_of, program)
    for name in checks_on(options.device):
        found[name] = partial(agree, name, options.made.absolute())
    return found


def fault_of(program: list[str], until: float) -> str | None:
    """What a program of Python that failed, or was not done in time, said last; None: it did not fail."""
    with tempfile.TemporaryFile() as printed:  # a pipe would be waited for while a worker of pytest has it open
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
    """End a program with its group of processes."""
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait()


def last_of(printed: bytes) -> str:
    """The end of what was printed, and all lines before it that name a test that failed."""
    text = printed.decode("utf-8", "replace")
    last = text.rfind("\n", 0, max(0, len(text) - SAID)) + 1  # no line is cut
    named = [line for line in text[:last].splitlines() if "FAILED" in line or "ERROR" in line]
    return "\n".join([*named, text[last:]])


def run_checks(options: argparse.Namespace, report: Report) -> bool:
    """Whether all checks pass, several of them side by side; each is told when it is done."""

    def run(name: str, check: Check) -> bool:
        if time.monotonic() > options.until - CHECK:
            report["left out"].append(name)
            tell(f"left out, for want of time: {name}", options, report)
            return False
        began = time.monotonic()
        try:
            fault = check(options.until)
        except Exception as error:  # whatever it is, the checks after it may work
            fault = f"{type(error).__name__}: {error}"
        report["checks"].append({"check": name, "fault": fault, "seconds": round(time.monotonic() - began, 1)})
        tell(f"passed: {name}" if fault is None else f"FAILED: {name}: {fault}", options, report)
        return fault is None

    with ThreadPoolExecutor(max_workers=max(1, cores() // BESIDE)) as several:
        return all(list(several.map(lambda both: run(*both), checks(options).items())))


def run_rows(rows: dict[str, Row], options: argparse.Namespace, report: Report) -> bool:
    """Whether every row was measured; each is told, and written, when it is done."""
    for name, row in chosen(rows, options).items():
        if time.monotonic() > options.until - ROW:
            report["left out"].append(name)
            tell(f"left out, for want of time: {name}", options, report)
            continue
        try:
            result = measure(name, row, options)
        except Exception as error:  # whatever it is, the rows after it may work
            result = failed(name, row, options, error)
        show(result)
        report["rows"].append(result)
        tell("", options, report)
        if options.write:
            write([result], DOCS)
    return not report["left out"] and all(result["columns"] for result in report["rows"])


def chosen(rows: dict[str, Row], options: argparse.Namespace) -> dict[str, Row]:
    """The rows that --only names; all of them without it."""
    return {name: row for name, row in rows.items() if not options.only or name in options.only}


def tell(line: str, options: argparse.Namespace, report: Report) -> None:
    """Print a line, and write down what is known so far; whoever ends this program finds one whole file."""
    unfinished = options.json.with_suffix(".partial")
    with ONE:
        if line:
            print(line, flush=True)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
        unfinished.replace(options.json)


def parse() -> argparse.Namespace:
    """What the command line says."""
    # importing torch takes its time, too; but not every sandbox knows when a process began
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
    options.together = options.device != "cpu"  # sides begin side by side, but on a CPU each waits for the one before
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
        os.environ["OMP_NUM_THREADS"] = "1"  # of every check: several run side by side, and tiny models need no more
    well = run_checks(options, report) if options.part == "tests" else run_rows(PARTS[options.part], options, report)
    print(f"all of it is in {options.json}")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
