"""What a native target is: a family of transformers classes, the settings it requires, and how it names zoo's parts."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from zoo.examples.template import Template
from zoo.hub.targets.declare.flat_settings import FlatSettings, flatten
from zoo.hub.targets.declare.key import Config, Key
from zoo.hub.targets.declare.recipes import Recipe
from zoo.hub.targets.declare.renaming import Rename
from zoo.hub.targets.declare.spelling import format_heads, join_values, name_parts
from zoo.models.settings import ModelSettings

Allowed = tuple[Any, ...] | Callable[[FlatSettings], tuple[Any, ...]]
Accepted = tuple[Any, ...] | Callable[[Config], tuple[Any, ...]]  # values of a key, or a function of the other keys
ROLES = {"pad_token_id": "pad", "bos_token_id": "start", "eos_token_id": "end"}


@dataclass(frozen=True)
class Requirement:
    """A setting that must have one of a few values, in every layer.

    Args:
        path: path of the setting in `FlatSettings`; a setting that the model lacks counts as null.
        allowed: the allowed values, or a function that computes them from the other settings.
        meaning: explains the allowed values in messages.
    """

    path: str
    allowed: Allowed
    meaning: str = ""

    def values(self, flat: FlatSettings) -> tuple[Any, ...]:
        """The allowed values, given the other settings."""
        return self.allowed(flat) if callable(self.allowed) else self.allowed

    def obstacle(self, flat: FlatSettings, family: str) -> str | None:
        """Say which value is not allowed, and what the family has instead; None if all are allowed."""
        allowed = self.values(flat)
        wrong = [value for value in flat.get(self.path, (None,)) if value not in allowed]
        if not wrong:
            return None
        meaning = f" ({self.meaning})" if self.meaning else ""
        return f"{self.path} is {join_values(wrong)}; {family} has {join_values(allowed, ' or ')}{meaning}"


@dataclass(frozen=True)
class Copy:
    """A tensor that a file may hold although transformers ties it to another one.

    Args:
        theirs: name of the copy.
        of: name of the tensor that it is tied to.
        untied: path of the setting that is false if the two differ; None: they must be equal.
        rules: whether the class uses the copy, not the other tensor, where they differ.
        when: (path, value): tied to that tensor only if the setting at `path` has this value.
    """

    theirs: str
    of: str
    untied: str | None = None
    rules: bool = False
    when: tuple[str, Any] | None = None


@dataclass(frozen=True)
class NativeClass:
    """A transformers class and the zoo heads that it has.

    Args:
        name: the class. auto: the Auto class that loads it.
        heads: head -> the output field with its logits, or several fields, separated by spaces, with one kind of score
            each; a trailing `[]` marks a field with a single score per token.
        renames, requirements, keys, copies: added to those of the family.
        text, pair: where the tokenizer puts special tokens; `pair` is empty if the class reads no pairs.
        labels: head -> the argument for its labels, if that is not `labels`; several, separated by spaces, take one
            kind each.
        choices: number of rows that form one example (its choices) when an export is checked; 0: each row is one.
        last_positions: the argument for the last position of each choice; empty: none.
        generates: whether it generates text. pipeline: its task in model cards.
        shifts: whether the logits at a position are trained on the next label.
        reads_special_tokens: whether a special token spelled in a text, such as [MASK], is encoded as that token.
        ignored_constants: constants of the family that this class ignores, so import accepts any value of them.
        demands: key -> the values that a config.json of this class may have, in addition to the family's `demands`.
    """

    name: str
    auto: str
    heads: Mapping[str, str]
    text: Template
    pair: Template = ()
    renames: tuple[Rename, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    keys: tuple[Key, ...] = ()
    copies: tuple[Copy, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    choices: int = 0
    last_positions: str = ""
    generates: bool = False
    shifts: bool = False
    reads_special_tokens: bool = False
    ignored_constants: tuple[str, ...] = ()
    demands: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    pipeline: str | None = None

    def label_of(self, head: str) -> str:
        """The argument for a head's labels; several are separated by spaces."""
        return self.labels.get(head, "labels")


def class_of(classes: Sequence[NativeClass], settings: ModelSettings) -> NativeClass | None:
    """Pick the class with the most heads among those that have the model's first head and no head that it lacks.

    The first of equals is taken; None: there is no such class.
    """
    own = [head.name for head in settings.heads]
    return max((c for c in classes if {own[0]} <= {*c.heads} <= {*own}), key=lambda c: len(c.heads), default=None)


