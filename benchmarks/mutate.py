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

SECONDS, BYTES, SHOWN = 10, 1 << 30, 5
BAD = ("silent", "unnamed", "traceback", "slow", "died", "memory")
PLAIN_WORDS = [b"NaN", b"-Infinity", b"null", b"true", b"1e999", b"9" * 5000, b"-1", b"{}", b"[]", b'""', b"\x00"]
BYTES_AND_YAML = [b"\xff\xfe", b"[" * 3000, b'{"a":' * 3000, b"&a [*a, *a]", b"!!python/object/apply:os.system [id]"]
BORDERS = [b"\n---\n", b"\t", b": ", b"- ", (1 << 62).to_bytes(8, "little"), (100_000_000).to_bytes(8, "little")]
WORDS = [*PLAIN_WORDS, *BYTES_AND_YAML, *BORDERS, b"../../etc/passwd", b"base: x\n", b"\r", b"<<: 1\n"]


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


def of_checkpoint(path: Path) -> Any:
    checkpoint = verify(path.parent)
    tensors = {kind: {k: t.tolist() for k, t in checkpoint.tensors(kind).items()} for kind in checkpoint.kinds}
    return [checkpoint.state, checkpoint.training, checkpoint.mark, checkpoint.run_files, tensors]


def of_run(path: Path) -> Any:
    run = open_run(path.parent)
    return [run.config, run.task, run.training, run.data, run.tokenizer]


def of_metrics(path: Path) -> Any:
    return read_metrics(path, read_manifest(path.parent / CHECKPOINTS / "5").mark)


def alone(path: Path) -> Any:
    return {name: (str(tensor.dtype), tensor.tolist()) for name, tensor in read_tensors(path).items()}


def model_file(path: Path) -> Any:
    return dump_settings(parse_settings(read_yaml(path), place=str(path)))


def task_file(path: Path) -> Any:
    check_task(str(path))
    return load_task(path).plain()


def training_file(path: Path) -> Any:
    return dump(fix_training(resolve_training([Layer(path.name, read_yaml(path))])[0], 10, 8))


@dataclass(frozen=True)
class Kind:
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


def kinds(folder: Path) -> dict[str, Kind]:
    """Name -> kind of file."""
    newest = folder / CHECKPOINTS / "5"
    weights = newest / "weights.safetensors"
    header = 8 + int.from_bytes(weights.read_bytes()[:8], "little")
    found = {
        "weights header": Kind(weights, of_checkpoint, stop=header),
        "weights payload": Kind(weights, of_checkpoint, start=header),
        "optimizer": Kind(newest / "optimizer.safetensors", of_checkpoint),
        **{name: Kind(newest / name, of_checkpoint) for name in (STATE, MANIFEST)},
        f"checkpoint's {TRAINING}": Kind(newest / TRAINING, of_checkpoint),
        **{f"run's {name}": Kind(folder / name, of_run) for name in (CONFIG, TASK, DATA, TOKENIZER[0])},
        f"run's {ENVIRONMENT}": Kind(folder / ENVIRONMENT, read_sealed),
        METRICS: Kind(folder / METRICS, of_metrics),
    }
    own = {CONFIG: model_file, TASK: task_file, TRAINING: training_file}
    found |= {f"{name} alone": Kind(folder / name, read, hashed=False) for name, read in own.items()}
    return found | {"weights header alone": Kind(weights, alone, stop=header, hashed=False)}


def mutate(data: bytes, drawn: random.Random, others: list[bytes]) -> bytes:
    """Apply a few random changes to some bytes."""
    for _ in range(drawn.choice((1, 1, 1, 2, 4))):
        at, length = drawn.randrange(len(data) + 1), drawn.choice((1, 1, 2, 4, 16, 64))
        piece = data[at : at + length]
        how = drawn.randrange(9)
        if how == 0 and piece:
            piece = bytes([piece[0] ^ 1 << drawn.randrange(8)]) + piece[1:]
        elif how == 1:
            piece = b""
        elif how == 2:
            piece = piece * drawn.choice((2, 3, 50))
        elif how == 3:
            piece = drawn.randbytes(len(piece))
        elif how == 4:
            piece = drawn.choice(WORDS)
        elif how == 5:
            piece = drawn.choice(WORDS) + piece
        elif how == 6:
            piece = str(drawn.choice((0, -1, 2, 10**6, 10**12, 0.5, drawn.randrange(100)))).encode()
        elif how == 7:
            other = drawn.choice(others)
            begin = drawn.randrange(len(other))
            piece = other[begin : begin + length]
        else:
            data, piece = (data[:at], b"") if drawn.random() < 0.5 else (data, bytes(reversed(piece)))
        data = data[:at] + piece + data[at + length :]
    return data


