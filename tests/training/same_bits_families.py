"""A hash of each thing that 30 steps of every family of models, and its exports, leave behind; record and compare.

Only the command line and the files of runs and exports are used, so the same program runs on any state of the source:

    python tests/training/same_bits_families.py compare                        # with the rows on record
    PYTHONPATH=OTHER/src python tests/training/same_bits_families.py record --file before.json
    python tests/training/same_bits_families.py compare --file before.json     # with another checkout, on any machine

`record` without `--file` writes the rows of this machine's kind: say in the change why the bits must be others.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from safetensors.numpy import load_file
from small_data import write_data, write_tasks

import zoo
from zoo.__main__ import main as run_command

FILE = Path(__file__).with_suffix(".json")
SAME, DIFFERENT, WRONG = 0, 1, 2
NATIVE = ""  # the target that `zoo export` takes without --to
LOGGED = ("loss", "gradient_norm", "learning_rate", "empty", "validation/")  # of a line of metrics.jsonl, and no times
# not training.yaml, which every new setting changes, and nothing else does that these do not show
SETTINGS = ("config.yaml", "task.yaml", "tokenizer.json", "roles.json")
UNREAD = (".md", ".png")  # the card and its curves: they name versions and times
VERSIONS = ("transformers_version", "zoo_version")
TRAINING = {
    **{"steps": 30, "batch": 8, "micro_batch": 3, "seed": 0, "precision": "float32", "clip": 0.5, "ema": 0.9},
    **{"learning_rate": 3e-3, "schedule": "cosine", "warmup_steps": 5, "evaluate_every": 10, "save_every": 15},
}
SIZES = {"n_layers": 2, "n_heads": 4, "d_ff": 48}
STACKS = {f"{side}.{key}": n for side in ("encoder", "decoder") for key, n in SIZES.items()}
SMALL = {"d_model": 32, "max_length": 64, **STACKS}
FAILED = "failed"  # the one part of a family whose commands did not all end well
ALONE = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "HF_HUB_OFFLINE"), "1"),
    **{"TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"},
}
Row = dict[str, Any]
Hashes = dict[str, str]


@dataclass(frozen=True)
class Family:
    """A model, what it is trained on, and the targets of its exports.

    Args:
        sets: what differs from the model's file and from `TRAINING`.
        then: a task that the run is fine-tuned on, and exported to the first target; None: none.
    """

    model: str
    task: str
    targets: tuple[str, ...] = ("zoo",)
    sets: Mapping[str, Any] | None = None
    then: str | None = None

    def commands(self) -> Iterator[list[str]]:
        """The words of each command in a folder that holds the data: runs in `runs/`, exports in `exports/`."""
        values = {f"training.{key}": value for key, value in TRAINING.items()}
        sets = set_words(values | dict(self.sets or {}))
        yield ["pretrain", self.model, f"{self.task}.yaml", "-o", "runs/pretrained", "--data", ".", *sets]
        yield from self.exports("pretrained", self.targets)
        if self.then is not None:
            sets = set_words(values)
            yield ["finetune", "runs/pretrained", f"{self.then}.yaml", "-o", "runs/finetuned", "--data", ".", *sets]
            yield from self.exports("finetuned", self.targets[:1])

    def exports(self, run: str, targets: Sequence[str]) -> Iterator[list[str]]:
        for target in targets:
            asked = ["--to", target] if target else []
            yield ["export", f"runs/{run}", f"exports/{run}-{target or 'native'}", *asked]


def set_words(values: Mapping[str, Any]) -> list[str]:
    return [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]


BOTH = (NATIVE, "zoo")
GENTLY = {"training.learning_rate": 3e-4}  # trained further, rotary models are refused by `--to zoo`
FAMILIES = {
    "bert": Family("bert-nano", "bert", BOTH, then="topic"),
    "electra": Family("electra-nano", "replaced", BOTH, then="topic"),
    "gpt": Family("gpt-nano", "lm", BOTH, then="topic-lm"),
    "gpt2": Family("gpt2-nano", "bytes", BOTH, {"training.ema": None, "training.average": 2}),
    "gpt-modern": Family("gpt-modern-nano", "bytes", (NATIVE, "mistral", "zoo"), GENTLY),
    "gpt-qk-norm": Family("gpt-modern-nano", "bytes", (NATIVE,), {"decoder.attention.qk_norm": True}),
    "bert-modern": Family("bert-modern-nano", "masked", BOTH, GENTLY),
    "translation": Family("transformer-nano", "pairs", BOTH),
    "translation-pre-norm": Family("transformer-pre-norm", "pairs", (NATIVE,), SMALL),
    "t5": Family("t5-nano", "pairs", BOTH),
    "rnn-attention": Family("rnn-attention-nano", "pairs"),
    "rnn-seq2seq": Family("rnn-seq2seq-nano", "letters"),
    "captioner-rnn": Family("captioner-rnn-nano", "captions"),
    "captioner-transformer": Family("captioner-transformer-nano", "captions"),
    "cnn-attention": Family("cnn-attention-nano", "colors"),
}


def work(name: str, exporting: bool) -> None:
    """Train and export one family in the working directory: importing takes longer, so one process does all of it."""
    torch.set_num_threads(1)
    for words in FAMILIES[name].commands():
        if words[0] == "export" and not exporting:
            continue
        try:
            run_command(words)
        except SystemExit as end:
            if end.code:
                raise


def start(name: str, folder: Path, exporting: bool) -> Hashes:
    """The hashes of a family, trained by a process of its own in a new folder, or the last line of its error."""
    began = time.monotonic()
    folder.mkdir(parents=True)
    write_data(folder)
    write_tasks(folder)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("ZOO_", "HF_"))}
    places = {"ZOO_CACHE": str(folder / "cache"), "HF_HOME": str(folder / "hugging-face")}
    source = str(Path(zoo.__file__).resolve().parents[1])  # PYTHONPATH may be relative to another folder
    words = [sys.executable, str(Path(__file__).resolve()), "work", name, "export"][: 5 if exporting else 4]
    environment = {**inherited, **ALONE, **places, "PYTHONPATH": source}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    if done.returncode:
        (folder / "stderr.txt").write_text(done.stderr)
        return {FAILED: (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    return digest(folder)


def digest(folder: Path) -> Hashes:
    """By part, such as `pretrained/weights`, the hash of all that the runs and exports in a folder hold."""
    found: Hashes = {}
    for run in sorted((folder / "runs").iterdir()):
        parts = {"losses": losses(run)}
        parts |= {name: (run / name).read_bytes() for name in SETTINGS if (run / name).exists()}
        last = max((run / "checkpoints").iterdir(), key=lambda checkpoint: int(checkpoint.name))
        parts |= {f"{path.stem} of the last checkpoint": tensors(path) for path in last.glob("*.safetensors")}
        found |= {f"{run.name}: {part}": sha256(content).hexdigest()[:16] for part, content in sorted(parts.items())}
    for export in sorted((folder / "exports").glob("*")):
        files = [path for path in sorted(export.iterdir()) if path.suffix not in UNREAD]
        found |= {f"export {export.name}: {path.name}": sha256(content(path)).hexdigest()[:16] for path in files}
    return found


def losses(run: Path) -> bytes:
    """What each step logged of losses, norms and validation, every float with all its digits."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == TRAINING["steps"], f"{run.name} has {len(lines)} steps"
    logged = [{key: line[key] for key in sorted(line) if key.startswith(LOGGED)} for line in lines]
    return json.dumps(logged).encode()


