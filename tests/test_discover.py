"""Variants are found by whoever reads their slot, whatever else was imported before."""

import importlib.metadata
import logging
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from test_imports import import_graph, modules, reachable
from zoo.discover import GROUP, import_variant_packages

SLOT = re.compile(r"^(\w+): Slot\[.*\] = Slot\(", re.MULTILINE)
REGISTERS = re.compile(r"^@(\w+)\.register\(", re.MULTILINE)
FINDS = re.compile(r"^import_all\((.+)\)", re.MULTILINE)


def with_found(graph: dict[str, set[str]], texts: dict[str, str]) -> dict[str, set[str]]:
    """What each module imports, with what `import_all` finds."""
    full = {name: set(taken) for name, taken in graph.items()}
    for module, text in texts.items():
        for given in FINDS.findall(text):
            package = module if given == "__name__" else given.strip('"')
            full[module] |= {name for name in texts if name.rpartition(".")[0] == package}
    return full


def test_reading_a_slot_finds_all_its_variants_where_nothing_else_was_imported():
    texts = {module: path.read_text() for module, path in modules().items()}
    full = with_found(import_graph(), texts)
    homes = {slot: module for module, text in texts.items() for slot in SLOT.findall(text)}
    variants = {module: set(REGISTERS.findall(text)) & set(homes) for module, text in texts.items()}
    assert len(homes) > 15 and sum(map(len, variants.values())) > 25
    missed = [
        f"{homes[slot]} reads the slot '{slot}' without {module}, which registers in it"
        for module, slots in variants.items()
        for slot in sorted(slots)
        if module not in reachable(homes[slot], full)
    ]
    assert not missed, "\n" + "\n".join(missed)


def test_a_variant_that_nobody_would_import_is_noticed():
    texts = dict.fromkeys(("zoo.parts", "zoo.kinds", "zoo.kinds.one"), "")
    graph = dict.fromkeys(texts, set[str]())
    assert reachable("zoo.parts", with_found(graph, texts)) == {"zoo.parts"}
    texts["zoo.parts"] = 'import_all("zoo.kinds")\n'
    assert "zoo.kinds.one" in reachable("zoo.parts", with_found(graph, texts))


@pytest.mark.parametrize("text", ["raise SystemExit(3)\n", "import nothing_of_this_name\n"])
def test_a_package_that_leaves_while_it_is_imported_is_named_and_stops_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "zoo_leaving.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("leaving", "zoo_leaving", GROUP)]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    with caplog.at_level(logging.WARNING):
        import_variant_packages.__wrapped__()
    assert "package zoo_leaving: zoo_leaving cannot be imported, so its variants are missing" in caplog.text
