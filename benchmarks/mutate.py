"""Read damaged files: zoo must refuse each with a message that names it, or read what was written.

    python benchmarks/mutate.py --mutants 10000 [--only "run's config.yaml"]

For every kind of file, a seeded generator makes mutants of a valid one: bits flipped; bytes cut out, repeated,
reversed, overwritten or inserted; numbers changed; pieces of other files inserted; deep nesting, NaN, anchors, huge
headers. Each is read as zoo reads it. Outcomes: `refused` (a ValueError that names the file), `same` (the true value),
`other` (another value; allowed for a user's own file, which no manifest hashes), and failures: `silent` (another value
of a file that a manifest hashes), `unnamed`, `traceback`, `slow`, `died`, `memory`.
"""

import argparse
import logging
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from zoo.config import Layer, dump
from zoo.data.task import load_task
from zoo.experiments.fill_in import fix_training
from zoo.experiments.resolve import check_task, resolve_training
from zoo.models.settings import dump_settings, load_settings, parse_settings
from zoo.runs.checkpoint import read_manifest, verify
from zoo.runs.files import read_sealed
from zoo.runs.layout import CHECKPOINTS, CONFIG, DATA, ENVIRONMENT, MANIFEST, METRICS, STATE, TASK, TOKENIZER, TRAINING
from zoo.runs.metrics import read_metrics
from zoo.runs.run import RunFiles, create_run
from zoo.runs.saved import open_run
from zoo.runs.tensors import read_tensors
from zoo.strict_yaml import read_yaml

READ_SECONDS, MAX_MEMORY, SHOWN = 10, 1 << 30, 5  # limits of a read; failures of a kind that are printed
FAILURES = ("silent", "unnamed", "traceback", "slow", "died", "memory")
PLAIN_WORDS = [b"NaN", b"-Infinity", b"null", b"true", b"1e999", b"9" * 5000, b"-1", b"{}", b"[]", b'""', b"\x00"]
BYTES_AND_YAML = [b"\xff\xfe", b"[" * 3000, b'{"a":' * 3000, b"&a [*a, *a]", b"!!python/object/apply:os.system [id]"]
BOUNDARIES = [b"\n---\n", b"\t", b": ", b"- ", (1 << 62).to_bytes(8, "little"), (100_000_000).to_bytes(8, "little")]
WORDS = [*PLAIN_WORDS, *BYTES_AND_YAML, *BOUNDARIES, b"../../etc/passwd", b"base: x\n", b"\r", b"<<: 1\n"]


def make_run(folder: Path) -> None:
    """Write a run with one checkpoint, which has all kinds of files."""
    model = dump_settings(load_settings("bert-nano"))
    task = {"objective": {"masked_lm": {}}, "source": {"builtin": "pydocs"}, "tokenizer": {"name": "wordpiece"}}
    training = {"steps": 7, "batch": 2, "learning_rate": 0.001, "optimizer": {"name": "adamw", "betas": [0.9, 0.95]}}
    hashes = {"train": "ab" * 32}
    tokenizer = {name: b'{"a": [1, 2, 3]}' for name in TOKENIZER}
    with create_run(folder, RunFiles(model, task, training, tokenizer, {"threads": 1}, hashes)) as run:
        for step in range(1, 6):
            run.log({"step": step, "loss": 1 / step, "learning_rate": 1e-3})
        weights = {"embedding.weight": torch.arange(35.0).view(5, 7), "bias": torch.ones(3, dtype=torch.bfloat16)}
        state = {"step": 5, "best": {"step": 5, "metric": "loss", "value": 0.2}, "position": {"epoch": 1, "row": 3}}
        run.save(5, {"weights": weights, "optimizer": {"exp_avg/bias": torch.zeros(3)}}, state)


def checkpoint_value(path: Path) -> Any:
    checkpoint = verify(path.parent)
    tensors = {kind: {k: t.tolist() for k, t in checkpoint.tensors(kind).items()} for kind in checkpoint.kinds}
    return [checkpoint.state, checkpoint.training, checkpoint.mark, checkpoint.run_files, tensors]