def tensors(path: Path) -> bytes:
    """Names, types, shapes and bits of a file's tensors, in the order of their names."""
    held = sorted(load_file(path).items())
    return b"".join(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes() for name, value in held)


def content(path: Path) -> bytes:
    """A file of an export: tensors without metadata, JSON without layout and versions, else its bytes."""
    if path.suffix == ".safetensors":
        return tensors(path)
    if path.suffix == ".json":
        tree = {key: value for key, value in json.loads(path.read_text("utf-8")).items() if key not in VERSIONS}
        return json.dumps(tree, sort_keys=True).encode()
    return path.read_bytes()


def kind() -> Row:
    """What decides the bits of a sum on a CPU: torch's version, the processor and its instructions."""
    able = torch.cpu.get_capabilities()
    named = [str(able.get("cpu_name", "")), *sorted(name for name, has in able.items() if has is True)]
    return {"torch": torch.__version__, "instructions": " ".join(named).strip(), "threads": 1}


def measure(names: Sequence[str], folder: Path, workers: int, exporting: bool) -> dict[str, Hashes]:
    """By family, its hashes; as many families at once as there are workers."""
    with ThreadPoolExecutor(workers) as pool:
        began = {name: pool.submit(start, name, folder / name, exporting) for name in names}
        return {name: future.result() for name, future in began.items()}


