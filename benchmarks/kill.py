"""Kill training runs at random moments, resume them, and compare every bit with uninterrupted runs.

    python benchmarks/kill.py --trials 200

Each trial trains one of four model families in turn, with dropout, masking, gradient accumulation, a prefetching
thread, averaged weights, validation, and old checkpoints being deleted. It is interrupted one to three times at random
moments, by SIGKILL or sometimes SIGTERM, and then resumed to its end. The run folder is compared with that of an
uninterrupted run: the checkpoints, and of each the weights, optimizer, average, step, data position, hash of the
examples seen and best validation; the run's other files; and metrics.jsonl without timings. If all signals came after
the run's end, the trial is repeated. Processes are forked from one that has imported everything.
"""

import argparse
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # torch's optimizers import it on first use: once here, not in each fork

from zoo.experiments.finetune import finetune
from zoo.experiments.pretrain import pretrain
from zoo.experiments.request import Request
from zoo.experiments.session import Watcher
from zoo.runs.checkpoint import steps, verify
from zoo.runs.files import TEMPORARY_PREFIX, read_json
from zoo.runs.layout import CHECKPOINTS, CONFIG, DATA, MANIFEST, METRICS, TASK, TOKENIZER, TRAINING
from zoo.runs.saved import open_run
from zoo.training.supervision.stopping import Stopped

SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]
SIGTERM_STATUS = 128 + signal.SIGTERM
AFTER_END = "after its end"
TIMINGS = ("tokens_per_second", "mfu", "seconds")
WORDS = "the a red blue cat dog runs sleeps sees big small tree house under over in".split()
TEXT = "source: {files: {train: text.txt}, documents: blank_line, validation: 0.2}"
ROWS = "source: {files: {train: rows.tsv}, validation: 0.2}"
STARTS = {"GPT": "gpt2-nano", "BERT": "bert-nano", "encoder-decoder": "transformer-nano", "classifier": "BERT"}
TASKS = {
    "encoder-decoder": f"""objective: translation\n{ROWS}
columns: {{source: text, target: other}}\ntokenizer: {{name: bpe, vocab_size: 120}}""",
    "GPT": f"""objective: causal_lm\n{TEXT}\nmetrics: [perplexity]\ntokenizer: {{name: byte_bpe, vocab_size: 300}}""",
    "BERT": f"""objective: {{masked_lm: {{}}, next_sentence: {{}}}}\n{TEXT}
metrics: [next_sentence/accuracy]\ntokenizer: {{name: wordpiece, vocab_size: 120}}""",
    "classifier": f"""objective: classification\n{ROWS}\ncolumns: {{text: text, label: label}}\nmetrics: [accuracy]""",
}
SETTINGS: dict[str, Any] = {
    **{"steps": 40, "batch": 6, "micro_batch": 2, "save_every": 4, "evaluate_every": 10, "keep": 3, "ema": 0.9},
    **{"learning_rate": 1e-3, "warmup_steps": 5, "schedule": "cosine", "precision": "float32", "peak_flops": 1e12},
}


def write_data(root: Path) -> None:
    """Write random texts, a table of sentences, and a task file per family, from a fixed seed."""
    generator = random.Random(1)

    def sentence() -> str:
        return " ".join(generator.choices(WORDS, k=generator.randint(3, 11))) + "."

    rows = [f"{sentence()}\t{sentence()}\t{('neg', 'pos')[i % 2]}" for i in range(150)]
    (root / "rows.tsv").write_text("\n".join(["text\tother\tlabel", *rows]) + "\n")
    documents = ["\n".join(sentence() for _ in range(generator.randint(2, 6))) for _ in range(60)]
    (root / "text.txt").write_text("\n\n".join(documents) + "\n")
    for family, text in TASKS.items():
        (root / f"{family}.yaml").write_text(f"# {family}.yaml: made by kill.py\n{text}\nlength: 48\n")


def train(family: str, root: Path, folder: Path) -> None:
    """Train one family in a folder, resuming a run in it; the classifier starts from the finished BERT run."""
    start, task = STARTS[family], str(root / f"{family}.yaml")
    sets = [(("training", key), value) for key, value in SETTINGS.items()]
    if start in STARTS:
        run = root / "reference" / start
        finetune(open_run(run), Request(str(run), task, folder, sets, resume=True, data=root), Watcher())
    else:
        pretrain(Request(start, task, folder, sets, resume=True, data=root), Watcher())


