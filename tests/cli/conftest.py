"""Each tiny run is trained once for all tests of the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Said, call, say, write_data

RUNS = {
    "classify": ("bert-nano", "classify"),
    "pairs": ("bert-nano", "pairs"),
    "lm": ("gpt2-nano", "lm"),
    "mlm": ("bert-nano", "mlm"),
    "numbers": ("transformer-nano", "numbers"),
}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the data and task files."""
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def run_of(data: Path) -> Callable[[str], Path]:
    """Trains a tiny run by its name when it is first asked for; its folder."""
    made: dict[str, Path] = {}

    def trained(name: str) -> Path:
        if name not in made:
            model, task = RUNS[name]
            folder = data / "runs" / name
            assert call("pretrain", model, data / f"{task}.yaml", "-o", folder, "--data", data) == 0
            made[name] = folder
        return made[name]

    return trained


@pytest.fixture
def zoo(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[..., Said]:
    """Calls the command line; what it said."""
    return lambda *words: say(capsys, caplog, *words)
