"""Make one small wrong change after another, and see whether the tests notice.

    python benchmarks/mutants.py [ROOM…] [--sample 60] [--seed 0] [--workers 2] [--folder build/mutants]

A room is a folder of `src/zoo`. A wrong change (`code_changes.py`) is made in a copy of the repository, never in yours;
the tests that see the room run until the first of them fails. `killed`: a test failed. `survived`: none did. `timeout`:
the tests took more than three times as long as without the change, which is noticed too. With `--sample` each room gets
so many changes, drawn by the seed. Results are kept in the folder: called again, it goes on where it stopped; a file
that changed since is tried anew. `survivors.txt` shows what was not noticed.
"""

import argparse
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from code_changes import Change, apply, wrong_changes

ROOT = Path(__file__).parents[1]
LEFT = (".*", "build", "dist", "runs", "exports", "quickstart-runs", "__pycache__")  # what a copy does without
SEEN_BY = {  # a room -> the tests that see it, the nearest first
    "blocks": ["tests/blocks", "tests/contracts", "tests/models"],
    "models": ["tests/models", "tests/contracts", "tests/inference"],
    "objectives": ["tests/objectives", "tests/contracts", "tests/training"],
    "batches": ["tests/batches", "tests/data", "tests/training"],
    "training": ["tests/training", "tests/cli"],
    "inference": ["tests/inference", "tests/cli"],
    "hub/targets": ["tests/hub"],
}
OUTCOMES = ("killed", "timeout", "survived")
FOREIGN = ("torch", "numpy", "pytest", "hypothesis", "jaxtyping", "beartype", "datasets", "accelerate", "transformers")
SLACK, FIRST = (
    60.0,
    7200.0,
)  # seconds: what a busy machine may add to a run of the tests; the most for a run without a change


@dataclass
class Bench:
    """A copy of the repository, in which one change at a time is made."""

    root: Path
    stamp: int

    @classmethod
    def copied(cls, root: Path, place: Path) -> "Bench":
        shutil.copytree(root, place, ignore=shutil.ignore_patterns(*LEFT), symlinks=True)
        return cls(place, int(time.time()))

    def write(self, path: str, text: str) -> None:
        """Write a file with a time of its own, so that Python compiles it anew however quickly it changes."""
        self.stamp += 1
        (self.root / path).write_text(text)
        os.utime(self.root / path, (self.stamp, self.stamp))

    def run(self, tests: list[str], limit: float) -> str:
        """How the tests end: `passed`, `killed`, or `timeout`. They run in a fork, which has all foreign modules."""
        child = os.fork()
        if child == 0:
            os.setsid()  # processes that the tests start end with them
            run_tests(self.root, tests)
        end = time.monotonic() + limit
        while time.monotonic() < end:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                stop_group(child)
                return "passed" if status == 0 else "killed"
            time.sleep(0.05)
        stop_group(child)
        os.waitpid(child, 0)
        return "timeout"


def stop_group(leader: int) -> None:
    """End a process and what it started."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def run_tests(root: Path, tests: list[str]) -> None:
    """Run tests in this process, silently, and leave it with their status."""
    status = 1
    try:
        os.chdir(root)
        silent = os.open(root / "tests.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.environ["PYTHONPATH"] = str(root / "src")
        sys.path.insert(0, str(root / "src"))
        status = int(sys.modules["pytest"].main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    finally:
        os._exit(status)


def tests_of(room: str, path: str, root: Path = ROOT) -> list[str]:
    """The tests that see a module: files named like it first, since they notice soonest, then all of its room."""
    folders = [folder for folder in SEEN_BY[room] if (root / folder).exists()]
    files = [str(file.relative_to(root)) for folder in folders for file in sorted((root / folder).rglob("test_*.py"))]
    word = Path(path).stem.split("_")[0]
    return sorted(files, key=lambda file: word not in Path(file).stem)


def changes_of(room: str, sample: int | None, seed: int, root: Path = ROOT) -> list[tuple[str, Change]]:
    """The wrong changes of a room's files, all of them or a drawn share."""
    paths = sorted((root / "src" / "zoo" / room).rglob("*.py"))
    found = [(str(path.relative_to(root)), change) for path in paths for change in wrong_changes(path.read_text())]
    if sample is None or sample >= len(found):
        return found
    return random.Random(f"{seed} {room}").sample(found, sample)


