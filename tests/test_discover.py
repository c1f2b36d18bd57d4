"""Variants are found by whoever reads their slot, whatever else was imported before."""

import importlib.metadata
import logging
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from test_imports import import_graph, modules, reachable
from zoo.discover import GROUP, import_outside

SLOT = re.compile(r"^(\w+): Slot\[.*\] = Slot\(", re.MULTILINE)
REGISTERS = re.compile(r"^@(\w+)\.register\(", re.MULTILINE)
FINDS = re.compile(r"^import_all\((.+)\)", re.MULTILINE)


def found_from(start: str, graph: dict[str, set[str]], files: dict[str, Path]) -> set[str]:
    """Every module that importing `start` loads, with those that `import_all` finds."""
    full = {name: set(taken) for name, taken in graph.items()}
    for module, path in files.items():
        for given in FINDS.findall(path.read_text()):
            package = module if given == "__name__" else given.strip('"')
            full[module] |= {name for name in files if name.rpartition(".")[0] == package}
    return reachable(start, full)


def test_reading_a_slot_finds_all_its_variants_where_nothing_else_was_imported():
    files, graph = modules(), import_graph()
    texts = {module: path.read_text() for module, path in files.items()}
    homes = {slot: module for module, text in texts.items() for slot in SLOT.findall(text)}
    variants = {module: set(REGISTERS.findall(text)) & set(homes) for module, text in texts.items()}
    assert len(homes) > 15 and sum(map(len, variants.values())) > 25
    missed = [
        f"{homes[slot]} reads the slot '{slot}' without {module}, which registers in it"
        for module, slots in variants.items()
        for slot in sorted(slots)
        if module not in found_from(homes[slot], graph, files)
    ]
    assert not missed, "\n" + "\n".join(missed)


def test_a_variant_that_nobody_would_import_is_noticed(tmp_path: Path):
    files = {name: tmp_path / f"{name}.py" for name in ("zoo.parts", "zoo.kinds", "zoo.kinds.one")}
    for path in files.values():
        path.write_text("")
    assert found_from("zoo.parts", dict.fromkeys(files, set()), files) == {"zoo.parts"}
    files["zoo.parts"].write_text('import_all("zoo.kinds")\n')
    assert "zoo.kinds.one" in found_from("zoo.parts", dict.fromkeys(files, set()), files)


@pytest.mark.parametrize("text", ["raise SystemExit(3)\n", "import nothing_of_this_name\n"])
def test_a_package_that_leaves_while_it_is_imported_is_named_and_stops_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "zoo_leaving.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("leaving", "zoo_leaving", GROUP)]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    with caplog.at_level(logging.WARNING):
        import_outside.__wrapped__()
    assert "package zoo_leaving: zoo_leaving cannot be imported, so its variants are missing" in caplog.text
