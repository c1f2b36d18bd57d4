"""Is zoo faster than the alternatives? Each row compares zoo with its peers, alternating in one run.

    python benchmarks/bench.py [ROW…] [--repeats N] [--data DIR] [--plain] [--size NAME=VALUE] [--small] [--write]

Every side (zoo or a peer) is a process with the same model, data, precision and number of threads. The sides take
turns: one does a unit of work while the others are stopped; the first unit of each is a warm-up. Printed: rates as
median, minimum and maximum, the median ratio of consecutive turns, the share of the peak rate that the machine reached
in the same run, and memory. Each row is measured with the C library's default allocator, and again with zoo's
allocator settings on every side. --small uses tiny models: it shows that a row works, not how fast it is. --write
updates docs/benchmarks.json and the tables of docs/benchmarks.md, which also says how long each row takes.
"""

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from rows.crossing import tables
from rows.figures import MACHINE, OURS, Figures, alternate, cells, judge
from rows.given import Given
from rows.gpu_table import GPU_ROWS
from rows.machine import cores, describe, load, today
from rows.overview import overviews
from rows.table import ROWS, Row
from rows.turns import LATE, PROFILE, PROGRAM, Worker
from zoo.config import parse_set
from zoo.devices.precision import has_amx
from zoo.wording import refuse_unknown

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, FINISH = "<!-- begin: python benchmarks/bench.py --write -->", "<!-- end -->"
OVERVIEW = "<!-- begin: overview, by python benchmarks/bench.py --write -->"
COLUMNS = {"as it comes": [], "zoo's": ["--keep"]}  # allocator settings -> options of bench_side.py


def measure(name: str, row: Row, options: argparse.Namespace) -> Figures:
    """Measure one row; returns all of its figures."""
    # let sides write and reuse .pyc files, as an installed package has: compiling all at each start takes 0.3 s, 110 MB
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    machine = describe(options.device, options.threads)
    sizes = row.small if options.small else row.sizes
    made = options.made.absolute() / ("small" if options.small else "full")
    made.mkdir(parents=True, exist_ok=True)
    columns, before, told = {}, load(), Figures()
    for column, words in COLUMNS.items():
        if not words or (row.kept and not options.plain):
            with tempfile.TemporaryDirectory(dir=made) as folder:
                given = Given(
                    sizes, made, options.data.absolute(), Path(folder), options.device, row.each, row.compiled
                )
                columns[column] = compare(row, given, words, options)
                told = told or tell(row, given, options, columns[column]["profiles"])
                told |= uncompiled(columns[column]["facts"])
    goals = {peer: with_amx if has_amx() else plain for peer, (plain, with_amx) in row.goals.items()}
    about = {"row": name, "title": row.title, "unit": row.unit, "goals": goals, "sizes": sizes}
    return {**about, "machine": machine, "date": today(), "load before": before, "columns": columns, "told": told}


