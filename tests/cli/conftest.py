"""Each tiny run is trained once for all tests of the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Said, call, say, write_data

from once import once

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
    return once(tmp_path_factory, "cli-data", write_data)


@pytest.fixture(scope="session")
def run_of(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Trains a tiny run by its name when it is first asked for; its folder."""

    def trained(name: str) -> Path:
        def train(folder: Path) -> None:
            model, task = RUNS[name]
            assert call("pretrain", model, data / f"{task}.yaml", "-o", folder / name, "--data", data) == 0

        return once(tmp_path_factory, f"cli-{name}", train) / name

    return trained


@pytest.fixture
def zoo(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[..., Said]:
    """Calls the command line; what it said."""
    return lambda *words: say(capsys, caplog, *words)
