"""Tokens are counted window by window: how many documents are read at once changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_survey import by_processes, several_parts
from test_survey import look as look_exactly

from zoo.survey import lengths, tokens, worker

TURNS = [["ab", "zz", "c", "é"], ["b", "z"], ["abc", "éé"], ["a", "bb"]]


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    files = {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "validation")}
    return {
        "objective": "causal_lm",
        "source": {"files": files},
        "tokenizer": {"name": "characters"},
        "length": 64,
    }


def look(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What is found, without the last digits, which depend on the order of sums."""
    found: dict[str, Any] = json.loads(
        json.dumps(look_exactly(tree, folder)), parse_float=lambda text: round(float(text), 9)
    )
    return found


@pytest.mark.parametrize("kind", ["text", "messages", "pair"])
@pytest.mark.parametrize("at_once", [("DOCUMENTS", 1), ("TOKENS", 30)])
def test_windows_of_few_documents_find_what_one_window_finds(
    task: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, at_once: tuple[str, int]
) -> None:
    rows: list[dict[str, Any]] = [{"text": letter * (20 + n), "label": letter} for n, letter in enumerate("abcdz")]
    if kind == "messages":
        roles = ("user", "assistant")
        rows = [{"messages": [{"role": roles[n % 2], "content": text} for n, text in enumerate(row)]} for row in TURNS]
    if kind == "pair":
        rows = [{**row, "pair": "xyz"} for row in rows]
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    tree = task | {"objective": "classification" if kind == "pair" else "causal_lm"}
    whole = look(tree, tmp_path)
    for module in (lengths, tokens):
        monkeypatch.setattr(module, at_once[0], at_once[1], raising=False)
    assert look(tree, tmp_path) == whole
    counted = whole["splits"]["train"]["lengths"]
    assert list(counted) == [{"text": "text", "messages": "messages", "pair": "text + pair"}[kind]]


def test_of_a_document_longer_than_what_is_read_at_once_the_beginning_stands_for_all(
    task: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps({"text": t}) + "\n" for t in ("a" * 99, "bbb", "c" * 9))
        )
    whole = look(task, tmp_path)["strangest"]
    for module in (lengths, tokens):
        monkeypatch.setattr(module, "TOKENS", 8)
    assert look(task, tmp_path)["strangest"] == whole
    ends = {one["why"].partition(" ")[0]: one for one in reversed(whole)}  # the first of each measure
    assert ends["most"]["text"] == "c" * 9  # the cost of three tokens says little
    assert (
        ends["least"]["text"] == ends["longest,"]["text"] == "a" * tokens.BEGINNING and ends["longest,"]["value"] == 99
    )


def test_parts_that_no_process_has_read_are_read_in_the_end(
    task: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = several_parts(task, tmp_path)
    one = look(tree, tmp_path)
    by_processes(2, monkeypatch)
    monkeypatch.setattr(worker, "run_together", lambda *_: None)  # as if all were killed
    assert look(tree, tmp_path) == one
