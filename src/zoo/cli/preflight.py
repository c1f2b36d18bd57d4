"""Check arguments before a command is imported: importing torch takes seconds, and a typo should not.

Checked are: that the YAML file of a MODEL or TASK can be read, with its bases; that a CHECKPOINT exists; that a change
is of the form KEY=VALUE; its first key; and its second one in `task`, `training` and `generate`. Values, and the keys
inside a part of the model (`encoder.norm`), are left to the command, which checks everything.

Typer cannot split the words here: it reads a command's options from its function, whose module imports torch. Nor can
the dataclasses be imported for their keys, so those are parsed from their source: a table would be a second copy.
"""

import ast
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path

from zoo import config
from zoo.cli.options import read_section
from zoo.config import PACKAGE, parse_set
from zoo.discover import GROUP
from zoo.disk import exists, expand_user, refuse_empty
from zoo.experiments.request import SECTIONS, by_section, refuse_without_task
from zoo.runs.files import refuse_unreadable
from zoo.runs.layout import CHECKPOINTS, no_checkpoint_message
from zoo.wording import nearest, refuse_unknown

FLAGS = ("--json", "--resume", "--private", "--retrain", "--help", "-h")  # options that take no value
KEYS = {  # by section, the files and the class that declare its settings; importing them would import torch
    "": (("models/settings.py", "Settings"), ("models/kinds/*.py", "Settings")),
    "task": (("data/task.py", "Task"), ("data/task_list.py", "ListedTask")),
    "training": (("training/settings.py", "Training"),),
    "generate": (("models/generation/*.py", "GenerateSettings"),),
}
OF_OPTIMIZER = ("weight_decay", "betas", "eps")  # as in training/settings.py: keys of training that are not its fields


def check_checkpoint(word: str) -> None:
    """Refuse a checkpoint that does not exist; everything without `hub:` is a path."""
    refuse_empty(word, "CHECKPOINT")
    path = expand_user(word)
    with refuse_unreadable(path):
        missing = not word.startswith("hub:") and not exists(path)
    if missing:
        refuse_missing_checkpoint(path, word)
        if word in config.names("configs"):
            raise ValueError(f"{word}: a model, not a checkpoint; train one first: zoo pretrain {word} TASK -o RUN")
        raise ValueError(f"{word}: no such file or folder{nearest(path.name, sibling_names(path))}")


def refuse_missing_checkpoint(path: Path, word: str) -> None:
    """Refuse a checkpoint that its run does not have, and name those that it has."""
    there = sorted(filter(str.isdecimal, sibling_names(path)), key=int, reverse=True)
    if path.parent.name == CHECKPOINTS and there:
        raise ValueError(no_checkpoint_message(word, path.name, path.parent.parent, there))


