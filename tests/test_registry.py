"""Slots, choices and the checks of what a file says."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_text import TEXT
from zoo.annotations import PerLayer
from zoo.registry import Choice, Slot, check, check_cycled, plain, refuse_below
from zoo.wording import nearest, refuse_unknown


class Part:
    """What the slots of these tests hold."""


shapes: Slot[Part] = Slot("shape")
parts: Slot[Part] = Slot("part")


@shapes.register("round")
class Round(Part):
    def __init__(self, *, radius: float = 1.0) -> None:
        self.radius = radius


@parts.register("plain")
class Plain(Part):
    pass


@parts.register("grouped")
class Grouped(Part):
    def __init__(
        self,
        d_model: int,
        *,
        n_groups: int,
        eps: float = 1e-5,
        window: int | None = None,
        bias: bool = True,
        widths: tuple[int, ...] = (8, 16),
        shape: Annotated[Choice[Part], shapes] = Choice(shapes, "round"),  # noqa: B008 - immutable
    ) -> None:
        self.d_model, self.n_groups, self.eps, self.window, self.bias = d_model, n_groups, eps, window, bias
        self.widths = widths


def grouped(**options: Any) -> Choice[Part]:
    return parts.parse({"name": "grouped", "n_groups": 2, **options}, "decoder.part")


def test_names_are_in_the_order_of_registration():
    assert parts.names() == ["plain", "grouped"]


def test_options_are_the_keyword_only_parameters():
    options = parts.options("grouped")
    assert list(options) == ["n_groups", "eps", "window", "bias", "widths", "shape"]
    assert (options["eps"].annotation, options["eps"].default) == (float, 1e-5)
    assert parts.options("plain") == {}


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"^decoder: unknown part 'gruoped' \(did you mean 'grouped'\?\); allowed: "):
        parts.parse("gruoped", "decoder")


def test_an_unknown_name_without_a_near_one_lists_what_is_allowed():
    with pytest.raises(ValueError, match=r"^part: unknown part 'xyz'; allowed: plain, grouped$"):
        parts["xyz"]


def test_nothing_allowed_is_said():
    with pytest.raises(ValueError, match=r"here: unknown key 'a'; allowed: none"):
        refuse_unknown("a", [], "key", "here")
    assert nearest("a", []) == ""


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("cnn-nano", "cnn-attention-nano"),
        ("rnn-nano", "rnn-seq2seq-nano"),
        ("bert-nao", "bert-nano"),
        ("gtp2-nano", "gpt2-nano"),  # no name begins with this word
        ("gpt-mdern", "gpt-modern"),
        ("gpt-2", "gpt2"),  # far closer than gpt
        ("GPT2", "gpt2"),
    ],
)
def test_names_with_the_same_first_word_are_nearer(word: str, meant: str):
    names = "bert-nano cnn cnn-attention-nano gpt gpt-modern gpt-nano gpt2 gpt2-nano rnn-seq2seq-nano t5-nano".split()
    assert nearest(word, names) == f" (did you mean '{meant}'?)"


def test_initials_are_nearer_than_names_that_look_alike():
    assert nearest("LR", ["lora", "learning_rate", "n_layers"]) == " (did you mean 'learning_rate'?)"


def test_the_nearest_name_is_spelled_as_it_is_allowed():
    assert nearest("negtive", ["POSITIVE", "Negative"]) == " (did you mean 'Negative'?)"


def test_an_unknown_option_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown option of part 'grouped': 'n_group' \(did you mean 'n_groups'\?\)"):
        parts.parse({"name": "grouped", "n_group": 3})


def test_an_option_of_another_variant_is_answered_with_that_variant():
    with pytest.raises(ValueError, match=r"'n_groups'; allowed: .*; 'n_groups' is an option of part 'grouped'$"):
        parts.parse({"name": "plain", "n_groups": 3})


def test_an_option_that_is_a_number_is_unknown():
    with pytest.raises(ValueError, match="unknown option of part 'plain': '3'"):
        parts.parse({"name": "plain", 3: 1})


def test_a_missing_option_is_named():
    with pytest.raises(ValueError, match=r"decoder\.part: part 'grouped' needs the option 'n_groups'"):
        parts.parse("grouped", "decoder.part")


@pytest.mark.parametrize("value", [None, 3, True, ["plain"]])
def test_a_choice_is_a_name_or_a_map(value: Any):
    with pytest.raises(ValueError, match="encoder.part: expected the name of a part or a map with 'name', got "):
        parts.parse(value, "encoder.part")


def test_a_map_without_name_speaks_of_the_default():
    assert parts.parse({"n_groups": 3}, default="grouped").name == "grouped"
    with pytest.raises(ValueError, match="part: 'name' is missing; allowed: plain, grouped"):
        parts.parse({"n_groups": 3})


def test_a_name_is_a_text():
    with pytest.raises(ValueError, match="part: 'name' must be a text, got 3; allowed: plain, grouped"):
        parts.parse({"name": 3})


def test_a_name_and_a_map_of_it_are_the_same_choice():
    assert parts.parse("plain") == parts.parse({"name": "plain"}) == parts.parse(parts.parse("plain"))


def test_a_choice_of_another_slot_is_refused():
    with pytest.raises(ValueError, match="expected the name of a part"):
        parts.parse(shapes.parse("round"))


def test_options_reach_the_variant_and_the_others_keep_their_defaults():
    built = parts.build({"name": "grouped", "n_groups": 3, "eps": 1}, 7)
    assert isinstance(built, Grouped)
    assert (built.d_model, built.n_groups, built.eps, built.bias) == (7, 3, 1.0, True)


def test_a_list_is_cycled_over_the_layers():
    choice = grouped(window=[None, 5, 7], eps=(1, 2))
    assert [choice.at(layer).option("window") for layer in range(5)] == [None, 5, 7, None, 5]
    assert [choice.at(layer).option("eps") for layer in range(3)] == [1.0, 2.0, 1.0]
    assert choice.at(1).option("n_groups") == 2


def test_an_option_that_is_a_list_by_nature_is_not_cycled():
    assert grouped(widths=[3, 5]).at(1).option("widths") == (3, 5)


def test_a_list_inside_the_choice_of_an_option_is_cycled():
    choice = grouped(shape={"name": "round", "radius": [1, 2]})
    assert [choice.at(layer).option("shape").option("radius") for layer in range(3)] == [1.0, 2.0, 1.0]
    choices = grouped(shape=["round", {"name": "round", "radius": [2, 3]}])
    assert choices.at(1).option("shape").option("radius") == 3.0


def test_an_empty_list_cannot_be_cycled():
    with pytest.raises(ValueError, match=r"decoder\.part\.window: an empty list cannot be cycled over layers"):
        grouped(window=[])


def test_a_list_is_refused_where_nothing_is_cycled():
    with pytest.raises(ValueError, match=r"part 'grouped': window: expected one value, not a list, got \[3, 5\]"):
        grouped(window=[3, 5]).build(7)


def test_each_value_of_a_cycled_list_is_checked():
    with pytest.raises(ValueError, match=r"decoder\.part\.window\[1\]: expected a whole number or null, got 'far'"):
        grouped(window=[3, "far"])


def test_inherited_values_fill_only_what_the_variant_has_and_was_not_given():
    choice = grouped(eps=0.5).inherit(eps=0.1, bias=False, dropout=0.3)
    assert (choice.option("eps"), choice.option("bias"), "dropout" in choice.options) == (0.5, False, False)


def test_an_option_not_given_is_the_default_of_the_signature():
    assert grouped().option("eps") == 1e-5


def test_a_choice_is_written_as_it_was_read():
    shape = {"name": "round", "radius": 2.0}
    written = {"name": "grouped", "n_groups": 2, "window": [None, 5], "widths": [3], "shape": shape}
    assert parts.parse(written).plain() == written
    assert parts.parse({"name": "plain"}).plain() == "plain"
    assert plain({"a": (1, parts.parse("plain"))}) == {"a": [1, "plain"]}


REFUSED: list[tuple[Any, Any, str]] = [
    (True, int, "here: expected a whole number, got True"),
    (1.0, int, "here: expected a whole number, got 1.0"),
    ("1", int, "here: expected a whole number, got '1'"),
    (None, int, "here: expected a whole number, got None"),
    (True, float, "here: expected a number, got True"),
    ("1e-6", float, "here: expected a number, got '1e-6'"),
    (float("nan"), float, "here: expected a finite number, got nan"),
    (float("-inf"), float, "here: expected a finite number, got -inf"),
    (10**400, float, "here: expected a finite number, got 1000"),
    (1, bool, "here: expected true or false, got 1"),
    ("no", bool, "here: expected true or false, got 'no'"),
    (3, str, "here: expected a text, got 3"),
    ("x", int | None, "here: expected a whole number or null, got 'x'"),
    ([1], int | str, r"here: expected a whole number or a text, got \[1\]"),
    (3, list[int], "here: expected a list, got 3"),
    ("abc", tuple[str, ...], "here: expected a list, got 'abc'"),
    ([1, "x"], list[int], r"here\[1\]: expected a whole number, got 'x'"),
    ([1, "x"], list[int] | None, r"here\[1\]: expected a whole number, got 'x'"),
    ([0.9], tuple[float, float], r"here: expected a list of 2 values, got \[0.9\]"),
    ([1], dict[str, int], r"here: expected a map, got \[1\]"),
    ({"a": "x"}, dict[str, int], r"here\.a: expected a whole number, got 'x'"),
    ({3: 1}, Mapping[str, int], "here: expected a text, got 3; write the key in quotes: '3'"),
    (None, Mapping[str, Any], "here: expected a map, got None"),
    ("atuo", Literal["auto", "off"], r"here: unknown value 'atuo' \(did you mean 'auto'\?\); allowed: auto, off"),
    (True, Literal[1, 2], "here: expected 1 or 2, got True"),
    ("1", Literal[1, 2], "here: expected 1 or 2, got '1'"),
    (1.5, Literal["auto"] | int, "here: expected 'auto' or a whole number, got 1.5"),
    ("rond", Annotated[Choice[Part], shapes], r"here: unknown shape 'rond' \(did you mean 'round'\?\)"),
    ("rond", Annotated[Choice[Part], shapes] | None, r"here: unknown shape 'rond' \(did you mean 'round'\?\)"),
    ("x", Annotated[int, "tokens"], "here: expected a whole number, got 'x'"),
]


@pytest.mark.parametrize(("value", "annotation", "message"), REFUSED)
def test_a_value_of_the_wrong_type_is_refused(value: Any, annotation: Any, message: str):
    with pytest.raises(ValueError, match=f"^{message}"):
        check(value, annotation, "here")


ACCEPTED: list[tuple[Any, Any, Any]] = [
    (3, float, 3.0),
    (3, int | float, 3),
    (None, int | None, None),
    ([1, 2], tuple[float, float], (1.0, 2.0)),
    ([1, 2, 3], tuple[int, ...], (1, 2, 3)),
    ((1, 2), list[int], [1, 2]),
    ([], list[int], []),
    ([1, "a"], list, [1, "a"]),
    ({"a": [1]}, Mapping[str, Any], {"a": [1]}),
    ({"a": 1}, dict, {"a": 1}),
    ({"a": 1}, Mapping, {"a": 1}),
    (2, Literal[1, 2], 2),
    (object, Any, object),
    ("x", Annotated[str, "a unit"], "x"),
]


@pytest.mark.parametrize(("value", "annotation", "expected"), ACCEPTED)
def test_a_value_of_the_right_type_is_taken(value: Any, annotation: Any, expected: Any):
    checked = check(value, annotation, "here")
    assert checked == expected
    assert type(checked) is type(expected)


@pytest.mark.parametrize("annotation", [list, tuple[int, ...], list[int] | None, Annotated[list[int], "widths"], Any])
def test_a_list_is_kept_where_the_annotation_is_a_list(annotation: Any):
    assert not isinstance(check_cycled([1, 2], annotation, "here"), PerLayer)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT | st.integers(), inner),
    max_leaves=8,
)


@given(values, st.sampled_from([annotation for _, annotation, _ in REFUSED + ACCEPTED]))
def test_any_value_is_taken_or_refused_with_its_place(value: Any, annotation: Any):
    try:
        check_cycled(value, annotation, "here")
    except ValueError as refusal:
        assert str(refusal).startswith("here")


def test_sizes_are_numbers_of_any_library():
    refuse_below(1, d_model=np.int64(3), window=None, share=1.5)
    for wrong in (np.int64(0), "x"):
        with pytest.raises(ValueError, match="d_model must be at least 1, got"):
            refuse_below(1, d_model=wrong)
