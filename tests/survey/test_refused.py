"""Rows that `zoo check TASK` refuses, as training does: no or unknown labels, and choices of different number."""

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from PIL import Image
from test_survey import by_processes, look

from zoo.data.sources import groups
from zoo.data.sources.repeated.repeats import RowPlace
from zoo.objectives.kinds.choice import TRUNCATE
from zoo.survey.rows import SourceSurvey


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "validation")}
    return {"source": {"files": files}, "tokenizer": {"name": "characters"}, "length": 32}


@pytest.mark.parametrize("has_tokenizer", [True, False])
def test_a_tag_that_train_has_not_is_named_by_its_line(
    task: dict[str, Any], tmp_path: Path, has_tokenizer: bool
) -> None:
    for name, tags in {"train": ["D", "N"], "validation": ["N", "X"]}.items():
        row = json.dumps({"words": ["the", "dog"], "tags": tags})
        (tmp_path / f"{name}.jsonl").write_text(f"{row}\n")
    tree = task if has_tokenizer else {key: value for key, value in task.items() if key != "tokenizer"}
    with pytest.raises(ValueError, match="validation.jsonl: line 1, entry 2: unknown label 'X'; allowed: D, N"):
        look(tree | {"objective": "tagging"}, tmp_path)


def test_a_task_without_train_leaves_the_names_of_classes_to_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "validation.jsonl").write_text(json.dumps({"text": "ab", "label": "a"}))
    files = {"validation": str(tmp_path / "validation.jsonl")}
    found = look({"objective": "classification", "source": {"files": files}, "length": 8}, tmp_path)
    assert found["splits"]["validation"]["labels"] == {"a": 1}


@pytest.mark.parametrize("has_tokenizer", [True, False])
@pytest.mark.parametrize("lacking", ["train", "validation"])
def test_a_split_without_the_labels_that_the_objective_needs_is_refused(
    task: dict[str, Any], tmp_path: Path, has_tokenizer: bool, lacking: str
) -> None:
    for name in ("train", "validation"):
        column = "tag" if name == lacking else "label"
        rows = [{"text": name + value, column: value} for value in "ab"]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    tree = task if has_tokenizer else {key: value for key, value in task.items() if key != "tokenizer"}
    said = f"{lacking}.jsonl: no column is read as 'label', which classification needs; found: text, tag; name it"
    with pytest.raises(ValueError, match=said):
        look(tree | {"objective": "classification"}, tmp_path)


def test_a_column_that_the_objective_needs_is_missed_before_rows_are_read(task: dict[str, Any], tmp_path: Path) -> None:
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": "a"}))
    wrong = {"objective": "tagging", "columns": {"text": "text"}, "labels": ["X", "Y"]}
    with pytest.raises(ValueError, match="task.columns: 'words' is missing, which tagging needs; given: text"):
        look(task | wrong, tmp_path)


