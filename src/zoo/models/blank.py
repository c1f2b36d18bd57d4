"""A model with uninitialized parameters, to be filled from a checkpoint or asked for its sizes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from zoo.models.model import Model
from zoo.models.settings import ModelSettings

OVERFLOW_MESSAGES = ("Storage size calculation overflowed", "Overflow when unpacking long")  # in torch's error messages
INITIALIZERS = ("normal_", "uniform_", "kaiming_uniform_")  # torch's modules initialize parameters with them


class SkipInitialization(TorchFunctionMode):
    """Skips the random initialization of tensors.

    For 124M parameters it takes half a second; on the meta device two, since torch imports its compiler for it.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if getattr(func, "__name__", "") in INITIALIZERS:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def blank(settings: ModelSettings, device: str = "cpu") -> Model:
    """Build a model with uninitialized parameters, in float32 whatever torch's default dtype is.

    Raises:
        ValueError: settings that do not combine, or a parameter whose bytes 64 bits cannot count.
    """
    with refuse_too_large(), torch.device(device), SkipInitialization():
        return Model(settings).float()


@contextmanager
def refuse_too_large() -> Iterator[None]:
    """Replace torch's error about a parameter too large to allocate, a C++ stack trace, by one line.

    Raises:
        ValueError: a parameter has more bytes than 64 bits can count.
    """
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if any(said in str(error) for said in OVERFLOW_MESSAGES):
            raise ValueError("the model is too large: a parameter has more bytes than 64 bits can count") from None
        raise
