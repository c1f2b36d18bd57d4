"""Mutation testing with cosmic-ray: make small changes to the code, one at a time, and see whether the tests fail.

    python benchmarks/mutants.py [ROOM…] [--sample 30] [--seed 0] [--seconds 30]

A room is a folder of `src/zoo`. Each change is made in a copy of the last commit; the tests for the room run until one
fails: first the fastest tests in files named like the changed module, for up to half of `--seconds` (by their duration
without a change), then the fastest of all. build/mutants/COMMIT keeps a cosmic-ray session per room: a second call
continues it, a larger sample contains the smaller one, and a larger `--seconds` tries the survivors again.
survivors.txt lists the changes that no test noticed.

Why not mutmut 3, which is faster: it changes nothing outside functions, and most of hub/targets is declarations.
"""

import argparse
import ast
import difflib
import importlib
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code, use_mutation
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import OPERATOR_PROVIDERS, get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkResult

ROOT = Path(__file__).parents[1]
PYTEST = ["-x", "-q", "-p", "no:cacheprovider", "-W", "default"]  # warnings do not fail a test here
THIRD_PARTY = "torch numpy pytest hypothesis jaxtyping beartype datasets accelerate transformers".split()
TEST_FOLDERS = {  # room -> folders of the tests that cover it
    "blocks": ["blocks", "contracts", "models"],
    "models": ["models", "contracts", "inference"],
    "objectives": ["objectives", "batches", "contracts", "inference", "training"],
    "batches": ["batches", "training"],
    "training": ["training"],
    "inference": ["inference", "metrics"],
    "hub/targets": ["hub/targets", "hub/importing"],
    "data/columns": ["data/columns", "data/sources"],
    "data/store": ["data/store", "data/columns"],
    "examples": ["examples", "objectives", "batches"],
    "metrics": ["metrics"],
    "runs": ["runs", "training"],
    "hub/importing": ["hub/importing", "hub/targets"],
    "hub/exporting": ["hub/exporting", "hub/targets"],
    "experiments": ["experiments", "cli"],
    "data/tokenizers": ["data/tokenizers"],
    "data/formats": ["data/formats", "data/sources"],
    "devices": ["devices"],
    "report": ["report"],
}
Case = tuple[str, str]  # file, name
TIMEOUT_FACTOR = 5  # of a run's expected duration, since other programs share the machine
# One replacement per operator: cosmic-ray has ten, most of which cause a TypeError that any test notices. `|` is left
# out, since nearly all of ours are in annotations.
OPERATORS = (
    "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_FloorDiv Pow_Mul BitAnd_BitOr Eq_NotEq NotEq_Eq Lt_LtE LtE_Lt "
    "Gt_GtE GtE_Gt Is_IsNot IsNot_Is Delete_USub Delete_Not Delete_Invert AddNot TrueWithFalse FalseWithTrue "
    "AndWithOr OrWithAnd BreakWithContinue ContinueWithBreak ExceptionReplacer NumberReplacer ForLoop KeywordLeftOut"
)


class KeywordLeftOut(Operator):
    """A cosmic-ray operator: `f(a, b=c)` becomes `f(a)`, an error of the caller that no built-in operator makes."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        if node.type == "argument" and node.children[1] == "=":
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        comma = node.get_next_sibling()
        if comma == ",":
            comma.value = ""
        return None

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


OPERATOR_PROVIDERS["zoo"] = {"KeywordLeftOut": KeywordLeftOut}


class CaseSelection(NamedTuple):
    """A pytest plugin that runs only the given test cases, (file, name), in their order."""

    cases: dict[Case, float]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        by_case = {(str(item.path.relative_to(Path.cwd())), item.name): item for item in items}
        items[:] = [by_case[case] for case in self.cases if case in by_case]


def run_tests(arguments: list[str], plugins: list[CaseSelection], log: Path) -> None:
    """Run tests in this process, and exit with pytest's status."""
    os.setsid()  # a process group, so that processes started by tests are killed, too
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os._exit(int(pytest.main([*PYTEST, *arguments], plugins)))


