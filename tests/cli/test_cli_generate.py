"""How commands write texts: as the task says, unless --set says otherwise."""

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Said

from zoo.cli.commands import attend, predict

Zoo = Callable[..., Said]
RunOf = Callable[[str], Path]
FEW, MANY = ("--set", "generate.max_new_tokens=4"), ("--set", "generate.max_new_tokens=40")  # numbers.yaml says 4


def test_predictions_are_as_long_as_the_task_says(zoo: Zoo, run_of: RunOf):
    said = [zoo("predict", run_of("numbers"), "1 2 0", "--json", *how).json for how in ((), FEW, MANY)]
    assert said[0] == said[1] != said[2]


def test_only_a_setting_of_generate_asks_for_an_answer_that_is_generated(
    zoo: Zoo, run_of: RunOf, monkeypatch: pytest.MonkeyPatch
):
    asked = list[bool]()
    monkeypatch.setattr(predict, "run_predict", lambda *_, writes, batch: asked.append(writes) or [])  # type: ignore[func-returns-value]
    assert [zoo("predict", run_of("numbers"), "1 2 0", *how).status for how in ((), FEW)] == [0, 0]
    assert asked == [False, True]


def test_texts_are_measured_as_long_as_the_task_says(zoo: Zoo, run_of: RunOf, data: Path):
    words = ("evaluate", run_of("numbers"), "--data", data, "--json")
    said = [zoo(*words, *how).json["translation/chrf"] for how in ((), FEW, MANY)]
    assert said[0] == said[1] != said[2]


def test_settings_that_no_metric_uses_are_refused_unless_texts_are_written_to_a_file(
    zoo: Zoo, run_of: RunOf, data: Path, tmp_path: Path
):
    said = zoo("evaluate", run_of("lm"), "--data", data, *FEW)
    assert said.status == 2 and "--set generate.…: no metric of the task compares texts" in said.err
    (tmp_path / "plain.yaml").write_text(f"base: {data / 'numbers.yaml'}\nmetrics: []\n")
    words = ("evaluate", run_of("numbers"), tmp_path / "plain.yaml", "--data", data, *FEW)
    assert [zoo(*words, *more).status for more in ((), ("--predictions", tmp_path / "p.jsonl"))] == [2, 0]


def test_what_is_looked_at_is_as_long_as_the_task_says(
    zoo: Zoo, run_of: RunOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen, work = list[int](), attend.run_attend
    monkeypatch.setattr(attend, "run_attend", lambda *asked: (seen.append(asked[-1].max_new_tokens), work(*asked))[1])
    assert zoo("attend", run_of("numbers"), "1 2 0", "-o", tmp_path / "maps.html").status == 0
    assert seen == [4]
