"""Variants of somebody else, as a notebook or a package registers them."""

import pytest

from zoo.registry import Slot, options_of


class Part:
    """What the slots of these tests hold."""


def named(name: str, **members: object) -> type[Part]:
    """A class as its source would define it anew each time."""
    return type(name, (Part,), {"__module__": "notebook", "__qualname__": name, **members})


def test_a_name_is_of_one_class():
    parts: Slot[Part] = Slot("part")
    first = parts.register("plain")(named("Plain"))
    with pytest.raises(ValueError, match="part 'plain' is already registered, as <class 'notebook.Plain'>; choose"):
        parts.register("plain")(named("Other"))
    assert parts["plain"] is first
    again = parts.register("plain")(named("Plain"))
    assert parts["plain"] is again is not first


def test_an_option_without_an_annotation_takes_any_value():
    slot: Slot[Part] = Slot("slot")
    slot.register("bare")(named("Bare", __init__=lambda self, width, *, by=1.0: None))
    assert slot.parse({"name": "bare", "by": "x"}).options == {"by": "x"}


def test_a_variant_has_the_options_of_its_base_if_it_passes_them_on():
    class Base:
        def __init__(self, *, width: int = 1, depth: int = 2) -> None: ...

    class Passing(Base):
        def __init__(self, *, depth: int = 3, **shared: int) -> None: ...

    class Alone(Base):
        def __init__(self, *, height: int = 4) -> None: ...

    found = [{name: option.default for name, option in options_of(kind).items()} for kind in (Passing, Alone)]
    assert found == [{"depth": 3, "width": 1}, {"height": 4}]
