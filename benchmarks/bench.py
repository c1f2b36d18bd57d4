"""Is zoo faster than the alternatives? Each row compares zoo with its peers, alternating in one run.

    python benchmarks/bench.py [ROW…] [--repeats N] [--data DIR] [--plain] [--size NAME=VALUE] [--small] [--write]

Every side (zoo or a peer) is a process with the same model, data, precision and number of threads. The sides take
turns: one does a unit of work while the others are stopped; the first unit of each is a warm-up. Printed: rates as
median, minimum and maximum, the median ratio of consecutive turns, the share of the peak rate that the machine reached
in the same run, and memory. Each row is measured with the C library's default allocator, and most rows again with zoo's
allocator settings on every side. --small uses tiny models: it shows that a row works, not how fast it is. --write
updates docs/benchmarks.json and the tables of docs/benchmarks.md, which also says what each row measures.
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

from rows.figures import MACHINE, OURS, Figures, alternate_turns, row_cells, summarize_comparison
from rows.gpu_table import GPU_ROWS
from rows.machine import describe_machine, load_average, today, usable_cores
from rows.overview import overview_tables
from rows.side_args import SideArgs
from rows.side_process import PROFILE, PROGRAM, TIMED_OUT, SideProcess
from rows.table import ROWS, Row
from rows.time_to_loss import all_tables
from zoo.config import parse_set
from zoo.devices.precision import has_amx
from zoo.wording import refuse_unknown

DOCS_FOLDER = Path(__file__).parents[1] / "docs"
TABLES_MARK, END_MARK = "<!-- begin: python benchmarks/bench.py --write -->", "<!-- end -->"
OVERVIEW_MARK = "<!-- begin: overview, by python benchmarks/bench.py --write -->"
ALLOCATORS = {"as it comes": [], "zoo's": ["--keep"]}  # allocator settings -> options of bench_side.py


def measure(name: str, row: Row, options: argparse.Namespace) -> Figures:
    """Measure one row; returns all of its figures."""
    # let sides write and reuse .pyc files, as an installed package has: compiling all at each start takes 0.3 s, 110 MB
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    machine = describe_machine(options.device, options.threads)
    sizes = row.small_sizes if options.small else row.sizes
    cache = options.made.absolute() / ("small" if options.small else "full")
    cache.mkdir(parents=True, exist_ok=True)
    by_allocator, load_before, facts = {}, load_average(), Figures()
    for allocator, flags in ALLOCATORS.items():
        if not flags or (row.compare_allocators and not options.plain):
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                shared = sizes, cache, options.data.absolute(), Path(folder), options.device
                args = SideArgs(*shared, row.steps_per_turn, row.compiled)
                by_allocator[allocator] = compare_sides(row, args, flags, options)
                facts = facts or extra_facts(row, args, options, by_allocator[allocator]["profiles"])
                facts |= compile_failures(by_allocator[allocator]["facts"])
    goals = {peer: with_amx if has_amx() else plain for peer, (plain, with_amx) in row.goals.items()}
    about = {"row": name, "title": row.title, "unit": row.unit, "goals": goals, "sizes": sizes}
    measured = {"load before": load_before, "columns": by_allocator, "told": facts}
    return {**about, "machine": machine, "date": today(), **measured}


def failed_row(name: str, row: Row, options: argparse.Namespace, error: Exception) -> Figures:
    """The entry of a row that failed, in place of its figures."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    facts = {"failed": " … ".join(dict.fromkeys([lines[0], lines[-1].strip()]))}
    about = {"row": name, "title": row.title, "unit": row.unit, "goals": {}, "error": str(error)}
    machine = describe_machine(options.device, options.threads)
    return {**about, "machine": machine, "date": today(), "load before": load_average(), "columns": {}, "told": facts}


