"""The command line called in this process, on data files that are written for each run of the tests."""

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from zoo.cli.main import main
from zoo.data.builtin.numbers import spell

WORDS = "the a red blue cat dog runs sleeps sees big small tree house under over in".split()
TASKS = {
    "classify": """# classify.yaml: which of two classes
objective: classification
source: {files: {train: rows.tsv, test: rows.tsv}}
columns: {text: sentence, label: label}
tokenizer: {name: wordpiece, vocab_size: 120}
length: 24
metrics: [accuracy]
training: {steps: 3, batch: 4, warmup_steps: 0, learning_rate: 1e-3, precision: float32}
""",
    "pairs": """# pairs.yaml: pairs of texts
base: classify.yaml
columns: {text: sentence, pair: other, label: label}
""",
    "lm": """# lm.yaml: predict the next token
objective: causal_lm
source: {files: {train: text.txt}}
columns: {text: text}
tokenizer: {name: byte_bpe, vocab_size: 300}
length: 32
metrics: [perplexity]
training: {steps: 3, batch: 4, warmup_steps: 0, learning_rate: 1e-3, precision: float32}
""",
    "mlm": """# mlm.yaml: fill masked positions
base: lm.yaml
objective: masked_lm
tokenizer: {name: wordpiece, vocab_size: 120}
metrics: [accuracy]
""",
    "numbers": """# numbers.yaml: numbers in words
objective: translation
source: {files: {train: numbers.tsv}}
tokenizer: {name: bpe, vocab_size: 120}
length: {source: 80, target: 128}
longest: {source: 16, target: 32}
metrics: [chrf]
generate: {max_new_tokens: 4}
training: {steps: 2, batch: 2, warmup_steps: 0, evaluate_every: 0, precision: float32}
""",
}
BROKEN = {
    "broken": "# broken.yaml: cut off\nobjective: {masked_lm: [\n",
    "empty": "base: classify.yaml\nsource: {files: {train: none.tsv, test: none.tsv}}\n",
}


class Said(NamedTuple):
    """What a command left: its status, its two streams, and its log (which pytest catches before standard error)."""

    status: int
    out: str
    err: str
    log: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def write_data(folder: Path) -> None:
    """Sixty rows of pairs with labels, numbers in words, a text of sixty lines, and tasks."""
    drawn = random.Random(1)
    rows = ["sentence\tother\tlabel"]
    for i in range(60):
        first, second = (" ".join(drawn.choices(WORDS, k=drawn.randint(3, 9))) for _ in range(2))
        rows.append(f"{first}\t{second}\t{'pos' if i % 2 else 'neg'}")
    (folder / "rows.tsv").write_text("\n".join(rows) + "\n")
    pairs = [f"{' '.join(str(n))}\t{spell(n)}" for n in range(0, 3000, 10)]
    (folder / "numbers.tsv").write_text("\n".join(["source\ttarget", *pairs]) + "\n")
    lines = [" ".join(drawn.choices(WORDS, k=drawn.randint(3, 20))) for _ in range(60)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    for name, text in {**TASKS, **BROKEN}.items():
        (folder / f"{name}.yaml").write_text(text)
    (folder / "none.tsv").write_text("sentence\tlabel\n")


def call(*words: object) -> int:
    """The exit status of a command."""
    try:
        main([str(word) for word in words])
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def say(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, *words: object) -> Said:
    """A command's status and what it printed."""
    capsys.readouterr()
    caplog.clear()
    status = call(*words)
    out, err = capsys.readouterr()
    return Said(status, out, err, caplog.text)
