"""How a row of benchmarks/bench.py is measured: the options of its sides, and the goals of the machine."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from programs import load_program


@pytest.fixture
def bench() -> Any:
    return load_program("benchmarks/bench.py")


class Side:
    """A side that notes the words it was started with, and takes a second for a unit of work."""

    started: dict[str, list[str]] = {}

    def __init__(self, name: str, words: list[str], *_: Any) -> None:
        self.started[name] = words

    def warm_up(self) -> None: ...

    def kill(self) -> None: ...

    def run_turn(self, *_: Any) -> dict[str, Any]:
        return {"units": 1, "seconds": 1.0}

    def end(self) -> dict[str, Any]:
        return {"failures": []}


def test_peers_get_zoos_allocator_and_the_machine_takes_one_step_a_turn(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bench, "SideProcess", Side)
    monkeypatch.setattr(bench.signal, "signal", lambda *_: None)
    row = replace(bench.ROWS["gpt"], prepare=None, uncompiled=("hf",))
    args = bench.SideArgs({}, tmp_path, tmp_path, tmp_path, steps_per_turn=20, compiled=True)
    options = Namespace(threads=1, deadline=float("inf"), start_together=False, repeats=1, device="cpu")
    bench.compare_sides(row, args, ["--keep"], options)
    found = {name: (bench.SideArgs.from_json(words[1]), words[2:]) for name, words in Side.started.items()}
    assert {name: flags for name, (_, flags) in found.items()} == {
        "zoo": [],  # it has the setting anyway
        "hf": ["--keep"],
        "textbook": ["--keep"],
        "machine": ["--keep"],
    }
    assert {name: one.steps_per_turn for name, (one, _) in found.items()} == dict.fromkeys(found, 20) | {"machine": 1}
    assert [name for name, (one, _) in found.items() if not one.compiled] == ["hf"]


@pytest.mark.parametrize("amx", [False, True])
def test_goals_are_those_of_the_machines_kind(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amx: bool):
    monkeypatch.setattr(bench, "has_amx", lambda: amx)
    monkeypatch.setattr(bench, "compare_sides", lambda *_: {"profiles": {}, "facts": {}})
    monkeypatch.setattr(bench, "extra_facts", lambda *_: {})
    options = Namespace(device="cpu", threads=1, small=True, plain=True, made=tmp_path, data=tmp_path)
    goals = bench.measure("gpt", bench.ROWS["gpt"], options)["goals"]
    assert goals == ({"hf": "3x", "textbook": "2.2x"} if amx else {"hf": "1.6x", "textbook": "1.35x"})
