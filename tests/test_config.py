"""Strict YAML, shipped names, `base:`, and `--set`."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_text import TEXT
from zoo import config
from zoo.cli.commands.listing import description
from zoo.config import find, merge, names, nest, parse_set, read_with_base
from zoo.strict_yaml import parse_yaml, read_yaml, to_yaml


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of configs that stands for the shipped one."""
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "tiny.yaml").write_text("# configs/tiny.yaml: the smallest\nd_model: 4\ndecoder: {n_layers: 2}\n")
    (folder / "wide.yaml").write_text("# wider\nbase: tiny\nd_model: 8\n")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "topics.yaml").write_text("objective: {classification: {}}\n")
    monkeypatch.setattr(config, "folder", lambda kind: tmp_path / kind)
    monkeypatch.chdir(tmp_path)
    return folder


YAML = [
    ("1e-6", 1e-6),
    ("-2.5E+3", -2500.0),
    ("1.e5", 1e5),
    (".5", 0.5),
    ("1_000", 1000),
    ("0x1F", 31),
    ("010", "010"),
    ("12:30", "12:30"),
    ("2024-01-01", "2024-01-01"),
    ("[yes, no, on, off]", ["yes", "no", "on", "off"]),
    ("[true, False, null, ~]", [True, False, None, None]),
    ("", None),
    ("{3: x}", {3: "x"}),
    ("{a:b: '', 'c:d': , e: }", {"a:b": "", "c:d": None, "e": None}),
]


@pytest.mark.parametrize(("text", "value"), YAML)
def test_a_word_means_what_it_looks_like(text: str, value: Any):
    assert parse_yaml(text, "here") == value


BAD_YAML = [
    ("a: 1\na: 2", "here: line 2: key 'a' is written twice"),
    ("a: {b: 1, c:2}", "here: line 1: 'c:2' has no value; write a space after the colon"),
    ("b: {a: 1, a: 1}", "here: line 1: key 'a' is written twice"),
    ("a: &x [1]\nb: *x", r"here: line 2: aliases \(\*name\) are not allowed"),
    ("a: !!python/object/apply:os.system [ls]", "here: line 1: tags"),
    ("a: !!set {b}", "here: line 1: tags"),
    ("a: !mine 1", r"here: line 1: tags \(!name\) are not allowed, got '!mine'"),
    ("true: 1", "here: line 1: a key must be a text, got True"),
    ("? [a]\n: 1", r"here: line 1: a key must be a text, got \['a'\]"),
    ("a: b: c", "here: line 1: mapping values are not allowed here"),
    ("a: [1", "here: line 1: "),
    ("a: 1\n---\nb: 2", "here: line 2: "),
    ("a: \x00", "here: unacceptable character"),
    ("[" * 400, "here: nested too deeply"),  # of more, yaml looks at each square of them
]


@pytest.mark.parametrize(("text", "message"), BAD_YAML)
def test_what_is_not_plain_data_is_refused_with_its_line(text: str, message: str):
    with pytest.raises(ValueError, match=f"^{message}") as refusal:
        parse_yaml(text, "here")
    assert "\n" not in str(refusal.value)


def test_aliases_cannot_blow_up():
    bomb = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    with pytest.raises(ValueError, match="line 2: aliases"):
        parse_yaml(bomb, "here")


@given(TEXT)
def test_any_text_is_read_or_refused_with_its_place(text: str):
    try:
        parse_yaml(text, "here")
    except ValueError as refusal:
        assert str(refusal).startswith("here:")


data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT | st.integers(), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.dictionaries(TEXT, data))
def test_what_is_written_reads_back(tree: dict[str, Any]):
    assert parse_yaml(to_yaml(tree), "here") == tree


@pytest.mark.parametrize("text", ["1e-6", "yes", "12:30", "010", "1_000", "null", "~", "é\x85", " a\n", "*a", "="])
def test_a_text_that_looks_like_something_else_reads_back_as_a_text(text: str):
    shared = [text]
    assert parse_yaml(to_yaml({"a": shared, "b": shared}), "here") == {"a": [text], "b": [text]}


