"""Send SIGTERM or SIGINT to training runs at random moments: each must save, exit with its status, and resume exactly.

    python benchmarks/signals.py --trials 100

Each trial trains a small GPT in one or two processes and sends one of the two signals to all of them, or to only one:
during imports, while data is read and tokenized, once the run's folder exists, at a step, before or during a
validation, or around a save. Every process must exit with 143 or 130 and no traceback. The newest checkpoint must be
that of the last logged step, or of the next one if its validation was interrupted. No partial cache may be left. The
resumed run must be bit-identical to an uninterrupted one: weights, state, and metrics.jsonl without timings. If a run
ends before the signal comes, the trial is repeated. Processes are forked from one that has imported everything, except
in the trials on imports.
"""

import argparse
import functools
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo  # torch's optimizers import it on first use: once here, not in each fork

import zoo.cli.commands.train
from kill import WORDS, without_timings
from zoo.cli.main import main as zoo_main
from zoo.runs.checkpoint import steps
from zoo.runs.files import TEMPORARY_PREFIX, read_json
from zoo.runs.layout import CHECKPOINTS, CONFIG, METRICS, STATE
from zoo.runs.saved import open_run

assert zoo.cli.commands.train  # imported once here, not in each fork
STEPS, EVALUATE, SAVE = 40, 10, 4
TASK = f"""# gpt.yaml: made by signals.py
objective: causal_lm
source: {{files: {{train: text.txt}}, validation: 0.3}}
tokenizer: {{name: byte_bpe, vocab_size: 300}}
length: 48
metrics: [perplexity]
training: {{steps: {STEPS}, batch: 6, micro_batch: 2, save_every: {SAVE}, evaluate_every: {EVALUATE},
  precision: float32, learning_rate: 1e-3, warmup_steps: 5, ema: 0.9, peak_flops: 1e12}}
"""
HANG_SECONDS = 120.0  # after which a process counts as hanging
EARLY = ("import", "data")  # moments before the run's folder exists
STATUS = {signal.SIGTERM: 143, signal.SIGINT: 130}


def write_data(root: Path) -> None:
    """Write a text of three hundred lines, and its task."""
    generator = random.Random(1)
    lines = [" ".join(generator.choices(WORDS, k=generator.randint(3, 20))) for _ in range(300)]
    (root / "text.txt").write_text("\n".join(lines) + "\n")
    (root / "gpt.yaml").write_text(TASK)


