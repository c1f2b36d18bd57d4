"""Task files: strict, merged with --set, and written back as they were read."""

from pathlib import Path

import pytest

from zoo import config
from zoo.data.task import Sides, load_task, read_objectives, read_task
from zoo.data.task_list import listed_tasks
from zoo.strict_yaml import parse_yaml, to_yaml

LEAST = {"objective": "causal_lm", "source": {"builtin": "pydocs"}}


def refused(**changes: object) -> str:
    with pytest.raises(ValueError) as refusal:
        read_task({**LEAST, **changes}, "task")
    return str(refusal.value)


@pytest.mark.parametrize("name", [name for name in config.names("tasks") if listed_tasks(name) is None])
def test_a_shipped_task_reads_back_what_it_writes(name: str) -> None:
    task = load_task(name)
    assert read_task(parse_yaml(to_yaml(task.plain()), name), name) == task


def test_a_task_states_its_rows_also_where_they_are_the_default() -> None:
    assert read_task(LEAST, "task").plain() == {**LEAST, "objective": {"causal_lm": {}}, "length": 128, "pack": True}


@pytest.mark.parametrize("name", config.names("tasks"))
def test_a_shipped_task_says_what_it_is_for_in_few_lines(name: str) -> None:
    lines = (config.folder("tasks") / f"{name}.yaml").read_text("utf-8").splitlines()
    assert lines[0].startswith(f"# tasks/{name}.yaml: ") and len(lines) <= 40
    assert sum(line[:1].isalpha() for line in lines) <= 12


def test_sets_are_laid_over_the_file() -> None:
    task = load_task("pydocs-mlm", {"tokenizer": {"vocab_size": 500}, "length": 64})
    assert task.tokenizer == {"name": "wordpiece", "vocab_size": 500, "lowercase": True}
    assert task.row_length == Sides(64, 64)


LABELS = ["several", "number", ["x", "y"], {"several": ["x", "y"]}, {"several": ["z", "y", "x"]}]


@pytest.mark.parametrize("below", LABELS)
@pytest.mark.parametrize("above", LABELS)
def test_labels_replace_those_below(below: object, above: object, tmp_path: Path) -> None:
    sets = {"objective": "classification", "metrics": [], "labels": below}
    (tmp_path / "below.yaml").write_text(to_yaml({"base": "pydocs-lm", **sets}))
    (tmp_path / "above.yaml").write_text(to_yaml({"base": "below.yaml", "labels": above}))
    assert load_task(str(tmp_path / "above.yaml")).plain()["labels"] == above
    assert load_task(str(tmp_path / "below.yaml"), {"labels": above}).plain()["labels"] == above


def test_a_task_may_have_a_base(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: pydocs-lm\nlength: 32\n")
    task = load_task(str(tmp_path / "mine.yaml"))
    assert task.source.builtin == "pydocs" and task.length == 32


def test_an_unknown_task_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown task 'sst3' \(did you mean 'sst2'\?\)"):
        load_task("sst3")


def test_an_unknown_key_names_the_nearest() -> None:
    assert "task: unknown key 'lenght' (did you mean 'length'?)" in refused(lenght=3)
    assert "task.source: unknown key 'file' (did you mean 'files'?)" in refused(source={"file": {}})


def test_the_objective_is_a_name_or_a_map() -> None:
    assert read_objectives("causal_lm", "objective") == {"causal_lm": {}}
    both = {"masked_lm": {"whole_word": True}, "next_sentence": None}
    assert read_objectives(both, "objective") == {"masked_lm": {"whole_word": True}, "next_sentence": {}}
    assert list(read_objectives({"next_sentence": {}, "masked_lm": {}}, "objective")) == ["next_sentence", "masked_lm"]


def test_set_reaches_and_adds_objectives() -> None:
    set_on_a_name = config.merge("classification", {"weight": 2.0, "causal_lm": {"weight": 0.5}})
    assert read_objectives(set_on_a_name, "objective") == {
        "classification": {"weight": 2.0},
        "causal_lm": {"weight": 0.5},
    }
    same_again = config.merge("masked_lm", {"masked_lm": {"whole_word": True}})
    assert read_objectives(same_again, "objective") == {"masked_lm": {"whole_word": True}}


@pytest.mark.parametrize("value", [3, [], {}, None])
def test_an_objective_is_nothing_else(value: object) -> None:
    with pytest.raises(ValueError, match="objective: expected the name of an objective or a map"):
        read_objectives(value, "objective")


def test_options_of_an_objective_are_a_map() -> None:
    with pytest.raises(ValueError, match="objective.masked_lm: expected a map of options, got True"):
        read_objectives({"masked_lm": True}, "objective")


def test_lengths_may_differ_by_side() -> None:
    task = read_task({**LEAST, "length": {"source": 5, "target": 7}, "longest": 3}, "task")
    assert task.row_length == Sides(5, 7) and task.example_length == Sides(3, 3)
    assert read_task({**LEAST, "length": 9}, "task").example_length == Sides(9, 9)


def test_lengths_are_checked() -> None:
    assert "task.length: must be at least 1, got 0" in refused(length=0)
    assert "task.length: a map needs both 'source' and 'target'" in refused(length={"source": 3})
    assert "task.length: unknown key 'sorce' (did you mean 'source'?)" in refused(length={"sorce": 3, "target": 3})
    assert "task.longest: 9 tokens (source) do not fit into a sequence of 'length' 8" in refused(length=8, longest=9)


def test_a_source_is_files_or_a_repository_or_built_in() -> None:
    assert "does not combine with 'files' or 'hub'" in refused(source={"builtin": "pydocs", "hub": "a/b"})
    assert "unknown built-in source 'pydoc' (did you mean 'pydocs'?)" in refused(source={"builtin": "pydoc"})
    assert "unknown split 'valid' (did you mean 'validation'?)" in refused(source={"files": {"valid": "x"}})
    assert "unknown format 'xml'" in refused(source={"files": {"train": "x"}, "format": "xml"})


def test_the_validation_share_lies_between_0_and_1() -> None:
    for share in (0.0, 1.0, 1.5):
        said = refused(source={"builtin": "pydocs", "validation": share})
        assert f"task.source.validation: {share} must lie between 0 and 1" in said


def test_columns_and_labels_are_checked() -> None:
    assert "two inputs cannot read the same column" in refused(columns={"text": "a", "pair": "a"})
    assert "expected two or more names, all distinct, got a, a" in refused(labels=["a", "a"])
    assert "task.labels[0]: expected a text or a whole number, got False" in refused(labels=[False, "yes"])


def test_labels_written_as_numbers_are_names() -> None:
    assert read_task({**LEAST, "labels": [1, 2]}, "task").labels == ["1", "2"]


def test_a_header_may_be_given_by_split() -> None:
    source = {"files": {"train": "x.tsv"}, "header": {"train": ["a", "b"]}}
    task = read_task({**LEAST, "source": source}, "task")
    assert task.source.reading("train").header == ("a", "b") and task.source.reading("test").header is None
    assert "unknown split 'trian'" in refused(source={"files": {"train": "x"}, "header": {"trian": ["a"]}})


def test_what_is_no_code_of_a_language_is_refused() -> None:
    message = refused(source={"builtin": "pydocs", "language": "German"})
    assert "task.source.language: 'German' is not a language code, such as de, en or ko" in message
