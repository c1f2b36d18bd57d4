"""Error messages for callers from Python, where a command's flags are arguments: `--device` becomes `device`."""

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
# a flag, or quoted text (a command, a path, the caller's own words), which is left as it is
FLAG = re.compile(r"(?<!\w)'[^']*'(?!\w)|`[^`]*`|(?<![^\s(])--(?:set )?(?=[a-z])")


def for_python(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function so that its error messages name Python arguments instead of flags."""

    @functools.wraps(function)
    def called(*words: P.args, **options: P.kwargs) -> T:
        try:
            return function(*words, **options)
        except (ValueError, RuntimeError) as error:
            error.args = tuple(without_flags(part) if isinstance(part, str) else part for part in error.args)
            raise

    return called


def without_flags(message: str) -> str:
    """Remove the dashes of flags from a message."""
    return FLAG.sub(lambda found: "" if found[0].startswith("--") else found[0], message)