def test_keys_are_written_in_their_order():
    assert to_yaml({"b": 1, "a": [1, 2]}) == "b: 1\na:\n- 1\n- 2\n"


def test_a_byte_order_mark_is_read_over(tmp_path: Path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbf# a.yaml: for tests\na: 1\n")
    assert read_yaml(path) == {"a": 1}
    assert description(path) == "for tests"


BAD_FILES = [
    (b"", "a.yaml: expected a map of keys to values, got nothing"),
    (b"# only a comment\n", "a.yaml: expected a map of keys to values, got nothing"),
    (b"- 1\n", "a.yaml: expected a map of keys to values, got a list"),
    (b"a: \xff\n", "a.yaml: not UTF-8 text: invalid start byte at byte 3"),
    (b"a: 1\n" * 200_001, "a.yaml: larger than 1000000 bytes, which zoo does not read"),
]


@pytest.mark.parametrize(("content", "message"), BAD_FILES, ids=["empty", "comment", "list", "bytes", "huge"])
def test_a_file_that_holds_no_map_is_refused(content: bytes, message: str, tmp_path: Path):
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_yaml(tmp_path / "a.yaml")


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path):
    with pytest.raises(ValueError, match=r"b\.yaml: no such file"):
        read_yaml(tmp_path / "b.yaml")
    with pytest.raises(ValueError, match="not a file"):
        read_yaml(tmp_path)


def test_a_shipped_name_and_a_path_are_found(shipped: Path):
    assert names("configs") == ["tiny", "wide"]
    assert find("tiny", "configs") == shipped / "tiny.yaml"
    assert find("configs/tiny.yaml", "configs") == Path("configs/tiny.yaml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tinny", r"unknown model 'tinny' \(did you mean 'tiny'\?\); known: tiny, wide; or give a path to"),
        ("", "unknown model ''; known: tiny, wide"),
        ("topics", "topics: a task, where a model is expected$"),
        ("x" * 5000, "unknown model 'xxx"),
        ("a\x00b", "unknown model 'a"),
        ("~nobody-of-this-name/a.yaml", "no such file"),
        ("configs/tinny.yaml", r"configs/tinny\.yaml: no such file \(did you mean 'tiny'\?\)"),
        ("./configs", r"\./configs: not a file"),
    ],
)
def test_a_name_that_is_nothing_is_answered_with_the_nearest(name: str, message: str, shipped: Path):
    with pytest.raises(ValueError, match=f"^{message}" if not name.startswith("~") else message):
        find(name, "configs")


def test_what_a_file_is_for_is_its_first_comment(shipped: Path):
    assert description(shipped / "tiny.yaml") == "the smallest"
    (shipped / "none.yaml").write_text("a: 1\n")
    assert description(shipped / "none.yaml") == ""


def test_a_base_is_laid_under_the_file(shipped: Path):
    assert read_with_base(str(shipped / "wide.yaml"), "configs") == {"d_model": 8, "decoder": {"n_layers": 2}}


def test_a_base_may_be_a_file_beside_it_and_have_a_base(shipped: Path, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("base: wide\ndecoder: {window: 3}\n")
    (tmp_path / "more.yaml").write_text("base: mine.yaml\ndecoder: {n_layers: 5}\n")
    tree = read_with_base(str(tmp_path / "more.yaml"), "configs")
    assert tree == {"d_model": 8, "decoder": {"n_layers": 5, "window": 3}}


def test_a_file_beside_it_hides_no_shipped_base(shipped: Path, tmp_path: Path):
    (tmp_path / "wide").write_text("notes: none\n")
    (tmp_path / "mine.yaml").write_text("base: wide\n")
    assert read_with_base(str(tmp_path / "mine.yaml"), "configs") == read_with_base("wide", "configs")


@pytest.mark.parametrize("written", ["b.yaml", "../loop/b.yaml"])
def test_files_that_name_each_other_are_refused(written: str, tmp_path: Path):
    folder = tmp_path / "loop"
    folder.mkdir()
    (folder / "a.yaml").write_text(f"base: {written}\n")
    (folder / "b.yaml").write_text("base: ../loop/a.yaml\n")
    with pytest.raises(ValueError, match=r"base: the files a\.yaml, b\.yaml form a cycle"):
        read_with_base(str(folder / "a.yaml"), "configs")


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("[tiny]", r"base: expected a name or a path, got \['tiny'\]"),
        ("tinny", r"base: unknown model 'tinny' \(did you mean 'tiny'\?\)"),
    ],
)
def test_a_wrong_base_is_refused_with_the_file_that_names_it(base: str, message: str, shipped: Path):
    (shipped / "mine.yaml").write_text(f"base: {base}\n")
    with pytest.raises(ValueError, match=rf"mine\.yaml: {message}"):
        read_with_base(str(shipped / "mine.yaml"), "configs")


