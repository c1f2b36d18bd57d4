"""Errors for callers from Python: what is a flag of a command is an argument there."""

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
FLAG = re.compile(r"--(set )?(?=[a-z])")


def for_python(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose errors name arguments as Python has them: `device`, where a command has `--device`."""

    @functools.wraps(function)
    def called(*words: P.args, **options: P.kwargs) -> T:
        try:
            return function(*words, **options)
        except (ValueError, RuntimeError) as error:
            error.args = tuple(FLAG.sub("", part) if isinstance(part, str) else part for part in error.args)
            raise

    return called