def start_processes(root: Path, folder: Path, count: int, moment: str = "") -> list[int]:
    """Start training processes, which resume a run in the folder; returns their ids.

    Args:
        moment: "import" starts new interpreters instead of forks, and like "data" begins with an empty cache.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    shared |= {"LOCAL_WORLD_SIZE": str(count)}
    words = ["pretrain", "gpt2-nano", str(root / "gpt.yaml"), "-o", str(folder), "--data", str(root), "--resume"]
    children = []
    for process in range(count):
        child = os.fork()
        if not child:
            if count > 1:
                os.environ |= {**shared, "RANK": str(process), "LOCAL_RANK": str(process)}
            log = os.open(f"{folder}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            if moment in EARLY:
                os.environ["ZOO_CACHE"] = f"{folder}.cache"
            if moment == "import":
                os.execv(sys.executable, [sys.executable, "-m", "zoo", *words])
            try:
                zoo_main(words)
            except SystemExit as ended:
                os._exit(int(ended.code or 0))
            os._exit(0)
        children.append(child)
    return children


def wait_for(children: Sequence[int]) -> list[int]:
    """Wait for the processes; returns their exit statuses, -9 for one that hung and was killed."""
    end = time.monotonic() + HANG_SECONDS
    statuses = []
    for child in children:
        ended, status = os.waitpid(child, os.WNOHANG)
        while not ended and time.monotonic() < end:
            time.sleep(0.005)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, signal.SIGKILL)
            ended, status = os.waitpid(child, 0)
        statuses.append(os.waitstatus_to_exitcode(status))
    return statuses


def count_logged_steps(folder: Path) -> int:
    path = folder / METRICS
    return path.read_bytes().count(b"\n") if path.exists() else 0


def handles_sigterm(process: int) -> bool:
    """Whether a process has installed a handler for SIGTERM; a starting Python has not yet."""
    words = Path(f"/proc/{process}/status").read_text()
    caught = next((line.split()[1] for line in words.splitlines() if line.startswith("SigCgt")), "0")
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def choose_moment(folder: Path, generator: random.Random) -> tuple[str, Callable[[Sequence[int]], bool]]:
    """Choose when to send the signal; returns its name, and a function of the processes: whether it is time now."""
    name = generator.choice([*EARLY, "start", "step", "validation", "save"])
    if name in EARLY:
        return name, lambda children: all(map(handles_sigterm, children))
    if name == "start":
        return name, lambda _: (folder / CONFIG).exists()
    if name == "validation":
        before = EVALUATE * generator.randint(1, STEPS // EVALUATE - 1) - 1
        return name, lambda _: count_logged_steps(folder) >= before
    if name == "save":
        before = SAVE * generator.randint(1, STEPS // SAVE - 1)
        temporary = folder / CHECKPOINTS / f"{TEMPORARY_PREFIX}{before}"
        return name, lambda _: temporary.exists() or count_logged_steps(folder) > before
    step = generator.randint(1, STEPS - 2)
    return name, lambda _: count_logged_steps(folder) >= step


@dataclass
class Trial:
    """One run that gets a signal."""

    name: str
    seconds: float


def run_trial(root: Path, folder: Path, generator: random.Random) -> Trial | None:
    """Stop a run once and resume it to its end; returns None if it ended before the signal.

    Raises:
        AssertionError: a condition of the module's docstring is violated.
    """
    count, number = generator.choice([1, 2]), generator.choice(list(STATUS))
    name, is_now = choose_moment(folder, generator)
    delay = generator.uniform(0, max_delay(root, name))
    children = start_processes(root, folder, count, name)
    while not is_now(children) and os.waitid(os.P_PID, children[0], os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.0005)
    time.sleep(delay)
    # before the processes are connected they cannot forward a signal, so all of them get it
    receivers = children if name in EARLY else generator.choice([children, *[[child] for child in children]])
    began = time.monotonic()
    for child in receivers:
        os.kill(child, number)
    statuses = wait_for(children)
    seconds = time.monotonic() - began
    if steps(folder / CHECKPOINTS)[:1] == [STEPS] and set(statuses) == {0}:
        return None
    label = f"{name}, {count} processes, {signal.Signals(number).name} to {len(receivers)}"
    assert set(statuses) == {STATUS[number]}, f"{label}: left with {statuses}"
    check_stopped(folder, label)
    resumed_statuses = wait_for(start_processes(root, folder, count))
    assert set(resumed_statuses) == {0}, f"{label}: could not be resumed, {resumed_statuses}"
    check_identical(uninterrupted_run(root, count), folder, label)
    return Trial(label, seconds)


def check_stopped(folder: Path, label: str) -> None:
    """Check that all logged steps are saved, except one whose validation is repeated, and no partial cache is left."""
    saved = steps(folder / CHECKPOINTS)
    line = read_json(folder / CHECKPOINTS / str(saved[0]) / STATE)["line"] if saved else None
    done, logged = saved[0] - (line is not None) if saved else 0, count_logged_steps(folder)
    assert logged == done, f"{label}: {logged} steps logged, {saved} saved"
    partial_caches = list(Path(f"{folder}.cache").glob(".making-*"))
    assert not partial_caches, f"{label}: {partial_caches} are left"
    log = Path(f"{folder}.log").read_text()
    assert "Traceback" not in log, f"{label}: a traceback"


def check_identical(reference: Path, folder: Path, label: str) -> None:
    """Check that the resumed run is identical to the uninterrupted one."""
    expected, actual = (open_run(run) for run in (reference, folder))
    weights, resumed = (run.checkpoint.tensors("weights") for run in (expected, actual))
    assert all(torch.equal(weights[key], resumed[key]) for key in weights), (
        f"{label}: the resumed run has other weights"
    )
    assert expected.checkpoint.state == actual.checkpoint.state, f"{label}: the resumed run stands elsewhere"
    lines, resumed_lines = ([without_timings(line) for line in run.metrics] for run in (expected, actual))
    assert lines == resumed_lines, f"{label}: the resumed run has other lines in {METRICS}"
    expected_steps, resumed_steps = (steps(run / CHECKPOINTS) for run in (reference, folder))
    assert expected_steps == resumed_steps, f"{label}: checkpoints {resumed_steps} instead of {expected_steps}"


@functools.cache
def uninterrupted_run(root: Path, count: int) -> Path:
    """An uninterrupted run with this number of processes."""
    folder = root / f"reference{count}"
    assert set(wait_for(start_processes(root, folder, count))) == {0}
    return folder


@functools.cache
def max_delay(root: Path, name: str) -> float:
    """The longest delay of the signal (seconds); for an early moment, the time that a run takes to its first step."""
    if name not in EARLY:
        return 0.3 if name == "start" else 0.03
    folder, began = root / f"alone-{name}", time.monotonic()
    children = start_processes(root, folder, 1, name)
    while not count_logged_steps(folder):
        time.sleep(0.01)
    seconds = time.monotonic() - began
    assert wait_for(children) == [0]
    return seconds


def main(trials: int, seed: int, root: Path) -> int:
    """Run the trials; returns how many failed."""
    print(f"{trials} trials, seed {seed}", flush=True)
    torch.set_num_threads(1)  # threads do not survive a fork
    write_data(root)
    uninterrupted_run(root, 1)  # fills the cache
    generator, started = random.Random(seed), time.perf_counter()
    done: list[Trial] = []
    failed = late = 0
    while len(done) + failed < trials:
        folder = root / f"{len(done) + failed + late}"
        try:
            trial = run_trial(root, folder, generator)
        except AssertionError as difference:
            failed += 1
            print(f"FAILED: {difference}\n{Path(f'{folder}.log').read_text()}", flush=True)
            continue
        if trial is None:
            late += 1
        else:
            done.append(trial)
            print(f"{len(done) + failed} {trial.name}: {trial.seconds:.2f} s", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    moments = ", ".join(f"{n} {name}" for name, n in Counter(t.name.split(",")[0] for t in done).most_common())
    slowest = max((trial.seconds for trial in done), default=0.0)
    spent = time.perf_counter() - started
    print(f"{len(done)} of {trials} saved, left with their status and resumed to the same bits ({moments})")
    print(f"slowest {slowest:.1f} s from the signal to the end; {late} ended before it; {spent:.0f} s in all")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zoo-signals-") as scratch:
        os.environ |= {"ZOO_CACHE": f"{scratch}/cache", "HF_HOME": f"{scratch}/hugging-face", "HF_HUB_OFFLINE": "1"}
        os.environ["OMP_NUM_THREADS"] = "1"  # as in the forks: another number of threads rounds differently
        sys.exit(1 if main(chosen.trials, chosen.seed, Path(scratch)) else 0)
