"""Compare zoo's commands on a GPU with the same commands on the CPU: losses, a resumed run, backends, answers.

Without a GPU both sides run on the CPU, and all checks of `check_names("cpu")` must pass, too.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.devices.compiling import FAILED

MODELS = {  # kind -> the smallest model, a task that needs no data, and an input text
    "gpt": ("gpt2-nano", "pydocs-lm", "Return the"),
    "bert": ("bert-nano", "pydocs-mlm", "Return the [MASK] of the file."),
    "translator": ("transformer-nano", "numbers-words", "2 4 7 0 3"),
    "classifier": ("bert-nano", "pydocs-topic", "Open a connection."),
    "modern gpt": ("gpt-modern-nano", "pydocs-lm", "Return the"),
    "text-to-text": ("t5-nano", "pydocs-spans", "Return the <extra_id_0> of the file."),
    "recurrent": ("rnn-attention-nano", "numbers-words", "2 4 7 0 3"),
}
SHORT_RUN = ("training.batch=4", "training.evaluate_every=0", "training.evaluation_examples=4")
SHORT_RUN += ("dropout=0", "training.warmup_steps=0")
FLOAT32, BFLOAT16 = "training.precision=float32", "training.precision=bfloat16"
BACKEND = "training.attention_backend="  # set on both sides: with `auto` a GPU would use varlen in bfloat16
QK_NORM = "decoder.attention.qk_norm=true"
SHARED_KEYS = ("decoder.attention.n_kv_heads=1", "max_length=80", "task.length=80")  # torch has two kernels, by length
HIDE_GPU = {"CUDA_VISIBLE_DEVICES": ""}
# check -> (kind, changes of the first run, of the second, largest relative difference of losses allowed)
LossCheck = tuple[str, Sequence[str], Sequence[str], float]
LOSS_CHECKS: dict[str, LossCheck] = {
    "one gradient, however split": ("gpt", [FLOAT32], [FLOAT32, "training.micro_batch=1"], 1e-4),
    "bfloat16 is near float32": ("gpt", [FLOAT32], [BFLOAT16], 0.03),
    "float16 is near float32": ("gpt", [FLOAT32], ["training.precision=float16"], 0.03),
    "bfloat16 is near float32 where states recur": ("recurrent", [FLOAT32], [BFLOAT16], 0.03),
    "eager as sdpa": ("bert", [BFLOAT16, f"{BACKEND}sdpa"], [BFLOAT16, f"{BACKEND}eager"], 0.03),
    "flex as sdpa": ("bert", [BFLOAT16, f"{BACKEND}sdpa"], [BFLOAT16, f"{BACKEND}flex"], 0.03),
    "flex as sdpa where heads share keys of short rows": (
        "modern gpt",
        [BFLOAT16, *SHARED_KEYS, f"{BACKEND}sdpa"],
        [BFLOAT16, *SHARED_KEYS, f"{BACKEND}flex"],
        0.03,
    ),
    "varlen as sdpa": ("bert", [BFLOAT16, f"{BACKEND}sdpa"], [BFLOAT16, f"{BACKEND}varlen"], 0.03),
    "compiled as not": ("gpt", [FLOAT32], [FLOAT32, "training.compile=true"], 1e-3),
    "compiled as not, in bfloat16": ("gpt", [BFLOAT16], [BFLOAT16, "training.compile=true"], 0.03),
    "compiled as not where heads are normed": (
        "modern gpt",
        [BFLOAT16, QK_NORM],
        [BFLOAT16, QK_NORM, "training.compile=true"],
        0.03,
    ),
    "checkpointing as not": ("gpt", [FLOAT32], [FLOAT32, "training.checkpointing=true"], 1e-4),
}
RESUME_CHECK = "a resumed run is the run that nobody stopped"


def check_names(device: str) -> list[str]:
    """The names of the checks on a device; some need a GPU."""
    same = [name for name in LOSS_CHECKS if device != "cpu" or not name.startswith(("flex", "float16", "varlen"))]
    return [*(f"{kind}: the losses and the answer of the CPU" for kind in MODELS), *same, RESUME_CHECK]


def run_check(name: str, parent: Path, deadline: float) -> str | None:
    """Run a check in a temporary folder; returns None if it passes, else what is wrong.

    Args:
        deadline: of its commands, on the clock of time.monotonic().
    """
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        try:
            return CommandRunner(deadline).check(name, Path(folder))
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            return f"{type(error).__name__}: {error}"


@dataclass
class CommandRunner:
    """Runs commands of zoo with a deadline."""

    deadline: float

    def check(self, name: str, folder: Path) -> str | None:
        """Run a check; returns None if it passes, else what is wrong.

        Raises:
            RuntimeError: a command failed or timed out.
        """
        first, second = folder / "first", folder / "second"
        if name in LOSS_CHECKS:
            kind, changes, other_changes, tolerance = LOSS_CHECKS[name]
            return compare_losses(self.train(second, kind, other_changes), self.train(first, kind, changes), tolerance)
        if name == RESUME_CHECK:
            self.train(second, "gpt", [FLOAT32, "training.steps=8", "training.schedule=constant"])
            self.train(first, "gpt", [FLOAT32, "training.steps=4", "training.schedule=constant"])
            self.run_zoo(["pretrain", *MODELS["gpt"][:2], "-o", str(first), "--resume", "--set", "training.steps=8"])
            # not exact: GPU kernels sum in any order; on the CPU, tests require equal bits
            return compare_losses(logged_losses(first), logged_losses(second), 1e-5)
        kind = name.split(":")[0]
        losses, cpu_losses = self.train(second, kind, [FLOAT32]), self.train(first, kind, [FLOAT32], **HIDE_GPU)
        command = ["predict", str(first), MODELS[kind][2], "--precision", "float32"]
        answer, on_cpu = self.run_zoo(command), self.run_zoo(command, **HIDE_GPU)
        difference = None if answer.split() == on_cpu.split() else f"answers {answer!r}, on the CPU {on_cpu!r}"
        return compare_losses(losses, cpu_losses, 2e-3) or difference

    def run_zoo(self, words: Sequence[str], **changes: str) -> str:
        """Run a command of zoo, with some environment variables changed; returns what it prints.

        Raises:
            RuntimeError: it failed or timed out.
        """
        command, environment = [sys.executable, "-m", "zoo", *words], {**os.environ, **changes}
        try:
            timeout = max(1.0, self.deadline - time.monotonic())
            finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"zoo {' '.join(words)}: was not done in time") from None
        if finished.returncode:
            raise RuntimeError(f"zoo {' '.join(words)}: status {finished.returncode}: {finished.stderr[-1500:]}")
        if FAILED in finished.stderr:  # zoo logs this failure and continues
            raise RuntimeError(finished.stderr[finished.stderr.index(FAILED) :].partition("\n")[0])
        return finished.stdout

    def train(self, folder: Path, kind: str, sets: Sequence[str], **environment: str) -> list[float]:
        """Train a short run without dropout, of 8 steps unless `sets` says otherwise; returns its losses."""
        changes = [*SHORT_RUN, *(["training.steps=8"] if not any("steps" in text for text in sets) else []), *sets]
        self.run_zoo(["pretrain", *MODELS[kind][:2], "-o", str(folder), *changes], **environment)
        return logged_losses(folder)


def logged_losses(folder: Path) -> list[float]:
    """The loss of each step of a run; NaN if it was not finite, for which JSON has no number."""
    losses = [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [math.nan if loss is None else loss for loss in losses]


def compare_losses(actual: Sequence[float], expected: Sequence[float], tolerance: float) -> str | None:
    """None if the losses agree within a relative tolerance, else both as a message; NaN agrees with nothing."""
    pairs = list(zip(actual, expected, strict=False))
    if len(actual) == len(expected) and all(abs(a - b) <= tolerance * abs(b) for a, b in pairs):
        return None
    return f"losses {list(actual)}, wanted {list(expected)}"
