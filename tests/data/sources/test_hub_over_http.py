"""Data sets of a Hub that the real clients ask over HTTP: streamed, interrupted, resumed, moved on, and in trouble."""

import functools
import io
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import pyarrow
import pytest
from fsspec.spec import AbstractBufferedFile
from huggingface_hub import constants
from huggingface_hub.utils import _http
from pyarrow import parquet
from tests.data.sources.local_data_hub import RESET, SHORT, DataHub, Fault, Request, data_hub, no_fault
from tests.data.sources.test_find import inputs, task

from zoo.data.ids import StoredFields
from zoo.data.sources.find import load_rows
from zoo.data.sources.remote import repository
from zoo.data.store.store import open_store
from zoo.data.tokenizers.recipes.recipe import tokenizers
from zoo.data.tokenizers.tokenizer import Tokenizer

# each client reads all certificates anew, most of the time of a test that sends little to this machine alone
ssl.create_default_context = functools.cache(ssl.create_default_context)

FIRST, SECOND = "dev-00000-of-00002.parquet", "dev-00001-of-00002.parquet"
ROWS = 23  # of each file, 9 KB of text each: more than what is read of a file's end to see its columns
FOOTER = 1 << 16
REST = {"tokenizer": {"name": "characters", "vocab_size": 99}, "length": 64}
SAID: dict[int | str, str] = {  # by what happens
    403: "the Hub answered 403 Forbidden",
    404: "the Hub answered 404 Not Found",
    500: "the Hub answered 500 Internal Server Error",
    RESET: "Server disconnected without sending a response.",
    SHORT: "peer closed connection without sending complete message body",
}
PLACE = "{repo_id}/resolve/{revision}/{filename}"


def table(start: int, rows: int = ROWS, group: int = ROWS) -> bytes:
    """A Parquet file."""
    content = io.BytesIO()
    texts = [f"{start + n} " + chr(ord("a") + n % 26) * 9000 for n in range(rows)]
    columns = {"text": texts, "other": list(range(rows))}
    parquet.write_table(pyarrow.table(columns), content, row_group_size=group, compression="none", use_dictionary=False)
    return content.getvalue()


def lines(start: int) -> bytes:
    return "".join(json.dumps({"text": f"{start + n} {'x' * 900}"}) + "\n" for n in range(ROWS)).encode()


def settings_of_library(url: str, folder: Path) -> dict[str, Any]:
    """Of `datasets`: where the Hub is, and that nothing is waited for."""
    retries = {f"STREAMING_{kind}_MAX_RETRIES": 2 for kind in ("READ", "OPEN")}
    waits = {f"STREAMING_{kind}_RETRY_INTERVAL": 0 for kind in ("READ", "OPEN", "READ_SERVER_UNAVAILABLE")}
    place = {"HF_ENDPOINT": url, "HUB_DATASETS_URL": f"{url}/datasets/{{repo_id}}/resolve/{{revision}}/{{path}}"}
    # the export is another server's, whose name would be looked up
    asked = {"USE_PARQUET_EXPORT": False, "HF_HUB_OFFLINE": False, "HF_DATASETS_CACHE": folder / "library"}
    return {**place, **retries, **waits, **asked}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataHub]:
    """A Hub with a data set of two Parquet files; nobody waits before asking again."""
    with data_hub("org/name") as running:
        running.commit({FIRST: table(0), SECOND: table(100)})
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{running.url}/{PLACE}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "clients"))
        monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=lambda seconds: None))
        for name, value in settings_of_library(running.url, tmp_path).items():
            monkeypatch.setattr(datasets.config, name, value)
        yield running


def fill(name: str = "org/name") -> list[int]:
    """Tokenize the split, and give the number at the beginning of each document."""
    rows = load_rows(task(hub=name), inputs(), splits=["validation"])
    tokenizer = Tokenizer.train(tokenizers.parse("characters", ""), ["0123456789 abcdefghijklmnopqrstuvwxyz"])
    split = open_store(rows, StoredFields(("text",)), tokenizer)["validation"]
    return [int(split.rows[n]["text"].split()[0]) for n in range(len(split.rows))]