def extra_facts(row: Row, args: SideArgs, options: argparse.Namespace, profiles: Figures) -> Figures:
    """Further facts on a row: where zoo's time goes, and what the row's `extra_facts` function prints."""
    facts = {"our time": profiles[OURS]["kinds"]} if profiles.get(OURS, {}).get("kinds") else {}
    if row.can_profile and args.device == "cpu":
        profile_args = replace(args, scratch=Path(tempfile.mkdtemp(dir=args.scratch)))  # an empty folder, without a run
        facts = {"our time": run_for_json(profile_args, options, row.sides[OURS], "--profile")}
    return facts if row.extra_facts is None else {**facts, **run_for_json(args, options, row.extra_facts)}


def compile_failures(side_facts: Figures) -> Figures:
    """The sides whose compilation failed, with the reason: they ran uncompiled, so their figures do not count."""
    failures = {side: facts["failures"] for side, facts in side_facts.items() if facts["failures"]}
    return {f"compiling failed in {side}": reasons[0] for side, reasons in failures.items()}


def run_for_json(args: SideArgs, options: argparse.Namespace, function: str, *flags: str) -> Figures:
    """Run a function of rows/ and parse the last line it prints as JSON."""
    figures: Figures = json.loads(run_function(args, options, function, *flags).splitlines()[-1])
    return figures


def run_function(args: SideArgs, options: argparse.Namespace, function: str, *flags: str) -> str:
    """Run a function of rows/ in a process; returns what it prints.

    Raises:
        RuntimeError: it failed or timed out.
    """
    command = [sys.executable, PROGRAM, function, args.to_json(), *flags]
    timeout = None if options.deadline == math.inf else options.deadline - time.monotonic()
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{function} {TIMED_OUT}") from None
    if finished.returncode:
        raise RuntimeError(f"{function} ended with status {finished.returncode}:\n{finished.stderr[-2000:]}")
    return finished.stdout


def compare_sides(row: Row, args: SideArgs, flags: list[str], options: argparse.Namespace) -> Figures:
    """Start all sides, give them turns in rotation, and end them."""
    functions = {**row.sides, **({} if row.peak_rate is None else {MACHINE: f"peak_rates.{row.peak_rate}"})}
    if row.prepare is not None:
        run_function(args, options, row.prepare)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # run the cleanup, so that no stopped side is left behind
    with contextlib.ExitStack() as cleanup:
        sides: dict[str, SideProcess] = {}
        for name, function in functions.items():
            words = [function, args_of_side(name, row, args).to_json(), *(flags if name != OURS else [])]
            processes = row.processes.get(name, 1)
            sides[name] = SideProcess(name, words, args.scratch, options.threads, processes, options.deadline)
            cleanup.callback(sides[name].kill)
            if not options.start_together:
                sides[name].warm_up()
        for side in sides.values() if options.start_together else ():
            side.warm_up()
        turns = alternate_turns(sides, options.repeats or row.repeats)
        profiles = {name: sides[name].run_turn(PROFILE) for name in row.sides_to_profile(options.device)}
        return summarize_comparison(turns, {name: side.end() for name, side in sides.items()}) | {"profiles": profiles}


def args_of_side(name: str, row: Row, args: SideArgs) -> SideArgs:
    """The arguments of one side."""
    # a turn that measures the machine's peak takes a second, however many steps the other sides take per turn
    steps_per_turn = 1 if name == MACHINE else args.steps_per_turn
    return replace(args, steps_per_turn=steps_per_turn, compiled=args.compiled and name not in row.uncompiled)


def print_row(result: Figures) -> None:
    """Print the figures of a row."""
    print(f"\n{result['row']}: {result['title']}\n{result['machine']}, load before: {result['load before']:.1f}")
    for allocator in result["columns"]:
        for peer, _, ours, theirs, ratio, goal, share, memory in row_cells(result, allocator):
            parts = {result["unit"]: ours, "peer's": theirs, "ratio": ratio, "goal": goal}
            parts |= {"share of the machine": share, "memory": memory}
            print(f"  {peer} ({allocator}): " + ", ".join(f"{key} {value}" for key, value in parts.items() if value))
        print(f"  units of a turn ({allocator}): {result['columns'][allocator]['units']}")
    for key, value in result["told"].items():
        print(f"  {key}: {value}", flush=True)