def tests_pass(arguments: list[str], plugins: list[CaseSelection], log: Path, timeout: float) -> bool:
    """Whether tests pass, run in a fork that already has all third-party modules: importing them would take longest."""
    child = multiprocessing.get_context("fork").Process(target=run_tests, args=(arguments, plugins, log))
    child.start()
    child.join(timeout)
    try:
        os.killpg(child.pid or 0, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.join()
    return child.exitcode == 0


def case_durations(folder: str, kept: Path) -> dict[Case, float]:
    """The test cases of a folder, with the seconds that each takes without a change.

    Args:
        kept: where the report of the tests is kept for the next call.
    """
    report, log = kept / f"{folder.replace('/', '_')}.xml", kept / "tests.log"
    if not report.exists():
        if not tests_pass([f"--junitxml={report}.new", f"tests/{folder}"], [], log, 7200):
            raise SystemExit(f"tests/{folder}: its tests fail without any change, see {log}")
        Path(f"{report}.new").rename(report)
    cases = [case.attrib for case in xml.parse(report).iter("testcase") if not len(case)]  # a child: failure or skip
    return {(case["classname"].replace(".", "/") + ".py", case["name"]): float(case["time"]) for case in cases}


def select_tests(module: Path, durations: dict[Case, float], limit: float) -> dict[Case, float]:
    """The test cases to run for a change of a module, grouped by file; those named like the module come first."""
    stem = module.stem.split("_")[0]
    near = {case for case in durations if stem in Path(case[0]).stem}
    selected: dict[Case, float] = {}
    for case in sorted(durations, key=lambda case: (case not in near, durations[case])):
        if sum(selected.values()) + durations[case] <= (limit / 2 if case in near else limit):
            selected[case] = durations[case]
    return dict(sorted(selected.items(), key=lambda item: (item[0] not in near, item[0][0])))


def is_testable(change: MutationSpec) -> bool:
    """Whether a change is valid Python, and outside annotations, decorators, raise and assert statements."""
    text = change.module_path.read_text()
    changed = mutate_code(text, get_operator(change.operator_name)(), change.occurrence)
    try:
        ast.parse(changed)  # cosmic-ray puts `not` before `x := y`, for example
    except SyntaxError:
        return False
    for node in ast.walk(ast.parse(text)):
        parts = [node] if isinstance(node, ast.Raise | ast.Assert) else getattr(node, "decorator_list", [])
        parts = [*parts, getattr(node, "annotation", None), getattr(node, "returns", None)]
        spans = [((x.lineno, x.col_offset), (x.end_lineno, x.end_col_offset)) for x in parts if x is not None]
        if any(start <= change.start_pos < end for start, end in spans):
            return False
    line, column = text.splitlines()[change.start_pos[0] - 1], change.start_pos[1]
    is_star = line[column] == "*" and re.search(r"(^|[(,:])\s*$", line[:column])  # the * of `f(*rest)`, not a product
    return not is_star


def mutate_room(room: str, sample: int, seed: int, seconds: float, kept: Path) -> tuple[str, str]:
    """Try a room's untried changes; returns the room's summary, and diffs of the changes that survived."""
    session = kept / f"{room.replace('/', '_')}.sqlite"
    durations = {case: time for folder in TEST_FOLDERS[room] for case, time in case_durations(folder, kept).items()}
    with use_db(str(session), WorkDB.Mode.create) as database:
        if not database.num_work_items:
            init(sorted(Path("src/zoo", room).rglob("*.py")), database, {})
        changes = [(item.mutations[0], item.job_id) for item in database.work_items]
        changes = [x for x in changes if re.search(f"({OPERATORS.replace(' ', '|')})$", x[0].operator_name)]
        changes.sort(key=lambda x: (str(x[0].module_path), x[0].operator_name, x[0].occurrence))
        random.Random(f"{seed} {room}").shuffle(changes)
        sampled = [x for x in changes[: 2 * sample] if is_testable(x[0])][:sample]
        results = dict(database.results)
        for change, job in sampled:
            if job not in results or not results[job].is_killed and float(results[job].output) < seconds:
                tests = select_tests(change.module_path, durations, seconds)
                files = list(dict.fromkeys(file for file, _ in tests))
                timeout = TIMEOUT_FACTOR * sum(tests.values()) + 120
                with use_mutation(change.module_path, get_operator(change.operator_name)(), change.occurrence) as texts:
                    survives = tests_pass(files, [CaseSelection(tests)], kept / "tests.log", timeout)
                outcome = TestOutcome.SURVIVED if survives else TestOutcome.KILLED
                before, after = (text.splitlines() for text in texts)
                lines = difflib.unified_diff(before, after, str(change.module_path), n=1, lineterm="")
                results[job] = WorkResult(WorkerOutcome.NORMAL, str(seconds), outcome, "\n".join(lines))
                database.set_result(job, results[job])
    survivors = [results[job].diff for _, job in sampled if not results[job].is_killed]
    share = f", {1 - len(survivors) / len(sampled):.0%}" if sampled else ""  # none of the sample may be testable
    return f"{room}: {len(sampled) - len(survivors)} of {len(sampled)} noticed{share}", "\n\n".join(survivors)


def main() -> None:
    parser = argparse.ArgumentParser(description="Change small things of the code; see whether the tests notice.")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(TEST_FOLDERS)}; default: all")
    parser.add_argument("--sample", type=int, default=30, help="so many changes of each room")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample")
    parser.add_argument("--seconds", type=float, default=30, help="of tests for each change, as measured without one")
    options = parser.parse_args()
    if unknown := [room for room in options.rooms if room not in TEST_FOLDERS]:
        parser.error(f"unknown room '{unknown[0]}'; allowed: {', '.join(TEST_FOLDERS)}")
    commit = subprocess.check_output(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], text=True).strip()
    kept = ROOT / "build" / "mutants" / commit
    (kept / "copy").mkdir(parents=True, exist_ok=True)
    archive = subprocess.check_output(["git", "-C", ROOT, "archive", commit])
    # extract again, since a killed call may have left a change
    subprocess.run(["tar", "x", "-C", kept / "copy"], input=archive, check=True)
    os.chdir(kept / "copy")
    os.environ |= {"PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True  # a .pyc of a changed file must not outlive the change
    sys.path[:0] = ["src", ""]  # "": as `python -m pytest` has it; some tests import modules of `tests`
    for name in THIRD_PARTY:  # import once, before forking
        importlib.import_module(name)
    limits = options.sample, options.seed, options.seconds
    results = [mutate_room(room, *limits, kept) for room in options.rooms or TEST_FOLDERS]
    (kept / "survivors.txt").write_text("\n\n".join(survivors for _, survivors in results))
    print("\n".join(summary for summary, _ in results))
    print(f"The changes that no test noticed: {kept / 'survivors.txt'}")


if __name__ == "__main__":
    main()
