"""Names, paths and `--set` checked before a command is imported: torch takes seconds, a typo should not."""

import ast
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from zoo import config
from zoo.config import PACKAGE, parse_set
from zoo.discover import GROUP
from zoo.experiments.request import SECTIONS
from zoo.registry import nearest

FLAGS = ("--json", "--resume", "--private", "--help", "-h")  # options that take no value
KEYS = {  # by section, the files and the class that declare its settings; importing them would import torch
    "": (("models/settings.py", "Settings"), ("models/kinds/*.py", "Settings")),
    "task": (("data/task.py", "Task"),),
    "training": (("training/settings.py", "Training"),),
    "generate": (("models/generation/*.py", "GenerateSettings"),),
}


def check_place(word: str) -> None:
    """Refuse a checkpoint that is not there; everything without `hub:` is a path."""
    path = Path(word).expanduser()
    if not word.startswith("hub:") and not path.exists():
        beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise ValueError(f"{word}: no such file or folder{nearest(path.name, beside)}")


WORDS: dict[str, tuple[str, ...]] = {  # by command, what its first words are: files of a kind, or the path of a place
    **dict.fromkeys(("show", "pretrain"), ("configs", "tasks")),
    **dict.fromkeys(("finetune", "evaluate"), ("place", "tasks")),
    **dict.fromkeys(("predict", "attend", "export", "push", "import", "check"), ("place",)),
}
CHANGING = ("show", "pretrain", "finetune")  # commands that take changes of any setting, as trailing words too


def check_words(command: str, arguments: Sequence[str]) -> None:
    """Refuse what cannot be meant, as far as that needs no torch.

    Raises:
        ValueError: an unknown name or key, a missing path, or a change that is not of the form KEY=VALUE.
    """
    if {"--help", "-h"} & set(arguments):
        return
    words, sets = split_words(command, arguments)
    for kind, word in zip(WORDS.get(command, ()), words, strict=False):
        if kind == "place":
            check_place(word)
        else:
            config.read_layers(word, kind)
    for text in sets:
        path, _ = parse_set(text)
        if command in CHANGING:
            check_key(path)


def split_words(command: str, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command that are no options, and its changes."""
    words: list[str] = []
    sets: list[str] = []
    left = iter(arguments)
    for word in left:
        if word == "--":
            words += left
        elif not word.startswith("-") or word == "-":
            changes = command in CHANGING and words and "=" in word
            (sets if changes else words).append(word)
        elif word.startswith("--set="):
            sets.append(word.removeprefix("--set="))
        elif word not in FLAGS and "=" not in word:
            value = next(left, None)
            sets += [value] if word == "--set" and value is not None else []
    return words, sets


def check_key(path: tuple[str, ...]) -> None:
    """Refuse a change whose first key no setting has.

    Raises:
        ValueError: with the full name of the nearest one.
    """
    own = declared("")
    if path[0] in (*own, *SECTIONS) or entry_points(group=GROUP):  # a variant from outside may have keys of its own
        return
    full = {key: f"{section}.{key}" for section in reversed(SECTIONS) for key in declared(section)}
    full |= {key: key for key in (*SECTIONS, *own)}
    written, close = ".".join(path), nearest(path[0], full)
    for key in full:
        close = close.replace(f"'{key}'", f"'{full[key]}'")
    allowed = ", ".join([*own, *(f"{section}.…" for section in SECTIONS)])
    raise ValueError(f"--set {written}: unknown key '{path[0]}'{close}; allowed: {allowed}")


def declared(section: str) -> list[str]:
    """The keys of a section, read from the source of its settings."""
    files = [(path, name) for pattern, name in KEYS[section] for path in sorted(PACKAGE.glob(pattern))]
    parsed = [(ast.parse(path.read_text("utf-8")), name) for path, name in files]
    classes = [c for tree, name in parsed for c in tree.body if isinstance(c, ast.ClassDef) and c.name.endswith(name)]
    fields = [field.target for c in classes for field in c.body if isinstance(field, ast.AnnAssign)]
    return list(dict.fromkeys(target.id for target in fields if isinstance(target, ast.Name)))