def while_reading(file: str, fault: Fault) -> Fault:
    """A fault that happens where the texts of a file are asked for, beyond its end, which says what it holds."""
    return lambda request: fault(request) if request.path.endswith(file) and request.size > FOOTER else None


BOTH = [*range(ROWS), *range(100, 100 + ROWS)]


def test_a_data_set_streams_into_the_store_and_is_not_asked_for_again(hub: DataHub) -> None:
    assert fill() == BOTH
    assert hub.bytes_of(FIRST) < 2 * len(table(0)) and hub.bytes_of(SECOND) < 2 * len(table(0))
    hub.requests.clear()
    assert fill() == BOTH and not hub.requests


def test_an_interrupted_filling_does_not_read_again_what_is_whole(hub: DataHub) -> None:
    hub.fault = while_reading(SECOND, lambda request: RESET)
    with pytest.raises(RuntimeError, match=rf"\(validation, {SECOND}\): row 1: cannot be read: Server disconnected"):
        fill()
    hub.requests.clear()
    hub.fault = no_fault
    assert fill() == BOTH
    assert hub.bytes_of(FIRST) <= FOOTER and hub.bytes_of(SECOND) > FOOTER  # the columns, and all texts


def test_a_broken_connection_is_asked_again_for_the_rest(hub: DataHub) -> None:
    broken = iter([SHORT])
    hub.fault = while_reading(SECOND, lambda request: next(broken, None))
    assert fill() == BOTH and next(broken, None) is None


@pytest.mark.parametrize("what", [404, 500, RESET, SHORT])
@pytest.mark.parametrize("file", [SECOND, "dev.jsonl"])
def test_trouble_while_rows_are_read_is_one_line_and_loses_nothing(hub: DataHub, what: int | str, file: str) -> None:
    if file != SECOND:
        hub.commit({file: lines(0)})
    rows = load_rows(task(hub="org/name"), inputs(), splits=["validation"])  # its files and columns are known
    assert rows["validation"].inputs == ["text"]
    hub.fault = while_reading(file, lambda request: what) if file == SECOND else lambda request: what
    with pytest.raises(RuntimeError) as trouble:
        fill()
    said = str(trouble.value)
    assert SAID[what] in said and said.startswith(f"hub:org/name (validation, {file}): row 1: cannot be read: ")
    assert said.endswith("; finished shards stay in the token store; repeat the command to continue")
    assert "http" not in said and "\n" not in said  # an address may be signed
    hub.fault = no_fault
    assert fill() == (BOTH if file == SECOND else list(range(ROWS)))


@pytest.mark.parametrize("what", [403, 404, 500, RESET])
def test_a_hub_in_trouble_is_one_line_and_no_place_on_this_machine(hub: DataHub, what: int | str) -> None:
    hub.fault = lambda request: what
    with pytest.raises(ValueError) as refusal:
        fill()
    said = str(refusal.value)
    assert said.startswith("source.hub: 'org/name' cannot be read: ") and said.endswith(SAID[what])
    assert "http" not in said and os.getcwd() not in said


def test_a_hub_that_cannot_be_reached_is_said_so(hub: DataHub, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((constants, "ENDPOINT"), (datasets.config, "HF_ENDPOINT")):
        monkeypatch.setattr(module, name, "http://127.0.0.1:1")
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"http://127.0.0.1:1/{PLACE}")
    with pytest.raises(ValueError, match="'org/name' cannot be read: Couldn't reach 'org/name' on the Hub"):
        fill()


def test_what_the_hub_does_not_have_is_named(hub: DataHub) -> None:
    for name, said in (("org/no", "Dataset 'org/no' doesn't exist"), ("org/name@v9", "Revision 'v9' doesn't exist")):
        with pytest.raises(ValueError, match=f"source.hub: '{name}' cannot be read: {said}"):
            fill(name)


def test_the_recorded_revision_is_read_though_the_repository_moves_on(hub: DataHub) -> None:
    hub.fault = while_reading(SECOND, lambda request: RESET)
    with pytest.raises(RuntimeError):
        fill()
    hub.fault = no_fault
    old, new = hub.branches["main"], hub.commit({FIRST: table(200), SECOND: table(300)})
    hub.requests.clear()
    assert fill() == BOTH
    assert any(old in one.path for one in hub.requests) and not any(new in one.path for one in hub.requests)
    hub.branches["v2"] = new
    assert fill("org/name@v2")[0] == 200 and fill() == BOTH


