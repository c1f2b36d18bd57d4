"""Columns of classes by number, as `datasets` describes them in Parquet files and for repositories (`ClassLabel`)."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow

METADATA = b"huggingface"  # the key of a Parquet file's metadata that `datasets` describes the columns under


def class_features(schema: pyarrow.Schema) -> dict[str, list[str]]:
    """Column -> the names of the classes 0, 1, ..., for a Parquet file's columns of numbers or of lists of them.

    A column that has other values by now, such as texts, is left out, and so is a description that cannot be read.
    """
    try:
        described = json.loads((schema.metadata or {}).get(METADATA, b"{}"))
    except (ValueError, RecursionError):
        return {}
    match described:
        case {"info": {"features": dict(features)}}:
            kinds = kinds_in(schema)
            named = names_in(features)
            return {column: names for column, names in named.items() if column in kinds and is_integer(kinds[column])}
    return {}


def kinds_in(fields: Iterable[pyarrow.Field], above: str = "") -> dict[str, pyarrow.DataType]:
    """Column -> its type; `a.b` is the field `b` of the column `a`."""
    found = dict[str, Any]()
    for field in fields:
        found[above + field.name] = field.type
        if pyarrow.types.is_struct(field.type):
            found |= kinds_in(field.type, f"{above}{field.name}.")
    return found


def names_in(features: Mapping[str, Any], above: str = "") -> dict[str, list[str]]:
    """Column -> the names of its classes, from a description as `Features.to_dict` of `datasets` gives it.

    `a.b` is the field `b` of the column `a`.
    """
    found = dict[str, Any]()
    for column, feature in features.items():
        if isinstance(feature, dict) and not isinstance(feature.get("_type"), str):
            found |= names_in(feature, f"{above}{column}.")
        elif names := names_of(feature):
            found[above + column] = names
    return found


def names_of(feature: Any) -> list[str]:
    """The names of the classes of a column, or of the lists that it holds; empty if it has none, or names two alike."""
    match feature:
        case {"_type": "ClassLabel", "names": [*names]} if all(isinstance(n, str) and n.strip() for n in names):
            return list(names) if len(set(names)) == len(names) else []
        case {"_type": "List" | "LargeList" | "Sequence", "feature": inner} | [inner]:
            return names_of(inner)
    return []


def is_integer(kind: pyarrow.DataType) -> bool:
    """Whether values are whole numbers, or lists of them."""
    types = pyarrow.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return is_integer(kind.value_type)
    return bool(types.is_integer(kind))