@dataclass(frozen=True)
class Target:
    """A family of transformers classes: everything that export and import must know about it.

    Args:
        name: its name in commands.
        model_type: the value of `model_type` in config.json.
        family: its name in messages.
        models: what its models are, for the table of targets.
        example: a shipped model that it is the default for, with settings to change, as arguments of a command.
        sides: the parts of its models.
        requirements: settings that all its classes require; the first one that is not met is reported.
        keys: the keys of config.json that hold settings. constants: keys of config.json with a fixed value.
        roles: key of config.json -> the role whose token id it holds.
        renames: the tensors that all its classes have.
        tables: tensors computed from settings alone, for loaders that fill an empty model from the file.
        classes: in order of preference, after the model's first head and the number of heads (`class_of`).
        longest: path of the setting that becomes the tokenizer's maximum length (tokens).
        prefix: prefix of tensor names, which files of the headless class omit.
        copies: tied tensors that files may hold twice. strays: suffixes of tensors in old files that are no weights.
        demands: key -> the values that zoo can import, for keys that export does not write; a function computes them
            from other keys.
        cache_demands: the same for classes that generate: keys of transformers' key/value cache.
        lenient: constants that do not describe the model, so import accepts any value. aliases: other names of keys ->
            the keys of this declaration.
        modernize: converts a config.json of any transformers version to the newest form.
        headless_defaults: settings that a headless folder does not give, with the values that other classes have.
        recipe: builds a tokenizer from the family's published vocabulary files, if there is no tokenizer.json.
        imports: the module that registers the classes; empty: they are transformers' own.
        counts_positions: whether its classes count positions from the mask, on whichever side the padding is.
        image_processor: the content of preprocessor_config.json; empty: its models read no images.
        rank: if several targets fit a model, the one with the lowest rank is the default (then by name).
    """

    name: str
    model_type: str
    family: str
    models: str
    example: str
    sides: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    keys: tuple[Key, ...]
    renames: tuple[Rename, ...]
    classes: tuple[NativeClass, ...]
    longest: str
    roles: Mapping[str, str] = field(default_factory=ROLES.copy)
    constants: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Callable[[FlatSettings], Tensor]] = field(default_factory=dict)
    prefix: str = ""
    copies: tuple[Copy, ...] = ()
    strays: tuple[str, ...] = ()
    demands: Mapping[str, Accepted] = field(default_factory=dict)
    cache_demands: Mapping[str, Accepted] = field(default_factory=dict)
    lenient: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    modernize: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    headless_defaults: Mapping[str, Callable[[FlatSettings], Any]] = field(default_factory=dict)
    recipe: Recipe | None = None
    imports: str = ""
    counts_positions: bool = False
    image_processor: Mapping[str, Any] = field(default_factory=dict)
    rank: int = 10

    def native_class(self, settings: ModelSettings) -> NativeClass | None:
        """The class for the model; None if no class fits its heads."""
        return class_of(self.classes, settings)

    def for_class(self, chosen: NativeClass) -> "Target":
        """The target with one class only, whose requirements, keys, renames and copies are appended to the family's."""
        return dataclasses.replace(
            self,
            classes=(chosen,),
            requirements=self.requirements + chosen.requirements,
            keys=self.keys + chosen.keys,
            renames=self.renames + chosen.renames,
            copies=self.copies + chosen.copies,
        )

    def obstacle(self, settings: ModelSettings) -> str | None:
        """Say which choice keeps a model from fitting this target, the first if there are several; None if it fits."""
        if tuple(settings.parts) != self.sides:
            return f"the model has {name_parts(settings.parts)}; {self.family} has {name_parts(self.sides)}"
        for side, part in settings.parts.items():
            if part.kind != "transformer":
                return f"{side}.kind is {part.kind}; {self.family} has transformer"
        chosen = self.native_class(settings)
        if chosen is None:
            return f"the first head is {settings.heads[0].name}; {self.family} has {format_heads(self.classes)}"
        flat, whole = flatten(settings), self.for_class(chosen)
        demands: tuple[Requirement | Key, ...] = (*whole.requirements, *whole.keys)
        return next((found for demand in demands if (found := demand.obstacle(flat, self.family))), None)
