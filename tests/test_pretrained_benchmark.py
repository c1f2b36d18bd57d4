"""Fine-tuning a transformers checkpoint with zoo and with transformers' Trainer, and the table of both."""

from argparse import Namespace
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import transformers

import zoo
from programs import load_program
from zoo.cli.main import main
from zoo.strict_yaml import parse_yaml

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "plot"]
TASK = """# task.yaml: is a review good?
objective: classification
source: {files: {train: rows.tsv, validation: rows.tsv}}
labels: [negative, positive]
length: 16
metrics: [accuracy, f1]
training: {epochs: 2, learning_rate: 1e-3, warmup_steps: 0.1}
"""


class RecordedTrainer(transformers.Trainer):
    """transformers' Trainer; the last one made is kept."""

    last: "RecordedTrainer"

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        RecordedTrainer.last = self


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    program = load_program("benchmarks/pretrained.py")
    monkeypatch.setattr(program, "Trainer", RecordedTrainer)
    # the Trainer's bfloat16 would stay that of every Accelerator of this process, other tests' too
    monkeypatch.setattr(program.SideArgs, "precision", "float32")
    return program


@pytest.fixture
def options(tmp_path: Path) -> Namespace:
    """A small checkpoint that transformers wrote, with a tokenizer, and a task of twelve rows."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    transformers.BertModel(transformers.BertConfig(vocab_size=len(WORDS), **sizes)).save_pretrained(tmp_path / "bert")
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(tmp_path / "bert")
    rows = [f"{word} {thing}\t{label}" for word, label in (("good", 1), ("bad", 0)) for thing in WORDS[6:]]
    (tmp_path / "rows.tsv").write_text("\n".join(["text\tlabel", *rows, *rows]) + "\n")
    (tmp_path / "task.yaml").write_text(TASK)
    folder = tmp_path / "results"
    folder.mkdir()
    return Namespace(checkpoint=tmp_path / "bert", folder=folder, data=tmp_path, examples=4, epochs=None, seeds=1)


def run_here(*words: object) -> str:
    """A zoo command in this process."""
    with redirect_stdout(StringIO()) as out:
        main([str(word) for word in words])
    return out.getvalue()


def test_both_sides_are_trained_measured_and_not_repeated(
    benchmark: Any, options: Namespace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(benchmark, "run_zoo", run_here)
    ours, theirs = benchmark.compare(str(options.data / "task.yaml"), options)
    assert ours.startswith("| `task` | zoo | accuracy ") and theirs.startswith("| `task` | Trainer | accuracy ")
    for side in ("zoo", "Trainer"):  # what each side wrote has the task's classes
        written = options.folder / f"task-{side}-0"
        assert zoo.pipeline(written)("good film")[0]["scores"].keys() == {"negative", "positive"}
    settings = parse_yaml((options.folder / "task-zoo-0" / "training.yaml").read_text(), "training.yaml")
    trainer = RecordedTrainer.last
    assert settings["steps"] == trainer.state.global_step == 6  # 2 epochs of 3 updates
    assert settings["warmup_steps"] == trainer.args.get_warmup_steps(6) == 1
    assert settings["schedule"] == {"name": trainer.args.lr_scheduler_type, "floor": 0}
    names = {"learning_rate": "learning_rate", "seed": "seed", "clip": "max_grad_norm"}
    assert [settings[ours] for ours in names] == [getattr(trainer.args, theirs) for theirs in names.values()]
    exported = options.folder / "task-zoo-0-export"
    assert type(transformers.AutoModelForSequenceClassification.from_pretrained(exported)).__name__.startswith("Bert")
    monkeypatch.delattr(benchmark, "run_zoo")
    assert benchmark.compare(str(options.data / "task.yaml"), options) == [ours, theirs]


def test_the_trainer_reads_pairs_with_numbers_and_the_given_settings(benchmark: Any, options: Namespace):
    task = options.data / "pairs.yaml"
    task.write_text(TASK.replace("rows.tsv", "pairs.tsv").replace("[negative, positive]", "number"))
    rows = [f"good {one}\tbad {other}\t{one == other}.5" for one in WORDS[7:] for other in WORDS[7:]]
    (options.data / "pairs.tsv").write_text(
        "\n".join(["text\tpair\tlabel", *rows]).replace("True", "4").replace("False", "0")
    )
    options.epochs, options.examples = 1, 2
    benchmark.train_transformers(str(task), options.folder / "pairs", 7, options)
    trainer = RecordedTrainer.last
    assert (trainer.state.global_step, trainer.args.seed, trainer.model.config.problem_type) == (2, 7, "regression")
    first = trainer.train_dataset[0]
    assert [WORDS[token] for token in first["input_ids"]] == "[CLS] good film [SEP] bad film [SEP]".split()
    assert (first["token_type_ids"], first["label"]) == ([0] * 4 + [1] * 3, 4.5)


def test_a_row_has_each_metric_by_seed(benchmark: Any):
    figures = [{"seconds": 3, "classification/accuracy": 0.5, "classification/f1": 0.25}]
    figures += [{"seconds": 5, "classification/accuracy": 1.0, "classification/f1": 0.25}]
    row = benchmark.table_row("sst2", "zoo", figures)
    assert row == "| `sst2` | zoo | accuracy 50.0, 100.0; f1 25.0, 25.0 | 50.0 | 4 |"
