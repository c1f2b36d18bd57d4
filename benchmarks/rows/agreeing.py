"""Compare zoo's commands on a GPU with the same commands on the CPU: losses, a resumed run, backends, answers.

Without a GPU both sides run on the CPU, and all checks of `checks_on("cpu")` must pass, too.
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

KINDS = {  # kind -> the smallest model, a task that needs no data, and an input text
    "gpt": ("gpt2-nano", "pydocs-lm", "Return the"),
    "bert": ("bert-nano", "pydocs-mlm", "Return the [MASK] of the file."),
    "translator": ("transformer-nano", "numbers-words", "2 4 7 0 3"),
    "classifier": ("bert-nano", "pydocs-topic", "Open a connection."),
    "modern gpt": ("gpt-modern-nano", "pydocs-lm", "Return the"),
    "text-to-text": ("t5-nano", "pydocs-spans", "Return the <extra_id_0> of the file."),
    "recurrent": ("rnn-attention-nano", "numbers-words", "2 4 7 0 3"),
}
SHORT = ("training.batch=4", "training.evaluate_every=0", "training.evaluation_examples=4")
SHORT += ("dropout=0", "training.warmup_steps=0")
EXACT, HALF = "training.precision=float32", "training.precision=bfloat16"
BACKEND = "training.attention_backend="  # set on both sides: with `auto` a GPU would use varlen in bfloat16
NORMED = "decoder.attention.qk_norm=true"
SHARED = ("decoder.attention.n_kv_heads=1", "max_length=80", "task.length=80")  # torch has two kernels, by length
ON_CPU = {"CUDA_VISIBLE_DEVICES": ""}
# check -> (kind, changes of the first run, of the second, largest relative difference of losses allowed)
Pair = tuple[str, Sequence[str], Sequence[str], float]
SAME_LOSSES: dict[str, Pair] = {
    "one gradient, however split": ("gpt", [EXACT], [EXACT, "training.micro_batch=1"], 1e-4),
    "bfloat16 is near float32": ("gpt", [EXACT], [HALF], 0.03),
    "float16 is near float32": ("gpt", [EXACT], ["training.precision=float16"], 0.03),
    "bfloat16 is near float32 where states recur": ("recurrent", [EXACT], [HALF], 0.03),
    "eager as sdpa": ("bert", [HALF, f"{BACKEND}sdpa"], [HALF, f"{BACKEND}eager"], 0.03),
    "flex as sdpa": ("bert", [HALF, f"{BACKEND}sdpa"], [HALF, f"{BACKEND}flex"], 0.03),
    "flex as sdpa where heads share keys of short rows": (
        "modern gpt",
        [HALF, *SHARED, f"{BACKEND}sdpa"],
        [HALF, *SHARED, f"{BACKEND}flex"],
        0.03,
    ),
    "varlen as sdpa": ("bert", [HALF, f"{BACKEND}sdpa"], [HALF, f"{BACKEND}varlen"], 0.03),
    "compiled as not": ("gpt", [EXACT], [EXACT, "training.compile=true"], 1e-3),
    "compiled as not, in bfloat16": ("gpt", [HALF], [HALF, "training.compile=true"], 0.03),
    "compiled as not where heads are normed": (
        "modern gpt",
        [HALF, NORMED],
        [HALF, NORMED, "training.compile=true"],
        0.03,
    ),
    "checkpointing as not": ("gpt", [EXACT], [EXACT, "training.checkpointing=true"], 1e-4),
}
RESUMED = "a resumed run is the run that nobody stopped"


def checks_on(device: str) -> list[str]:
    """The names of the checks on a device; some need a GPU."""
    same = [name for name in SAME_LOSSES if device != "cpu" or not name.startswith(("flex", "float16", "varlen"))]
    return [*(f"{kind}: the losses and the answer of the CPU" for kind in KINDS), *same, RESUMED]


def agree(name: str, made: Path, until: float) -> str | None:
    """Run a check; returns None if it passes, else what is wrong.

    Args:
        until: deadline of its commands, on the clock of time.monotonic().
    """
    made.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made) as folder:
        try:
            return Commands(until).check(name, Path(folder))
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            return f"{type(error).__name__}: {error}"


@dataclass
class Commands:
    """Runs commands of zoo with a deadline."""

    until: float

    def check(self, name: str, folder: Path) -> str | None:
        """As `agree`.

        Raises:
            RuntimeError: a command failed, or was not done in time.
        """
        first, second = folder / "first", folder / "second"
        if name in SAME_LOSSES:
            kind, changes, others, farthest = SAME_LOSSES[name]
            return near(self.train(second, kind, others), self.train(first, kind, changes), farthest)
        if name == RESUMED:
            self.train(second, "gpt", [EXACT, "training.steps=8", "training.schedule=constant"])
            self.train(first, "gpt", [EXACT, "training.steps=4", "training.schedule=constant"])
            self.zoo(["pretrain", *KINDS["gpt"][:2], "-o", str(first), "--resume", "--set", "training.steps=8"])
            # not exact: GPU kernels sum in any order; on the CPU, tests require equal bits
            return near(losses(first), losses(second), 1e-5)
        kind = name.split(":")[0]
        fault = near(self.train(second, kind, [EXACT]), self.train(first, kind, [EXACT], **ON_CPU), 2e-3)
        asked = ["predict", str(first), KINDS[kind][2], "--precision", "float32"]
        here, there = self.zoo(asked), self.zoo(asked, **ON_CPU)
        return fault or (None if here.split() == there.split() else f"answers {here!r}, on the CPU {there!r}")

    def zoo(self, words: Sequence[str], **environment: str) -> str:
        """Run a command; returns what it prints.

        Raises:
            RuntimeError: it failed, or was not done in time.
        """
        command, told = [sys.executable, "-m", "zoo", *words], {**os.environ, **environment}
        try:
            left = max(1.0, self.until - time.monotonic())
            done = subprocess.run(command, env=told, capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"zoo {' '.join(words)}: was not done in time") from None
        if done.returncode:
            raise RuntimeError(f"zoo {' '.join(words)}: status {done.returncode}: {done.stderr[-1500:]}")
        if FAILED in done.stderr:  # zoo logs this failure and continues
            raise RuntimeError(done.stderr[done.stderr.index(FAILED) :].partition("\n")[0])
        return done.stdout

    def train(self, folder: Path, kind: str, sets: Sequence[str], **environment: str) -> list[float]:
        """The losses of a short run without dropout, 8 steps unless it is told otherwise."""
        changes = [*SHORT, *(["training.steps=8"] if not any("steps" in text for text in sets) else []), *sets]
        self.zoo(["pretrain", *KINDS[kind][:2], "-o", str(folder), *changes], **environment)
        return losses(folder)


def losses(folder: Path) -> list[float]:
    """The loss of each step of a run; one that is not finite, for which JSON has no number, is not a number here."""
    lines = [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [math.nan if loss is None else loss for loss in lines]


def near(found: Sequence[float], wanted: Sequence[float], farthest: float) -> str | None:
    """None where losses are as near as they must be, else both; what is not a number is near nothing."""
    pairs = list(zip(found, wanted, strict=False))
    if len(found) == len(wanted) and all(abs(a - b) <= farthest * abs(b) for a, b in pairs):
        return None
    return f"losses {list(found)}, wanted {list(wanted)}"
