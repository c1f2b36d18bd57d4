"""A model whose parameters nobody has drawn: it is to be filled from a checkpoint, or asked for its sizes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from zoo.models.model import Model
from zoo.models.settings import ModelSettings

BEYOND = ("Storage size calculation overflowed", "Overflow when unpacking long")  # what torch says
DRAW = ("normal_", "uniform_", "kaiming_uniform_")  # what torch's own modules draw their first parameters with


class Undrawn(TorchFunctionMode):
    """Leaves tensors as they are where random numbers would be written into them.

    They cost half a second of 124M parameters, and on the meta device two: torch imports its compiler for them.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if getattr(func, "__name__", "") in DRAW:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def blank(settings: ModelSettings, device: str = "cpu") -> Model:
    """A model of these settings, with anything in its parameters: of float32, whatever torch's default type is.

    Raises:
        ValueError: settings that do not combine, or a parameter that no memory of 64 bits holds.
    """
    with refuse_too_large(), torch.device(device), Undrawn():
        return Model(settings).float()


@contextmanager
def refuse_too_large() -> Iterator[None]:
    """Refuse parameters that torch cannot count the bytes of, in one line in the place of its C++ stack.

    Raises:
        ValueError: there is one.
    """
    try:
        yield
    except (RuntimeError, TypeError) as error:
        if any(said in str(error) for said in BEYOND):
            raise ValueError("the model is too large: a parameter has more bytes than 64 bits can count") from None
        raise
