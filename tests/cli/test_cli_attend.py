"""Claims about `zoo attend`: it writes a page or a picture, and says what is wrong before it works."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Said

from zoo.report import attention_picture

Zoo = Callable[..., Said]


@pytest.mark.parametrize("name", ["numbers", "mlm", "lm"])
def test_a_page_is_written_for_every_kind_of_run(zoo: Zoo, run_of: Callable[[str], Path], tmp_path: Path, name: str):
    said = zoo("attend", run_of(name), "1 2", "-o", tmp_path / "maps.html")
    assert said.status == 0 and said.out.strip() == str(tmp_path / "maps.html")
    page = (tmp_path / "maps.html").read_text("utf-8")
    assert page.startswith("<!doctype html>") and f"<title>{name}</title>" in page
    assert ("written by the model" in page) == (name == "numbers")


def test_a_picture_is_written_with_a_target(zoo: Zoo, run_of: Callable[[str], Path], tmp_path: Path):
    pytest.importorskip("matplotlib")
    said = zoo("attend", run_of("numbers"), "1 2", "--target", "twelve", "-o", tmp_path / "MAPS.PNG")
    assert said.status == 0 and (tmp_path / "MAPS.PNG").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("maps.pdf", "must end in .html (a page) or .png (an image)"),
        ("maps", "must end in .html"),
        ("none/maps.html", "no folder"),
        ("folder.html", "is a folder; name a file"),
        ("pipe.html", "is not a regular file, but a device or a pipe; name a file"),
        ("nowhere.html", "nowhere.html: no folder "),
        ("loop.html", "is a link to itself; name another file"),
        ("x" * 300 + ".html", "cannot be written: File name too long; name another file"),
    ],
)
def test_a_wrong_file_is_refused_before_the_model_is_read(zoo: Zoo, tmp_path: Path, file: str, message: str):
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    (tmp_path / "nowhere.html").symlink_to("nowhere/maps.html")
    (tmp_path / "loop.html").symlink_to("loop.html")
    said = zoo("attend", tmp_path, "a", "-o", tmp_path / file)  # a folder, but no checkpoint
    assert said.status == 2 and message in said.err


def test_a_page_that_may_not_be_written_is_refused_before_the_model_is_read(
    zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    page = tmp_path / "maps.html"
    page.write_text("old")
    monkeypatch.setattr("zoo.disk.os.access", lambda *_: False)  # who runs tests may write any file
    said = zoo("attend", tmp_path, "a", "-o", page)
    assert said.status == 2 and f"-o: {page}: cannot be written: Permission denied" in said.err


def test_a_picture_that_is_read_is_not_written_over(zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"a cat")
    for words in (["a text", "--image", picture], [picture]):
        said = zoo("attend", tmp_path, *words, "-o", picture)
        assert said.status == 2 and "cat.png: is the model's input; name another file" in said.err
    monkeypatch.setenv("HOME", str(tmp_path))  # of --image=~/cat.png a shell leaves the ~ as it is
    for words in (["--image=~/cat.png"], ["~/cat.png"]):
        said = zoo("attend", tmp_path, *words, "-o", picture)
        assert said.status == 2 and "cat.png: is the model's input; name another file" in said.err
    assert picture.read_bytes() == b"a cat"


def test_a_missing_matplotlib_is_one_message(zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attention_picture, "Figure", None)
    said = zoo("attend", tmp_path, "a", "-o", tmp_path / "maps.png")
    assert said.status == 2 and "needs matplotlib, which is not installed" in said.err


def test_what_does_not_fit_writes_nothing(zoo: Zoo, run_of: Callable[[str], Path], tmp_path: Path):
    said = zoo("attend", run_of("lm"), "the red cat " * 40, "-o", tmp_path / "maps.html")
    assert said.status == 2 and "special tokens included: the model reads at most" in said.err
    said = zoo("attend", tmp_path / "no-run", "a", "-o", tmp_path / "maps.html")
    assert said.status == 2 and not list(tmp_path.iterdir())


def test_a_link_goes_on_naming_the_page_and_the_page_names_the_folder_that_one_is_in(
    zoo: Zoo, run_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "page.html").write_text("old")
    (tmp_path / "page.html").chmod(0o640)
    (tmp_path / "link.html").symlink_to("page.html")
    monkeypatch.chdir(run_of("lm") / "checkpoints")
    assert zoo("attend", "..", "the red cat", "-o", tmp_path / "link.html").status == 0
    assert (tmp_path / "link.html").is_symlink() and "<title>lm</title>" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o640