def run_value(path: Path) -> Any:
    run = open_run(path.parent)
    return [run.config, run.task, run.training, run.data, run.tokenizer]


def metrics_value(path: Path) -> Any:
    return read_metrics(path, read_manifest(path.parent / CHECKPOINTS / "5").mark)


def tensor_file_value(path: Path) -> Any:
    return {name: (str(tensor.dtype), tensor.tolist()) for name, tensor in read_tensors(path).items()}


def model_file_value(path: Path) -> Any:
    return dump_settings(parse_settings(read_yaml(path), place=str(path)))


def task_file_value(path: Path) -> Any:
    check_task(str(path))
    return load_task(path).plain()


def training_file_value(path: Path) -> Any:
    return dump(fix_training(resolve_training([Layer(path.name, read_yaml(path))])[0], 10, 8))


@dataclass(frozen=True)
class FileKind:
    """A kind of file.

    Args:
        path: the file to damage.
        read: reads the file and returns its value.
        start, stop: the byte range to damage.
        hashed: whether a manifest has its hash, so that reading another value is a failure.
    """

    path: Path
    read: Callable[[Path], Any]
    start: int = 0
    stop: int | None = None
    hashed: bool = True


def file_kinds(folder: Path) -> dict[str, FileKind]:
    """Name -> kind of file."""
    newest = folder / CHECKPOINTS / "5"
    weights = newest / "weights.safetensors"
    header = 8 + int.from_bytes(weights.read_bytes()[:8], "little")
    found = {
        "weights header": FileKind(weights, checkpoint_value, stop=header),
        "weights payload": FileKind(weights, checkpoint_value, start=header),
        "optimizer": FileKind(newest / "optimizer.safetensors", checkpoint_value),
        **{name: FileKind(newest / name, checkpoint_value) for name in (STATE, MANIFEST)},
        f"checkpoint's {TRAINING}": FileKind(newest / TRAINING, checkpoint_value),
        **{f"run's {name}": FileKind(folder / name, run_value) for name in (CONFIG, TASK, DATA, TOKENIZER[0])},
        f"run's {ENVIRONMENT}": FileKind(folder / ENVIRONMENT, read_sealed),
        METRICS: FileKind(folder / METRICS, metrics_value),
    }
    user_files = {CONFIG: model_file_value, TASK: task_file_value, TRAINING: training_file_value}
    found |= {f"{name} alone": FileKind(folder / name, read, hashed=False) for name, read in user_files.items()}
    return found | {"weights header alone": FileKind(weights, tensor_file_value, stop=header, hashed=False)}


def mutate(data: bytes, generator: random.Random, others: list[bytes]) -> bytes:
    """Apply a few random changes to some bytes.

    Args:
        others: contents of other files, of which pieces are inserted.
    """
    for _ in range(generator.choice((1, 1, 1, 2, 4))):
        at, length = generator.randrange(len(data) + 1), generator.choice((1, 1, 2, 4, 16, 64))
        piece = data[at : at + length]
        operation = generator.randrange(9)
        if operation == 0 and piece:
            piece = bytes([piece[0] ^ 1 << generator.randrange(8)]) + piece[1:]
        elif operation == 1:
            piece = b""
        elif operation == 2:
            piece = piece * generator.choice((2, 3, 50))
        elif operation == 3:
            piece = generator.randbytes(len(piece))
        elif operation == 4:
            piece = generator.choice(WORDS)
        elif operation == 5:
            piece = generator.choice(WORDS) + piece
        elif operation == 6:
            piece = str(generator.choice((0, -1, 2, 10**6, 10**12, 0.5, generator.randrange(100)))).encode()
        elif operation == 7:
            other = generator.choice(others)
            start = generator.randrange(len(other))
            piece = other[start : start + length]
        else:
            data, piece = (data[:at], b"") if generator.random() < 0.5 else (data, bytes(reversed(piece)))
        data = data[:at] + piece + data[at + length :]
    return data


