"""Keys of a transformers config.json, each with the zoo setting that it holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from zoo.hub.targets.declare.flat_settings import FlatSettings
from zoo.hub.targets.declare.renaming import Conversion
from zoo.hub.targets.declare.spelling import join_values
from zoo.registry import REQUIRED, check

Merge = Callable[[Sequence[Any]], Any]
Config = Callable[[str], Any]  # looks up a key of config.json, by default the value of transformers' config class


@dataclass(frozen=True)
class Key:
    """A key of a transformers config.json that holds a zoo setting.

    Args:
        theirs: the key; dots lead into nested maps, as in `rope_parameters.rope_theta`.
        paths: paths of the setting in `FlatSettings`; all paths and all layers must have the same value.
        names: zoo's word -> transformers' word, for every word that the family supports.
        merge: picks one value where paths or layers differ, for settings that no output depends on.
        conversion: converts the value, where transformers counts or spells it in another way.
        if_unset: the value written if the model lacks the setting, in transformers' words.
        default: what a config.json without the key means, in transformers' words: the default of the config class.
        null_means: computes what null means, in transformers' words, from other keys.
        synonyms: a word of transformers -> the word in `names` that means the same.
        joined: the values of all paths together are one word; the keys of `names` are tuples of these values.
        when: (path, values): the key exists only if the setting at `path` has one of these values.
    """

    theirs: str
    paths: tuple[str, ...]
    names: Mapping[Any, Any] | None = None
    merge: Merge | None = None
    conversion: Conversion | None = None
    if_unset: Any = None
    default: Any = REQUIRED
    null_means: Callable[[Config], Any] | None = None
    synonyms: Mapping[Any, Any] = field(default_factory=dict)
    joined: bool = False
    when: tuple[str, tuple[Any, ...]] | None = None

    def applies(self, flat: FlatSettings) -> bool:
        """Return whether the config.json of a model with these settings has the key."""
        return self.when is None or flat.get(self.when[0], (None,))[0] in self.when[1]

    def values(self, flat: FlatSettings) -> list[Any]:
        """The distinct values of the setting; if `joined`, tuples with one value per path."""
        found = [flat.get(path, ()) for path in self.paths]
        every: list[Any] = [*product(*found)] if self.joined else sum(map(list, found), [])
        return [value for i, value in enumerate(every) if value not in every[:i]]  # no set: a value may be a list

    def obstacle(self, flat: FlatSettings, family: str) -> str | None:
        """Say why the key cannot hold these settings; None if it can."""
        values = self.values(flat) if self.applies(flat) else []
        if len(values) > 1 and self.merge is None:
            return f"{' and '.join(self.paths)} differ ({join_values(values)}); {family} has one value for all"
        unknown = [value for value in values if self.names is not None and value not in self.names]
        if unknown:
            settings = " and ".join(self.paths if self.joined else self.paths[:1])
            return f"{settings} is {join_values(unknown)}; {family} has {join_values(list(self.names or ()), ' or ')}"
        return None

    def value(self, flat: FlatSettings) -> Any:
        """The value that export writes, in transformers' words."""
        if not (values := self.values(flat)):
            return self.if_unset
        value = values[0] if self.merge is None else self.merge(values)
        if self.conversion is not None:
            value = self.conversion.forward(value)
        return value if self.names is None else self.names[value]

    def read(self, value: Any) -> dict[str, Any]:
        """Settings by path, from the value in a config.json; empty if the key is not read back.

        Raises:
            ValueError: a word that `names` lacks, or no number where transformers' default is one.
        """
        if self.conversion is not None and self.conversion.inverse is None:
            return {}
        if self.names is not None:
            value = self.synonyms.get(value, value) if isinstance(value, str) else value
            # types are compared too, since True == 1 in Python
            known = [ours for ours, theirs in self.names.items() if type(theirs) is type(value) and theirs == value]
            if not known:
                raise ValueError(
                    f"{self.theirs} is {value!r}; zoo reads {join_values(list(self.names.values()), ' or ')}"
                )
            value = known[0]
        elif value is not None and type(self.default) in (int, float):
            check(value, type(self.default), self.theirs)
        if self.conversion is not None and self.conversion.inverse is not None:
            value = self.conversion.inverse(value)
        return dict(zip(self.paths, value, strict=True)) if self.joined else dict.fromkeys(self.paths, value)


def key(theirs: str, *paths: str, **said: Any) -> Key:
    """Build a `Key`; `said` are its other fields, by name."""
    return Key(theirs, paths, **said)


def value_of(other: str) -> Callable[[Config], Any]:
    """For `Key.null_means`: null means the value of another key."""
    return lambda config: config(other)


def first_value(values: Sequence[Any]) -> Any:
    """For `Key.merge`, of settings that act in training only: take the first value."""
    return values[0]