def sibling_names(path: Path) -> list[str]:
    """Return the names in a path's parent folder; none if there is no such folder."""
    return [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []


def check_path_or_task(word: str) -> None:
    """Refuse what is neither an existing path nor the name of a task."""
    refuse_empty(word, "PATH|TASK")
    path, tasks = expand_user(word), config.names("tasks")
    with refuse_unreadable(path):
        missing = not exists(path)
    if missing and word not in tasks:
        refuse_missing_checkpoint(path, word)
        if word in config.names("configs"):
            raise ValueError(f"{word}: a model that zoo ships, so there is nothing to check; see it: zoo show {word}")
        raise ValueError(f"{word}: no such file or folder, and no task of that name{nearest(word, tasks)}")


# refuse a file that is missing or not YAML, and one whose bases are
check_model_file = partial(config.read_layers, kind="configs")
check_task_file = partial(config.read_layers, kind="tasks")
WORDS: dict[str, tuple[Callable[[str], object], ...]] = {  # by command, the checks of its first words
    **dict.fromkeys(("show", "pretrain"), (check_model_file, check_task_file)),
    "tokenize": (check_task_file,),
    **dict.fromkeys(("finetune", "evaluate"), (check_checkpoint, check_task_file)),
    **dict.fromkeys(("predict", "attend", "export", "push", "import"), (check_checkpoint,)),
    "check": (check_path_or_task,),
}
# commands that take changes as trailing words, too -> the number of words that precede any change
CHANGING = {"show": 1, "pretrain": 2, "finetune": 2, "tokenize": 1}
FROM = "--from"  # with it, pretrain has no MODEL
GENERATING = ("predict", "evaluate")  # commands that take changes of `generate` only


def check_words(command: str, arguments: Sequence[str]) -> None:
    """Refuse wrong arguments, as far as that needs no torch.

    Raises:
        ValueError: an unknown name or key, a missing path, or a change that is not of the form KEY=VALUE.
    """
    if {"--help", "-h"} & set(arguments):
        return
    goes_on = command == "pretrain" and any(word.partition("=")[0] == FROM for word in arguments)
    words, sets = split_words(arguments, 1 if goes_on else CHANGING.get(command))
    if goes_on and len(words) > 1:
        raise ValueError(f"{words[1]}: with {FROM} there is no MODEL: give TASK and {FROM} CHECKPOINT")
    checks = WORDS[command][1:] if goes_on else WORDS.get(command, ())
    for check, word in zip(checks, words, strict=False):
        check(word)
    if command in CHANGING or command in GENERATING:
        check_changes(command, sets, alone=command == "show" and len(words) == 1)


def check_changes(command: str, sets: Sequence[str], alone: bool) -> None:
    """Refuse changes of keys that the command does not have.

    Args:
        alone: whether there is a MODEL without a TASK.
    """
    if command in GENERATING:
        read_section(sets, "generate", command)
    pairs = [parse_set(text) for text in sets]
    for path, _ in pairs:
        check_key(path)
    if alone:
        refuse_without_task(pairs)
    sections = by_section(pairs)
    for section in SECTIONS:
        for path, _ in sections[section]:
            refuse_unknown(path[0], section_keys(section), "key", f"--set {section}.{path[0]}")


def split_words(arguments: Sequence[str], before: int | None) -> tuple[list[str], list[str]]:
    """Split a command's arguments into words that are not options, and changes of settings.

    Args:
        before: the number of words that precede any change; None: the command takes changes by --set only.
    """
    words: list[str] = []
    sets: list[str] = []
    left, only_words = iter(arguments), False
    for word in left:
        if word == "--" and not only_words:
            only_words = True
        elif only_words or not word.startswith("-") or word == "-":
            changes = before is not None and len(words) >= before and "=" in word
            (sets if changes else words).append(word)
        elif word.startswith("--set="):
            sets.append(word.removeprefix("--set="))
        elif word not in FLAGS and "=" not in word and (word.startswith("--") or len(word) == 2):  # not -oVALUE
            value = next(left, None)
            sets += [value] if word == "--set" and value is not None else []
    return words, sets


def check_key(path: tuple[str, ...]) -> None:
    """Refuse a change whose first key is not that of any setting.

    Raises:
        ValueError: the key is unknown; the message has the full name of the nearest one.
    """
    own = section_keys("")
    if path[0] in (*own, *SECTIONS) or entry_points(group=GROUP):  # a plugin's variant may have keys of its own
        return
    if path[0] in block_options():  # the command knows of which part, and says so
        return
    full = {key: f"{section}.{key}" for section in reversed(SECTIONS) for key in section_keys(section)}
    full |= {key: key for key in (*SECTIONS, *own)}
    written, close = ".".join(path), nearest(path[0], full)
    for key in full:
        close = close.replace(f"'{key}'", f"'{full[key]}'")
    allowed = ", ".join([*own, *(f"{section}.…" for section in SECTIONS)])
    raise ValueError(f"--set {written}: unknown key '{path[0]}'{close}; allowed: {allowed}")


def block_options() -> set[str]:
    """The options of all blocks, read from the source of their constructors."""
    trees = (ast.parse(path.read_text("utf-8")) for path in PACKAGE.glob("blocks/**/*.py"))
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {arg.arg for function in functions if function.name == "__init__" for arg in function.args.kwonlyargs}


@cache
def section_keys(section: str) -> list[str]:
    """Return the keys of a section, parsed from the source of its settings' classes."""
    files = [(path, name) for pattern, name in KEYS[section] for path in sorted(PACKAGE.glob(pattern))]
    parsed = [(ast.parse(path.read_text("utf-8")), name) for path, name in files]
    classes = [c for tree, name in parsed for c in tree.body if isinstance(c, ast.ClassDef) and c.name.endswith(name)]
    fields = [field.target for c in classes for field in c.body if isinstance(field, ast.AnnAssign)]
    beside = OF_OPTIMIZER if section == "training" else ()
    return list(dict.fromkeys([*(target.id for target in fields if isinstance(target, ast.Name)), *beside]))