def start_training(family: str, root: Path, folder: Path) -> int:
    """Train in a forked process; returns its id."""
    child = os.fork()
    if child:
        return child
    try:
        train(family, root, folder)
        os._exit(0)
    except Stopped as stopped:
        os._exit(stopped.status)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def wait_for(child: int) -> int:
    """Wait for a process; returns its exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_after(child: int, folder: Path, delay: float, signal_number: int) -> str:
    """Send a process a signal after some seconds; returns what it interrupted, judged by exit status and folder."""
    time.sleep(delay)
    os.kill(child, signal_number)
    status = wait_for(child)
    if status == 0:
        return AFTER_END
    if status == SIGTERM_STATUS:
        return "stopped by SIGTERM"
    if not (folder / METRICS).exists():
        return "while it started"
    return "during a save" if list(folder.glob(f"{CHECKPOINTS}/{TEMPORARY_PREFIX}*")) else "between saves"


def differences(one: Path, other: Path) -> list[str]:
    """The differences between two runs that should be identical, apart from timings and environment."""
    files = (CONFIG, TASK, TRAINING, *TOKENIZER, DATA)
    found = [name for name in files if file_bytes(one / name) != file_bytes(other / name)]
    if steps(one / CHECKPOINTS) != steps(other / CHECKPOINTS):
        return [*found, f"checkpoints {steps(one / CHECKPOINTS)} and {steps(other / CHECKPOINTS)}"]
    for step in steps(one / CHECKPOINTS):
        hashes = [read_json(verify(run / CHECKPOINTS / str(step)).folder / MANIFEST) for run in (one, other)]
        run_hashes, checkpoint_hashes = ([each[key] for each in hashes] for key in ("run", "files"))
        found += [f"{step}/run: {name}" for name in run_hashes[0] if run_hashes[0][name] != run_hashes[1][name]]
        first, second = checkpoint_hashes
        found += [f"{step}/{name}" for name in {**first, **second} if first.get(name) != second.get(name)]
    lines = [[without_timings(line) for line in open_run(run).metrics] for run in (one, other)]
    differing = [i for i, pair in enumerate(zip(*lines, strict=False), 1) if pair[0] != pair[1]]
    found += [f"{METRICS}: line {differing[0]}"] if differing else []
    return found + ([f"{METRICS}: {len(lines[0])} and {len(lines[1])} lines"] if len(lines[0]) != len(lines[1]) else [])


def file_bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def without_timings(line: dict[str, Any]) -> str:
    """A line of metrics.jsonl without timings, with exact numbers."""
    return json.dumps({key: value for key, value in line.items() if key not in TIMINGS})


def run_trial(family: str, root: Path, folder: Path, generator: random.Random, max_delay: float) -> list[str]:
    """Kill a run one to three times and resume it to its end; returns what it was doing at each kill.

    Args:
        max_delay: seconds after its start up to which a run may be killed.

    Raises:
        AssertionError: it did not finish, or differs from the uninterrupted run.
    """
    moments = []
    for _ in range(generator.randint(1, 3)):
        child = start_training(family, root, folder)
        moments.append(kill_after(child, folder, generator.uniform(0, max_delay), generator.choice(SIGNALS)))
    status = wait_for(start_training(family, root, folder))
    assert status == 0, f"{folder}: could not be resumed (status {status})"
    found = differences(root / "reference" / family, folder)
    assert not found, f"{folder}: {', '.join(found)}"
    return moments


def time_uninterrupted(family: str, root: Path) -> float:
    """Train the reference run, which also fills the cache, then another one; returns the seconds of the second."""
    assert wait_for(start_training(family, root, root / "reference" / family)) == 0
    began = time.perf_counter()
    assert wait_for(start_training(family, root, root / "timed" / family)) == 0
    return time.perf_counter() - began


def main(trials: int, seed: int, root: Path) -> int:
    """Run the trials; returns how many failed."""
    print(f"{trials} trials, seed {seed}", flush=True)
    torch.set_num_threads(1)  # threads do not survive a fork
    write_data(root)
    seconds: dict[str, float] = {}
    moments: Counter[str] = Counter()
    failed = trial = 0
    generator, started = random.Random(seed), time.perf_counter()
    while trial < trials:
        family = list(STARTS)[trial % len(STARTS)]
        folder = root / f"{trial}-{family}"
        if family not in seconds:
            seconds[family] = time_uninterrupted(family, root)
        try:
            trial_moments = run_trial(family, root, folder, generator, seconds[family])
            shutil.rmtree(folder)
            if set(trial_moments) == {AFTER_END}:
                continue
            moments.update(trial_moments)
            print(f"{trial + 1} {family}: the same; killed {', '.join(trial_moments)}", flush=True)
        except AssertionError as difference:
            failed += 1
            print(f"{trial + 1} {family}: DIFFERENT: {difference}", flush=True)
        trial += 1
    late, kills = moments.pop(AFTER_END, 0), ", ".join(f"{count} {moment}" for moment, count in moments.most_common())
    spent = time.perf_counter() - started
    print(f"{trials - failed} of {trials} the same to the last bit; {moments.total()} kills ({kills}), {late} too late")
    print(f"{spent:.0f} s")
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="zoo-kill-") as scratch:
        os.environ |= {"ZOO_CACHE": f"{scratch}/cache", "HF_HOME": f"{scratch}/hugging-face", "HF_HUB_OFFLINE": "1"}
        sys.exit(1 if main(chosen.trials, chosen.seed, Path(scratch)) else 0)
