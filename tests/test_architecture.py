"""docs/architecture.md names the layers as they are imported, and only files and folders that exist."""

import re
from pathlib import Path

import pytest

from test_imports import LAYERS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "architecture.md").read_text("utf-8")
FIGURE = re.compile(r"^## The layers\n.*?^```\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`([\w.-]+/[\w./-]*)`")
CLASS = re.compile(r"^\| `(\w+)` \| `([\w/.]+)` \|", re.MULTILINE)


def missing(text: str) -> list[str]:
    """The paths of a page that are neither in the repository nor in `src/zoo`; NAME stands for any name."""
    paths = [path for path in PATH.findall(text) if "NAME" not in path]
    paths += [path.rpartition("/")[0] for path in PATH.findall(text) if "NAME" in path]
    return [path for path in paths if not (ROOT / path).exists() and not (ROOT / "src" / "zoo" / path).exists()]


def test_the_figure_has_the_layers_in_the_order_of_their_imports():
    figure = FIGURE.search(TEXT)
    assert figure is not None
    assert [line.split()[0] for line in figure[1].splitlines()] == LAYERS


def test_every_path_of_the_page_exists():
    assert len(PATH.findall(TEXT)) > 30 and not missing(TEXT)


@pytest.mark.parametrize(("name", "file"), CLASS.findall(TEXT))
def test_every_type_of_a_batch_is_where_the_page_says(name: str, file: str):
    assert re.search(rf"^class {name}\b", (ROOT / "src" / "zoo" / file).read_text(), re.MULTILINE)


def test_the_life_of_a_batch_has_at_most_a_dozen_types():
    assert 8 <= len(CLASS.findall(TEXT)) <= 12


def test_a_path_that_is_gone_is_found():
    assert missing("`blocks/norm.py` `blocks/gone.py` `src/zoo/gone/NAME.py`") == ["blocks/gone.py", "src/zoo/gone"]
