"""Messages about a source name it as the task does, also within a mix."""

from pathlib import Path
from typing import Any

import pytest

from zoo.data.sources.find import find_origin, load_rows
from zoo.data.sources.remote.repository import Hub
from zoo.data.sources.settings import SourceSettings
from zoo.data.task import read_task

MIXED = "source.mix.wiki"


@pytest.mark.parametrize("files", [None, {"train": "no.txt"}])
def test_a_repository_of_a_mix_is_named_by_its_source(
    files: Any,
) -> None:
    hub = find_origin(SourceSettings(files=files, hub="org/name"), None, MIXED)
    assert isinstance(hub, Hub)
    assert str(hub.refusal(ValueError("no"))).startswith(f"{MIXED}.hub: 'org/name' cannot be read: no")


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (["a.txt", "b.txt"], "each column needs as many files as the others, but 'source' has 1, 'target' has 2"),
        ("b.txt", "the files must have the same number of rows"),
        ("c.txt", "no such file 'c.txt'"),
    ],
)
def test_columns_of_a_mix_are_named_by_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, targets: str | list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("one\ntwo\n")
    Path("b.txt").write_text("eins\n")
    own = {"files": {"train": {"source": "a.txt", "target": targets}}}
    task = read_task({"objective": "translation", "source": {"mix": {"wiki": own, "more": own}}}, "task")
    with pytest.raises(ValueError, match=rf"^{MIXED}\.files\.train(\.target)?: {said}"):
        list(load_rows(task, ("source", "target"))["train"])