def failed(name: str, row: Row, options: argparse.Namespace, error: Exception) -> Figures:
    """The entry of a row that failed, in place of its figures."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    told = {"failed": " … ".join(dict.fromkeys([lines[0], lines[-1].strip()]))}
    about = {"row": name, "title": row.title, "unit": row.unit, "goals": {}, "error": str(error)}
    machine = describe(options.device, options.threads)
    return {**about, "machine": machine, "date": today(), "load before": load(), "columns": {}, "told": told}


def tell(row: Row, given: Given, options: argparse.Namespace, profiles: Figures) -> Figures:
    """Further facts on a row: where zoo's time goes, and what the row's `told` function returns."""
    told = {"our time": profiles[OURS]["kinds"]} if profiles.get(OURS, {}).get("kinds") else {}
    if row.profiled and given.device == "cpu":
        apart = replace(given, folder=Path(tempfile.mkdtemp(dir=given.folder)))  # an empty folder, without a run
        told = {"our time": ask(apart, options, row.sides[OURS], "--profile")}
    return told if row.told is None else {**told, **ask(given, options, row.told)}


def uncompiled(facts: Figures) -> Figures:
    """The sides whose compilation failed, with the reason: they ran uncompiled, so their figures do not count."""
    return {f"compiling failed in {side}": noted["failures"][0] for side, noted in facts.items() if noted["failures"]}


def ask(given: Given, options: argparse.Namespace, work: str, *words: str) -> Figures:
    """Run a function of rows/ and parse the last line it prints as JSON."""
    found: Figures = json.loads(run(given, options, work, *words).splitlines()[-1])
    return found


def run(given: Given, options: argparse.Namespace, work: str, *words: str) -> str:
    """Run a function of rows/ in a process; returns what it prints.

    Raises:
        RuntimeError: it failed or timed out.
    """
    command, left = [sys.executable, PROGRAM, work, given.text(), *words], options.until - time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=None if left == math.inf else left)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{work} {LATE}") from None
    if done.returncode:
        raise RuntimeError(f"{work} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def compare(row: Row, given: Given, words: list[str], options: argparse.Namespace) -> Figures:
    """Start all sides, alternate their turns, and end them."""
    works = {**row.sides, **({} if row.rate is None else {MACHINE: f"rates.{row.rate}"})}
    if row.prepare is not None:
        run(given, options, row.prepare)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # run the cleanup, so that no stopped side is left behind
    with contextlib.ExitStack() as left:
        sides: dict[str, Worker] = {}
        for name, work in works.items():
            told = [work, given_to(name, row, given).text(), *(words if name != OURS else [])]
            processes = row.processes.get(name, 1)
            sides[name] = Worker(name, told, given.folder, options.threads, processes, options.until)
            left.callback(sides[name].kill)
            if not options.together:
                sides[name].warm_up()
        for side in sides.values() if options.together else ():
            side.warm_up()
        turns = alternate(sides, options.repeats or row.repeats)
        profiles = {name: sides[name].turn(PROFILE) for name in row.profiles_of(options.device)}
        return judge(turns, {name: side.end() for name, side in sides.items()}) | {"profiles": profiles}


def given_to(name: str, row: Row, given: Given) -> Given:
    """The arguments of one side."""
    # a turn that measures the machine's peak takes a second, however many steps the other sides take per turn
    each = 1 if name == MACHINE else given.each
    return replace(given, each=each, compiled=given.compiled and name not in row.uncompiled)


def show(result: Figures) -> None:
    """Print a row."""
    print(f"\n{result['row']}: {result['title']}\n{result['machine']}, load before: {result['load before']:.1f}")
    for column in result["columns"]:
        for peer, _, ours, theirs, ratio, goal, share, memory in cells(result, column):
            said = {result["unit"]: ours, "peer's": theirs, "ratio": ratio, "goal": goal}
            said |= {"share of the machine": share, "memory": memory}
            print(f"  {peer} ({column}): " + ", ".join(f"{key} {value}" for key, value in said.items() if value))
        print(f"  units of a turn ({column}): {result['columns'][column]['units']}")
    for key, value in result["told"].items():
        print(f"  {key}: {value}", flush=True)


def write(results: list[Figures], docs: Path) -> None:
    """Write rows to docs/benchmarks.json, in the order of the table, and the tables to docs/benchmarks.md.

    A row replaces an earlier one of the same machine and versions, unless it failed.
    """
    file, page = docs / "benchmarks.json", docs / "benchmarks.md"
    there = json.loads(file.read_text("utf-8")) if file.exists() else []
    known = {(result["row"], result["machine"]): result for result in there}
    for result in map(without_profiles, results):
        key = result["row"], result["machine"]
        if result["columns"] or not known.get(key, result)["columns"]:
            known[key] = result
    ordered = [result for name in [*ROWS, *GPU_ROWS] for (row, _), result in known.items() if row == name]
    file.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
    put(overviews(ordered), page, OVERVIEW)
    put(tables(ordered), page, BEGIN)


def without_profiles(result: Figures) -> Figures:
    """A row without its hundreds of kernel names; their times by kind stay."""
    columns = {name: {k: v for k, v in one.items() if k != "profiles"} for name, one in result["columns"].items()}
    return {**result, "columns": columns}


def put(text: str, page: Path, begin: str) -> None:
    """Replace the text between two marks in a page."""
    before, rest = page.read_text("utf-8").split(begin)
    after = rest.split(FINISH, 1)[1]
    page.write_text(f"{before}{begin}\n\n{text}\n\n{FINISH}{after}", "utf-8")


def turns(text: str) -> int:
    """Parse the number of turns of each side.

    Raises:
        ArgumentTypeError: less than one.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all programs that measure rows; gpu.py sets `until` and `together` itself."""
    repeats = "turns of each side, beside the one that warms up; default: as many as the row says, 3 or 5"
    parser.add_argument("--repeats", type=turns, help=repeats)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ZOO_DATA", "../shared/data")))
    parser.add_argument("--made", type=Path, default=Path("build/bench"), help="what is made once and kept")
    parser.add_argument("--threads", type=int, default=cores())
    either = parser.add_mutually_exclusive_group()  # figures of tiny models must not enter the tables
    either.add_argument("--small", action="store_true", help="tiny models: it works, and says nothing about speed")
    either.add_argument("--write", action="store_true", help="put the figures into the guide")
    parser.set_defaults(until=math.inf, together=False)


def resized(name: str, row: Row, sizes: Sequence[str]) -> Row:
    """Return a row with other sizes, which its title names.

    Args:
        sizes: as NAME=VALUE.

    Raises:
        ValueError: the row has no such size, or it is of another type.
    """
    changed = {}
    for text in sizes:
        if "=" not in text:
            raise ValueError(f"--size {text}: expected NAME=VALUE, such as length=512")
        (key, *deeper), value = parse_set(text)
        refuse_unknown(".".join([key, *deeper]), row.sizes, "size", f"--size: row '{name}'")
        if type(value) is not type(row.sizes[key]):
            raise ValueError(f"--size {text}: expected a value such as {row.sizes[key]!r}")
        changed[key] = value
    said = f" ({', '.join(sizes)})" if sizes else ""
    return replace(row, title=row.title + said, sizes=row.sizes | changed, small=row.small | changed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; default: all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plain", action="store_true", help="only with the allocator as it comes")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=VALUE", help="another size of the rows")
    options = parser.parse_args()
    if options.size and options.write:
        parser.error("--size: figures of other sizes do not belong into the guide; leave out --write")
    if options.device != "cpu" and not torch.cuda.is_available():
        parser.error("there is no GPU here")
    for name in options.rows:
        if name not in ROWS:
            parser.error(f"unknown row '{name}'; allowed: {', '.join(ROWS)}")
    try:
        rows = {name: resized(name, ROWS[name], options.size) for name in options.rows or ROWS}
    except ValueError as error:
        parser.error(str(error))
    results = []
    for name, row in rows.items():
        try:
            results.append(measure(name, row, options))
        except RuntimeError as error:  # go on: the next rows may work
            results.append(failed(name, row, options, error))
        show(results[-1])
        if options.write:
            write(results, DOCS)
    sys.exit(0 if all(result["columns"] for result in results) else 1)


if __name__ == "__main__":
    main()
