"""How questions are answered goes out with an export, and comes back with an import."""

import json
from dataclasses import replace
from typing import Any

import pytest
import transformers

import zoo.hub.modeling.shell  # noqa: F401 - transformers knows the shell's classes once it is imported
from zoo.data.task import read_task
from zoo.hub.importing.importing import import_folder
from zoo.inference.loaded import load_run
from zoo.runs.saved import open_run


@pytest.mark.parametrize("target", [None, "zoo"])
@pytest.mark.parametrize("options", [{"no_answer": True}, {}], ids=["none", "always"])
def test_a_question_without_an_answer(build: Any, export: Any, tmp_path: Any, target: str | None, options: Any):
    given = build("bert-nano", {"heads": ["span"]})
    task = read_task({"objective": {"span": options}, "source": {"builtin": "pydocs"}}, "task")
    folder = export(replace(given, task=task), target).folder
    params = getattr(transformers.AutoConfig.from_pretrained(folder), "task_specific_params", None)
    assert params == ({"question-answering": {"handle_impossible_answer": True}} if options else None)
    import_folder(folder, tmp_path / "run")
    imported = load_run(open_run(tmp_path / "run"))
    assert imported.task.objective == {"span": options}
    assert imported.task.length == imported.model.stream.max_length  # its own windows are not known


@pytest.mark.parametrize("target", [None, "zoo"])
def test_the_stride_of_windows(build: Any, export: Any, tmp_path: Any, target: str | None):
    given = build("bert-nano", {"heads": ["span"]})
    options = {"stride": 16, "no_answer": True}
    task = read_task({"objective": {"span": options}, "source": {"builtin": "pydocs"}}, "task")
    import_folder(export(replace(given, task=task), target).folder, tmp_path / "run")
    assert load_run(open_run(tmp_path / "run")).task.objective == {"span": options}


def test_a_stride_of_strangers_that_is_none_and_parameters_of_other_tasks_change_nothing(
    build: Any, export: Any, tmp_path: Any
):
    file = export(build("bert-nano", {"heads": ["span"]})).folder / "config.json"
    config, strides = json.loads(file.read_text()), (0, -1, "16", True, None, 1.5)
    for number, params in enumerate([*({"question-answering": {"stride": n}} for n in strides), {"summarization": {}}]):
        file.write_text(json.dumps({**config, "task_specific_params": params}))
        import_folder(file.parent, tmp_path / f"run{number}")
        assert load_run(open_run(tmp_path / f"run{number}")).task.objective == {"span": {}}
