"""What a task's token store keeps, known without the objectives' modules."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from zoo.data.ids import StoredFields
from zoo.data.store.worker import plan_request
from zoo.data.task import read_task
from zoo.examples.form import forms
from zoo.experiments import tokenize
from zoo.experiments.tokenize import plan_filling, stored_fields
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import objectives

TASKS: list[tuple[Any, list[str], str | None]] = [
    ("causal_lm", ["text"], None),
    ("causal_lm", ["prompt", "text"], None),
    ({"masked_lm": {}, "next_sentence": {}}, ["text"], "de"),
    ("span", ["question", "context", "answers"], None),
    ("tagging", ["words", "tags"], None),
    ("choice", ["context", "choices"], None),
    ({"choice": {"any_number": True}}, ["context", "choices"], None),
]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The places that were imported late."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    places, load = list[str](), tokenize.import_object
    monkeypatch.setattr(tokenize, "import_object", lambda place: places.append(place) or load(place))
    return places


def stored(objective: Any, columns: list[str], language: str | None = None) -> StoredFields:
    source = {"files": {"train": "a.txt"}, "language": language}
    return stored_fields(read_task({"objective": objective, "source": source, "length": 8}, "task"), columns)


@pytest.mark.parametrize(("objective", "columns", "language"), TASKS)
def test_objectives_are_asked_once_what_is_kept(
    objective: Any, columns: list[str], language: str | None, asked: list[str]
) -> None:
    mixture = Mixture.parse(objective)
    expected = mixture.stored_fields_in(mixture.form_class(columns), language)
    assert bool(expected.equal_counts) == (objective == "choice")
    assert stored(objective, columns, language) == stored(objective, columns, language) == expected
    assert asked == [tokenize.STORED]


def test_what_was_answered_of_other_objectives_columns_or_languages_is_not_taken(asked: list[str]) -> None:
    pair = {"masked_lm": {}, "next_sentence": {}}
    given = [("causal_lm", ["text"], None), ("causal_lm", ["prompt", "text"], None), (pair, ["text"], None)]
    found = [stored(*one) for one in [*given, (pair, ["text"], "de"), *given]]
    assert found[:3] == found[4:] and len(asked) == 4 and all(found[i] != found[i + 1] for i in range(3))


def test_a_source_without_train_trains_no_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.txt").write_text("a text\n")
    (tmp_path / "mine.yaml").write_text("objective: causal_lm\nsource: {files: {validation: a.txt}}\ntokenizer: bpe\n")
    with pytest.raises(ValueError, match="source: no split 'train' to train a tokenizer on; it has: validation"):
        plan_filling(str(tmp_path / "mine.yaml"), [], tmp_path, None, False)


def test_a_source_without_the_labels_that_are_learned_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.csv").write_text("text,topic\n" + "".join(f"a text {n},x\n" for n in range(8)))
    task = {"objective": "classification", "source": {"files": {"train": "a.csv"}}, "tokenizer": "characters"}
    (tmp_path / "mine.yaml").write_text(json.dumps(task))
    with pytest.raises(ValueError, match="no column is read as 'label', which classification needs; found: text"):
        plan_filling(str(tmp_path / "mine.yaml"), [], tmp_path, None, False)


def test_objectives_are_asked_again_by_other_code(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stored("causal_lm", ["text"])
    monkeypatch.setattr(tokenize, "DECIDING", ("objectives/*.py",))
    stored("causal_lm", ["text"])
    assert len(asked) == 2


def test_objectives_are_asked_each_time_beside_another_package_whose_code_may_change(
    asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored("causal_lm", ["text"])
    monkeypatch.setattr(tokenize, "variant_packages", lambda: {"others": "2.0"})
    stored("causal_lm", ["text"])
    stored("causal_lm", ["text"])
    assert len(asked) == 3


def test_the_files_that_decide_are_those_of_every_objective_and_form() -> None:
    kinds = [objectives[name] for name in objectives.names()] + [forms[name] for name in forms.names()]
    written = {Path(inspect.getfile(base)) for kind in (StoredFields, *kinds) for base in kind.__mro__ if is_ours(base)}
    assert written <= set(tokenize.cache_key_files())


def is_ours(kind: type) -> bool:
    return kind.__module__.startswith("zoo.") and not kind.__module__.startswith("zoo.registry")


def test_a_mistake_is_named_each_time(asked: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="'answers' is missing"):
            stored("span", ["question", "context"])


TEXTS = [{"text": f"a text {n}", "label": "xy"[n % 2]} for n in range(8)]
WORDS = [{"words": ["a", str(n)], "tags": ["X", "Y"]} for n in range(8)]
TURNS = [[{"role": role, "content": f"{role} {n}"} for role in ("user", "assistant")] for n in range(8)]


@pytest.mark.parametrize(
    ("objective", "rows", "beside"),
    [
        ("causal_lm", TEXTS, {"tags": ["news"], "label": 0.5, "source": None, "words": 2, "image": "a.png"}),
        ("classification", TEXTS, {"tags": None, "choices": ["a"], "messages": "none"}),
        ("tagging", WORDS, {"label": "x", "text": None}),
        ("causal_lm", [{"messages": turns} for turns in TURNS], {"text": "of another form", "prompt": None}),
    ],
)
def test_columns_that_are_not_read_decide_nothing(
    objective: str, rows: list[Any], beside: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    task = {"objective": objective, "source": {"files": {"train": "a.jsonl"}}, "tokenizer": "characters"}
    (tmp_path / "mine.yaml").write_text(json.dumps(task))
    found = []
    for more in ({}, beside):
        (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row | more)}\n" for row in rows))
        filling = plan_filling(str(tmp_path / "mine.yaml"), [], tmp_path, None, False)
        read = {shard.rows.split: list(shard.rows) for shard in filling.shards}
        found.append((read, filling.request.tokenizer, filling.request.inputs))
        assert {shard.folder for shard in filling.shards} == {shard.folder for shard in plan_request(filling.request)}
    assert found[0] == found[1] and len(found[0][0]) == 2


def test_the_texts_of_images_are_tokenized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    for n in range(8):
        Image.new("RGB", (2, 2), (n, 0, 0)).save(tmp_path / f"{n}.png")
    (tmp_path / "a.csv").write_text("image,text\n" + "".join(f"{n}.png,a dog {n}\n" for n in range(8)))
    task = {"objective": "captioning", "source": {"files": {"train": "a.csv"}}, "tokenizer": "characters"}
    (tmp_path / "mine.yaml").write_text(json.dumps(task))
    filling = plan_filling(str(tmp_path / "mine.yaml"), [], tmp_path, None, False)
    assert all(shard.recipe.tokenizer is not None for shard in filling.shards)