MERGES: list[tuple[Any, Any, Any]] = [
    ({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"c": 3}}, {"a": 1, "b": {"c": 3, "d": 2}}),
    ({"a": [1, 2, 3]}, {"a": [4]}, {"a": [4]}),
    ({"a": {"b": 1}}, {"a": None}, {"a": None}),
    ({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ({"a": 3}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ("full", {"d_key": 32}, {"name": "full", "d_key": 32}),
    ({"name": "full", "d_key": 32}, "full", {"name": "full", "d_key": 32}),
    ({"name": "full", "d_key": 32}, {"name": "full", "bias": False}, {"name": "full", "d_key": 32, "bias": False}),
    ({"name": "full", "d_key": 32}, "grouped", "grouped"),
    ({"name": "full", "d_key": 32}, {"name": "grouped", "bias": False}, {"name": "grouped", "bias": False}),
    ("full", {"name": "grouped", "bias": False}, {"name": "grouped", "bias": False}),
    ({"kind": "transformer", "d_ff": 8}, {"kind": "recurrent"}, {"kind": "recurrent"}),
    ({"d_key": 32}, {"name": "full"}, {"d_key": 32, "name": "full"}),
    ({"first": {}, "second": {}}, "first", "first"),
]


@pytest.mark.parametrize(("below", "above", "merged"), MERGES)
def test_values_are_laid_over_one_another(below: Any, above: Any, merged: Any):
    assert merge(below, above) == merged


@given(data, data)
def test_merging_changes_neither_value_and_laying_over_again_changes_nothing(below: Any, above: Any):
    before = (repr(below), repr(above))
    merged = merge(below, above)
    assert (repr(below), repr(above)) == before
    assert merge(merged, above) == merged


SETS = [
    ("training.steps=1000", ("training", "steps"), 1000),
    ("learning_rate=3e-4", ("learning_rate",), 3e-4),
    ("norm={name: rmsnorm, eps: 1e-6}", ("norm",), {"name": "rmsnorm", "eps": 1e-6}),
    ("window=[null, 5]", ("window",), [None, 5]),
    (" a . b = c ", ("a", "b"), "c"),
    ("a=null", ("a",), None),
    ("a=~", ("a",), None),
    ("a=''", ("a",), ""),
    ("a=b=c", ("a",), "b=c"),
]


@pytest.mark.parametrize(("text", "path", "value"), SETS)
def test_a_setting_is_a_path_and_a_value(text: str, path: tuple[str, ...], value: Any):
    assert parse_set(text) == (path, value)


@pytest.mark.parametrize("text", ["steps", "=3", "a..b=3", ".a=3", "a=", "a=  ", "a=# nothing", ""])
def test_a_setting_of_another_form_is_refused(text: str):
    with pytest.raises(ValueError, match="expected key=value, such as training.steps=1000"):
        parse_set(text)


def test_a_setting_whose_value_is_no_yaml_is_refused():
    with pytest.raises(ValueError, match=r"--set a\.b: line 1: key 'x' is written twice"):
        parse_set("a.b={x: 1, x: 2}")


def test_a_value_is_nested_under_its_path():
    assert nest(("a", "b"), 1) == {"a": {"b": 1}}
    assert nest((), 1) == 1
