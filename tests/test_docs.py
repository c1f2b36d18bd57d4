"""What the README and the guides say is true: commands, options, names, keys, links and the table of variants."""

import dataclasses
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from programs import load_program
from resolved import resolve_training
from zoo.cli.main import main
from zoo.cli.table import COMMANDS
from zoo.config import as_tree, parse_set
from zoo.data.task import DERIVED, Task, load_task
from zoo.data.task_list import listed_tasks
from zoo.experiments.request import by_section
from zoo.lazy_import import import_object
from zoo.models.generation.settings import parse_generate
from zoo.models.settings import load_settings

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
YAML = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^):]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
COMMAND = re.compile(r"(?:.*-m )?zoo (.+)")
SYNOPSIS = re.compile(r"[…\[]")


def commands() -> list[str]:
    """Every `zoo` command of every page's code blocks, but for lines that only say what a command takes."""
    lines = [line for page in PAGES for block in BLOCK.findall(page.read_text("utf-8")) for line in block.splitlines()]
    found = {match[1] for line in lines if (match := COMMAND.match(line))}
    return sorted(line for line in found if not SYNOPSIS.search(line.replace("[MASK]", "")))


def understand(line: str) -> dict[str, Any]:
    """What a command makes of its words, without running it."""
    name, *words = shlex.split(line)
    app = typer.Typer(add_completion=False)
    app.command()(import_object(COMMANDS[name][0]))
    context = typer.main.get_command(app).make_context(name, words)
    found = dict(context.params)
    if name == "pretrain":  # its first words are MODEL TASK, or TASK alone
        first, found["changes"] = found.pop("model"), list(found.pop("words") or [])
        found |= {"task": first} if found["checkpoint"] else {"model": first, "task": found["changes"].pop(0)}
    return found


def files(key: str) -> list[str]:
    """The YAML files of the pages that have a key."""
    blocks = [match[1] for page in PAGES for match in YAML.finditer(page.read_text("utf-8"))]
    return [block for block in blocks if re.search(f"^{key}:", block, re.MULTILINE)]


@pytest.mark.parametrize("text", files("base"))
def test_every_model_file_of_the_pages_can_be_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(text, "utf-8")
    load_settings(str(tmp_path / "my.yaml"))


@pytest.mark.parametrize("text", files("objective"))
def test_every_task_file_of_the_pages_can_be_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(text, "utf-8")
    load_task(tmp_path / "my.yaml")


@pytest.mark.parametrize("line", commands())
def test_every_command_of_the_pages_exists_with_its_options_names_and_keys(line: str) -> None:
    given = understand(line)
    changes = [parse_set(text) for text in [*(given.get("sets") or []), *(given.get("changes") or [])]]
    sections = by_section(changes)
    if "model" in given and given["model"] != "MODEL":
        load_settings(given["model"], sections["model"])
    if given.get("task") and given["task"] != "TASK":
        of_task = as_tree(sections["task"])
        listed = listed_tasks(given["task"], of_task.pop("tasks", None)) or [given["task"]]
        for task in listed:
            load_task(task, of_task)
    resolve_training([as_tree(sections["training"])])
    parse_generate(as_tree(sections["generate"]))


def test_the_pages_have_commands() -> None:
    assert len(commands()) > 15