def test_a_single_document_is_refused_where_the_next_sentence_may_be_of_another(
    task: dict[str, Any], tmp_path: Path
) -> None:
    for name, texts in {"train": ["A dog. It runs.", "A cat. It sits."], "validation": ["A cow. It eats."]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    with pytest.raises(ValueError, match="validation: .*validation.jsonl: line 1: this is the only document"):
        look(task | {"objective": {"masked_lm": {}, "next_sentence": {}}}, tmp_path)


def test_a_test_split_alone_needs_no_labels(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text(json.dumps({"text": "ab"}))
    files = {"test": str(tmp_path / "test.jsonl")}
    found = look({"objective": "classification", "source": {"files": files}, "length": 8}, tmp_path)
    assert found["splits"]["test"]["rows"] == 1


def write_choices(folder: Path, counts: dict[str, list[int]]) -> None:
    """A file for each name, with rows of so many choices; no row repeats another."""
    for name, every in counts.items():
        rows = [{"context": f"{name} {at}", "choices": ["a"] * count, "label": 0} for at, count in enumerate(every)]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.mark.parametrize("has_tokenizer", [True, False])
@pytest.mark.parametrize(
    ("counts", "place"),
    [
        ({"train": [3, 3, 2], "validation": [3]}, "train.jsonl: line 3"),
        ({"train": [3], "validation": [2]}, "validation.jsonl: line 1"),
    ],
)
def test_choices_of_different_number_are_refused_unless_the_task_allows_them(
    task: dict[str, Any], tmp_path: Path, has_tokenizer: bool, counts: dict[str, list[int]], place: str
) -> None:
    write_choices(tmp_path, counts)
    tree = task if has_tokenizer else {key: value for key, value in task.items() if key != "tokenizer"}
    tree |= {"objective": "choice"}
    said = f"{place}: the row has 2 choices, but .*train.jsonl: line 1 has 3; .* {{choice: {{any_number: true}}}}"
    with pytest.raises(ValueError, match=said):
        look(tree, tmp_path)
    assert look(tree | {"objective": {"choice": {"any_number": True}}}, tmp_path)["splits"]["train"]["rows"]


def test_choices_that_several_processes_counted_are_compared(
    task: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_choices(tmp_path, {"part-0": [3] * 3, "part-1": [3, 4, 5], "validation": [3]})
    files = {"train": str(tmp_path / "part-*.jsonl"), "validation": str(tmp_path / "validation.jsonl")}
    by_processes(2, monkeypatch)
    monkeypatch.setattr(SourceSurvey, "read", lambda self, numbers: None)
    with pytest.raises(ValueError, match=r"part-1.jsonl: line 2: the row has 4 choices, but .*part-0.jsonl: line 1"):
        look(task | {"objective": "choice", "source": {"files": files}}, tmp_path)


def write_questions(folder: Path) -> None:
    """Two questions a split; the last one of validation has no answer."""
    starts: dict[str, list[int | None]] = {"train": [0, 2], "validation": [0, None]}
    for name, places in starts.items():
        every = [{"text": [] if at is None else ["a"], "answer_start": [] if at is None else [at]} for at in places]
        rows = [{"question": f"{name} {n}", "context": "a a", "answers": one} for n, one in enumerate(every)]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.mark.parametrize(("processes", "has_tokenizer"), [(1, True), (1, False), (2, False)])
def test_a_question_without_an_answer_is_refused(
    task: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int, has_tokenizer: bool
) -> None:
    task = task if has_tokenizer else {key: value for key, value in task.items() if key != "tokenizer"}
    write_questions(tmp_path)
    if processes > 1:
        by_processes(processes, monkeypatch)
    said = (
        r"validation: .*validation.jsonl: line 2: the question has no answer \(1 of 2 have none\); .* {span: {no_answer"
    )
    with pytest.raises(ValueError, match=said):
        look(task | {"objective": "span"}, tmp_path)


@pytest.mark.parametrize("has_tokenizer", [True, False])
def test_a_task_may_allow_questions_without_an_answer(
    task: dict[str, Any], tmp_path: Path, has_tokenizer: bool
) -> None:
    task = task if has_tokenizer else {key: value for key, value in task.items() if key != "tokenizer"}
    write_questions(tmp_path)
    assert look(task | {"objective": {"span": {"no_answer": True}}}, tmp_path)["splits"]["validation"]["rows"] == 2


def test_contexts_that_are_too_long_stand_in_the_table_of_row_sizes_and_are_remarked(
    task: dict[str, Any], tmp_path: Path
) -> None:
    write_choices(tmp_path, {"train": [3, 3], "validation": [3]})
    found = look(task | {"objective": "choice", "length": 20}, tmp_path)
    assert any(one["is"] == "truncated" and one["longer"] == 1 for one in found["row_sizes"])
    said = rf"training with length 20 refuses this: train: .*train.jsonl: line 1: .* {re.escape(TRUNCATE)}"
    assert [remark for remark in found["remarks"] if re.fullmatch(said, remark)]
    for allowed in ({"objective": {"choice": {"truncate": True}}, "length": 20}, {"objective": "choice", "length": 64}):
        assert not any("refuses" in remark for remark in look(task | allowed, tmp_path)["remarks"])


@pytest.mark.parametrize("has_tokenizer", [True, False])
@pytest.mark.parametrize(
    ("objective", "length", "words"),
    [
        ("causal_lm", {"length": 2}, "longest: 2 is too short for an example; it must be at least 3"),
        ("causal_lm", {"length": 8, "longest": 2}, "longest: 2 is too short for an example; it must be at least 3"),
        ("choice", {"length": 9}, "length: 9 is too short for 2 documents; it must be at least 10"),
    ],
)
def test_a_length_in_which_no_example_fits_is_refused(
    task: dict[str, Any], tmp_path: Path, has_tokenizer: bool, objective: str, length: dict[str, int], words: str
) -> None:
    write_choices(tmp_path, {"train": [3], "validation": [3]})
    tree = task if has_tokenizer else {key: value for key, value in task.items() if key != "tokenizer"}
    columns = {"columns": {"text": "context"}} if objective == "causal_lm" else {}
    with pytest.raises(ValueError, match=words):
        look(tree | {"objective": objective, **columns, **length}, tmp_path)


def test_a_test_split_is_none_that_training_refuses(task: dict[str, Any], tmp_path: Path) -> None:
    write_choices(tmp_path, {"train": [3], "validation": [3]})
    row = {"context": "a" * 64, "choices": ["a"] * 3, "label": 0}
    (tmp_path / "test.jsonl").write_text(json.dumps(row) + "\n")
    files = task["source"]["files"] | {"test": str(tmp_path / "test.jsonl")}
    found = look(task | {"objective": "choice", "length": 64, "source": {"files": files}}, tmp_path)
    assert not any("refuses" in remark for remark in found["remarks"])


@pytest.mark.parametrize(
    ("objective", "full", "empty"),
    [
        ("tagging", {"words": ["a", "b"], "tags": ["D", "N"]}, {"words": [], "tags": []}),
        (
            "choice",
            {"context": "a", "choices": ["b", "c"], "label": 0},
            {"context": " ", "choices": ["b", "c", "d"], "label": 0},
        ),
        ("translation", {"source": "a", "target": "b"}, {"source": "a", "target": " "}),
    ],
)
def test_rows_that_training_leaves_out_are_counted_as_empty(
    task: dict[str, Any], tmp_path: Path, objective: str, full: dict[str, Any], empty: dict[str, Any]
) -> None:
    for name, rows in {"train": [full], "validation": [full, empty, empty]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = look(task | {"objective": objective}, tmp_path)["splits"]
    assert [(found[name]["rows"], found[name]["empty"]) for name in found] == [(1, 0), (3, 2)]
    assert found["validation"]["documents"] == 1


def test_pictures_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    Image.new("RGB", (64, 64)).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:60])
    (tmp_path / "words.png").write_text("no picture")
    for name, pictures in {"train": ["whole", "cut", "words"], "validation": ["whole", "whole"]}.items():
        rows = [{"image": f"{picture}.png", "label": picture} for picture in pictures]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "validation")}
    said = r"train.jsonl: row 2: .*cut.png: cannot be read as an image: .* \(2 images cannot be read\)"
    with pytest.raises(ValueError, match=said):
        look({"objective": "classification", "source": {"files": files}}, tmp_path)
    alike = {"files": {"validation": files["validation"]}}
    assert look({"objective": "classification", "source": alike}, tmp_path)["repeated"] == {"validation": 1}


