"""Names to variants: a slot is a place in a model, a choice is the variant picked for it with its options."""

import inspect
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from numbers import Real
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

from zoo.annotations import MAPS, UNIONS, PerLayer, describe, pair_up, takes_list
from zoo.discover import import_variant_packages
from zoo.wording import refuse_unknown

T = TypeVar("T")
REQUIRED, WHOLE = inspect.Parameter.empty, 2**63
KINDS = {int: "a whole number below 2**63", float: "a finite number"}


def refuse_below(least: int, **values: Any) -> None:
    """Check that sizes are at least `least`; each is a number, a PerLayer of numbers, or None, which is skipped.

    Raises:
        ValueError: one of them is below `least`.
    """
    for name, value in values.items():
        for one in value.values if isinstance(value, PerLayer) else (value,):
            if one is not None and (not isinstance(one, Real) or one < least):
                raise ValueError(f"{name} must be at least {least}, got {plain(value)!r}")


class Slot(Generic[T]):
    """A named place in a model and the variants that may fill it.

    A variant's positional parameters are what the model supplies; its keyword-only parameters are its options,
    read off the signature of its constructor.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.variants: dict[str, type[T]] = {}

    def register(self, name: str) -> Callable[[type[T]], type[T]]:
        """Decorate a class with the name under which files and commands choose it; no other class may have it."""

        def add(variant: type[T]) -> type[T]:
            known = self.variants.get(name, variant)
            if str(known) != str(variant):  # running a notebook cell again redefines the same class
                raise ValueError(f"{self.name} '{name}' is already registered, as {known}; choose another name")
            self.variants[name] = variant
            return variant

        return add

    def names(self) -> list[str]:
        """The names of all variants: zoo's own in a fixed order, then those of other installed packages."""
        import_variant_packages()
        return list(self.variants)

    def __getitem__(self, name: str) -> type[T]:
        return self.find(name, self.name)

    def find(self, name: str, place: str) -> type[T]:
        """The variant of this name; other packages are imported only if zoo does not have the name.

        Raises:
            ValueError: no variant has this name.
        """
        if name not in self.variants:
            import_variant_packages()
        refuse_unknown(name, self.variants, self.name, place)
        return self.variants[name]

    def name_of(self, built: object) -> str:
        """The registered name of a built variant."""
        return next(name for name, variant in self.variants.items() if variant is type(built))

    def options(self, name: str) -> dict[str, inspect.Parameter]:
        """The options of a variant, by name, in the order of its signature."""
        variant: Any = self[name]  # mypy does not know that type[T] is hashable
        return dict(options_of(variant))

    def with_option(self, option: str) -> list[str]:
        """The variants that have an option of this name."""
        return [name for name in self.variants if option in self.options(name)]

    def parse(
        self, value: Any, place: str | None = None, default: str | None = None, beside: Sequence[str] = ()
    ) -> "Choice[T]":
        """Parse a choice as a file writes it: a name, or a map with `name` and options.

        Args:
            place: key of the value, for messages; None: the slot's name.
            default: the variant of a map without `name`.
            beside: further keys allowed in the map, which the caller reads.

        Raises:
            ValueError: an unknown name or option, a wrong type, a missing option.
        """
        place = place or self.name
        if isinstance(value, Choice) and value.slot is self:
            return value
        value = {"name": value} if isinstance(value, str) else value
        if not isinstance(value, Mapping):
            raise ValueError(f"{place}: expected the name of a {self.name} or a map with 'name', got {value!r}")
        name = value.get("name", default)
        if not isinstance(name, str):
            problem = "is missing" if name is None else f"must be a text, got {name!r}"
            raise ValueError(f"{place}: 'name' {problem}; allowed: {', '.join(self.variants)}")
        self.find(name, place)
        known = self.options(name)
        given = {key: v for key, v in value.items() if key not in ("name", *beside)}
        for key in filter(lambda key: key not in known, given):
            having = " or ".join(f"'{other}'" for other in self.with_option(str(key)))
            hint = f"; '{key}' is an option of {self.name} {having}" if having else ""
            refuse_unknown(str(key), [*known, *beside], f"option of {self.name} '{name}':", place, hint)
        missing = [key for key, option in known.items() if option.default is REQUIRED and key not in given]
        if missing:
            raise ValueError(f"{place}: {self.name} '{name}' needs the option '{missing[0]}'")
        return Choice(self, name, {k: check_cycled(v, known[k].annotation, f"{place}.{k}") for k, v in given.items()})

    def build(self, value: Any, *supplied: Any) -> T:
        """Parse a choice and build its variant; `supplied` are the constructor's positional arguments."""
        return self.parse(value).build(*supplied)


