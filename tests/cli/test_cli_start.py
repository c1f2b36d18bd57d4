"""Claims about the command line before a command: what it imports, and what it says."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from commands import call

from zoo.cli.commands import push
from zoo.cli.commands.listing import description
from zoo.cli.main import open_streams, take_debug
from zoo.cli.output import say_rows
from zoo.cli.table import COMMANDS

HEAVY = ("torch", "transformers", "datasets", "accelerate", "tokenizers", "evaluate", "numpy")


def imported(*words: str) -> set[str]:
    """The modules that a command has imported at its end."""
    listed = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))"
    code = f"{listed}; from zoo.cli.main import main; main({list(words)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_imports_no_torch_and_no_typer():
    assert not imported("--help") & {*HEAVY, "typer", "rich"}


def test_list_imports_no_torch():
    assert not imported("list", "--json") & {*HEAVY}


def test_predicting_and_asking_what_fits_import_neither_transformers_nor_the_compiler_of_torch():
    code = "import sys, zoo.cli.commands.predict; print(*sys.modules); "
    code += "import zoo.hub.targets.choose, zoo.hub.exporting.export; print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    predicting, exporting = done.stdout.splitlines()
    assert not {"transformers", "accelerate", "evaluate", "torch._dynamo"} & set(predicting.split())
    assert exporting == "False"


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_help_names_every_command(capsys: pytest.CaptureFixture[str], words: list[str]):
    assert call(*words) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("list", "show", "pretrain", "finetune", "evaluate", "predict", "export"))


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]):
    assert call("--version") == 0
    assert capsys.readouterr().out.startswith("zoo 0.")


@pytest.mark.parametrize("name", ["list", "show", "pretrain", "finetune", "evaluate", "predict", "export"])
def test_a_command_explains_itself(capsys: pytest.CaptureFixture[str], name: str):
    assert call(name, "--help") == 0
    assert f"Usage: zoo {name}" in capsys.readouterr().out


SWALLOWING = """
import os, signal
try:
    os.kill(os.getpid(), signal.{name})
except:
    {then}
def command():
    print("it went on")
"""


@pytest.mark.parametrize("then", ["pass", "raise RecursionError"])  # numpy does, when its import was broken off
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_that_an_imported_library_swallows_ends_the_command_after_its_imports(
    name: str,
    status: int,
    then: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.syspath_prepend(tmp_path)
    module = f"swallows_{name}_{then.split()[0]}"
    (tmp_path / f"{module}.py").write_text(SWALLOWING.format(name=name, then=then))
    monkeypatch.setitem(COMMANDS, "list", (f"{module}:command", ""))
    assert call("list") == status
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"error: stopped by {name}\n")


def test_float32_products_are_not_rounded_to_tf32_where_the_environment_asks_for_it():
    """As in NVIDIA's containers. torch reads the variable when it is imported."""
    code = "from zoo.cli.main import main; main(['list', 'models', '--json']); import torch; "
    code += "print(torch.get_float32_matmul_precision())"
    environment = os.environ | {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "highest"


def test_python_does_not_collect_garbage_once_more_at_its_end():
    code = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0)); import zoo.__main__"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.parametrize("words", [["--help"], ["list", "tasks"], ["show", "bert-nano", "--json"], ["show", "--help"]])
