"""A model card says what is known of a run, in YAML that the hub reads, and nothing that data could smuggle in."""

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results

from versions import needs
from zoo.data.task import read_task
from zoo.hub.exporting.card.card import card_files
from zoo.hub.exporting.card.markdown import code_block, escape
from zoo.hub.exporting.card.snippets import PIPELINES, snippets
from zoo.hub.exporting.export import ExportReport
from zoo.hub.exporting.trained_model import TrainedModel, TrainingHistory
from zoo.hub.exporting.verify import Check
from zoo.hub.targets.choose import choose_target
from zoo.hub.targets.declare.registry import targets
from zoo.runs.request import BaseRecord, RequestRecord

NASTY = "a|b<script>alert(1)</script>\n---\ntags: [x]\n# big [c](javascript:d) ![e](f) `g` *h* ~~\x1b]0;i\u202e"
TASK = {
    "objective": {"classification": {}},
    "source": {
        "files": {"train": "/srv/quaxly/train.tsv", "validation": "sst2/dev.tsv"},
        "hub": "org/films:small",
    },
    "columns": {"text": "text", "label": "label"},
    "labels": ["bad", NASTY],
    "card": {"license": "mit", "language": ["en"], "limitations": "Not for *poems* <b>."},
}
BASE = BaseRecord(1000, "c3" * 32, {"train": "d4" * 32})
OWN = BaseRecord(200, "a1" * 32, {"train": "b2" * 32}, base=BASE)
REQUEST = RequestRecord("runs/base", "/srv/quaxly/films.yaml", base=OWN)
LINES = [
    {"step": 5, "loss": 1.5, "validation/loss": 0.6, "validation/classification/accuracy": 0.7},
    {
        "step": 10,
        "loss": 1.0,
        "validation/loss": 0.5,
        "validation/classification/accuracy": 0.75,
        "validation/examples": 8,
    },
]


def history(**known: Any) -> TrainingHistory:
    environment = {"versions": {"torch": "2.13.0"}, "python": "3.11.7", "devices": ["cpu"]}
    told = {
        "training": {"steps": 10, "seed": 0},
        "data": {"train": "ab12"},
        "environment": environment,
        "log_lines": LINES,
        "request": REQUEST,
    }
    return TrainingHistory(name="films", step=10, **{**told, **known})


@pytest.fixture
def classifier(build: Any) -> TrainedModel:
    heads = {"heads": {"classification": {"labels": 2}}}
    return dataclasses.replace(build("bert-nano", heads), task=read_task(TASK, "task.yaml"), history=history())


def write(given: TrainedModel, target_name: str | None = None) -> str:
    """The card of a model, as if its check had passed."""
    target = choose_target(given.settings, target_name)
    chosen = target.native_class(given.settings)
    assert chosen is not None
    fields = {field.name: 0 for field in dataclasses.fields(Check)}
    check = Check(**{**fields, "differences": {"float32": 1e-6}})  # type: ignore[arg-type]
    return card_files(given, target, chosen, check, [])["README.md"].decode()


def test_the_front_matter_is_what_the_hub_reads(classifier: TrainedModel):
    card = ModelCard(write(classifier))
    assert (card.data.license, card.data.language, card.data.datasets) == ("mit", ["en"], ["org/films"])
    assert (card.data.library_name, card.data.pipeline_tag) == ("transformers", "text-classification")
    assert card.data.metrics == ["accuracy"] and card.data.tags == ["zoo"]
    (result,) = card.data.eval_results
    assert (result.task_type, result.dataset_name, result.dataset_type) == ("text-classification", "films", "org/films")
    assert (result.metric_type, result.metric_value, result.dataset_split) == ("accuracy", 0.75, "validation")


def test_the_model_index_has_the_form_that_the_hubs_client_parses(classifier: TrainedModel):
    tree = ModelCard(write(classifier)).data.to_dict()
    name, results = model_index_to_eval_results(tree["model-index"])
    assert name == "films" and len(results) == 1


def test_the_card_tells_data_training_metrics_limitations_and_environment(classifier: TrainedModel):
    text = write(classifier)
    told = ["| train | ab12 |", "- steps of training: 10", "steps: 10", "| classification/accuracy | 0.7500 |"]
    told += [
        "zoo evaluate path/to/this/folder films.yaml --split validation",
        "| torch | 2.13.0 |",
        "| devices | cpu |",
    ]
    told += [r"- Not for \*poems\* &lt;b&gt;.", "It reads at most 37 tokens (encoder).", "d_ff: 80"]
    assert not [words for words in told if words not in text]


def test_a_card_of_zoos_own_class_names_the_packages_whose_variants_the_model_may_have(classifier: TrainedModel):
    assert "where zoo is installed, after" in write(classifier, "zoo")
    known = history(environment={"versions": {"torch": "2.13.0", "my-package": "1.2"}})
    text = write(dataclasses.replace(classifier, history=known), "zoo")
    assert "where zoo is installed and the variants that it was trained with (my-package) are, after" in text


def test_the_cards_command_computes_as_the_validation_did(classifier: TrainedModel):
    for precision, said in (("auto", "validation\n"), ("bfloat16", "validation --precision bfloat16\n")):
        given = dataclasses.replace(classifier, history=history(training={"steps": 10, "precision": precision}))
        assert f"films.yaml --split {said}" in write(given)


