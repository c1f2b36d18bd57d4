"""No folder of its author is in a model card, however a path is written."""

import dataclasses
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_card import write

from zoo.data.task import read_task
from zoo.hub.exporting.card.paths import hide_paths, last_component, without_paths
from zoo.hub.exporting.trained_model import TrainingHistory
from zoo.runs.request import BaseRecord, RequestRecord

TEXTS = [
    ("/srv/quaxly/a.tsv", "a.tsv"),
    ("/home/Jane Doe/x.tsv", "x.tsv"),
    ("see '/home/Jane Doe/my notes.txt' and more", "see 'my notes.txt' and more"),
    ("see /home/Jane Doe/x.tsv for more", "see x.tsv for more"),
    ("--set x=/srv/b/c.txt", "--set x=c.txt"),
    ("~/d/e", "e"),
    ("~jane/d/e", "e"),
    ("../../Jane Doe/x.tsv", "x.tsv"),
    ("file:///home/Jane%20Doe/x.tsv", "x.tsv"),
    ("as in file:///srv/jane/x.tsv, mostly", "as in x.tsv, mostly"),
    ("D:\\Jane Doe\\f.tsv", "f.tsv"),
    ("\\\\server\\Jane Doe\\f.tsv", "f.tsv"),
    ("C:/Daten/jane/f.tsv", "f.tsv"),
    ("my-bert and https://a.b/c", "my-bert and https://a.b/c"),
    ("1/2, and/or", "1/2, and/or"),
    ("black / white", "black / white"),
    ("a <b>bold</b> word", "a <b>bold</b> word"),
]


@pytest.mark.parametrize(("text", "wanted"), TEXTS)
def test_absolute_paths_lose_their_folders_and_other_words_stay(text: str, wanted: str):
    assert hide_paths(text) == wanted


def test_a_relative_file_of_a_task_loses_its_folders_a_repository_and_a_label_stay():
    task = {
        "source": {
            "files": {"train": {"source": "Jane Doe/en.gz", "target": "/srv/x/de.gz"}},
            "hub": "org/films:small",
        },
        "labels": ["/s", "and/or"],
        "objective": {"classification": {}},
        "tokenizer": {"from": "runs/jane/base"},
    }
    assert without_paths(task) == {
        **task,
        "source": {"files": {"train": {"source": "en.gz", "target": "de.gz"}}, "hub": "org/films:small"},
        "tokenizer": {"from": "base"},
    }
    assert last_component("hub:org/name") == "hub:org/name"


FOLDERS = st.lists(
    st.builds("Qx{}{}".format, st.sampled_from(["", " ", "'s "]), st.text("abé7 _-.%", max_size=8)).map(str.strip),
    min_size=1,
    max_size=4,
)
STARTS = ["/", "~/", "C:\\", "\\\\server\\", "file:///", "../"]


def written(start: str, folders: list[str]) -> str:
    kind: Any = PureWindowsPath if "\\" in start else PurePosixPath
    between = "\\" if kind is PureWindowsPath else "/"
    return start + between.join([*folders, "data.tsv"])


@given(st.sampled_from(STARTS), FOLDERS)
def test_no_folder_is_left_of_any_path(start: str, folders: list[str]):
    path = written(start, folders)
    tree = {"source": {"files": {"train": path, "test": {"text": path[1:]}}}, "note": path, "list": [{"other": path}]}
    clean = without_paths(tree)
    assert clean["note"] == "data.tsv" and clean["source"]["files"]["train"] == "data.tsv"
    assert "Qx" not in str(clean)
    if not any("'" in folder for folder in folders):
        assert "Qx" not in hide_paths(f"made from '{path}' by hand") + hide_paths(f"made from {path} by hand")


def test_the_card_of_a_run_with_paths_everywhere_shows_names_alone(build: Any):
    path = "/home/Jane Doe/private/x.tsv"
    task = read_task(
        {
            "objective": {"causal_lm": {}},
            "source": {"files": {"train": path, "validation": "Jane Doe/dev.tsv"}},
            "card": {"limitations": f"Only what is in '{path}' or in file://{path}."},
        },
        "task.yaml",
    )
    base = BaseRecord(3, "ab", {})
    request = RequestRecord("/home/Jane Doe/runs/base", "/home/Jane Doe/films.yaml", base=base)
    known = TrainingHistory("films", 3, request=request)
    text = write(dataclasses.replace(build("gpt2-nano"), task=task, history=known))
    assert "Jane" not in text and "Doe" not in text and "private" not in text and "file://" not in text
    assert "train: x.tsv" in text and "| base | 3 | ab |  |" in text
    assert "Only what is in 'x.tsv' or in x.tsv." in text