def test_among_small_files_the_row_of_a_broken_picture_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MANY", 1)
    find = Mock(side_effect=groups.FileGroup.find)
    monkeypatch.setattr(groups.FileGroup, "find", lambda *given: find(*given))
    for name, picture in {"a": "whole", "b": "words", "c": "words"}.items():
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"image": f"{picture}.png", "label": name}) + "\n")
    Image.new("RGB", (4, 4)).save(tmp_path / "whole.png")
    (tmp_path / "words.png").write_text("no picture")
    source = {"files": {"validation": str(tmp_path / "*.jsonl")}}
    with pytest.raises(ValueError, match=r"b.jsonl: row 1: .*words.png: not an image.* \(2 images"):
        look({"objective": "classification", "source": source}, tmp_path)
    find.assert_called_once()


def test_a_picture_with_several_captions_is_decoded_once(tmp_path: Path) -> None:
    (tmp_path / "words.png").write_text("no picture")
    rows = [{"image": "words.png", "text": ["a dog", "it runs"]}, {"image": "words.png", "text": ["a cat"]}]
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "validation")}
    task = {"objective": "captioning", "source": {"files": files}}
    with pytest.raises(ValueError, match=r"row 1: .* \(4 images cannot be read\)"):
        look(task, tmp_path)


def test_broken_pictures_of_all_processes_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    one, *others = (SourceSurvey({}, tmp_path) for _ in range(4))
    one.parts = [(Mock(), "train", Mock(where=f"part {number}: row {{}}".format)) for number in range(3)]
    others[0].note_broken(RowPlace(0, 2, 1), ": two.png", 2)  # the first process has parts 0 and 2, the other part 1
    others[1].note_broken(RowPlace(0, 1, 5), ": one.png", 3)
    for other in others:
        one.join({tmp_path: json.loads(json.dumps(other.plain()))})
    with pytest.raises(ValueError, match=r"^part 1: row 5: one.png \(5 images cannot be read\)$"):
        one.refuse_broken()
    one.broken, one.n_broken = None, 0
    one.note_broken(RowPlace(0, 2, 1), ": two.png", 1)
    with pytest.raises(ValueError, match=r"^part 2: row 1: two.png$"):
        one.refuse_broken()


def test_a_list_of_contexts_is_refused_in_validation(task: dict[str, Any], tmp_path: Path) -> None:
    for name, context in {"train": "abc", "validation": ["abc", "de"]}.items():
        row = json.dumps({"context": context, "choices": ["f", "gh"], "label": 0})
        (tmp_path / f"{name}.jsonl").write_text(row + "\n")
    with pytest.raises(ValueError, match="line 1: 'context' holds 2 texts, of which validation would read only the"):
        look(task | {"objective": "choice", "length": 24}, tmp_path)


def test_rows_of_several_texts_may_be_held_out_of_train(task: dict[str, Any], tmp_path: Path) -> None:
    rows = [json.dumps({"text": [f"a{n}", f"b{n}"]}) for n in range(100)]
    (tmp_path / "train.jsonl").write_text("\n".join(rows))
    files = {"files": {"train": str(tmp_path / "train.jsonl")}}
    splits = look(task | {"source": files, "objective": "causal_lm"}, tmp_path)["splits"]
    held_out = splits["validation"]["documents"]
    assert held_out > 0 and splits["train"]["documents"] == 2 * (100 - held_out)  # of a list, train reads all texts
