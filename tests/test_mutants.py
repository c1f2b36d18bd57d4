"""The program that makes wrong changes: it finds where, makes one at a time, and tells what the tests noticed."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patience import HANGS
from programs import load_program

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "benchmarks" / "mutants.py"
changes = load_program("benchmarks/code_changes.py")

EXPRESSIONS = [
    ("a < b", "(a <= b)"),
    ("a == b", "(a != b)"),
    ("a in b", "(a not in b)"),
    ("a + b", "(a - b)"),
    ("a // b", "(a * b)"),
    ("a and b", "(a or b)"),
    ("not a", "(a)"),
    ("-a", "(a)"),
    ("7", "(8)"),
    ("0.5", "(1.0)"),
    ("0.0", "(1.0)"),
    ("True", "(False)"),
    ("a if b else c", "(c if b else a)"),
    ("f(a, b, c)", "(f(b, a, c))"),
    ("f(a, k=b)", "(f(a))"),
]


@pytest.mark.parametrize(("before", "after"), EXPRESSIONS)
def test_an_expression_is_changed(before: str, after: str):
    (change,) = changes.wrong_changes(f"x = {before}\n")
    assert changes.apply(f"x = {before}\n", change) == f"x = {after}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "pass"),
        ("a += b", "pass"),
        ("a.b = c", "pass"),
        ("raise ValueError('no')", "pass"),
        ("return a", "return None"),
        ("break", "continue"),
    ],
)
def test_a_statement_is_taken_away(before: str, after: str):
    text = f"def g():\n    while a:\n        {before}\n"
    (change,) = changes.wrong_changes(text)
    assert changes.apply(text, change) == text.replace(before, after)


@pytest.mark.parametrize(
    "text",
    [
        "x = f(a, a)",
        "x = f(*a, b)",
        "def f(a: Float[Tensor, '2']) -> Literal[3]: ...",
        "return",
        "return None",
        "x = 'a text'",
        "x = f'{a + 1}'",
        "log.info('%d', a + 1)",
        "'''A docstring.'''",
        "@f(1)\ndef g(): ...",
    ],
)
def test_what_computes_nothing_is_left_alone(text: str):
    assert [change for change in changes.wrong_changes(text) if change.after != "pass"] == []


def test_what_stands_behind_letters_of_several_bytes_is_changed_at_its_place():
    text = 'x = "äöü", a < b\n'
    (change,) = changes.wrong_changes(text)
    assert changes.apply(text, change) == 'x = "äöü", (a <= b)\n'


def test_every_change_of_a_file_of_ours_is_python():
    text = (ROOT / "src" / "zoo" / "blocks" / "score.py").read_text()
    made = changes.wrong_changes(text)
    assert len(made) > 20 and len({change.key("a", text) for change in made}) == len(made)
    for change in made:
        assert ast.dump(ast.parse(changes.apply(text, change))) != ast.dump(ast.parse(text)), change


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A repository of one room with three places for a wrong change; its test sees two of them."""
    root = tmp_path / "toy"
    for name, text in {
        "src/zoo/batches/sums.py": "def add(a, b):\n    return a + b\n\n\ndef unseen(a):\n    return a\n",
        "tests/batches/test_sums.py": "import sys\nsys.path.insert(0, 'src/zoo/batches')\nfrom sums import add\n\n\n"
        "def test_two_numbers_are_added():\n    assert add(2, 3) == 5\n",
        "benchmarks/code_changes.py": (ROOT / "benchmarks" / "code_changes.py").read_text(),
        "benchmarks/mutants.py": PROGRAM.read_text().replace('"torch", "numpy", ', "").split("FOREIGN = ")[0]
        + 'FOREIGN = ("pytest",)\n'
        + PROGRAM.read_text().split("FOREIGN = ")[1].split("\n", 1)[1],
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def call(toy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(toy / "benchmarks" / "mutants.py"), *words]
    environment = {**os.environ, "PYTHONPATH": ""}
    return subprocess.run(command, cwd=toy, env=environment, capture_output=True, text=True, timeout=HANGS)


def test_what_a_test_sees_is_killed_what_none_sees_survives_and_a_second_call_does_nothing_again(toy: Path):
    done = call(toy, "batches")
    assert done.stdout.startswith("batches: 2 killed, 0 timeout, 1 survived; 67% noticed\n"), done.stdout + done.stderr
    left = (toy / "build" / "mutants" / "survivors.txt").read_text()
    assert left == "src/zoo/batches/sums.py:6 return\n  - return a\n  + return None\n"
    kept = (toy / "build" / "mutants" / "results.jsonl").read_text()
    assert {json.loads(line)["outcome"] for line in kept.splitlines()} == {"killed", "survived"}
    assert "+ b" in (toy / "src" / "zoo" / "batches" / "sums.py").read_text()  # changed in a copy alone
    assert call(toy, "batches").stdout == done.stdout
    assert (toy / "build" / "mutants" / "results.jsonl").read_text() == kept


def test_tests_that_fail_without_a_change_end_it_with_their_words(toy: Path):
    (toy / "src" / "zoo" / "batches" / "sums.py").write_text("def add(a, b):\n    return a * b\n")
    done = call(toy, "batches")
    assert (
        done.returncode == 1 and "ValueError: batches: its tests fail" in done.stderr and "assert 6 == 5" in done.stderr
    )


def test_an_unknown_room_is_refused(toy: Path):
    done = call(toy, "blocs")
    assert done.returncode == 2 and "unknown room 'blocs'; allowed: blocks, models, " in done.stderr
