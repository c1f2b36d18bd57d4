"""The library's docstrings: all of them, none of the tests', whole modules in each split, no answer given away."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from programs import load_program
from zoo.data.builtin.docstrings import (
    AREAS,
    LibraryModule,
    docstrings_of,
    library,
    read_modules,
    source_files,
    split_modules,
)
from zoo.data.builtin.pydocs import Pydocs, PydocsTopic, mask, unwrap
from zoo.data.formats.format import Row

LONG = "A docstring of more than twenty characters"


def plant(root: Path, **modules: str) -> Path:
    for name, source in modules.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return root


def test_docstrings_come_in_the_order_of_the_source_without_indentation() -> None:
    source = b'''"""Module."""
try:
  def f():
    """First

      deep
    end"""
except E:
  def f(): "Second"
else:
  match lambda: 0:
    case 1:
      def f(): "Third"
finally:
  def f(): "Fourth"
class A:
  "Fifth"
  async def g(self): "Sixth"
'''
    named = ["Second", "Third", "Fourth", "Fifth", "Sixth"]
    assert list(docstrings_of(source)) == ["Module.", "First\n\n  deep\nend", *named]


def test_what_is_no_python_has_no_docstrings() -> None:
    assert list(docstrings_of(b"print 'old'")) == [] and list(docstrings_of(b"\0")) == []


def test_tests_and_installed_packages_are_left_out(tmp_path: Path) -> None:
    plant(tmp_path, good="", test="", lib__test__a="", a__tests__b="", idlelib__c="", site_packages="")
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "pip.py").write_text("")
    assert [path.stem for path in source_files(tmp_path)] == ["good", "site_packages"]


def test_modules_are_read_and_never_run(tmp_path: Path) -> None:
    plant(tmp_path, boom=f'"""{LONG}."""\nraise SystemExit\n', short='"""Too short."""')
    assert read_modules(tmp_path) == (LibraryModule("boom", (f"{LONG}.",)),)


def test_a_python_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="pydocs: no docstrings under .*; this Python came without its library's sources"
    ):
        read_modules(tmp_path)


def test_whole_modules_are_held_out_and_nothing_they_share_with_train() -> None:
    modules = (*(LibraryModule(f"m{i}", (f"{LONG} {i}", LONG)) for i in range(40)), LibraryModule("big", (LONG,) * 200))
    parts = split_modules(modules)
    names = {split: {module.name for module in part} for split, part in parts.items()}
    assert "big" in names["train"] and names["validation"] and not names["train"] & names["validation"]
    assert all(LONG not in module.docstrings for module in parts["validation"])


@cache  # several tests look at the same topics, which take half a second
def rows(source: type[Pydocs], split: str) -> list[Row]:
    (part,) = source().parts(split)
    return list(part.rows(part.columns))


def column(source: type[Pydocs], split: str, name: str) -> list[str]:
    return [row[name] for row in rows(source, split)]


def digest(source: Pydocs) -> str:
    return source.parts("train")[0].digest


def test_the_library_gives_documents_for_both_splits() -> None:
    texts = {split: column(Pydocs, split, "text") for split in Pydocs().splits()}
    assert len(texts["train"]) > 300 and len(texts["validation"]) > 30
    assert sum(map(len, texts["train"])) > 1_000_000
    assert not set(texts["train"]) & set(texts["validation"])


def test_every_docstring_of_the_library_is_read() -> None:
    tree = ast.parse((library() / "json" / "decoder.py").read_bytes())
    decoder = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == "JSONDecoder")
    modules = {module.name: module for module in read_modules(library())}
    assert ast.get_docstring(decoder) in modules["json.decoder"].docstrings and "json" in modules


def test_topics_are_many_and_balanced_in_both_splits() -> None:
    for split, least in (("train", 3000), ("validation", 300)):
        labels = Counter(column(PydocsTopic, split, "label"))
        assert set(labels) == set(AREAS) and len(labels) >= 6
        assert labels.total() > least
        assert max(labels.values()) / labels.total() < 0.3


def test_quickstart_names_the_share_of_the_most_frequent_topic() -> None:
    """Here, where the library was read before: that takes seconds."""
    assert 0.1 < load_program("docs/quickstart.py").majority("pydocs-topic") < 0.3


def test_no_topic_text_stands_in_both_splits() -> None:
    train, validation = (set(column(PydocsTopic, split, "text")) for split in ("train", "validation"))
    assert not train & validation


def test_what_names_the_topic_is_masked() -> None:
    text = "Open the zipfile as zipfile.ZipFile(x).\n\n>>> import zipfile\n... more\nRead a Tarfile or _zipfile entry."
    assert mask(text, frozenset({"zipfile", "tarfile"})) == "Open the as (x). Read a or entry."


def test_no_topic_text_names_a_package_of_its_area() -> None:
    for text in column(PydocsTopic, "validation", "text"):
        assert not {"tkinter", "asyncio", "importlib", "unittest", "urllib"} & set(text.lower().split())


def test_a_paragraph_becomes_a_line_and_code_keeps_its_lines() -> None:
    assert unwrap("One\ntwo.\n\nThree:\n\n    a\n    b\n \nEnd\nhere") == "One two.\nThree:\n    a\n    b\nEnd here"


def test_the_digest_follows_the_sources(tmp_path: Path) -> None:
    one, two = (plant(tmp_path / name, a=f'"""{LONG} {name}"""') for name in ("one", "two"))
    assert digest(Pydocs(one)) != digest(Pydocs(two))
    assert digest(Pydocs(one)) != digest(PydocsTopic(one))
