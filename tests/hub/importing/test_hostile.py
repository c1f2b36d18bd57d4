"""Folders that mean harm run nothing, read nothing outside, write nothing outside, and end in one message."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import hostile
import hostile_runs
import pytest

from zoo.hub.checkpoint import import_checkpoint
from zoo.hub.exporting.export import write_files
from zoo.hub.targets.declare.registry import targets

ROOT = Path(__file__).parents[3]
REFUSED = {**hostile.REFUSED, **hostile_runs.REFUSED}
VERBS = {"load", "evaluate", "finetune", "export", "push"}
Seen = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def seen(build: Any, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What every use of every folder did."""
    root = tmp_path_factory.mktemp("hostile")
    few = {"encoder.n_layers": 1, "heads": {"classification": {"labels": 2}}}  # it is built hundreds of times
    given = build("bert-nano", few, "wordpiece", labels=["bad", "good"])
    bert = targets["bert"]
    chosen = bert.native_class(given.settings)
    assert chosen is not None
    (root / "hf").mkdir()
    write_files(root / "hf", given, bert, chosen)
    import_checkpoint(root / "hf", root / "run")
    (root / "temporary").mkdir()
    places = {"TMPDIR": str(root / "temporary"), "ZOO_CACHE": str(root / "temporary" / "cache"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(ROOT / "tests/hub/hostile_child.py"), str(root)]
    path = f"{ROOT / 'src'}:{ROOT / 'tests/hub'}:{ROOT / 'tests/starting'}"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HOME": str(root), **places}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not list(root.rglob("canary-ran"))
    return {(line["name"], line["verb"]): line for line in map(json.loads, done.stdout.splitlines())}


def test_there_are_enough_of_them() -> None:
    assert len(hostile.INERT) + len(REFUSED) >= 60


BAD = ("outside/canary", "outside/new", "pickle.find_class", "subprocess.Popen", "compile", "exec", "socket.connect")


def test_the_watch_sees_what_nothing_may_do(seen: Seen):
    (line,) = of(seen, "badly")
    missed = [what for what in BAD if not any(what in event for event in line["events"])]
    assert not missed, line


def of(seen: Seen, name: str) -> list[dict[str, Any]]:
    return [line for (known, _), line in seen.items() if known == name]


@pytest.mark.parametrize("name", ["benign", "benign_run"])
def test_the_benign_twin_works_with_every_command(seen: Seen, name: str):
    used = {line["verb"]: line["said"] for line in of(seen, name)}
    assert used.pop("resume", "refused: cannot be resumed with other settings").startswith("refused: ")
    assert used.keys() >= VERBS and not any(used.values())
    assert not [(line["verb"], line["events"]) for line in of(seen, name) if line["events"]]


@pytest.mark.parametrize("name", [*hostile.INERT, "everything"])
def test_what_asks_for_more_than_weights_is_used_as_if_it_did_not(seen: Seen, name: str):
    for line in of(seen, name):
        assert not line["events"], line
        if line["verb"] != "push":  # which refuses to publish what asks others to run code
            assert not line["said"], line


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_cannot_be_a_model_ends_every_command_with_one_message(seen: Seen, name: str):
    lines = of(seen, name)
    assert {line["verb"] for line in lines} >= VERBS
    for line in lines:
        assert not line["events"], line
        assert line["said"].startswith("refused: ") and line["seconds"] < 15, line
        assert "\x1b" not in line["said"]
        if line["verb"] != "resume" and line["verb"] != "push":
            assert re.search(REFUSED[name][1], line["said"]), line