def record(file: Path, new: dict[str, Hashes]) -> None:
    """Write the hashes of this kind of machine; the parts that differ from its own before leave the rows of others.

    A kind without a row of its own shows no change, so all rows of others stay.
    """
    rows = read_rows(file)
    before = recorded(rows) or {}
    changed = {(name, part) for name, part, why in compare(before, {**before, **new}) if why != "new"}
    others = [{**row, "families": without(row["families"], changed)} for row in rows if not is_here(row)]
    rows = [*others, {**kind(), "families": dict(sorted({**before, **new}.items()))}]
    file.write_text(json.dumps(sorted(rows, key=lambda row: str(row["instructions"])), indent=1) + "\n")


def without(families: dict[str, Hashes], parts: set[tuple[str, str]]) -> dict[str, Hashes]:
    return {name: {p: h for p, h in hashes.items() if (name, p) not in parts} for name, hashes in families.items()}


def read_rows(file: Path) -> list[Row]:
    rows: list[Row] = json.loads(file.read_text()) if file.exists() else []
    return rows


def is_here(row: Row) -> bool:
    return all(row[key] == value for key, value in kind().items())


def recorded(rows: list[Row]) -> dict[str, Hashes] | None:
    """By family, the hashes on record for this kind of machine; None where there are none."""
    return next((row["families"] for row in rows if is_here(row)), None)


def compare(
    expected: Mapping[str, Hashes], found: Mapping[str, Hashes], exported: bool = True
) -> list[tuple[str, str, str]]:
    """Family, part and what is the matter, of each part that differs."""
    faults = []
    for name, hashes in found.items():
        if FAILED in hashes:
            faults.append((name, hashes[FAILED], FAILED))
            continue
        before = {part: h for part, h in expected.get(name, {}).items() if exported or not part.startswith("export")}
        for part in dict.fromkeys([*before, *hashes]):
            if part not in hashes or part not in before:
                faults.append((name, part, "gone" if part in before else "new"))
            elif before[part] != hashes[part]:
                faults.append((name, part, "other bits"))
    return faults


def show(faults: list[tuple[str, str, str]], found: Mapping[str, Hashes]) -> None:
    """A table of what differs, or how much is the same."""
    parts = sum(map(len, found.values()))
    if faults:
        table = Table("family", "part", "", title=f"{len(faults)} of {parts} parts differ")
        for fault in faults:
            table.add_row(*fault)
        Console(width=120).print(table)
    else:
        print(f"the same bits: {parts} parts of {len(found)} families")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["record", "compare"])
    parser.add_argument("--file", type=Path, default=FILE, help="the record; default: the one in the repository")
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--keep", type=Path, help="a new folder for data, runs and exports; default: a temporary one")
    parser.add_argument("--training-only", action="store_true", help="compare without exports")
    parser.add_argument("--workers", type=int, default=2, help="families at once, one thread each")
    options = parser.parse_args(arguments)
    if options.mode == "record" and options.training_only:
        parser.error("--training-only belongs to `compare`")
    return options


def main() -> int:
    options = parse()
    expected = recorded(read_rows(options.file))
    if options.mode == "compare" and expected is None:
        print(f"{options.file}: no row for this kind of machine; write one with `record` on the earlier source first")
        return WRONG
    print(f"source: {Path(zoo.__file__).parent}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        found = measure(options.only, folder, options.workers, not options.training_only)
    if options.mode == "record" and not any(FAILED in hashes for hashes in found.values()):
        record(options.file, found)
        return SAME
    faults = compare(expected or {}, found, not options.training_only)
    show(faults, found)
    return DIFFERENT if faults else SAME


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:  # the process of one family
        work(sys.argv[2], sys.argv[3:] == ["export"])
    else:
        sys.exit(main())