class ReadTimeout(BaseException):
    """Raised if reading a file takes too long."""


def raise_timeout(number: int, frame: FrameType | None) -> None:
    raise ReadTimeout


def read_outcome(kind: FileKind, expected: Any) -> str:
    """Read a damaged file; returns the outcome.

    Args:
        expected: the value of the undamaged file.
    """
    try:
        value = kind.read(kind.path)
    except ValueError as refused:
        named = kind.path.name in str(refused) or kind.path.stem in str(refused) or not kind.hashed
        return "refused" if named else f"unnamed: {refused}"
    except ReadTimeout:
        return "slow"
    except BaseException as error:
        return f"traceback: {type(error).__name__}: {error}"
    # compare by repr, so that NaN equals NaN and 1 differs from 1.0
    return "same" if repr(value) == repr(expected) else "silent" if kind.hashed else "other"


def write_outcomes(name: str, kind: FileKind, mutants: range, seed: int, others: list[bytes], out: int) -> None:
    """Read mutants, and write the outcome of each as a line to the file descriptor `out`."""
    signal.signal(signal.SIGALRM, raise_timeout)
    original, expected = kind.path.read_bytes(), kind.read(kind.path)
    before, middle = original[: kind.start], original[kind.start : kind.stop]
    after = original[kind.stop :] if kind.stop else b""
    for number in mutants:
        kind.path.write_bytes(before + mutate(middle, random.Random(f"{seed} {name} {number}"), others) + after)
        signal.alarm(READ_SECONDS)
        outcome = read_outcome(kind, expected)
        signal.alarm(0)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MAX_MEMORY:
            outcome = "memory"
        os.write(out, f"{number} {' '.join(outcome.split())[:300]}\n".encode())
        if outcome == "memory":
            os._exit(1)
    kind.path.write_bytes(original)


def try_kind(name: str, kind: FileKind, mutants: int, seed: int, others: list[bytes]) -> list[str]:
    """The outcome of each mutant, read in a forked process; if it dies, a new one continues."""
    original = kind.path.read_bytes()
    outcomes: list[str] = []
    while len(outcomes) < mutants:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                write_outcomes(name, kind, range(len(outcomes), mutants), seed, others, writing)
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            outcomes += [line.split(" ", 1)[1].strip() for line in lines]
        os.waitpid(child, 0)
        kind.path.write_bytes(original)
        if len(outcomes) < mutants and not (outcomes and outcomes[-1] == "memory"):
            outcomes.append("died")
    return outcomes


def main(mutants: int, seed: int, root: Path, only: list[str]) -> int:
    """Try mutants of all kinds, or of those named; returns the number of failures."""
    torch.set_num_threads(1)  # threads do not survive a fork
    make_run(root / "run")
    kinds = file_kinds(root / "run")
    others = [kind.path.read_bytes() for kind in kinds.values()]
    if unknown := set(only) - set(kinds):
        sys.exit(f"no kind {sorted(unknown)}; there are {list(kinds)}")
    selected = {name: kind for name, kind in kinds.items() if not only or name in only}
    failed = 0
    print(f"{mutants} mutants of each of {len(selected)} kinds, seed {seed}", flush=True)
    for name, kind in selected.items():
        started = time.perf_counter()
        outcomes = try_kind(name, kind, mutants, seed, others)
        counts = Counter(outcome.split(":")[0] for outcome in outcomes)
        spent = time.perf_counter() - started
        print(f"{name}: {', '.join(f'{n} {o}' for o, n in counts.most_common())}; {spent:.0f} s", flush=True)
        failures = [(number, outcome) for number, outcome in enumerate(outcomes) if outcome.split(":")[0] in FAILURES]
        for number, outcome in failures[:SHOWN]:
            print(f"  mutant {number}: {outcome}", flush=True)
        failed += len(failures)
    print(f"{failed} of {mutants * len(selected)} were not dealt with")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], metavar="KIND")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="zoo-mutate-") as scratch:
        sys.exit(1 if main(chosen.mutants, chosen.seed, Path(scratch), chosen.only) else 0)
