"""The programs on a classifier's card print what zoo answers, whatever its labels are."""

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from transformers import AutoTokenizer, pipeline
from untold import untold

import zoo.hub.modeling.shell  # noqa: F401 - transformers knows the shell's classes once it is imported
from versions import HIDDEN
from zoo.data.task import read_task
from zoo.hub.exporting.card.snippets import NEW_TOKENS
from zoo.hub.exporting.export import ExportReport
from zoo.hub.exporting.samples import TEXTS
from zoo.hub.exporting.trained_model import TrainedModel
from zoo.inference.loaded import Loaded
from zoo.inference.pipeline import Pipeline
from zoo.models.create import create_model
from zoo.objectives.mixture import Mixture

CLASSES = ["a", "b", "c", "d", "e", "f", "g"]  # more than the five that a pipeline shows
LABELS = {"one": CLASSES, "several": {"several": CLASSES}, "number": "number"}
KINDS = pytest.mark.parametrize("kind", LABELS)
Export = Callable[..., ExportReport]


def told(given: TrainedModel, kind: str) -> TrainedModel:
    """A classifier that is sure of all classes but one, as one of a kind of labels."""
    bias = given.model.get_parameter("heads.classification.output.bias")
    bias.data.copy_(torch.tensor([9.0, 8.0, -9.0, 7.0, 6.0, 5.0, 4.0])[: len(bias)])
    tree = {"objective": "classification", "source": {"builtin": "pydocs"}, "labels": LABELS[kind]}
    return replace(given, task=read_task(tree, "task"))


def programs_of(folder: Path) -> list[str]:
    """The programs of a card."""
    card = (folder / "README.md").read_text().replace("path/to/this/folder", str(folder))
    return re.findall(r"^```python\n(.*?)^```$", card, re.MULTILINE | re.DOTALL)


def printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """What the programs of a card print."""
    capsys.readouterr()
    for program in programs_of(folder):
        exec(compile(program, "card", "exec"), {})
    return [said if said in CLASSES else ast.literal_eval(said) for said in capsys.readouterr().out.splitlines()]


SHORT = {
    "classifier": ("bert-nano", {"heads": {"classification": {"labels": 2}}}),
    "decoder as classifier": ("gpt2-nano", {"heads": {"classification": {"labels": 2}}}),
    "masked_lm": ("bert-nano", {"heads": ["masked_lm"]}),
    "tagger": ("bert-nano", {"heads": {"tagging": {"labels": 2}}}),
    "causal_lm": ("gpt2-nano", {}),
    "translator": ("transformer-nano", {}),
}


@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")
@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("places", [6, 11])
def test_the_programs_of_a_model_of_few_positions_run(build: Any, export: Export, capsys: Any, name: str, places: int):
    config, sets = SHORT[name]
    given = build(config, {**sets, "max_length": places}, kind="characters")  # every sample text has more tokens
    programs = programs_of(export(given).folder)
    for program in programs:
        exec(compile(program, "card", "exec"), {})
    assert programs and capsys.readouterr().out


def answer(given: TrainedModel, what: str) -> Any:
    """What zoo says of a text, or of the file of a picture."""
    (ours,) = Pipeline(Loaded(given.model.eval(), given.tokenizer, given.task, Mixture.of(given.task)))(what)
    return ours["output"]


def names(found: Any) -> Any:
    """What a pipeline answers, without its scores."""
    return {one["label"] for one in found} if isinstance(found, list) else found


@KINDS
def test_a_text_classifiers_program_prints_what_zoo_answers(build: Any, export: Export, capsys: Any, kind: str):
    heads = [{"name": "classification", "labels": 1 if kind == "number" else 7}]
    given = told(build("bert-nano", {"heads": heads}), kind)
    (found,) = printed(export(given).folder, capsys)
    output = answer(given, TEXTS[0])
    if kind == "number":
        assert found == pytest.approx(output, abs=1e-5)
    else:
        assert names(found) == set(output) and len(output) == {"one": 1, "several": 6}[kind]


@HIDDEN
@KINDS
def test_a_picture_classifiers_programs_print_what_zoo_answers(
    export: Export, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    Image.new("RGB", (30, 40), (200, 50, 90)).save(tmp_path / "picture.jpg")
    monkeypatch.chdir(tmp_path)
    model = create_model("cnn-attention-nano", heads={"classification": {"labels": 1 if kind == "number" else 7}})
    given = told(untold(model, None), kind)
    piped, loaded = printed(export(given, "zoo").folder, capsys)
    output = answer(given, "picture.jpg")
    if kind == "number":
        assert [piped, loaded] == pytest.approx([output, output], abs=1e-5)
    elif kind == "several":
        assert names(piped) == set(loaded) == set(output) and len(output) == 6
    else:
        assert piped[0]["label"] == loaded == output


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "byte_bpe", "unigram"])
def test_a_taggers_card_warns_of_split_words_where_they_have_other_ids(build: Any, export: Export, kind: str):
    folder = export(build("bert-nano", {"heads": {"tagging": {"labels": 2}}}, kind)).folder
    tokenizer, words = AutoTokenizer.from_pretrained(folder), TEXTS[0].split()
    same = tokenizer(words, is_split_into_words=True).input_ids == tokenizer(" ".join(words)).input_ids
    assert ("is_split_into_words" not in (folder / "README.md").read_text()) == same == (kind != "byte_bpe")


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "byte_bpe", "unigram"])
def test_a_writers_card_warns_of_texts_that_are_decoded_in_parts_where_a_space_is_lost(
    build: Any, export: Export, kind: str
):
    folder = export(build("gpt2-nano", {}, kind)).folder
    generate, skip = pipeline("text-generation", model=str(folder)), {"skip_special_tokens": True}
    (said,), tokenizer = generate(TEXTS[0][:7], max_new_tokens=3, return_tensors=True), generate.tokenizer
    begun, whole = (tokenizer(text).input_ids for text in (TEXTS[0][:7], TEXTS[0][:11]))  # A small, A small boy
    assert said["generated_token_ids"][: len(begun)] == begun == whole[: len(begun)]
    parts = tokenizer.decode(begun, **skip), tokenizer.decode(whole[len(begun) :], **skip)
    lost = "".join(parts) != tokenizer.decode(whole, **skip)
    assert ("return_tensors=True" in (folder / "README.md").read_text()) == lost == (kind != "byte_bpe")


def test_a_chat_models_program_asks_in_the_form_of_its_training(build: Any, export: Export, capsys: Any):
    tree = {"objective": "causal_lm", "source": {"files": {"train": "a.jsonl"}}, "columns": {"messages": "messages"}}
    given = replace(build("gpt2-nano", {"max_length": 128}), task=read_task(tree, "task"))
    programs = programs_of(export(given).folder)
    capsys.readouterr()
    for program in programs:
        exec(compile(program, "card", "exec"), {})
    answer = Pipeline(Loaded(given.model.eval(), given.tokenizer, given.task, Mixture.of(given.task)))
    (ours,) = answer([{"role": "user", "content": TEXTS[0]}], generate={"max_new_tokens": NEW_TOKENS})
    assert ours["output"] and capsys.readouterr().out == f"{ours['output']}\n"
    (alone,) = answer([{"role": "user", "content": TEXTS[1]}], generate={"max_new_tokens": NEW_TOKENS})
    assert alone["output"] != ours["output"]
