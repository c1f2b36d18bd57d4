"""A hash of all that 100 steps of training leave behind, on record for the kinds of machine that were tried.

`PYTHONPATH=src:tests python tests/training/same_bits.py` writes the rows of this machine's kind. Where its own hashes
have changed, those of other machines are of earlier code and dropped: the change must say why the bits are others.
"""

import json
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from every_objective import Case, Objectives
from tiny import alone, lines, settings, tensors

from zoo.batches.feed import Feed
from zoo.models.create import create_model
from zoo.runs.environment import instructions
from zoo.runs.run import RunFiles
from zoo.training.loop import train
from zoo.training.start import start_run

FILE = Path(__file__).with_suffix(".json")
THREADS = (1, 2)
RUNS: dict[str, Objectives] = {
    "bert-nano": {"masked_lm": {}, "next_sentence": {}},
    "transformer-nano": {"translation": {}},
}
Row = dict[str, Any]


def kind(threads: int) -> Row:
    """What decides the bits of a sum on a CPU: torch's version, the processor and its instructions, and the threads."""
    able = torch.cpu.get_capabilities()
    named = [str(able.get("cpu_name", "")), instructions(), *sorted(name for name, has in able.items() if has is True)]
    return {"torch": torch.__version__, "instructions": " ".join(named).strip(), "threads": threads}


def train_from_seed(folder: Path, name: str, seed: int, steps: int) -> str:
    """The hash of a run with dropout, micro-batches and everything else drawn from a seed."""
    examples = Case(RUNS[name], name, torch.float32).examples()
    model = create_model(name, seed=seed, vocab_size=examples.roles.vocab_size, heads=examples.mixture.heads)
    values = {"batch": 4, "micro_batch": 2, "learning_rate": 1e-3, "schedule": "cosine", "ema": 0.9}
    training = settings(**values, steps=steps, seed=seed, evaluate_every=0, save_every=0)
    with start_run(alone(), folder, RunFiles({}), resume=False) as run:
        train(model, Feed(examples), examples.mixture, training, run, alone())
    return digest(folder)


def digest(folder: Path) -> str:
    """Of a run's losses and norms, and of the bits of its weights, averages and optimizer's state."""
    logged = [
        [value for key, value in sorted(line.items()) if key.startswith(("loss", "grad"))] for line in lines(folder)
    ]
    found = sha256(json.dumps(logged).encode())
    for name, tensor in sorted(tensors(folder).items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


def hashes(folder: Path, threads: int, seed: int = 0, steps: int = 100) -> dict[str, str]:
    """By run, its hash with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return {name: train_from_seed(folder / name, name, seed, steps) for name in RUNS}
    finally:
        torch.set_num_threads(before)


def read_rows() -> list[Row]:
    rows: list[Row] = json.loads(FILE.read_text()) if FILE.exists() else []
    return rows


def recorded(rows: list[Row], machine: Row) -> dict[str, str] | None:
    """The hashes on record for a kind of machine; None where there are none."""
    found = [row["hashes"] for row in rows if {key: row[key] for key in machine} == machine]
    return found[0] if found else None


def record(rows: list[Row], new: list[Row]) -> list[Row]:
    """The rows with new ones in place of their own kind's; other kinds stay where no hash of this one has changed."""
    changed = False
    for row in new:
        before = recorded(rows, {key: row[key] for key in row if key != "hashes"})
        changed = changed or before not in (None, row["hashes"])
    machines = [{key: row[key] for key in row if key != "hashes"} for row in new]
    others = [row for row in rows if {key: row[key] for key in machines[0]} not in machines]
    return sorted([*new, *([] if changed else others)], key=lambda row: str(list(row.values())))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        new = [{**kind(n), "hashes": hashes(Path(folder) / str(n), n)} for n in THREADS]
    FILE.write_text(json.dumps(record(read_rows(), new), indent=1) + "\n")
    print(FILE.read_text())


if __name__ == "__main__":
    main()