class Slow(BaseException):
    """Raised if reading a file takes too long."""


def give_up(number: int, frame: FrameType | None) -> None:
    raise Slow


def judge(kind: Kind, true: Any) -> str:
    """Read a file and return the outcome; `true` is the value of the undamaged file."""
    try:
        value = kind.read(kind.path)
    except ValueError as refused:
        named = kind.path.name in str(refused) or kind.path.stem in str(refused) or not kind.hashed
        return "refused" if named else f"unnamed: {refused}"
    except Slow:
        return "slow"
    except BaseException as error:
        return f"traceback: {type(error).__name__}: {error}"
    # compare by repr, so that NaN equals NaN and 1 differs from 1.0
    return "same" if repr(value) == repr(true) else "silent" if kind.hashed else "other"


def work(name: str, kind: Kind, numbers: range, seed: int, others: list[bytes], out: int) -> None:
    """Judge mutants and write one line for each to `out`."""
    signal.signal(signal.SIGALRM, give_up)
    written, true = kind.path.read_bytes(), kind.read(kind.path)
    before, middle = written[: kind.start], written[kind.start : kind.stop]
    after = written[kind.stop :] if kind.stop else b""
    for number in numbers:
        kind.path.write_bytes(before + mutate(middle, random.Random(f"{seed} {name} {number}"), others) + after)
        signal.alarm(SECONDS)
        found = judge(kind, true)
        signal.alarm(0)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > BYTES:
            found = "memory"
        os.write(out, f"{number} {' '.join(found.split())[:300]}\n".encode())
        if found == "memory":
            os._exit(1)
    kind.path.write_bytes(written)


def try_kind(name: str, kind: Kind, mutants: int, seed: int, others: list[bytes]) -> list[str]:
    """The outcome of each mutant, judged in a forked process; if it dies, a new one continues."""
    written = kind.path.read_bytes()
    found: list[str] = []
    while len(found) < mutants:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                work(name, kind, range(len(found), mutants), seed, others, writing)
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            found += [line.split(" ", 1)[1].strip() for line in lines]
        os.waitpid(child, 0)
        kind.path.write_bytes(written)
        if len(found) < mutants and not (found and found[-1] == "memory"):
            found.append("died")
    return found


def main(mutants: int, seed: int, place: Path, only: list[str]) -> int:
    """Judge mutants of all kinds, or of those named; returns the number of failures."""
    torch.set_num_threads(1)  # threads do not survive a fork
    make_run(place / "run")
    every = kinds(place / "run")
    others = [kind.path.read_bytes() for kind in every.values()]
    if unknown := set(only) - set(every):
        sys.exit(f"no kind {sorted(unknown)}; there are {list(every)}")
    every = {name: kind for name, kind in every.items() if not only or name in only}
    failed = 0
    print(f"{mutants} mutants of each of {len(every)} kinds, seed {seed}", flush=True)
    for name, kind in every.items():
        started = time.perf_counter()
        found = try_kind(name, kind, mutants, seed, others)
        counts = Counter(outcome.split(":")[0] for outcome in found)
        spent = time.perf_counter() - started
        print(f"{name}: {', '.join(f'{n} {o}' for o, n in counts.most_common())}; {spent:.0f} s", flush=True)
        bad = [(number, outcome) for number, outcome in enumerate(found) if outcome.split(":")[0] in BAD]
        for number, outcome in bad[:SHOWN]:
            print(f"  mutant {number}: {outcome}", flush=True)
        failed += len(bad)
    print(f"{failed} of {mutants * len(every)} were not dealt with")
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