def test_a_folder_of_the_repositorys_name_is_not_read(
    hub: DataHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("org/name").mkdir(parents=True)
    Path("org/name/dev.jsonl").write_text('{"text": "7 of this machine"}\n')
    assert fill() == BOTH


def test_a_piece_of_a_file_is_one_connection_and_its_own_bytes(hub: DataHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.commit({FIRST: table(0, 80, 5)})  # 720 KB in 16 row groups
    monkeypatch.setattr(repository, "PART", 200_000)
    monkeypatch.setattr(AbstractBufferedFile, "DEFAULT_BLOCK_SIZE", 50_000)  # is read ahead
    parts = load_rows(task(hub="org/name"), inputs(), splits=["validation"])["validation"].parts
    numbers = []
    for part in parts:
        hub.requests.clear()
        numbers.append([int(row["text"].split()[0]) for row in part.rows(["text"])])
        assert hub.bytes_of(FIRST) < 200_000 + FOOTER + 60_000
    assert [len(each) for each in numbers] == [20, 20, 20, 20] and sum(numbers, []) == list(range(80))


def test_pieces_of_a_file_have_the_kinds_of_values_that_the_whole_file_has(
    hub: DataHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = io.BytesIO()
    values = {"text": ["a", "b", "c", "d"], "label": ["yes", "no", "no", "yes"]}
    parquet.write_table(pyarrow.table(values), content, row_group_size=1)
    classes = "{'0': 'no', '1': 'yes'}"
    said = f"features: [{{name: text, dtype: string}}, {{name: label, dtype: {{class_label: {{names: {classes}}}}}}}]"
    hub.commit({FIRST: content.getvalue(), "README.md": f"---\ndataset_info:\n  {said}\n---\n".encode()})
    found = []
    for size in (1 << 28, len(content.getvalue()) // 2 + 1):
        monkeypatch.setattr(repository, "PART", size)
        monkeypatch.setenv("ZOO_CACHE", os.environ["ZOO_CACHE"] + "x")
        parts = load_rows(task(hub="org/name"), inputs(), splits=["validation"])["validation"].parts
        found.append([row for part in parts for row in part.rows(["text", "label"])])
    assert len(parts) == 2 and found[0] == found[1] == [
        {"text": t, "label": n} for t, n in zip("abcd", ["yes", "no", "no", "yes"], strict=True)
    ]


def test_a_killed_command_goes_on_behind_the_last_whole_file(hub: DataHub, tmp_path: Path) -> None:
    passes, reached, killed = iter(["the tokenizer's"]), threading.Event(), threading.Event()

    def hang(request: Request) -> str | None:
        if next(passes, None):
            return None
        reached.set()
        killed.wait(60)
        return RESET

    hub.branches["v1"] = hub.commit({"train-0.parquet": table(0), "train-1.parquet": table(100), SECOND: table(200)})
    source = {"hub": "org/name@v1"}
    (tmp_path / "task.yaml").write_text(json.dumps({"objective": "causal_lm", "source": source, **REST}))
    changes = {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "zoo", "tokenize", str(tmp_path / "task.yaml"), "--part", "1/1"]
    hub.fault = while_reading("train-1.parquet", hang)
    process = subprocess.Popen(words, env={**os.environ, **changes}, stderr=subprocess.DEVNULL)
    assert reached.wait(60)
    process.kill()
    killed.set()
    assert process.wait() == -signal.SIGKILL
    hub.requests.clear()
    broken = iter([RESET])
    hub.fault = while_reading("train-1.parquet", lambda request: next(broken, None))
    again = subprocess.run(words, env={**os.environ, **changes}, capture_output=True, text=True)
    assert again.returncode == 0 and f"train {2 * ROWS}, validation {ROWS}" in again.stdout, again.stderr
    assert again.stderr.count("Retrying in 1s") == 1  # what a library logs stands there once
    assert hub.bytes_of("train-0.parquet") <= FOOTER < hub.bytes_of("train-1.parquet")
