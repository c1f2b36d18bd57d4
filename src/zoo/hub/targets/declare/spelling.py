"""How messages spell settings and parts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def name_parts(sides: Sequence[str] | Mapping[str, Any]) -> str:
    """Name parts with their articles: 'an encoder and a decoder', 'a decoder alone'."""
    named = [f"{'an' if side[0] in 'aeiou' else 'a'} {side}" for side in sides]
    return " and ".join(named) if len(named) > 1 else f"{named[0]} alone"


def join_values(values: Sequence[Any], between: str = ", ") -> str:
    """Join the distinct values, spelled as in config files."""
    return between.join(dict.fromkeys(map(spell_value, values)))


def spell_value(value: Any) -> str:
    """Spell a value as config files do."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple):
        return " ".join(map(spell_value, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def format_heads(classes: Iterable[Any]) -> str:
    """List the heads of several native classes; a head that no class has alone is named with the heads beside it."""
    tables = [tuple(known.heads) for known in classes]
    alone = {table[0] for table in tables if len(table) == 1}
    found = []
    for table in tables:
        for head in table:
            beside = " and ".join(other for other in table if other != head)
            found.append(head if head in alone else f"{head} beside {beside}")
    return join_values(found, " or ")
