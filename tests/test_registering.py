"""Variants of somebody else, as a notebook or a package registers them."""

import pytest

from zoo.registry import Slot


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
