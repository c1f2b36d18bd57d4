"""What a native target is: a family of transformers classes, the choices it demands, its names for ours."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from zoo.examples.template import Template
from zoo.hub.targets.declare.flat_settings import FlatSettings, flatten
from zoo.hub.targets.declare.key import Key
from zoo.hub.targets.declare.recipes import Recipe
from zoo.hub.targets.declare.renaming import Rename
from zoo.hub.targets.declare.words import articles, carried_heads, listed
from zoo.models.settings import ModelSettings

Allowed = tuple[Any, ...] | Callable[[FlatSettings], tuple[Any, ...]]
ROLES = {"pad_token_id": "pad", "bos_token_id": "start", "eos_token_id": "end"}


@dataclass(frozen=True)
class Requirement:
    """A setting that must have one of a few values, in every layer.

    Args:
        path: of the setting, as in `FlatSettings`; a setting that the model lacks is null.
        allowed: the values, or how they follow from other settings.
        meaning: what the allowed values are, where they do not say it themselves.
    """

    path: str
    allowed: Allowed
    meaning: str = ""

    def values(self, flat: FlatSettings) -> tuple[Any, ...]:
        """What is allowed, given the other settings."""
        return self.allowed(flat) if callable(self.allowed) else self.allowed

    def obstacle(self, flat: FlatSettings, family: str) -> str | None:
        """What is in the way, and what the family has instead."""
        allowed = self.values(flat)
        wrong = [value for value in flat.get(self.path, (None,)) if value not in allowed]
        if not wrong:
            return None
        meaning = f" ({self.meaning})" if self.meaning else ""
        return f"{self.path} is {listed(wrong)}; {family} has {listed(allowed, ' or ')}{meaning}"


@dataclass(frozen=True)
class Copy:
    """A tensor of theirs that a file may hold although it is tied to another one.

    Args:
        theirs: the copy. of: what it is tied to.
        untied: the setting that is false where the two differ. rules: whether their class reads the copy then.
    """

    theirs: str
    of: str
    untied: str | None = None
    rules: bool = False


@dataclass(frozen=True)
class NativeClass:
    """A class of transformers and the heads of ours that it carries.

    Args:
        name: the class. auto: the Auto class that finds it.
        heads: head -> the field of its output with logits (`[]` behind it: one score a place), or one for each kind.
        renames, requirements, keys, copies: what it adds to those of its family.
        text, pair: where their tokenizer puts special tokens; `pair` is empty where they read no pairs.
        labels: head -> the argument that takes its labels, where that is not `labels`, or one for each kind of score.
        choices: how many rows it reads as the choices of one example in the export's check; 0: rows are read alone.
        lasts: the argument that takes the last place of each choice; empty: none. generates: whether it writes text.
        shifts: whether its loss compares each place with the next one's label. pipeline: its task in model cards.
        reads_roles: whether a special token that a text spells, such as [MASK], stands for itself.
        unread: constants of its family that change nothing in this class; importing takes any value of theirs.
        demands: key -> the values with which a config.json is this class, beside those that its family demands.
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
    lasts: str = ""
    generates: bool = False
    shifts: bool = False
    reads_roles: bool = False
    unread: tuple[str, ...] = ()
    demands: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    pipeline: str | None = None

    def label_of(self, head: str) -> str:
        """The argument that takes a head's labels."""
        return self.labels.get(head, "labels")


def class_of(classes: Sequence[NativeClass], settings: ModelSettings) -> NativeClass | None:
    """Of the classes that carry the model's first head and none that it lacks, the first with the most heads."""
    own = [head.name for head in settings.heads]
    return max((c for c in classes if {own[0]} <= {*c.heads} <= {*own}), key=lambda c: len(c.heads), default=None)


@dataclass(frozen=True)
class Target:
    """A family of transformers classes: everything that export, and importing, must know of it.

    Args:
        name: how commands say it.
        family: how messages say it.
        models: what its models are, for the table of targets.
        example: a shipped model that it is the default for, with the settings to change, as words of a command.
        sides: the parts it has.
        requirements: the choices that all its classes demand; the first that is not met is reported.
        keys: config.json <- settings. constants: config.json <- always the same.
        roles: config.json <- the token of a role.
        renames: the tensors that all its classes have.
        tables: their tensors that follow from settings alone, for loaders that fill an empty model from the file.
        classes: a model's first head decides, then how many of its heads one carries, then their order.
        longest: path of the longest text that its tokenizer lets through (tokens).
        prefix: of the names of tensors, which files of their headless class leave out.
        copies: tied tensors that files may hold twice. strays: ends of names that old files hold beside weights.
        demands: key -> the values with which a config.json is this family, where export does not write the key.
        lenient: the constants that say nothing about the model. aliases: other names of keys -> theirs.
        newer: a config.json as newer versions of transformers write it, from one of any version.
        begins: settings that a class without a head does not speak of, as other classes have them.
        recipe: makes a tokenizer of the family's published vocabulary files, where there is no tokenizer.json.
        imports: the module that makes the classes known; empty: they are transformers' own.
        counts_positions: whether its classes count positions from the mask, on whichever side the padding is.
        pictures: how its processor reads pictures, as preprocessor_config.json says it; empty: it reads none.
        rank: of several targets that fit a model, the one with the lowest is the default (then by name).
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
    demands: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    lenient: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    newer: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    begins: Mapping[str, Callable[[FlatSettings], Any]] = field(default_factory=dict)
    recipe: Recipe | None = None
    imports: str = ""
    counts_positions: bool = False
    pictures: Mapping[str, Any] = field(default_factory=dict)
    rank: int = 10

    def native_class(self, settings: ModelSettings) -> NativeClass | None:
        """The class that carries the model."""
        return class_of(self.classes, settings)

    def narrowed(self, chosen: NativeClass) -> "Target":
        """The family with one class alone, whose own demands, keys, renames and copies follow the family's."""
        return dataclasses.replace(
            self,
            classes=(chosen,),
            requirements=self.requirements + chosen.requirements,
            keys=self.keys + chosen.keys,
            renames=self.renames + chosen.renames,
            copies=self.copies + chosen.copies,
        )

    def obstacle(self, settings: ModelSettings) -> str | None:
        """The first choice that keeps a model from being one of this family."""
        if tuple(settings.parts) != self.sides:
            return f"the model has {articles(settings.parts)}; {self.family} has {articles(self.sides)}"
        for side, kind in ((side, part.kind) for side, part in settings.parts.items() if part.kind != "transformer"):
            return f"{side}.kind is {kind}; {self.family} has transformer"
        chosen = self.native_class(settings)
        if chosen is None:
            return f"the first head is {settings.heads[0].name}; {self.family} has {carried_heads(self.classes)}"
        flat, whole = flatten(settings), self.narrowed(chosen)
        demands: tuple[Requirement | Key, ...] = (*whole.requirements, *whole.keys)
        return next((found for demand in demands if (found := demand.obstacle(flat, self.family))), None)
