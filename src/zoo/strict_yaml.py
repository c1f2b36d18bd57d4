"""Strict YAML: data only, no repeated keys, and YAML 1.2's meaning of plain words."""

import copy
import functools
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

Tree = dict[str, Any]
MAX_BYTES = 1_000_000


class StrictLoader(yaml.SafeLoader):
    """YAML that holds data only: no aliases, no tags, no repeated keys.

    Plain words follow YAML 1.2: `yes`, `on`, `12:30`, `010` and dates are strings. `1e-6` is a number.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"line {line}: aliases (*name) are not allowed")
        if getattr(event, "tag", None) is not None:
            raise ValueError(f"line {line}: tags (!name) are not allowed, got '{event.tag}'")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if type(key) not in (str, int):
                raise ValueError(f"line {line}: a key must be a text, got {key!r}")
            unwritten = value_node.value == "" and value_node.style is None
            if unwritten and key_node.style is None and ":" in str(key):  # as in `{name:rmsnorm}`
                raise ValueError(f"line {line}: '{key}' has no value; write a space after the colon")
            if key in seen:
                raise ValueError(f"line {line}: key '{key}' is written twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


class StrictDumper(yaml.SafeDumper):
    """Writes YAML that StrictLoader reads back as the same values."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        escaped = not text.isprintable()  # line breaks in plain and single-quoted text would be folded
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if escaped else None)


EXPONENT = r"[-+]?(?:[0-9][0-9_]*\.?|[0-9][0-9_]*\.[0-9_]+|\.[0-9][0-9_]*)[eE][-+]?[0-9]+"
FLOAT = rf"{EXPONENT}|[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)"
for kind, pattern, first in (
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", "true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)", list("-+0123456789")),
    ("float", FLOAT, list("-+.0123456789")),
):
    StrictLoader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"^(?:{pattern})$"), first)
StrictDumper.add_representer(str, StrictDumper.represent_text)
# in addition to YAML 1.1's rules: a string that either version would misread is written in quotes
StrictDumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"^(?:{FLOAT})$"), list("-+.0123456789"))
load = functools.lru_cache(maxsize=256)(functools.partial(yaml.load, Loader=StrictLoader))


def parse_yaml(text: str, place: str) -> Any:
    """Parse one YAML document that holds data only.

    Raises:
        ValueError: it is not YAML, repeats a key, or uses tags or aliases.
    """
    try:
        return copy.deepcopy(load(text))  # 40 times as fast as parsing again
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise ValueError(f"{place}:{line} {' '.join(str(problem).split())}") from None
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    except RecursionError:
        raise ValueError(f"{place}: nested too deeply") from None


def read_yaml(path: Path) -> Tree:
    """Read a YAML file that holds one map of at most `MAX_BYTES`.

    Raises:
        ValueError: not a readable file, not UTF-8, too large, or not a map.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path}: not a file")
        if found.st_size > MAX_BYTES:
            raise ValueError(f"{path}: larger than {MAX_BYTES} bytes, which zoo does not read")
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from None
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{path}: no such file") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    tree = parse_yaml(text, str(path))
    if not isinstance(tree, dict):
        got = "nothing" if tree is None else f"a {type(tree).__name__}"
        raise ValueError(f"{path}: expected a map of keys to values, got {got}")
    return tree


def to_yaml(tree: Mapping[str, Any]) -> str:
    """A map as YAML text, keys in their order."""
    return yaml.dump(dict(tree), Dumper=StrictDumper, sort_keys=False, allow_unicode=True, width=120)
