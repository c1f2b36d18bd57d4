"""A model of which copies cost little: Python's C code reads what it wrote, but for the tensors, which are copied."""

import copy
import io
import pickle
from typing import Any

from torch import Tensor

from zoo.models.model import Model


class Writer(pickle.Pickler):
    """Keeps tensors aside, which torch would write slowly."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors: dict[int, Tensor] = {}

    def persistent_id(self, thing: Any) -> int | None:
        if not isinstance(thing, Tensor):
            return None
        self.tensors[id(thing)] = thing
        return id(thing)


class Reader(pickle.Unpickler):
    """Puts copies of the tensors in."""

    def __init__(self, file: io.BytesIO, tensors: dict[int, Tensor]) -> None:
        super().__init__(file)
        self.tensors = copy.deepcopy(tensors)

    def persistent_load(self, number: int) -> Tensor:
        return self.tensors[number]


class Written:
    """A model as it was when it was written."""

    def __init__(self, model: Model) -> None:
        writer = Writer(file := io.BytesIO())
        writer.dump(model)
        self.text, self.tensors = file.getvalue(), writer.tensors

    def read(self) -> Model:
        """A copy of its own, in a seventh of the time of `copy.deepcopy`."""
        model: Model = Reader(io.BytesIO(self.text), self.tensors).load()
        return model
