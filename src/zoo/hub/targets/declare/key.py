"""Keys of a config.json of transformers, each with the setting of ours that it holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from zoo.hub.targets.declare.flat_settings import FlatSettings
from zoo.hub.targets.declare.renaming import Change
from zoo.hub.targets.declare.words import listed
from zoo.registry import REQUIRED

Merge = Callable[[Sequence[Any]], Any]
Config = Callable[[str], Any]  # what their config.json says under a key, its class's default where it says nothing


@dataclass(frozen=True)
class Key:
    """A key of their config.json that holds a setting of ours.

    Args:
        theirs: the key; dots lead into maps, as in `rope_parameters.rope_theta`.
        paths: of the setting; several settings, and all layers, must have one value.
        names: our word -> theirs, for all words that they know.
        merge: makes one value of several that may differ, because no output depends on them.
        through: for values that they count or spell in another way.
        otherwise: what is written where the model has no such setting, in their words.
        default: what a config.json means that lacks the key, in their words: the default of their config class.
        null: what null means there, in their words, by other keys.
        also: more words of theirs -> the word in `names` that means the same.
        joined: the settings together are one word: `names` has their values as a tuple.
        when: a setting and the values of it with which the key is there at all.
    """

    theirs: str
    paths: tuple[str, ...]
    names: Mapping[Any, Any] | None = None
    merge: Merge | None = None
    through: Change | None = None
    otherwise: Any = None
    default: Any = REQUIRED
    null: Callable[[Config], Any] | None = None
    also: Mapping[Any, Any] = field(default_factory=dict)
    joined: bool = False
    when: tuple[str, tuple[Any, ...]] | None = None

    def speaks(self, flat: FlatSettings) -> bool:
        """Whether a model with these settings has the key."""
        return self.when is None or flat.get(self.when[0], (None,))[0] in self.when[1]

    def values(self, flat: FlatSettings) -> list[Any]:
        found = [flat.get(path, ()) for path in self.paths]
        every: list[Any] = [*product(*found)] if self.joined else sum(map(list, found), [])
        return [value for i, value in enumerate(every) if value not in every[:i]]  # a stranger's may be a list

    def obstacle(self, flat: FlatSettings, family: str) -> str | None:
        """As that of a requirement."""
        values = self.values(flat) if self.speaks(flat) else []
        if len(values) > 1 and self.merge is None:
            return f"{' and '.join(self.paths)} differ ({listed(values)}); {family} has one value for all"
        unknown = [value for value in values if self.names is not None and value not in self.names]
        if unknown:
            settings = " and ".join(self.paths if self.joined else self.paths[:1])
            return f"{settings} is {listed(unknown)}; {family} has {listed(list(self.names or ()), ' or ')}"
        return None

    def value(self, flat: FlatSettings) -> Any:
        """What is written."""
        if not (values := self.values(flat)):
            return self.otherwise
        value = values[0] if self.merge is None else self.merge(values)
        if self.through is not None:
            value = self.through.there(value)
        return value if self.names is None else self.names[value]

    def back(self, value: Any) -> dict[str, Any]:
        """Settings by path, from what is written.

        Raises:
            ValueError: a word that `names` lacks.
        """
        if self.through is not None and self.through.back is None:
            return {}
        if self.names is not None:
            value = self.also.get(value, value) if isinstance(value, str) else value
            known = [ours for ours, theirs in self.names.items() if type(theirs) is type(value) and theirs == value]
            if not known:
                raise ValueError(f"{self.theirs} is {value!r}; zoo reads {listed(list(self.names.values()), ' or ')}")
            value = known[0]
        if self.through is not None and self.through.back is not None:
            value = self.through.back(value)
        return dict(zip(self.paths, value, strict=True)) if self.joined else dict.fromkeys(self.paths, value)


def key(theirs: str, *paths: str, **said: Any) -> Key:
    """A key of their config.json; `said` are the fields of `Key`, by name."""
    return Key(theirs, paths, **said)


def like(other: str) -> Callable[[Config], Any]:
    """For `Key.null`: null means what another key says."""
    return lambda config: config(other)


def first(values: Sequence[Any]) -> Any:
    """For settings that act in training only: the first layer's."""
    return values[0]