def test_a_fine_tuned_models_card_names_what_it_began_with_and_no_tokenizer_that_was_never_made(
    classifier: TrainedModel,
):
    task = read_task({**TASK, "tokenizer": {"name": "wordpiece", "vocab_size": 8000}}, "task.yaml")

    def card(start: str, **base: Any) -> str:
        trained = history(request=RequestRecord(start, "films.yaml", **base))
        return write(dataclasses.replace(classifier, history=trained, task=task))

    folder, fetched = card("/srv/models/some-bert", base=BASE), card("hub:org/some-bert", base=BASE)
    begun = card("bert-nano")
    assert f"| some-bert | 1,000 | {'c3' * 32} | train: {'d4' * 32} |" in folder and "base_model" not in folder
    assert "base_model: org/some-bert" in fetched
    assert "fine-tuned from" not in begun and "base_model" not in begun
    assert "vocab_size: 8000" in begun and "vocab_size: 8000" not in folder


def test_the_card_leads_from_the_weights_back_to_the_data_of_the_first_base(classifier: TrainedModel):
    text = write(classifier)
    assert f"| base | 200 | {'a1' * 32} | train: {'b2' * 32} |\n| its base | 1,000 | {'c3' * 32} | train: " in text


def test_the_picture_lies_beside_the_card_that_shows_it(classifier: TrainedModel):
    pytest.importorskip("matplotlib")
    text = write(classifier)
    assert "![loss and metrics by step](curves.png)\n\nThe dotted line is at the step of these weights." in text
    bare = dataclasses.replace(classifier, history=history(log_lines=[]))
    assert "curves.png" not in write(bare) and "## Evaluation" not in write(bare)


def test_no_folder_of_the_author_is_in_the_card(classifier: TrainedModel):
    text = write(classifier)
    assert "quaxly" not in text and "/srv" not in text
    assert "train: train.tsv" in text and "validation: dev.tsv" in text


class Tags(HTMLParser):
    """Collects the tags of a text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.add(tag)


def test_text_from_data_stays_text(classifier: TrainedModel):
    text = write(classifier)
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    tags = Tags()
    tags.feed(outside)
    assert tags.found == {"details", "summary"}
    assert "\x1b" not in text and "\u202e" not in outside
    (line,) = [line for line in outside.splitlines() if line.startswith("- classes: ")]
    assert r"bad, a\|b&lt;script&gt;" in line and r"\[c\](javascript" in line and r"\!\[e\]" in line
    assert ModelCard(text).data.tags == ["zoo"] and outside.count("\n---\n") == 1


def test_a_block_cannot_be_left_from_within():
    assert code_block("a\n```\nb", "yaml") == ["````yaml", "a", "```", "b", "````", ""]
    assert escape("x\n\ny  z\x00") == "x y z"


@pytest.mark.parametrize("name", targets)
def test_every_class_of_every_target_has_a_program_that_python_can_read(name: str):
    for chosen in targets[name].classes:
        programs = snippets(chosen, "org/name", pairs=True)
        assert len(programs) == 1 + (chosen.pipeline in PIPELINES)
        for program in programs:
            compile(program, "card", "exec")
            assert '"org/name"' in program


RUN = """import sys
sys.modules["zoo"] = None
sys.dont_write_bytecode = True
import logging, transformers, torch, warnings
said = []
class Collect(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())
logging.getLogger("transformers").handlers = [Collect()]
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    for program in sys.stdin.read().split(chr(0)):
        transformers.logging.set_verbosity_warning()
        exec(compile(program, "card", "exec"), {})
print("==", [*said, *map(str, warned)])
"""
MODELS = [
    ("bert-nano", {"heads": {"classification": {"labels": 2}}}, "'label': 'good'|'label': 'bad'"),
    ("bert-nano", {"heads": ["masked_lm", "next_sentence"]}, "'token_str'"),
    ("gpt2-nano", {}, "A small boy in a red"),
    ("transformer-nano", {}, r"^\['"),
]


@needs("5.23", "a pipeline of transformers warns of its own settings")
def test_the_programs_of_the_cards_run_without_a_warning_where_zoo_cannot_be_imported(
    build: Any, tmp_path: Path, export: Callable[..., ExportReport]
):
    programs = []
    for number, (name, sets, _) in enumerate(MODELS):
        labels = {"labels": ["bad", "good"]} if "classification" in sets.get("heads", ()) else {}
        report = export(build(name, sets, **labels))
        folder = report.folder.rename(tmp_path / str(number))
        text = (folder / "README.md").read_text().replace("path/to/this/folder", str(folder))
        found = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        programs.append(f"print('==')\n{found[0]}")
        programs += found[1:]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    given = "\0".join(programs)
    done = subprocess.run([sys.executable, "-I", "-c", RUN], input=given, capture_output=True, text=True, env=offline)
    assert done.returncode == 0, done.stderr[-2000:]
    answers, _, warned = done.stdout.rpartition("== ")
    assert warned == "[]\n"
    for answer, (*_, wanted) in zip(answers.split("==\n")[1:], MODELS, strict=True):
        assert re.search(wanted, answer)