def write_docs(results: list[Figures], docs: Path) -> None:
    """Write rows to docs/benchmarks.json, in the order of the table, and the tables to docs/benchmarks.md.

    A row replaces an earlier one of the same machine and versions, unless it failed.
    """
    json_path, page = docs / "benchmarks.json", docs / "benchmarks.md"
    existing = json.loads(json_path.read_text("utf-8")) if json_path.exists() else []
    known = {(result["row"], result["machine"]): result for result in existing}
    for result in map(without_profiles, results):
        key = result["row"], result["machine"]
        if result["columns"] or not known.get(key, result)["columns"]:
            known[key] = result
    ordered = [result for name in [*ROWS, *GPU_ROWS] for (row, _), result in known.items() if row == name]
    json_path.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
    replace_section(overview_tables(ordered), page, OVERVIEW_MARK)
    replace_section(all_tables(ordered), page, TABLES_MARK)


def without_profiles(result: Figures) -> Figures:
    """A row without its hundreds of kernel names; their times by kind stay."""
    columns = {name: {k: v for k, v in one.items() if k != "profiles"} for name, one in result["columns"].items()}
    return {**result, "columns": columns}


def replace_section(text: str, page: Path, mark: str) -> None:
    """Replace the text between two marks in a page."""
    before, rest = page.read_text("utf-8").split(mark)
    after = rest.split(END_MARK, 1)[1]
    page.write_text(f"{before}{mark}\n\n{text}\n\n{END_MARK}{after}", "utf-8")


def parse_repeats(text: str) -> int:
    """Parse the number of turns per side.

    Raises:
        ArgumentTypeError: less than one.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all programs that measure rows; gpu.py sets `deadline` and `start_together` itself."""
    repeats = "turns of each side, beside the one that warms up; default: as many as the row says, 3 or 5"
    parser.add_argument("--repeats", type=parse_repeats, help=repeats)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ZOO_DATA", "../shared/data")))
    parser.add_argument("--made", type=Path, default=Path("build/bench"), help="what is made once and kept")
    parser.add_argument("--threads", type=int, default=usable_cores())
    exclusive = parser.add_mutually_exclusive_group()  # figures of tiny models must not enter the tables
    exclusive.add_argument("--small", action="store_true", help="tiny models: it works, and says nothing about speed")
    exclusive.add_argument("--write", action="store_true", help="put the figures into the guide")
    parser.set_defaults(deadline=math.inf, start_together=False)


def with_sizes(name: str, row: Row, sizes: Sequence[str]) -> Row:
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
        (key, *rest), value = parse_set(text)
        refuse_unknown(".".join([key, *rest]), row.sizes, "size", f"--size: row '{name}'")
        if isinstance(row.sizes[key], float) and type(value) is int:
            value = float(value)
        if type(value) is not type(row.sizes[key]):
            raise ValueError(f"--size {text}: expected a value such as {row.sizes[key]!r}")
        changed[key] = value
    suffix = f" ({', '.join(sizes)})" if sizes else ""
    return replace(row, title=row.title + suffix, sizes=row.sizes | changed, small_sizes=row.small_sizes | changed)


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
        rows = {name: with_sizes(name, ROWS[name], options.size) for name in options.rows or ROWS}
    except ValueError as error:
        parser.error(str(error))
    results = []
    for name, row in rows.items():
        try:
            results.append(measure(name, row, options))
        except RuntimeError as error:  # go on: the next rows may work
            results.append(failed_row(name, row, options, error))
        print_row(results[-1])
        if options.write:
            write_docs(results, DOCS_FOLDER)
    sys.exit(0 if all(result["columns"] for result in results) else 1)


if __name__ == "__main__":
    main()