def test_a_full_disk_behind_standard_output_is_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with Path("/dev/full").open("w") as full:  # closing it would fail, as Python's end, if it still held something
        monkeypatch.setattr(sys, "stdout", full)
        assert call(*words) == 1
    assert capsys.readouterr().err == "error: standard output: No space left on device\n"


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["show", "bert-tiny"], ["list", "tasks"], ["show", "--help"]]
)
def test_a_reader_who_has_seen_enough_is_no_failure(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", pipe)
        assert call(*words) == 0
    say_rows([("the next",)])
    said = capsys.readouterr()
    assert not said.err and said.out.split() == ["the", "next"]


def test_nobody_may_read_what_is_printed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert call("--version") == 0


def test_what_no_encoding_can_write_is_no_failure_where_standard_error_is_closed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", None)
    open_streams()
    with sys.stderr:
        assert sys.stderr.write("label '\udcff'\n")


def wrong_with(log: int) -> int:
    """The status of a wrong command in a process of its own, whose log goes there; closes it."""
    with os.fdopen(log, "w") as stderr:
        return subprocess.run([sys.executable, "-m", "zoo", "show", "no-such-model"], stderr=stderr).returncode


def test_work_whose_log_nobody_reads_goes_on_and_keeps_its_status(data: Path, tmp_path: Path):
    reading, log = os.pipe()
    os.close(reading)
    words = ["pretrain", "gpt2-nano", str(data / "lm.yaml"), "-o", str(tmp_path / "run"), "--data", str(data)]
    trained = subprocess.run([sys.executable, "-m", "zoo", *words], stdout=subprocess.PIPE, stderr=log)
    assert (trained.returncode, wrong_with(log)) == (0, 2)
    assert b"(3 steps)" in trained.stdout and (tmp_path / "run" / "checkpoints" / "3").is_dir()


def test_work_whose_log_finds_no_space_goes_on_and_keeps_its_status(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    words = ["pretrain", "gpt2-nano", data / "lm.yaml", "-o", tmp_path / "run", "--data", data]
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", full)
        assert call(*words) == 0 and call("show", "no-such-model") == 2
    assert wrong_with(os.open("/dev/full", os.O_WRONLY)) == 2 and (tmp_path / "run" / "checkpoints" / "3").is_dir()


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_a_signal_keeps_its_status_where_standard_error_is_closed_or_full(stderr: str):
    """A full disk and a terminal that is gone are alike; a closed one leaves its number to no other file."""
    code = f"""
import os, signal, time
from zoo.cli import main
def stop(*_):
    if os.fstat(2).st_rdev != os.stat({("/dev/full" if "full" in stderr else os.devnull)!r}).st_rdev:
        os._exit(1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(9)
main.import_object = stop
main.main(["list"])
"""
    assert subprocess.run(["sh", "-c", f'exec "$0" -c "$1" {stderr}', sys.executable, code]).returncode == 143


@pytest.mark.parametrize(("maker", "last"), [("nanobind", ""), ("pybind11_builtins", "leaked")])
def test_what_nanobind_takes_for_leaks_is_not_printed(maker: str, last: str):
    """Triton 3.9 comes with torch 2.15 and is made with it; other libraries' last words are printed."""
    code = f"""
import os, sys, types
import zoo.__main__
Maker = type("Maker", (type,), {{"__module__": {maker!r}}})
kernels = types.SimpleNamespace(ir=types.SimpleNamespace(builder=Maker("builder", (), {{}})))
sys.modules["triton._C.libtriton"] = kernels
sys.stderr.write("a half line")
zoo.__main__.end()
sys.stderr.flush()
os.write(2, b"leaked")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == f"a half line{last}"


def test_debug_is_an_option_before_the_words_that_are_texts_alone():
    assert take_debug(["predict", "--debug", "run", "--", "a"]) == (["predict", "run", "--", "a"], True)
    assert take_debug(["predict", "run", "--", "--debug"]) == (["predict", "run", "--", "--debug"], False)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_file_gets_the_number_of_a_standard_stream_that_is_closed(number: int):
    program = f"import os; os.close({number}); import zoo.cli.main; zoo.cli.main.open_streams(); os.fstat({number})"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_a_description_is_the_first_comment_without_the_name_of_its_file(tmp_path: Path):
    for text in ("# configs/mine.yaml: A model.\nbase: gpt2\n", "#A model.", "base: gpt2 # A model.\n", ""):
        (tmp_path / "mine.yaml").write_text(text)
        assert description(tmp_path / "mine.yaml") == ("A model." if text.startswith("#") else "")


def test_a_repository_is_private_if_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(push, "run_push", lambda *given: asked.append(given) or Mock(lines=list))
    for words in ((), ("--private",)):
        assert call("push", tmp_path, "org/name", *words) == 0
    assert asked == [(str(tmp_path), "org/name", False), (str(tmp_path), "org/name", True)]
