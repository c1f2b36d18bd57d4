"""Claims about exit statuses, and about the way out to the terminal: escape sequences are not obeyed."""

import ast
import errno
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import Said, call
from rich.console import Console

from zoo.cli import command, output
from zoo.cli.command import describe
from zoo.cli.output import as_yaml, print_to_stderr, say, say_json, say_rows
from zoo.objectives.mixture import Mixture
from zoo.strict_yaml import parse_yaml

Zoo = Callable[..., Said]
ROOT = Path(__file__).parents[2]
ESCAPE = "\x1b]0;owned\x07"


def raising(error: Exception) -> Callable[..., None]:
    def work() -> None:
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("a mistake"), 2, "error: a mistake\n"),
        (RuntimeError("it failed"), 1, "error: it failed\n"),
        (OSError("no space"), 1, "error: no space\n"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a text"), 2, "error: a text: File name too long\n"),
        (KeyError("x"), 1, "error: KeyError: 'x' (--debug shows the traceback of an error)\n"),
        (MemoryError(), 1, "error: MemoryError:  (--debug shows the traceback of an error)\n"),
    ],
)
def test_a_mistake_ends_with_2_and_any_failure_with_1(
    error: Exception, status: int, message: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as left:
        command.with_status(raising(error))()
    assert (left.value.code, capsys.readouterr().err) == (status, message)


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]):
    assert call("show", "gpt2-nao", "--debug") == 2
    said = capsys.readouterr().err
    assert "Traceback (most recent call last)" in said and "error: unknown model 'gpt2-nao'" in said


@pytest.mark.parametrize(("error", "status"), [(ValueError, 1), (RuntimeError, 1), (TypeError, 1)])
def test_what_is_raised_in_a_step_of_training_is_a_failure(
    zoo: Zoo, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], status: int
):
    def fail(*_: Any, **__: Any) -> None:
        raise error("it broke in the middle")

    monkeypatch.setattr(Mixture, "terms", fail)
    said = zoo("pretrain", "bert-nano", data / "classify.yaml", "-o", tmp_path / "run", "--data", data)
    assert said.status == status and said.err.count("it broke in the middle") == 1 and "Traceback" not in said.err


def test_escape_sequences_reach_no_stream(capfd: pytest.CaptureFixture[str]):
    say(ESCAPE)
    say_rows([(ESCAPE, "[bold]x[/bold]")], "title", (ESCAPE, "b"))
    say_json({ESCAPE: "\x9b31m"})
    print_to_stderr(ESCAPE)
    out, err = capfd.readouterr()
    assert not {"\x1b", "\x07", "\x9b"} & set(out + err)
    assert "\\x1b]0;owned\\x07" in out and "\\u009b31m" in out and "[bold]x[/bold]" in out


@pytest.mark.parametrize("title", ["runs[final]/tasks.yaml", "runs[/final]/tasks.yaml", "a:cat:b.yaml"])
def test_the_title_of_a_table_is_printed_as_it_is(title: str, capfd: pytest.CaptureFixture[str]):
    say_rows([("a", "b")], title, ("task", "score"))
    assert capfd.readouterr().out.startswith(f"{title}\n")


@pytest.mark.parametrize(
    "words", [(ESCAPE,), ("show", ESCAPE), ("show", "gpt2-nano", f"--{ESCAPE}"), ("predict", ESCAPE)]
)
def test_a_word_with_escapes_is_spelled_out(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    assert call(*words) == 2
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err and "\\x1b" in said.err


def test_commands_print_in_one_place_only():
    for path in (ROOT / "src" / "zoo" / "cli").rglob("*.py"):
        called = {
            ast.unparse(node.func)
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call)
        }
        printing = {name for name in called if name.split(".")[-1] in ("echo", "print", "secho", "print_exc")}
        assert not printing or path.name == "output.py", f"{path}: {printing}"


def test_a_bug_of_torch_in_a_forward_is_no_mistake_of_the_users(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as left:
        command.with_status(lambda: torch.zeros(2) @ torch.zeros(3))()
    assert left.value.code == 1 and capsys.readouterr().err.startswith("error: ")


def test_a_table_in_a_pipe_has_a_line_for_each_row_and_cuts_nothing(capsys: pytest.CaptureFixture[str]):
    metrics, run = "accuracy 0.7500, f1 0.8571", f"runs/{'a' * 90}/qqp"
    say_rows([("qqp", metrics, run), ("mnli", "accuracy 0.5000", "")], header=("task", "metrics", "run"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].split(maxsplit=1) == ["qqp", f"{metrics}  {run}"]


def test_a_table_on_a_narrow_terminal_cuts_nothing(monkeypatch: pytest.MonkeyPatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, soft_wrap=True, width=40)
    monkeypatch.setattr(output, "results", terminal)
    keys = [f"encoder.feed_forward.{name}" for name in ("activation", "dropout")]
    with terminal.capture() as printed:
        say_rows([(key, "null", "base configs/bert-base.yaml") for key in keys])
    assert "".join(line.split("  ")[0].strip() for line in printed.get().splitlines()) == "".join(keys)
    assert "…" not in printed.get()


@pytest.mark.parametrize(("name", "whole"), [("n" * 20, True), ("n" * 70, False)])
def test_names_in_a_table_with_headings_are_cut_nowhere(monkeypatch: pytest.MonkeyPatch, name: str, whole: bool):
    terminal = Console(file=io.StringIO(), force_terminal=True, soft_wrap=True, width=40)
    monkeypatch.setattr(output, "results", terminal)
    with terminal.capture() as printed:
        say_rows([(name, "m" * 50)], header=("xx", "yy"))
    said = re.sub(r"\x1b\[\d*m", "", printed.get())  # without colors
    assert (said.count("n"), said.count("m"), name in said) == (len(name), 50, whole)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "null"),
        (True, "true"),
        (1e-5, "1e-05"),
        ("*.norms", "*.norms"),
        ([None, 64, False], "[null, 64, false]"),
        (["heads", "*.norms", "true", "a, b", "3", ""], '[heads, "*.norms", "true", "a, b", "3", ""]'),
        ({"1": "a", "a: b": 1}, '{"1": a, "a: b": 1}'),
        ({"name": "rmsnorm", "eps": 1e-6, "of": {"bias": True}}, "{name: rmsnorm, eps: 1e-06, of: {bias: true}}"),
    ],
)
def test_a_value_is_spelled_as_yaml_reads_it(value: Any, written: str):
    assert as_yaml(value) == written and (isinstance(value, str) or parse_yaml(written, "here") == value)


def test_an_answer_that_the_encoding_of_the_output_lacks_is_spelled_out():
    """The work was done, and ended with the status of a mistake."""
    words = "import json; from zoo.cli.main import main; from zoo.cli.output import say, say_json; main(['--version'])"
    say_both = f"{words}; say('\\uac00'); say_json({{'a': '\\U0001f600'}})"
    given = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    said = subprocess.run([sys.executable, "-c", say_both], env=given, capture_output=True, text=True)
    _, letter, *lines = said.stdout.splitlines()
    assert (said.returncode, letter, json.loads("".join(lines))) == (0, "\\uac00", {"a": "\U0001f600"})


def test_an_error_without_a_message_is_told_by_its_type():
    for error in (RuntimeError(), OSError(), ValueError()):
        assert describe(error, debug=True) == f"{type(error).__name__}: "
    assert describe(ValueError("a: b"), debug=False) == "a: b"
