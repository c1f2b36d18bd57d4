"""What a stranger installs: the wheel alone, without the source tree, and what an editor sees of it."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import zoo
from patience import HANGS

ROOT = Path(__file__).parents[1]
STUB = ast.parse((ROOT / "src" / "zoo" / "__init__.pyi").read_text())

TASK = """# lm.yaml: predict the next token
objective: causal_lm
source: {files: {train: text.txt}}
columns: {text: text}
tokenizer: {name: byte_bpe, vocab_size: 270}
length: 16
training: {steps: 2, batch: 2, warmup_steps: 0}
"""


def run(*command: object, folder: Path, path: Path | None = None) -> str:
    """What a command printed, started in a folder; `path` takes the place of the source tree."""
    environment = {**os.environ, "PYTHONPATH": str(path or "")}
    words = [sys.executable, *(str(word) for word in command)]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel installed into it; nothing is fetched."""
    folder = tmp_path_factory.mktemp("wheel")
    run("-m", "pip", "wheel", "-q", ROOT, "--no-deps", "--no-build-isolation", "-w", folder, folder=folder)
    (wheel,) = folder.glob("zoo-*.whl")
    target = folder / "site"
    run("-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", target, wheel, folder=folder)
    return target


def test_the_wheel_has_every_file_of_the_package_and_the_models_and_tasks(installed: Path):
    source = ROOT / "src" / "zoo"
    wanted = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    wanted |= {f"{path.parent.name}/{path.name}" for kind in ("configs", "tasks") for path in (ROOT / kind).iterdir()}
    has = {str(path.relative_to(installed / "zoo")) for path in (installed / "zoo").rglob("*") if path.is_file()}
    assert {name for name in wanted if "__pycache__" not in name} == {name for name in has if "__pycache__" not in name}
    assert {"py.typed", "__init__.pyi", "configs/gpt2-nano.yaml", "tasks/numbers-words.yaml"} <= has


def test_the_installed_wheel_lists_trains_and_predicts_without_the_source_tree(installed: Path, tmp_path: Path):
    where = run("-c", "import zoo; print(zoo.__file__)", folder=tmp_path, path=installed)
    assert Path(where.strip()) == installed / "zoo" / "__init__.py"
    assert "gpt2-nano" in run("-m", "zoo", "list", folder=tmp_path, path=installed)
    (tmp_path / "text.txt").write_text("\n".join(f"the {i} dogs see {i * i} cats" for i in range(60)))
    (tmp_path / "lm.yaml").write_text(TASK)
    both = "import json, sys; from zoo.cli.main import main; [main(words) for words in json.loads(sys.argv[1])]"
    asked = ["predict", "run", "the dogs", "--set", "generate.max_new_tokens=3", "--json"]
    words = json.dumps([["pretrain", "gpt2-nano", "lm.yaml", "-o", "run"], asked])
    assert '"input": "the dogs"' in run("-c", both, words, folder=tmp_path, path=installed)


def test_the_stub_names_what_the_package_offers_and_where_it_lies():
    named = {
        (alias.name, node.module) for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert named == set(zoo.PUBLIC.items())
    (listed,) = [node.value for node in STUB.body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(listed) == zoo.__all__ == sorted(zoo.PUBLIC)
