"""Errors for callers from Python: what is a flag of a command is an argument there."""

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
# a flag that stands by itself, or what is quoted: a command, a path, or words of the caller's
FLAG = re.compile(r"(?<!\w)'[^']*'(?!\w)|`[^`]*`|(?<![^\s(])--(?:set )?(?=[a-z])")


def for_python(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose errors name arguments as Python has them: `device`, where a command has `--device`."""

    @functools.wraps(function)
    def called(*words: P.args, **options: P.kwargs) -> T:
        try:
            return function(*words, **options)
        except (ValueError, RuntimeError) as error:
            error.args = tuple(in_python(part) if isinstance(part, str) else part for part in error.args)
            raise

    return called


def in_python(message: str) -> str:
    """A message without the dashes of flags."""
    return FLAG.sub(lambda found: "" if found[0].startswith("--") else found[0], message)
