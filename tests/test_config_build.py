"""Frozen dataclasses out of maps, and back."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_text import TEXT
from zoo.annotations import PerLayer
from zoo.config import build, dump
from zoo.registry import Choice, Slot
from zoo.strict_yaml import parse_yaml, to_yaml


class Norm:
    """What the slot of these tests holds."""


norms: Slot[Norm] = Slot("norm")


@norms.register("layernorm")
class LayerNorm(Norm):
    def __init__(self, *, eps: float = 1e-5, bias: bool = True) -> None:
        pass


@norms.register("rmsnorm")
class RMSNorm(Norm):
    def __init__(self, *, eps: float = 1e-6) -> None:
        pass


@dataclasses.dataclass(frozen=True)
class Stack:
    n_layers: int
    norm: Annotated[Choice[Norm], norms] = Choice(norms, "layernorm")
    final: Annotated[Choice[Norm], norms] | None = None
    mixed: Annotated[Choice[Norm], norms] | PerLayer = Choice(norms, "layernorm")
    window: int | PerLayer | None = None
    widths: tuple[int, ...] = (8,)
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n_layers < 1:
            raise ValueError(f"n_layers ({self.n_layers}) must be at least 1")


@dataclasses.dataclass(frozen=True)
class Whole:
    d_model: int
    decoder: Stack
    encoder: Stack | None = None
    several: tuple[Annotated[Choice[Norm], norms], ...] = ()
    rate: float = 0.1
    title: str = ""


def whole(**keys: Any) -> Whole:
    return build(Whole, {"d_model": 4, "decoder": {"n_layers": 2}, **keys}, "model")


def test_a_map_becomes_a_dataclass_with_its_defaults():
    assert whole() == Whole(d_model=4, decoder=Stack(n_layers=2))
    assert whole(rate=1, encoder={"n_layers": 3}).encoder == Stack(n_layers=3)


REFUSED = [
    ({"d_modl": 3}, r"model: unknown key 'd_modl' \(did you mean 'd_model'\?\); allowed: d_model, decoder"),
    ({"decoder": {"n_layers": 2, "eps": 1}}, r"model\.decoder: unknown key 'eps' \(did you mean 'norm.eps'\?\)"),
    ({3: 3}, "model: unknown key '3'"),
    ({"d_model": True}, r"model\.d_model: expected a whole number, got True"),
    ({"rate": "1e-6"}, r"model\.rate: expected a number, got '1e-6'"),
    ({"title": 3}, r"model\.title: expected a text, got 3"),
    ({"decoder": 3}, r"model\.decoder: expected a map, got 3"),
    ({"encoder": 3}, r"model\.encoder: expected a map or null, got 3"),
    ({"decoder": {}}, r"model\.decoder: the key 'n_layers' is missing"),
    ({"decoder": {"n_layers": 0}}, r"model\.decoder: n_layers \(0\) must be at least 1"),
    ({"decoder": {"n_layers": 2, "norm": "rmsnrm"}}, r"model\.decoder\.norm: unknown norm 'rmsnrm' \(did you mean"),
    ({"decoder": {"n_layers": 2, "norm": {"esp": 1}}}, r"model\.decoder\.norm: unknown option of norm 'layernorm'"),
    ({"decoder": {"n_layers": 2, "norm": None}}, r"model\.decoder\.norm: expected the name of a norm or a map"),
    ({"decoder": {"n_layers": 2, "norm": ["rmsnorm"]}}, r"model\.decoder\.norm: expected the name of a norm or a map"),
    ({"decoder": {"n_layers": 2, "window": [1, "a"]}}, r"model\.decoder\.window\[1\]: expected a whole number or null"),
    ({"decoder": {"n_layers": 2, "widths": 3}}, r"model\.decoder\.widths: expected a list, got 3"),
    ({"decoder": {"n_layers": 2, "extra": 3}}, r"model\.decoder\.extra: expected a map, got 3"),
    ({"several": "rmsnorm"}, r"model\.several: expected a list, got 'rmsnorm'"),
    ({"several": ["rmsnrm"]}, r"model\.several\[0\]: unknown norm 'rmsnrm'"),
]


@pytest.mark.parametrize(("keys", "message"), REFUSED)
def test_a_wrong_key_or_value_is_refused_with_its_place(keys: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=f"^{message}"):
        build(Whole, {"d_model": 4, "decoder": {"n_layers": 2}, **keys}, "model")


def test_what_is_no_map_is_refused():
    with pytest.raises(ValueError, match=r"model: expected a map, got \[\]"):
        build(Whole, [], "model")


def test_a_map_without_name_speaks_of_the_field_s_default():
    stack = whole(decoder={"n_layers": 2, "norm": {"eps": 1}, "mixed": ["rmsnorm", {"bias": False}]}).decoder
    assert stack.norm == Choice(norms, "layernorm", {"eps": 1.0})
    assert stack.mixed == PerLayer((Choice(norms, "rmsnorm"), Choice(norms, "layernorm", {"bias": False})))


def test_a_setting_of_a_stack_is_cycled_and_a_list_by_nature_is_not():
    stack = whole(decoder={"n_layers": 2, "window": [None, 5], "widths": [3, 5]}).decoder
    assert (stack.window, stack.widths) == (PerLayer((None, 5)), (3, 5))


WHOLE = st.integers(-(2**63), 2**63 - 1)
data = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT | WHOLE, inner),
    max_leaves=8,
)
choices = st.one_of(
    st.sampled_from(["layernorm", "rmsnorm"]),
    st.fixed_dictionaries(
        {"name": st.just("layernorm")},
        optional={"bias": st.booleans(), "eps": st.integers(0, 9) | st.lists(st.floats(0, 1), min_size=1, max_size=3)},
    ),
)
stacks = st.fixed_dictionaries(
    {"n_layers": st.integers(1, 9)},
    optional={
        "norm": choices,
        "final": st.none() | choices,
        "mixed": choices | st.lists(choices, min_size=1, max_size=3),
        "window": st.none() | WHOLE | st.lists(st.none() | WHOLE, min_size=1, max_size=3),
        "widths": st.lists(WHOLE, max_size=3),
        "extra": st.dictionaries(TEXT, data, max_size=2),
    },
)
wholes = st.fixed_dictionaries(
    {"d_model": WHOLE, "decoder": stacks},
    optional={"encoder": st.none() | stacks, "several": st.lists(choices, max_size=3), "title": TEXT},
)


@given(wholes)
def test_what_is_dumped_builds_the_same_dataclass(tree: dict[str, Any]):
    built = build(Whole, tree, "model")
    assert build(Whole, parse_yaml(to_yaml(dump(built)), "file"), "model") == built
