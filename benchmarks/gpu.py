"""Does everything that CUDA takes work on a GPU, and how fast is it? Each part takes at most nine minutes on one.

    python benchmarks/gpu.py --part tests
    python benchmarks/gpu.py --part train [--write]
    python benchmarks/gpu.py --part generate [--write]

`tests` runs the tests that find the GPU by themselves, then commands of zoo on the GPU and on the CPU, which must agree
(benchmarks/rows/agreeing.py). `train` and `generate` measure the rows `gpu-…` of docs/benchmarks.md as
benchmarks/bench.py measures the others. A row that time does not suffice for is named and left out.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from bench import DOCS, measure, show, write
from rows.agreeing import CHECKS, agree
from rows.gpu_table import GENERATION, TRAINING
from rows.machine import cores

TESTS = ("tests/contracts/test_every_backend.py", "tests/devices", "tests/cli/test_cli_devices.py")
PARTS = {"train": TRAINING, "generate": GENERATION}
ROW = 100  # seconds that a row may take


def run_tests(options: argparse.Namespace, began: float) -> bool:
    """Whether the tests pass and every command agrees; prints a line for each."""
    tests = subprocess.run([sys.executable, "-m", "pytest", "-q", *TESTS], cwd=DOCS.parent)
    passed = tests.returncode == 0
    print(f"{'passed' if passed else 'FAILED'}: {' '.join(TESTS)}", flush=True)
    for name in CHECKS:
        if time.monotonic() - began > options.seconds:
            print(f"left out, for want of time: {name}")
            passed = False
            continue
        fault = agree(name, options.made.absolute())
        passed &= fault is None
        print(f"passed: {name}" if fault is None else f"FAILED: {name}: {fault}", flush=True)
    return passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["tests", *PARTS], required=True)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ZOO_DATA", "../shared/data")))
    parser.add_argument("--made", type=Path, default=Path("build/bench"))
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--seconds", type=float, default=9 * 60, help="after which nothing more is begun")
    parser.add_argument("--write", action="store_true", help="put the figures into docs/benchmarks.json and its table")
    parser.set_defaults(device="cuda", small=False, plain=True)
    options, began = parser.parse_args(), time.monotonic()
    if not torch.cuda.is_available():
        parser.error("there is no GPU here; benchmarks/bench.py measures on a CPU")
    if options.part == "tests":
        sys.exit(0 if run_tests(options, began) else 1)
    for name, row in PARTS[options.part].items():
        if time.monotonic() - began > options.seconds - ROW:
            print(f"left out, for want of time: {name}")
            continue
        result = measure(name, row, options)
        show(result)
        if options.write:
            write([result], DOCS)


if __name__ == "__main__":
    main()