def known(folder: Path) -> dict[str, dict[str, str]]:
    """The outcomes so far, by the name of their change."""
    file = folder / "results.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return {line["key"]: line for line in map(json.loads, lines)}


def try_changes(bench: Bench, folder: Path, room: str, changes: Sequence[tuple[str, Change]], limit: float) -> None:
    """Make each change, run the tests, take it back, and write down what came of it."""
    for path, change in changes:
        text = (bench.root / path).read_text()
        bench.write(path, apply(text, change))
        outcome = bench.run(tests_of(room, path, bench.root), limit)
        bench.write(path, text)
        outcome = "survived" if outcome == "passed" else outcome
        line = {"key": change.key(path, text), "room": room, "path": path, "outcome": outcome, **asdict(change)}
        with (folder / "results.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def try_room(room: str, benches: Sequence[Bench], changes: Sequence[tuple[str, Change]], folder: Path) -> None:
    """Try changes of one room, shared out to one process a copy of the repository.

    Raises:
        ValueError: the tests fail without any change.
    """
    start = time.monotonic()
    if benches[0].run(tests_of(room, "", benches[0].root), FIRST) != "passed":
        end = (benches[0].root / "tests.log").read_text()[-2000:]
        raise ValueError(f"{room}: its tests fail, or take over {FIRST:g} s, without any change:\n{end}")
    limit = 3 * (time.monotonic() - start) + SLACK
    workers = []
    for i, bench in enumerate(benches):
        if (worker := os.fork()) == 0:
            try_changes(bench, folder, room, changes[i :: len(benches)], limit)
            os._exit(0)
        workers.append(worker)
    for worker in workers:
        os.waitpid(worker, 0)


def summary(lines: Sequence[dict[str, str]]) -> list[str]:
    """One line a room: how many changes had which outcome, and the share that was noticed."""
    said = []
    for room in dict.fromkeys(line["room"] for line in lines):
        counts = Counter(line["outcome"] for line in lines if line["room"] == room)
        noticed = 1 - counts["survived"] / counts.total()
        said.append(f"{room}: {', '.join(f'{counts[o]} {o}' for o in OUTCOMES)}; {noticed:.0%} noticed")
    return said


def survivors(lines: Sequence[dict[str, str]]) -> str:
    """What no test noticed, in the order of the files."""
    left = sorted((x for x in lines if x["outcome"] == "survived"), key=lambda x: (x["path"], x["start"]))
    return "\n".join(f"{x['path']}:{x['line']} {x['kind']}\n  - {x['before']}\n  + {x['after']}\n" for x in left)


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make small wrong changes; see whether the tests notice.")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(SEEN_BY)}; default: all")
    parser.add_argument("--sample", type=int, help="so many changes of each room; default: all")
    parser.add_argument("--seed", type=int, default=0, help="draws the sample")
    parser.add_argument("--workers", type=int, default=2, help="changes tried at the same time")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="where results are kept")
    given = parser.parse_args(words)
    if wrong := [room for room in given.rooms if room not in SEEN_BY]:
        parser.error(f"unknown room '{wrong[0]}'; allowed: {', '.join(SEEN_BY)}")
    return given


def main(words: Sequence[str], root: Path = ROOT) -> None:
    given = parse(words)
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in FOREIGN:  # once, before the forks
        importlib.import_module(name)
    wanted: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="zoo-mutants-") as place:
        benches = [Bench.copied(root, Path(place) / str(i)) for i in range(given.workers)]
        for room in given.rooms or SEEN_BY:
            done = known(given.folder)
            changes = changes_of(room, given.sample, given.seed, root)
            keys = [change.key(path, (root / path).read_text()) for path, change in changes]
            wanted |= set(keys)
            left = [change for key, change in zip(keys, changes, strict=True) if key not in done]
            if left:
                try_room(room, benches, left, given.folder)
    lines = [line for key, line in known(given.folder).items() if key in wanted]
    (given.folder / "survivors.txt").write_text(survivors(lines))
    print("\n".join([*summary(lines), f"what was not noticed: {given.folder / 'survivors.txt'}"]))


if __name__ == "__main__":
    main(sys.argv[1:])
