"""What `zoo check TASK` counts, against counting by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.nn.functional import binary_cross_entropy

from zoo.data import processes
from zoo.survey import survey, tokens, worker
from zoo.survey.rows import SourceSurvey
from zoo.survey.survey import NO_TOKENIZER, TaskSurvey

TRAIN = ["aaaa bbbb", "aaaa bbbb", "cc", "", "aaaaaaaaaaaaaaaaaaaaaaaa", "zyxwvuts"]
VALIDATION = ["cc", "dd?"]


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    for name, texts in {"train": TRAIN, "validation": VALIDATION}.items():
        rows = [json.dumps({"text": text, "label": "ab"[len(text) > 3]}) for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    return {
        "objective": "causal_lm",
        "source": {"files": {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "validation")}},
        "tokenizer": {"name": "characters"},
        "length": 8,
    }


def look(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    path = folder / "my.yaml"
    path.write_text(json.dumps(tree))
    return TaskSurvey.find(str(path), [], None).run(lambda *_: None)


def test_rows_texts_and_tokens_are_counted(task: dict[str, Any], tmp_path: Path) -> None:
    train = look(task, tmp_path)["splits"]["train"]
    assert (train["rows"], train["empty"], train["documents"]) == (6, 1, 5)
    assert train["characters"] == train["bytes"] == train["tokens"] == sum(map(len, TRAIN))
    assert (train["lengths"]["text"]["median"], train["lengths"]["text"]["longest"]) == (9, 24)


def test_characters_that_train_has_not_are_unknown(task: dict[str, Any], tmp_path: Path) -> None:
    splits = look(task, tmp_path)["splits"]
    assert splits["train"]["unknown"] == 0 and splits["validation"]["unknown"] == pytest.approx(3 / 5)


def test_blank_rows_repeat_nothing(task: dict[str, Any], tmp_path: Path) -> None:
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write('{"text": "", "label": "a"}\n')
    found = look(task, tmp_path)
    assert found["splits"]["train"]["rows"] == 7 and found["repeated"] == {"train": 1, "validation": 0}


def test_repeats_and_leaks_are_counted(task: dict[str, Any], tmp_path: Path) -> None:
    found = look(task, tmp_path)
    assert found["repeated"] == {"train": 1, "validation": 0}
    assert [(leak["rows"], leak["share"], leak["of"]) for leak in found["leaks"]] == [(1, 0.5, "validation")]
    assert found["repeated_shown"][0] == [
        f"train: {tmp_path / 'train.jsonl'}: row 3",
        f"validation: {tmp_path / 'validation.jsonl'}: row 1",
    ]


def test_the_entropy_is_that_of_smoothed_counts(task: dict[str, Any], tmp_path: Path) -> None:
    letters = "".join(TRAIN)
    size = 7 + len(set(letters))
    costs = {c: -math.log((letters.count(c) + 1) / (len(letters) + size)) for c in letters}
    expected = sum(map(costs.__getitem__, letters)) / len(letters)
    score = look(task, tmp_path)["unigram"]["train"]
    assert score["loss"] == pytest.approx(expected)
    assert score["bits_per_byte"] == pytest.approx(expected / math.log(2))


@pytest.mark.parametrize("read", ["source", "prompt"])
def test_the_entropy_is_that_of_what_a_model_is_asked_for(task: dict[str, Any], tmp_path: Path, read: str) -> None:
    rows = [{read: "abcdefg"[i:], "target" if read == "source" else "text": "zé"[i % 2] * 2} for i in range(6)]
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    objective = "translation" if read == "source" else "causal_lm"
    score = look(task | {"objective": objective, "length": 16}, tmp_path)["unigram"]["train"]
    cost = -math.log((6 + 1) / (12 + 7 + 9))  # of each letter, where all 16 tokens were seen once more
    assert score["loss"] == pytest.approx(cost)
    assert score["bits_per_byte"] == pytest.approx(12 * cost / math.log(2) / 18)


def test_of_several_references_the_one_that_is_measured_has_its_bytes(task: dict[str, Any], tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    for name, said in {"train": "abcé", "validation": ["abé", "zzzzzzzzz"]}.items():
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"image": "a.png", "text": said}))
    score = look(task | {"objective": "captioning"}, tmp_path)["unigram"]["validation"]
    cost = -math.log((1 + 1) / (4 + 7 + 4))  # of each letter, where all 11 tokens were seen once more
    assert score["bits_per_byte"] == pytest.approx(3 * cost / math.log(2) / 4)


@pytest.mark.parametrize("at_once", [4, 1000])
def test_of_conversations_only_what_the_assistant_says_is_measured(
    task: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(tokens, "TOKENS", at_once)
    said = [["ab", "zz", "c", "é"], ["b", "z"], ["abc", "éé"]]
    for name in ("train", "validation"):
        rows = [[{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(row)] for row in said]
        beside = {"text": "not read", "prompt": None}
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps({"messages": row} | beside) for row in rows))
    found = look(task | {"objective": "causal_lm", "length": 16}, tmp_path)
    score = found["unigram"]["train"]
    cost = -math.log((3 + 1) / (6 + 7 + 5))  # of each letter, where all 12 tokens were seen once more
    assert score["loss"] == pytest.approx(cost)
    assert score["bits_per_byte"] == pytest.approx(6 * cost / math.log(2) / 9)
    assert found["splits"]["train"]["characters"] == sum(len(text) for row in said for text in row)
    named = {"columns": {"messages": "messages", "text": "text"}, "length": 16, "tokenizer": None}
    warned = " ".join(look(task | named, tmp_path)["remarks"])
    assert "made of messages only, but tokenizer, filters and held-out rows also depend on text; name" in warned


def test_rows_of_other_lengths_are_tried(task: dict[str, Any], tmp_path: Path) -> None:
    sizes = look(task | {"length": 16}, tmp_path)["row_sizes"]
    assert [size["length"] for size in sizes] == [8, 16, 32]
    assert [size["longer"] > 0 for size in sizes] == [True, True, False]
    assert all(size["is"] == "continued in further examples" and 0 <= size["empty"] < 1 for size in sizes)


@pytest.mark.parametrize(
    ("row", "longer"),
    [
        ({"text": "a" * 7}, 0.0),  # and `</s>`
        ({"text": "a" * 8}, 1.0),
        ({"source": "a" * 7, "target": "b" * 7}, 0.0),
        ({"source": "a" * 8, "target": "b" * 3}, 0.5),
        ({"source": "a" * 3, "target": "b" * 8}, 0.5),
    ],
)
def test_what_just_fits_is_not_longer_than_a_row(
    task: dict[str, Any], tmp_path: Path, row: dict[str, str], longer: float
) -> None:
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    objective = "causal_lm" if "text" in row else "translation"
    sizes = look(task | {"objective": objective, "length": 8}, tmp_path)["row_sizes"]
    assert [size["longer"] for size in sizes if size["length"] == 8] == [longer]


def test_what_is_cut_off_and_what_stays_empty_is_counted_in_tokens(task: dict[str, Any], tmp_path: Path) -> None:
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"source": "a" * 11, "target": "b" * 10}) + "\n")
    for longest, expected in {
        6: [(4, 15 / 21, 0.0), (8, 11 / 21, 4 / 16), (16, 11 / 21, 20 / 32)],  # one position per side is no letter's
        8: [(4, 15 / 21, 0.0), (8, 7 / 21, 0.0), (16, 7 / 21, 16 / 32)],
    }.items():
        sizes = look(task | {"objective": "translation", "longest": longest}, tmp_path)["row_sizes"]
        assert [(size["length"], size["beyond"], size["empty"]) for size in sizes] == list(map(pytest.approx, expected))
        assert {(size["longer"], size["is"]) for size in sizes} == {(1.0, "truncated")}


@pytest.mark.parametrize(("longest", "longer"), [(8, 0.0), (7, 1.0)])
def test_of_choices_each_is_measured_with_its_context(
    task: dict[str, Any], tmp_path: Path, longest: int, longer: float
) -> None:
    row = json.dumps({"context": "abc", "choices": ["de", "f", "gh"], "label": 0})  # at most 5 tokens, and 3 special
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text(row + "\n")
    sizes = look(task | {"objective": "choice", "length": 24, "longest": longest}, tmp_path)["row_sizes"]
    found = [(size["length"], size["longer"], size["is"]) for size in sizes]
    assert found == [(24, longer, "truncated"), (48, longer, "truncated")]  # in 12 positions no three choices fit


@pytest.mark.parametrize(
    ("objective", "what"),
    [
        ("prefix_lm", "continued in further examples"),
        ("span_corruption", "continued in further examples"),
        ("causal_lm", "truncated"),
    ],
)
def test_what_becomes_of_a_long_text_is_what_its_form_does(
    task: dict[str, Any], tmp_path: Path, objective: str, what: str
) -> None:
    row = {"text": "abcdefgh" * 20} | ({"prompt": "ab"} if objective == "causal_lm" else {})
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    (size, *_) = look(task | {"objective": objective, "length": 40}, tmp_path)["row_sizes"]
    assert (size["longer"], size["is"]) == (1.0, what)
    assert (size["beyond"] > 0.1) == (what == "truncated")


def test_a_long_context_is_read_in_windows(task: dict[str, Any], tmp_path: Path) -> None:
    row = json.dumps({"question": "ab", "context": "c" * 9, "answers": ["c"]})
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text(row + "\n")
    sizes = look(task | {"objective": {"span": {"stride": 2}}, "length": 10}, tmp_path)["row_sizes"]
    assert [(size["length"], size["longer"], size["beyond"], size["is"]) for size in sizes] == [
        (5, 1.0, pytest.approx(1 / 46), "read in several windows"),
        (10, 1.0, 0.0, "read in several windows"),
        (20, 0.0, 0.0, "truncated"),
    ]


def test_the_strangest_rows_are_named_by_their_place(task: dict[str, Any], tmp_path: Path) -> None:
    found = {one["why"]: one for one in reversed(look(task, tmp_path)["strangest"])}  # the first of each
    place = f"{tmp_path / 'train.jsonl'}: row"
    assert found["most surprising tokens, nats"]["place"] == f"{place} 6"
    assert found["least surprising tokens, nats"]["place"] == f"{place} 5"
    assert (found["longest, tokens"]["value"], found["longest, tokens"]["text"]) == (24, TRAIN[4])
    assert "most unknown tokens, share" not in found


def test_labels_are_counted_and_guessing_scores_their_entropy(task: dict[str, Any], tmp_path: Path) -> None:
    found = look(task | {"objective": "classification", "length": 32}, tmp_path)
    assert found["splits"]["train"]["labels"] == {"b": 4, "a": 2}
    entropy = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert found["guessing_labels"]["train"] == {"accuracy": pytest.approx(2 / 3), "loss": pytest.approx(entropy)}
    assert found["guessing_labels"]["validation"] == {"accuracy": 0, "loss": pytest.approx(math.log(3))}  # "a" alone
    assert {size["is"] for size in found["row_sizes"]} == {"truncated"}


@pytest.mark.parametrize("joined", [False, True])
def test_of_several_classes_each_is_guessed_by_itself(task: dict[str, Any], tmp_path: Path, joined: bool) -> None:
    labels = [["a", "b"], ["a"], [], ["a", "a"]]
    for name in ("train", "validation"):
        rows = [{"text": f"t{i}", "label": ", ".join(each) if joined else each} for i, each in enumerate(labels)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = look(task | {"objective": "classification", "labels": {"several": ["a", "b", "c"]}}, tmp_path)
    assert found["splits"]["train"]["labels"] == {"a": 3, "b": 1}
    guessed = torch.tensor([0.75, 0.25, 0.0]).expand(4, 3)
    true = torch.tensor([[1.0, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0]])
    assert found["guessing_labels"]["train"] == {"loss": pytest.approx(float(binary_cross_entropy(guessed, true)))}


def test_of_labels_that_are_numbers_range_and_mean_are_told(task: dict[str, Any], tmp_path: Path) -> None:
    for name, labels in {"train": [0.5, 2, 5], "validation": [1, 2.5]}.items():
        rows = [json.dumps({"text": f"t{i}", "label": label}) for i, label in enumerate(labels)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    found = look(task | {"objective": "classification", "labels": "number"}, tmp_path)
    assert found["splits"]["train"]["numbers"] == {"least": 0.5, "most": 5.0, "mean": 2.5}
    assert found["splits"]["validation"]["numbers"]["mean"] == 1.75 and "labels" not in found["splits"]["train"]
    assert found["guessing_labels"]["train"] == {"mse": pytest.approx((4 + 0.25 + 6.25) / 3)}


def test_labels_that_are_numbers_have_the_names_of_the_task(task: dict[str, Any], tmp_path: Path) -> None:
    rows = [json.dumps({"text": f"t{i}", "label": i % 2}) for i in range(4)]
    (tmp_path / "train.jsonl").write_text("\n".join(rows))
    (tmp_path / "validation.jsonl").write_text(rows[0])
    found = look(task | {"objective": "classification", "labels": ["no", "yes"]}, tmp_path)
    assert found["splits"]["train"]["labels"] == {"no": 2, "yes": 2}


def test_sentences_are_counted_by_their_documents(task: dict[str, Any], tmp_path: Path) -> None:
    found = look(task | {"objective": "next_sentence", "length": 32}, tmp_path)
    assert found["splits"]["train"]["tokens"] == sum(map(len, TRAIN)) and found["splits"]["train"]["documents"] == 5


def test_a_task_without_a_tokenizer_says_what_is_missing(task: dict[str, Any], tmp_path: Path) -> None:
    del task["tokenizer"]
    found = look(task, tmp_path)
    assert found["remarks"] == [NO_TOKENIZER] and "tokens" not in found["splits"]["train"]


def several_parts(task: dict[str, Any], folder: Path, last: str = "") -> dict[str, Any]:
    """A task of four files with classes, texts that repeat others across files, and almost equal ones."""
    words = [f"word{number}" for number in range(40)]
    for part in range(4):
        texts = [" ".join([*words[: 30 + row % 7], f"{part * row % 5}"]) for row in range(40)]
        rows = [json.dumps({"text": t, "label": ", ".join("abc"[: (part + n) % 4])}) for n, t in enumerate(texts)]
        (folder / f"part-{part}.jsonl").write_text("\n".join(rows) + "\n" + (last if part == 3 else ""))
    source = {"files": {"train": str(folder / "part-*.jsonl")}, "filter": {"longest": 220}}
    labels = {"several": ["a", "b", "c"]}
    return task | {"objective": "classification", "source": source, "length": 64, "labels": labels}


def by_processes(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (survey, worker):
        monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(processes, "available_cores", lambda: count)


def test_several_processes_find_what_one_finds(
    task: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = several_parts(task, tmp_path)
    one = look(tree, tmp_path)
    by_processes(2, monkeypatch)
    left: list[int] = []
    monkeypatch.setattr(SourceSurvey, "read", lambda self, numbers: left.extend(numbers))
    assert look(tree, tmp_path) == one and not left
    assert one["left_out"] and one["near"]["across_splits"] and one["repeated"]["train"]


def test_what_a_process_cannot_read_is_named(
    task: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_processes(2, monkeypatch)
    with pytest.raises(ValueError, match=r"part-3.jsonl: line 41: not JSON"):
        look(several_parts(task, tmp_path, last="broken\n"), tmp_path)
