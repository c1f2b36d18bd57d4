"""The arguments of a training command; imports no torch, so that the command line can check them quickly."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from zoo.strict_yaml import Tree

logger = logging.getLogger(__name__)
Pair = tuple[tuple[str, ...], Any]  # one `--set`: its path of keys, and its value
MODEL, SECTIONS = "model", ("task", "training", "generate")
STEPS, EPOCHS = ("training", "steps"), ("training", "epochs")
# a setting -> the one that cancels it if set later
CANCELS: dict[tuple[str, ...], tuple[str, ...]] = {STEPS: EPOCHS, EPOCHS: STEPS}


@dataclass(frozen=True)
class Request:
    """A training command.

    Args:
        start: MODEL or CHECKPOINT, as it was typed.
        task: a name, or a path to a YAML file.
        folder: the run folder.
        sets: the changes (`--set`) of this call.
        resume: continue the run in the folder.
        data: the folder with the task's files (`--data`).
        repeated: when resuming, the changes of the call that started the run.
        command: the name of the command in messages, if it starts from a checkpoint.
    """

    start: str
    task: str
    folder: Path
    sets: Sequence[Pair] = ()
    resume: bool = False
    data: Path | None = None
    repeated: Sequence[Pair] = ()
    command: str = "finetune"

    def repeat(self, changes: Iterable[Mapping[str, Any]]) -> "Request":
        """This request on top of the changes of the call that started the run."""
        pairs = split_sections((tuple(key.split(".")), value) for change in changes for key, value in change.items())
        sets = split_sections(self.sets)
        named = {path for path, _ in sets}
        unsaid = [pair for pair in pairs if pair not in sets and CANCELS.get(pair[0], ()) not in named]
        if unsaid:
            written = ", ".join(f"{'.'.join(path)}={value}" for path, value in unsaid)
            logger.info("%s: continues with the changes of the first command: %s", self.folder, written)
        # a change that only repeats the first call's is dropped: laid on top, it would undo later changes of that call
        now = dict(sets)
        again = {path for path in now if is_final_value(pairs, path, now[path])}
        return replace(self, repeated=pairs, sets=[pair for pair in sets if pair[0] not in again])

    @property
    def changes(self) -> list[Tree]:
        """Every change, as request.yaml records it, without those canceled by a later call."""
        named = {path for path, _ in self.sets}
        repeated = [(path, value) for path, value in self.repeated if CANCELS.get(path, ()) not in named]
        return [{".".join(path): value} for path, value in (*repeated, *self.sets)]


def is_final_value(pairs: Sequence[Pair], path: tuple[str, ...], value: Any) -> bool:
    """Whether the pairs leave a setting at this value: no later pair changes or replaces it."""
    for other, found in reversed(pairs):
        if other == path:
            return bool(found == value)
        if other == path[: len(other)]:
            return False
    return False


def split_sections(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs, with a section's map split into its keys: `training={steps: 4}` becomes `training.steps=4`."""
    found: list[Pair] = []
    for path, value in pairs:
        whole = len(path) == 1 and path[0] in SECTIONS and isinstance(value, dict)
        found += [((*path, str(key)), below) for key, below in value.items()] if whole else [(path, value)]
    return found


def refuse_without_task(pairs: Iterable[Pair]) -> None:
    """Refuse changes to `task` and `generate` in a command without a TASK.

    Raises:
        ValueError: there is such a change.
    """
    for path, _ in pairs:
        if path[0] in ("task", "generate"):
            raise ValueError(f"--set {'.'.join(path)}: settings of {path[0]} need a TASK: zoo show MODEL TASK")


def by_section(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Section -> its pairs, without the section's name; pairs of no other section belong to the model.

    Raises:
        ValueError: a section is set to something that is not a map.
    """
    found: dict[str, list[Pair]] = {section: [] for section in (MODEL, *SECTIONS)}
    for path, value in split_sections(pairs):
        section = path[0]
        if section not in SECTIONS:
            found[MODEL].append((path, value))
        elif len(path) > 1:
            found[section].append((path[1:], value))
        else:
            raise ValueError(f"--set {section}: expected a map, got {value!r}; set one key with {section}.KEY=VALUE")
    return found
