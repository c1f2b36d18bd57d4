"""What a model card says of validation holds for the folder that it lies in, and its command measures the same."""

import dataclasses
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from test_card import write

from zoo.data.task import load_task, read_task
from zoo.hub.exporting.trained_model import TrainedModel, TrainingHistory
from zoo.runs.request import RequestRecord

MEASURED = {"loss": 8.3, "masked_lm/accuracy": 0.25, "next_sentence/accuracy": 0.5, "examples": 12}
LINES = [{"step": 2, **{f"validation/{name}": value for name, value in MEASURED.items()}}]
COLUMNS = {"text": "text"}
Build = Any


def told(given: TrainedModel, task: str, sets: dict[str, Any], named: str = "", **training: Any) -> TrainedModel:
    """A run on a task that was changed, with the columns that its data decided."""
    changes = [{f"task.{key}": value} for key, value in sets.items()]
    resolved = dataclasses.replace(load_task(task, sets), columns=sets.get("columns", COLUMNS))
    request = RequestRecord("bert-nano", named or task, changes)
    return dataclasses.replace(given, task=resolved, history=TrainingHistory("a", 2, training, {}, {}, request, LINES))


def test_heads_that_the_class_lacks_leave_no_metric_no_loss_and_no_command_on_the_card(build: Build):
    given = build("bert-modern-nano", {"heads": ["masked_lm", "next_sentence"]})
    text = write(told(given, "pydocs-mlm", {}))
    assert "| masked\\_lm/accuracy | 0.2500 |" in text and "next\\_sentence/accuracy" not in text
    assert "| loss |" not in text and "zoo evaluate" not in text
    assert "This folder cannot repeat the validation, which also measured next_sentence." in text
    assert [one.metric_name for one in ModelCard(text).data.eval_results] == ["masked_lm/accuracy"]


CHANGES: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"tokenizer": {"vocab_size": 600}, "training": {"steps": 3}}, True),
    ({"length": 64}, False),
    ({"objective": {"masked_lm": {"share": 0.4}}}, False),
    ({"columns": {"text": "title"}}, False),
    ({"metrics": ["accuracy"]}, False),
]


@pytest.mark.parametrize(("sets", "same"), CHANGES)
def test_the_command_names_zoos_task_only_where_the_run_asked_what_it_asks(
    build: Build, sets: dict[str, Any], same: bool
):
    text = write(told(build("bert-nano", {"heads": ["masked_lm", "next_sentence"]}), "pydocs-mlm", sets))
    assert ("evaluate path/to/this/folder pydocs-mlm --split validation\n" in text) == same
    written = (
        "write the task above to task.yaml:\n\n```\nzoo evaluate path/to/this/folder task.yaml --split validation\n"
    )
    assert (written in text) == (not same)


def test_the_task_of_a_file_is_written_to_a_file_of_its_name_and_the_card_shows_what_it_needs(build: Build):
    given = told(
        build("bert-nano", {"heads": ["masked_lm", "next_sentence"]}), "pydocs-mlm", {"length": 64}, "x/my.yaml"
    )
    text = write(given)
    assert "write the task above to my.yaml:\n\n```\nzoo evaluate path/to/this/folder my.yaml --split" in text
    shown = text[text.index("<summary>The task</summary>") :].split("```")[1].removeprefix("yaml\n")
    again = read_task(yaml.safe_load(shown), "my.yaml")
    assert again == dataclasses.replace(given.task, training={})


def test_the_folders_of_files_that_a_card_hides_are_asked_for(build: Build):
    given = build("bert-nano", {"heads": {"classification": {"labels": 2}}})
    text = write(told(given, "mrpc", {"length": 64}))
    assert "write the task above to task.yaml, with the folders of its files:" in text


def test_a_card_without_a_log_does_not_say_that_nothing_was_measured(build: Build):
    given = build("bert-nano", {"heads": ["masked_lm"]})
    silent, lost = (TrainingHistory("a", 2, log_lines=lines) for lines in ([{"step": 1}, {"step": 2}], []))
    assert "It was not evaluated on held-out data." in write(dataclasses.replace(given, history=silent))
    text = write(dataclasses.replace(given, history=lost))
    assert "There is no log of its training, so its results on held-out data are unknown." in text
    assert "not evaluated" not in text and "## Evaluation" not in text


def test_a_sample_of_the_validation_split_is_called_a_sample_and_gives_the_hub_no_results(build: Build):
    given = build("bert-nano", {"heads": ["masked_lm", "next_sentence"]})
    # 12 were measured: of a split that has fewer than were asked for that is all
    all_of_it, whole, few = (write(told(given, "pydocs-mlm", {}, evaluation_examples=n)) for n in (1000, None, 12))
    assert all("On the validation split:" in text and ModelCard(text).data.eval_results for text in (whole, all_of_it))
    assert "It was evaluated on the validation split, which also selected" in whole and "whole split" not in whole
    assert "On 12 examples of the validation split:" in few and "| masked\\_lm/accuracy | 0.2500 |" in few
    assert "It was evaluated on 12 examples of the validation split, which also selected" in few
    assert "To measure the whole split:\n\n```\nzoo evaluate path/to/this/folder pydocs-mlm" in few
    assert ModelCard(few).data.eval_results is None and "model-index" not in few