def anchors(page: Path) -> set[str]:
    """What a link to a heading of a page says behind its #, as GitHub makes it of the heading."""
    headings = HEADING.findall(page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def leads_somewhere(page: Path, link: str, anchor: str) -> bool:
    there = page.parent / link if link else page
    return there.exists() and (not anchor or anchor in anchors(there))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    links = LINK.findall(page.read_text("utf-8"))
    assert not [f"{link}#{anchor}" for link, anchor in links if not leads_somewhere(page, link, anchor)]


def test_programs_and_tests_that_python_is_told_to_run_exist() -> None:
    lines = [line for page in PAGES for block in BLOCK.findall(page.read_text("utf-8")) for line in block.splitlines()]
    told = "\n".join(line for line in lines if re.match(r"\S*\s?python ", line))
    named = re.findall(r"(?:benchmarks|docs|tests)/\S+\.py", told)
    assert named and all((ROOT / name).exists() for name in named)


@pytest.mark.parametrize(("program", "words"), [("tokens", ["--help"]), ("tokens", []), ("sentences", [])])
def test_a_program_that_is_told_no_folder_says_what_it_needs(
    program: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{program}.py", *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "benchmarks" / f"{program}.py"), run_name="__main__")
    assert ended.value.code == (0 if words else 2) and f"usage: {program}.py" in "".join(capsys.readouterr())


def test_make_has_what_the_readme_names() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = set(re.findall(r"make (\w+)`", "".join(page.read_text("utf-8") for page in PAGES)))
    assert named and all(f"\n{target}:" in makefile for target in named)


def test_the_table_of_targets_is_current() -> None:
    page = load_program("docs/targets.py").page()
    assert (ROOT / "docs" / "targets.md").read_text("utf-8") == page, "run: make variants"


def test_the_table_of_variants_is_current() -> None:
    page = load_program("docs/variants.py").page()
    assert (ROOT / "docs" / "variants.md").read_text("utf-8") == page, "run: make variants"


def test_the_table_of_objectives_is_current() -> None:
    page = load_program("docs/tasks.py").page()
    assert (ROOT / "docs" / "tasks.md").read_text("utf-8") == page, "run: make variants"


def test_the_error_in_the_readme_is_what_zoo_says(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["show", "bert-tiny", "--set", "encoder.norm=rmsnrm"])
    shown = re.search(r"^error: (.*), …$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert shown and left.value.code == 2 and capsys.readouterr().err.startswith(f"error: {shown[1]}, ")


def test_the_settings_of_training_are_all_in_the_guide() -> None:
    page = (ROOT / "docs" / "training.md").read_text("utf-8")
    missing = [name for name in vars(resolve_training([])) if f"`{name}`" not in page]
    assert not missing


def test_the_keys_of_a_task_are_all_in_the_guide() -> None:
    page = (ROOT / "docs" / "data.md").read_text("utf-8")
    names = [field.name for field in dataclasses.fields(Task) if field.name not in DERIVED]
    assert not [name for name in names if f"| `{name}` |" not in page]


def test_the_tasks_of_quickstart_exist_and_their_models_too() -> None:
    models = load_program("docs/quickstart.py").MODELS
    for model in models:
        load_task(model.task)
        if model.command == "pretrain":
            load_settings(model.start, [parse_set(text) for text in model.train])
    assert {m.start for m in models if m.command == "finetune"} <= {m.name for m in models}


@pytest.mark.parametrize(("words", "status"), [(["--help"], 0), (["--folder=x"], 2), (["x", "y"], 2)])
def test_quickstart_takes_no_option_for_a_folder(
    words: list[str], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["quickstart.py", *words])
    monkeypatch.setattr("subprocess.run", None)  # whoever trains here fails
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "docs" / "quickstart.py"), run_name="__main__")
    assert ended.value.code == status and not list(tmp_path.iterdir())


def test_quickstart_deletes_only_what_it_made(tmp_path: Path) -> None:
    quickstart = load_program("docs/quickstart.py")
    quickstart.prepare(tmp_path / "new")
    for name in ("runs", "mine"):
        (tmp_path / "new" / name / "deep").mkdir(parents=True)
    (tmp_path / "new" / "exports").symlink_to(tmp_path / "new" / "mine")
    quickstart.prepare(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [".quickstart", "mine"]
    assert (tmp_path / "new" / "mine" / "deep").is_dir()


def test_quickstart_refuses_a_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(ValueError, match="holds something that quickstart did not make; name a new or empty folder"):
        load_program("docs/quickstart.py").prepare(tmp_path)
    with pytest.raises(ValueError, match="is a file; name a folder"):
        load_program("docs/quickstart.py").prepare(tmp_path / "mine")


def test_the_process_that_loads_exports_cannot_import_zoo(tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text("[]")
    command = [sys.executable, "-I", str(ROOT / "docs" / "load_without_zoo.py"), str(request)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "'zoo' is blocked in this process" in done.stdout
