"""A split's predictions in a file: what zoo.pipeline says of each row, in the order of the data."""

import errno
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from looking import TEXTS, loaded, overflowing

from zoo.data.task import read_task
from zoo.inference import evaluate_split as evaluate_split_module
from zoo.inference import predictions as predictions_module
from zoo.inference.evaluate_split import Reporting, evaluate_split
from zoo.inference.loaded import Loaded
from zoo.inference.pipeline import Pipeline
from zoo.models.generation.settings import GenerateSettings
from zoo.objectives.mixture import Mixture

FOX, DOG, CATS = TEXTS[:3]
PAIRS = [{"a": FOX, "b": DOG, "y": "no"}, {"a": CATS, "b": "café", "y": "yes"}, {"a": "dogs", "b": FOX, "y": "no"}]


def predictions(
    model: Loaded,
    folder: Path,
    rows: list[dict[str, Any]],
    columns: dict[str, str],
    split: str = "validation",
    **task: Any,
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """What evaluating says of some rows, and the lines that it writes about them."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "rows.jsonl").write_text(lines)
    tree = {"objective": model.task.objective, "columns": columns, "length": 64, **task}
    given = read_task({**tree, "source": {"files": {split: "rows.jsonl"}}}, "task")
    asked = replace(model, task=given, mixture=Mixture.of(given))
    torch.manual_seed(0)
    for weight in model.model.heads.parameters():
        torch.nn.init.normal_(weight)  # so that answers differ
    file = folder / "predictions.jsonl"
    generate = GenerateSettings(max_new_tokens=5)
    found = evaluate_split(asked, split, folder, generate, "float32", 2, Reporting(predictions=file))
    text = file.read_text("utf-8")
    written = [json.loads(line) for line in text.splitlines()]
    assert text == "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in written)
    assert [line["row"] for line in written] == [n for n, row in enumerate(rows, 1) if row.get("a") != ""]
    return found, written


def same_scores(given: Any, wanted: Any) -> None:
    listed = [list(one.values()) if isinstance(one, dict) else one for one in (given, wanted)]
    torch.testing.assert_close(torch.tensor(listed[0]), torch.tensor(listed[1]))


@pytest.mark.parametrize(("name", "objective"), [("bert-nano", "classification"), ("gpt-nano", "similarity")])
def test_pairs_have_their_class_beside_the_true_one(name: str, objective: str, tmp_path: Path):
    options = {f"heads__{objective}__labels": 2} if objective == "similarity" else {}
    model = loaded(name, objective, **options)
    columns = {"text": "a", "pair": "b", "label": "y"}
    found, lines = predictions(model, tmp_path, PAIRS, columns, labels=["no", "yes"], metrics=["accuracy"])
    named = replace(model, task=replace(model.task, labels=("no", "yes")))
    said = Pipeline(named)([row["a"] for row in PAIRS], pair=[row["b"] for row in PAIRS])
    for row, line, one in zip(PAIRS, lines, said, strict=True):
        assert (line["input"], line["output"], line["expected"]) == ([row["a"], row["b"]], one["output"], row["y"])
        same_scores(line["scores"], one["scores"])
    right = sum(line["output"] == line["expected"] for line in lines)
    assert found[f"{objective}/accuracy"] == pytest.approx(right / 3)


def test_rows_without_a_label_are_answered_and_metrics_are_left_out(tmp_path: Path):
    model = loaded("bert-nano", "classification")
    found, lines = predictions(
        model, tmp_path, [{"a": FOX}, {"a": DOG}], {"text": "a"}, "test", labels=["no", "yes"], metrics=["f1"]
    )
    assert found == {"examples": 2} and all(line["output"] in ("no", "yes") for line in lines)
    assert [line["expected"] for line in lines] == [None, None]


def test_rows_without_a_label_get_no_answer_of_outputs_that_are_no_numbers(tmp_path: Path):
    model = overflowing(loaded("bert-nano", "classification"))
    with pytest.raises(RuntimeError, match="the model's outputs are not finite"):
        predictions(model, tmp_path, [{"a": FOX}], {"text": "a"}, "test", labels=["no", "yes"])
    assert not (tmp_path / "predictions.jsonl").exists()


@pytest.mark.parametrize(
    ("labels", "values", "size"), [({"several": ["x", "y"]}, [["x"], []], 2), ("number", [1.5, -2.0], 1)]
)
def test_several_classes_and_numbers_are_written_as_such(labels: Any, values: list[Any], size: int, tmp_path: Path):
    model = loaded("bert-nano", "classification", heads=[{"name": "classification", "labels": size}])
    rows = [{"a": text, "y": value} for text, value in zip((FOX, DOG), values, strict=True)]
    _, lines = predictions(model, tmp_path, rows, {"text": "a", "label": "y"}, labels=labels)
    assert [line["expected"] for line in lines] == values
    assert isinstance(lines[0]["output"], type(values[0]))


@pytest.mark.parametrize("name", ["bert-nano", "gpt-nano"])
def test_each_word_has_its_tag_and_words_that_were_not_read_none(name: str, tmp_path: Path):
    model = loaded(name, "tagging", heads=[{"name": "tagging", "labels": 2}])
    rows = [{"w": FOX.split(), "t": [*"abbabab"]}, {"w": ["cats", "\x07", "dogs"], "t": ["a", "b", "b"]}]
    _, lines = predictions(
        model, tmp_path, rows, {"words": "w", "tags": "t"}, labels=["a", "b"], metrics=["accuracy"], longest=6
    )
    named = replace(model, task=replace(model.task, labels=("a", "b")))
    (said,) = Pipeline(named)("cats dogs")
    assert lines[1]["output"] == [said["output"][0]["tag"], None, said["output"][1]["tag"]]
    assert lines[0]["input"] == FOX.split() and lines[0]["expected"] == [*"abbabab"]
    assert None not in lines[0]["output"][:2] and lines[0]["output"][-1] is None  # beyond `longest`


def test_evaluating_says_how_much_it_did_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    model = loaded("bert-nano", "tagging", heads=[{"name": "tagging", "labels": 2}])
    rows = [{"w": ["cats"] * 9, "t": ["a"] * 9}, {"w": ["dogs"] * 5, "t": ["b"] * 5}]
    predictions(model, tmp_path, rows, {"words": "w", "tags": "t"}, labels=["a", "b"], longest=7)
    assert caplog.messages == ["validation: 1 of 2 rows are too long for an example and truncated: 4 words are lost"]


def test_a_question_has_the_answer_of_all_its_windows(tmp_path: Path):
    model = loaded("bert-nano", {"span": {"stride": 3}}, max_length=12)  # the first context takes six windows
    context = " ".join(TEXTS[:3])
    rows = [
        {"q": "who sleeps ?", "c": context, "s": {"text": ["cat"], "answer_start": [8]}},
        {"q": "who runs ?", "c": DOG, "s": {"text": ["dog", "blue dog"], "answer_start": [7, 2]}},
    ]
    columns = {"question": "q", "context": "c", "answers": "s"}
    _, lines = predictions(model, tmp_path, rows, columns, metrics=["f1"])
    said = Pipeline(model)([row["q"] for row in rows], pair=[row["c"] for row in rows])
    assert [line["output"] for line in lines] == [one["output"] for one in said]
    assert [line["expected"] for line in lines] == [["cat"], ["dog", "blue dog"]]


@pytest.mark.parametrize("name", ["bert-nano", "gpt-nano"])
def test_a_context_has_its_choice(name: str, tmp_path: Path):
    model = loaded(name, {"choice": {"any_number": True}})
    rows = [{"c": FOX, "o": ["dogs", "cats", "trees"], "y": 2}, {"c": DOG, "o": ["sleeps", "runs"], "y": 0}]
    columns = {"context": "c", "choices": "o", "label": "y"}
    found, lines = predictions(model, tmp_path, rows, columns, metrics=["accuracy"])
    said = Pipeline(model)([FOX, DOG], pair=["dogs\ncats\ntrees", "sleeps\nruns"])
    assert [line["expected"] for line in lines] == ["trees", "sleeps"]
    for line, one in zip(lines, said, strict=True):
        assert line["output"] == one["output"]
        same_scores(line["scores"], one["scores"])
    with pytest.raises(ValueError, match="line 2: the row has 2 choices, but .* line 1 has 3; if rows may have"):
        predictions(loaded(name, "choice"), tmp_path, rows, columns, metrics=["accuracy"])
    with pytest.raises(ValueError, match="line 1: a sequence of 14 tokens is too short for its 3 choices; 'length'"):
        predictions(model, tmp_path, rows, columns, metrics=["accuracy"], length=14)
    with pytest.raises(ValueError, match=r"jsonl: line 1: the context and its longest choice are .* set .*truncate"):
        predictions(model, tmp_path, rows, columns, metrics=["accuracy"], longest=8)
    assert found["choice/accuracy"] == sum(line["output"] == line["expected"] for line in lines) / 2


def test_what_is_written_stands_beside_the_references(tmp_path: Path):
    model = loaded("transformer-nano", "translation")
    rows = [{"a": FOX, "b": DOG}, {"a": "cats", "b": CATS}]
    _, lines = predictions(model, tmp_path, rows, {"source": "a", "target": "b"})
    said = Pipeline(model)([FOX, "cats"], generate={"max_new_tokens": 5})
    assert [line["output"] for line in lines] == [one["output"] for one in said]
    assert [(line["input"], line["expected"]) for line in lines] == [(FOX, DOG), ("cats", CATS)]


SCORED = [("gpt-nano", "causal_lm"), ("bert-nano", "masked_lm"), ("electra-nano", "replaced_token")]


@pytest.mark.parametrize(("name", "objective"), SCORED)
def test_texts_have_losses_that_add_up_to_the_split_s(name: str, objective: str, tmp_path: Path):
    model = loaded(name, objective)
    rows = [{"a": " ".join(TEXTS)}, {"a": ""}, {"a": CATS}]  # the second one is left out
    found, lines = predictions(model, tmp_path, rows, {"text": "a"}, longest=16)
    counts = [line["scores"]["tokens"] for line in lines]
    assert found.get("replaced_token/accuracy", 1.0) > 0.1, "whether a token was replaced, not which it was"
    total = sum(line["scores"]["loss"] * count for line, count in zip(lines, counts, strict=True))
    assert total / sum(counts) == pytest.approx(found[f"loss/{objective}"], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "is a folder; name a file"),
        ("no/file", "no folder"),
        ("rows.jsonl", "exists and does not hold predictions; name another file"),
        ("rows.csv", "exists and does not hold predictions; name another file"),
        ("dangling", "no folder .*nowhere"),
        ("itself", "is a link to itself; name another file"),
        ("x" * 300, "cannot be written: File name too long; name another file"),
        ("pipe", "is not a regular file, but a device or a pipe; name a file"),
        ("/proc/said.jsonl", "/proc/said.jsonl: cannot be written: "),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(name: str, said: str, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere/file")
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "rows.csv").write_text("text,label\n")
    (tmp_path / "rows.jsonl").write_text('{"row": 1, "text": "a"}\n')
    model, reporting = loaded("bert-nano", "masked_lm"), Reporting(predictions=tmp_path / name)
    with pytest.raises(ValueError, match=said):
        evaluate_split(model, "validation", None, GenerateSettings(), reporting=reporting)


def test_a_split_without_any_example_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="validation: no document is long enough for an example"):
        predictions(loaded("bert-nano", "next_sentence"), tmp_path, [{"a": "a"}, {"a": "."}], {"text": "a"})


@pytest.mark.parametrize(
    ("text", "said"),
    [(FOX, r"train, one: .*one.txt: row 1: this is the only"), ("the", "train, one: no document is")],
)
def test_each_source_of_a_mixture_needs_examples(text: str, said: str, tmp_path: Path):
    """Training reads each by itself, whatever the others hold."""
    objective = "next_sentence" if text == FOX else {"next_sentence": {"order": True}}
    given = loaded("bert-nano", objective)
    mix = {}
    for name, texts in (("one", [text]), ("two", [FOX, DOG])):
        (tmp_path / f"{name}.txt").write_text("\n\n".join(texts))
        files = {"train": f"{name}.txt", "validation": f"{name}.txt"}  # else the end of each is held out
        mix[name] = {"weight": 1, "files": files, "documents": "blank_line"}
    task = read_task({"objective": objective, "source": {"mix": mix}}, "task")
    with pytest.raises(ValueError, match=said):
        evaluate_split(replace(given, task=task), "train", tmp_path, GenerateSettings())


def test_predictions_are_written_over_predictions(tmp_path: Path):
    model = loaded("bert-nano", "classification")
    (tmp_path / "there.jsonl").touch()
    (tmp_path / "predictions.jsonl").symlink_to("there.jsonl")
    for rows in ([{"a": FOX}], [{"a": DOG}, {"a": FOX}]):
        predictions(model, tmp_path, rows, {"text": "a"}, "test", labels=["no", "yes"])
    assert (tmp_path / "predictions.jsonl").is_symlink()  # which goes on naming them


def test_a_file_that_was_not_written_to_its_end_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        predictions_module, "prediction_rows", lambda about, collected: iter([{"row": 1, "input": {1}}])
    )
    for name in ("new.jsonl", "old.jsonl"):
        (tmp_path / "old.jsonl").touch()
        with pytest.raises(TypeError):
            predictions_module.write_predictions(tmp_path / name, Any, {})
        assert sorted(path.name for path in tmp_path.iterdir()) == ["old.jsonl"]


def test_what_was_measured_is_not_lost_where_a_disk_fills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fill(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(evaluate_split_module, "write_predictions", fill)
    said = r"predictions\.jsonl: cannot be written: No space left on device; what was measured: examples 2, loss \d"
    with pytest.raises(RuntimeError, match=said):
        rows = [{"a": FOX, "label": "no"}, {"a": DOG, "label": "yes"}]
        columns = {"text": "a", "label": "label"}
        predictions(loaded("bert-nano", "classification"), tmp_path, rows, columns, "test", labels=["no", "yes"])


CHAT = [("system", "the red cat"), ("user", "sleeps"), ("assistant", "a blue dog"), ("user", "runs"),
        ("assistant", "over the trees"), ("user", "and dogs")]  # fmt: skip


def turns(said: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in said]


def test_a_conversation_has_what_the_model_says_last(tmp_path: Path):
    model = loaded("gpt2-nano", "causal_lm", columns={"messages": "m"}, vocab_size=81)
    rows = [{"m": turns(CHAT)}, {"m": turns([("user", "cats"), ("assistant", "and dogs sleeping")])}]
    metrics = ["bleu", "chrf", "sequence_accuracy", "bits_per_byte"]
    found, lines = predictions(model, tmp_path, rows, {"messages": "m"}, metrics=metrics)
    assert [line["expected"] for line in lines] == ["over the trees", "and dogs sleeping"]
    assert [turn["content"] for turn in lines[0]["input"]["messages"]] == [said for _, said in CHAT[:4]]
    asked = [{"messages": turns(CHAT[:4])}, turns([("user", "cats")])]
    said = Pipeline(model)(asked, generate={"max_new_tokens": 5})
    assert [line["output"] for line in lines] == [one["output"] for one in said]
    assert all(line["output"] for line in lines)


@pytest.mark.parametrize(
    ("longest", "read", "tokens"),
    [(3, "the trees", 3), (9, "blue dog" + "over the trees", 7), (64, "a blue dog" + "over the trees", 8)],
)
def test_of_a_conversation_without_its_beginning_the_rest_is_counted(
    longest: int, read: str, tokens: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    model = loaded("gpt2-nano", "causal_lm", columns={"messages": "m"})
    asked = {"metrics": ["bits_per_byte"], "longest": longest}
    found, _ = predictions(model, tmp_path, [{"m": turns(CHAT)}], {"messages": "m"}, **asked)
    assert found["causal_lm/bits_per_byte"] == pytest.approx(found["loss"] * tokens / (math.log(2) * len(read)))
    assert len(caplog.messages) == (longest < 64)


def test_an_answer_that_is_read_in_part_counts_the_bytes_of_that_part(tmp_path: Path):
    model = loaded("gpt2-nano", "causal_lm", columns={"prompt": "p", "text": "t"})
    asked = {"metrics": ["bits_per_byte"], "longest": 4}
    found, _ = predictions(model, tmp_path, [{"p": "cats", "t": DOG}], {"prompt": "p", "text": "t"}, **asked)
    bits = found["loss"] * 2 / math.log(2)
    assert DOG.startswith("a blue ") and found["causal_lm/bits_per_byte"] == pytest.approx(bits / len("a blue "))