@cache  # reading signatures took a third of the time of comparing settings with all export targets
def options_of(variant: type) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a constructor, by name, in the order of its signature.

    A constructor that passes `**shared` on to its base class has the base's options too.
    """
    found: dict[str, inspect.Parameter] = {}
    for constructor in (vars(cls)["__init__"] for cls in variant.__mro__ if "__init__" in vars(cls)):
        hints = typing.get_type_hints(constructor, include_extras=True)
        parameters = inspect.signature(constructor).parameters.values()
        own = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name not in found]
        found |= {p.name: p.replace(annotation=hints.get(p.name, Any)) for p in own}  # they may be strings
        if all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters):
            break
    return found


@dataclass(frozen=True)
class Choice(Generic[T]):
    """A variant of a slot with the options that were given; the others have the signature's defaults."""

    slot: Slot[T]
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def at(self, layer: int) -> "Choice[T]":
        """The choice for one layer: options that are lists are cycled over the layers."""
        return Choice(self.slot, self.name, {key: at_layer(value, layer) for key, value in self.options.items()})

    def inherit(self, **values: Any) -> "Choice[T]":
        """A copy with values for options that the variant has and that were not set."""
        known = self.slot.options(self.name)
        missing = {k: v for k, v in values.items() if k in known and k not in self.options}
        return Choice(self.slot, self.name, {**self.options, **missing})

    def option(self, key: str) -> Any:
        """The value of an option: given, or the signature's default."""
        return self.options[key] if key in self.options else self.slot.options(self.name)[key].default

    def build(self, *supplied: Any) -> T:
        """Build the variant; `supplied` are the constructor's positional arguments, from the model.

        Raises:
            ValueError: an option is still a list to be cycled over layers; use `at` first.
        """
        for key, value in self.options.items():
            if isinstance(value, PerLayer):
                place = f"{self.slot.name} '{self.name}': {key}"
                raise ValueError(f"{place}: expected one value, not a list, got {plain(value)}")
        return self.slot[self.name](*supplied, **self.options)

    def plain(self) -> Any:
        """The choice as a file writes it: a name, or a map with `name` and options."""
        if not self.options:
            return self.name
        return {"name": self.name, **{key: plain(value) for key, value in self.options.items()}}


def at_layer(value: Any, layer: int) -> Any:
    """The value for one layer, where the value or options of a choice may be cycled over the layers."""
    value = value.at(layer) if isinstance(value, PerLayer) else value
    return value.at(layer) if isinstance(value, Choice) else value


def plain(value: Any) -> Any:
    """A checked value as plain data for YAML and JSON."""
    if isinstance(value, Choice):
        return value.plain()
    if isinstance(value, PerLayer):
        return [plain(v) for v in value.values]
    if isinstance(value, Mapping):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def check_cycled(value: Any, annotation: Any, place: str) -> Any:
    """As `check`, but a list becomes a PerLayer unless the annotation itself accepts a list.

    Raises:
        ValueError: the value does not fit, or the list is empty.
    """
    if isinstance(value, list | tuple) and not takes_list(annotation):
        if not value:
            raise ValueError(f"{place}: an empty list cannot be cycled over layers")
        return PerLayer(tuple(check(v, annotation, f"{place}[{i}]") for i, v in enumerate(value)))
    return check(value, annotation, place)


def check(value: Any, annotation: Any, place: str) -> Any:
    """Return `value` as the annotated type: a whole number is a valid float, nothing else is converted.

    An annotation `Annotated[…, slot]` stands for a choice of that slot.

    Raises:
        ValueError: the value is not of that type.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return value
    if origin is Annotated:
        slot = arguments[1]
        return slot.parse(value, place) if isinstance(slot, Slot) else check(value, arguments[0], place)
    if origin in UNIONS:
        return check_union(value, annotation, place)
    if origin in (tuple, list) and isinstance(value, list | tuple):
        return origin(check(v, a, f"{place}[{i}]") for i, (v, a) in enumerate(pair_up(value, annotation, place)))
    if (origin or annotation) in MAPS and isinstance(value, Mapping):
        of_keys, of_values = arguments or (Any, Any)
        for odd in (k for k in value if of_keys is str and not isinstance(k, str)):  # YAML: a class named 0
            raise ValueError(f"{place}: expected a text, got {odd!r}; write the key in quotes: '{odd}'")
        return {check(k, of_keys, place): check(v, of_values, f"{place}.{k}") for k, v in value.items()}
    if origin is typing.Literal:
        return check_literal(value, arguments, place)
    if annotation in (int, float) and type(value) in (int, annotation):
        return check_number(value, annotation, place)
    if isinstance(annotation, type) and origin is None and type(value) is annotation:
        return value
    raise ValueError(f"{place}: expected {describe(annotation)}, got {value!r}")


def check_literal(value: Any, allowed: tuple[Any, ...], place: str) -> Any:
    """`check` against the values of a Literal: type and value must be equal.

    Raises:
        ValueError: it is none of them.
    """
    if isinstance(value, str):
        refuse_unknown(value, [str(a) for a in allowed], "value", place)
    if not any(type(a) is type(value) and a == value for a in allowed):
        raise ValueError(f"{place}: expected {' or '.join(map(repr, allowed))}, got {value!r}")
    return value


def check_number(value: float, kind: type, place: str) -> float:
    """Check that a number is a finite float, or an integer that fits int64, which torch uses.

    Raises:
        ValueError: it is not.
    """
    if kind is int and -WHOLE <= value < WHOLE:
        return value
    if kind is float and abs(value) <= sys.float_info.max:  # false for nan, and no conversion that may overflow
        return float(value)
    raise ValueError(f"{place}: expected {KINDS[kind]}, got {value!r}")


def check_union(value: Any, annotation: Any, place: str) -> Any:
    """`check` against the first member of a union that accepts the value.

    Raises:
        ValueError: none of them accepts it.
    """
    if value is None and type(None) in get_args(annotation):
        return None
    members = [m for m in get_args(annotation) if m not in (type(None), PerLayer)]
    for member in members:
        try:
            return check(value, member, place)
        except ValueError as refusal:
            words = [str(word) for m in members if get_origin(m) is typing.Literal for word in get_args(m)]
            if words and get_origin(member) is Annotated and isinstance(value, str):
                raise ValueError(", ".join([str(refusal), *words])) from None
            chosen = type(value) is member or (get_origin(member) is Annotated and isinstance(value, str | Mapping))
            if chosen or (len(members) == 1 and get_origin(member) is not None):  # says more than the union's message
                raise refusal
    raise ValueError(f"{place}: expected {describe(annotation)}, got {value!r}")
