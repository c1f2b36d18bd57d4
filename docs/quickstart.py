"""Pretrain, fine-tune and export five small models with the real commands, and show the results.

python docs/quickstart.py [FOLDER]        (default: quickstart-runs)
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import save_file
from torch import Tensor

import zoo
from zoo.data.sources.find import load_rows
from zoo.data.task import load_task
from zoo.examples.form import inputs

MARK = ".quickstart"  # lies in a folder that this program made
PARTS = ("runs", "exports", "logits")  # all that it writes beside the mark
LAST = 10  # steps whose mean is the loss at the end
PLACES = 16  # tokens in each text whose logits are compared
ANSWER = 60  # characters of an answer that are shown
APART = Path(__file__).with_name("load_without_zoo.py")
console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)


@dataclass(frozen=True)
class Model:
    """One of the models that are trained here.

    Args:
        name: of its folders. start: a model's name, or the name of the run that it is fine-tuned from.
        task: its name. ask: what the trained model is asked.
        auto: the Auto class that loads its export. outputs: head -> field of the output.
        train, predict: what `--set` changes in training, and in predicting.
    """

    name: str
    command: str
    start: str
    task: str
    ask: str
    auto: str
    outputs: dict[str, str]
    train: tuple[str, ...] = ()
    predict: tuple[str, ...] = ()


DOCSTRING = "Open a connection to the server at host and port and send the request headers."
MODELS = (
    Model(
        "bert", "pretrain", "bert-tiny", "pydocs-mlm", "Return the [MASK] of the file.",
        "AutoModelForPreTraining", {"masked_lm": "prediction_logits", "next_sentence": "seq_relationship_logits"},
        train=("initialize.std=0.06",),
    ),
    Model(
        "gpt", "pretrain", "gpt2-tiny", "pydocs-lm", "Return the",
        "AutoModelForCausalLM", {"language": "logits"}, predict=("generate.max_new_tokens=12",),
    ),
    Model(
        "bert-topic", "finetune", "bert", "pydocs-topic", DOCSTRING,
        "AutoModelForSequenceClassification", {"classification": "logits"},
    ),
    Model(
        "gpt-topic", "finetune", "gpt", "pydocs-topic", DOCSTRING,
        "AutoModelForSequenceClassification", {"classification": "logits"},
    ),
    Model(
        "translator", "pretrain", "transformer-micro", "numbers-words", "2 4 7 0 3",
        "AutoModelForSeq2SeqLM", {"language": "logits"},
    ),
)  # fmt: skip


def main(folder: Path) -> None:
    """Train, export, load apart, and print what came out."""
    began = time.perf_counter()
    prepare(folder)
    for model in MODELS:
        start = str(folder / "runs" / model.start) if model.command == "finetune" else model.start
        run(model.command, start, model.task, "-o", str(folder / "runs" / model.name), *sets(model.train))
    for model in MODELS:
        run("export", str(folder / "runs" / model.name), str(folder / "exports" / model.name))
    answers = {model.name: ask(folder, model) for model in MODELS}
    apart = load_apart(folder)
    console.print()
    console.print(f"Loaded by plain transformers in a separate process, where `import zoo` fails: {apart['refusal']}")
    console.print()
    console.print(table(folder, answers, apart["differences"]))
    console.print(f"the folders are in {folder}", soft_wrap=True)
    console.print(f"quickstart: done in {time.perf_counter() - began:.0f} s")


def prepare(folder: Path) -> None:
    """Make the folder new: what an earlier quickstart wrote there goes, and nothing else.

    Raises:
        ValueError: the folder holds something that no quickstart made.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise ValueError(f"{folder}: holds something that quickstart did not make; name a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text("written by docs/quickstart.py, which may delete runs, exports and logits beside this\n")
    for part in PARTS:
        remove(folder / part)


def remove(folder: Path) -> None:
    """Delete a folder with all that is in it; links are deleted, never followed."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.is_dir():
        for path in folder.iterdir():
            remove(path)
        folder.rmdir()


def run(*words: str, capture: bool = False) -> str:
    """Echo a zoo command and run it; its progress goes to the terminal.

    Raises:
        RuntimeError: the command failed.
    """
    console.print(f"\n[bold green]$[/] [bold]{shlex.join(['zoo', *words])}[/]", soft_wrap=True)
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "zoo", *words], stdout=subprocess.PIPE if capture else None, text=True)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(['zoo', *words])}: exit status {done.returncode}")
    console.print(f"[dim]({time.perf_counter() - began:.0f} s)[/]")
    return done.stdout or ""


def sets(settings: tuple[str, ...]) -> list[str]:
    """Settings as `--set` options."""
    return [word for setting in settings for word in ("--set", setting)]


def ask(folder: Path, model: Model) -> str:
    """What `zoo predict` says."""
    words = (model.ask, *sets(model.predict), "--json")
    said = run("predict", str(folder / "runs" / model.name), *words, capture=True)
    answer = " ".join(str(json.loads(said)[0]["output"]).split())
    console.print(f"{model.ask} -> {answer}", markup=False, soft_wrap=True)
    return answer


def load_apart(folder: Path) -> dict[str, Any]:
    """Largest difference of logits by export, found by a process in which zoo cannot be imported."""
    logits = folder / "logits"
    logits.mkdir()
    wanted = []
    for model in MODELS:
        tensors = logits / f"{model.name}.safetensors"
        save_file(native_logits(folder / "runs" / model.name, model.outputs), tensors)
        export = str(folder / "exports" / model.name)
        wanted.append({"folder": export, "auto": model.auto, "tensors": str(tensors)})
    request = logits / "request.json"
    request.write_text(json.dumps(wanted), "utf-8")
    command = [sys.executable, "-I", str(APART), str(request)]
    console.print(f"\n[bold green]$[/] [bold]{shlex.join(['python', *command[1:]])}[/]", soft_wrap=True)
    kept = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=kept, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@torch.no_grad()
def native_logits(run_folder: Path, outputs: dict[str, str]) -> dict[str, Tensor]:
    """Random token ids as arguments of transformers, and the logits that zoo's own model gives for them."""
    model = zoo.load(run_folder)
    generator = torch.Generator().manual_seed(0)
    table = model.stream.embeddings
    assert table is not None
    tokens, source = torch.randint(7, table.tokens.num_embeddings, (2, 3, PLACES), generator=generator)
    if model.encoder is None or model.decoder is None:
        said = model(tokens)
        given = {"input_ids": tokens}
    else:
        said = model(tokens, source=source)
        given = {"input_ids": source, "decoder_input_ids": tokens}
    found = {f"input/{name}": tensor for name, tensor in given.items()}
    return found | {f"logits/{outputs[name]}": said.heads[name].contiguous() for name in outputs}


def table(folder: Path, answers: dict[str, str], differences: dict[str, float]) -> Table:
    """All models: loss, accuracy, an answer, and how far the export is from the run."""
    made = Table(title="quickstart", title_justify="left", show_lines=True)
    made.add_column("model: its run and its export", overflow="fold")
    for heading in ("loss before\nand after", "validation\naccuracy", "majority\nclass", "largest logit\ndifference"):
        made.add_column(heading, justify="right")
    made.add_column("input -> output")
    for model in MODELS:
        run_folder, export = folder / "runs" / model.name, folder / "exports" / model.name
        before, after, accuracy = measured(run_folder)
        made.add_row(
            f"[bold]{model.name}[/] ({model.task})\n{run_folder.relative_to(folder)}\n{export.relative_to(folder)}",
            f"{before:.2f}\n{after:.2f}",
            "-" if accuracy is None else f"{accuracy:.1%}",
            f"{majority(model.task):.1%}" if model.command == "finetune" else "-",
            f"{differences[str(export)]:.1e}",
            f"{shown(model.ask)}\n[green]-> {shown(answers[model.name])}[/]",
        )
    return made


def shown(text: str) -> str:
    """The beginning of a text, with nothing in it that the table would take for markup."""
    return (text if len(text) <= ANSWER else text[:ANSWER] + "…").replace("[", r"\[")


def measured(run_folder: Path) -> tuple[float, float, float | None]:
    """Loss of the first step, mean loss of the last ones, and the first objective's best accuracy in validation."""
    lines = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    last = [line["loss"] for line in lines[-LAST:]]
    found = [
        value for line in lines for key, value in line.items()
        if key.startswith("validation/") and key.endswith(("masked_lm/accuracy", "classification/accuracy"))
    ]  # fmt: skip
    return lines[0]["loss"], sum(last) / len(last), max(found, default=None)


def majority(task: str) -> float:
    """The share of validation that one gets right who always names train's most frequent class."""
    rows = load_rows(load_task(task), inputs())
    train, validation = (Counter(row["label"] for row in rows[split]) for split in ("train", "validation"))
    return validation[train.most_common(1)[0][0]] / validation.total()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("quickstart-runs"))
    try:
        main(parser.parse_args().folder)
    except (ValueError, RuntimeError) as error:
        sys.exit(f"quickstart: {error}")
