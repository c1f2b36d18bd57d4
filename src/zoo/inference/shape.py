"""The capacity of the rows, and the lengths of the examples, that a model reads for a task."""

from zoo.batches.packing import RowShape
from zoo.data.task import Task
from zoo.models.model import Model


def row_shape(task: Task, model: Model) -> RowShape:
    """The capacity of a task's rows; no example is longer than the model reads, and an image is one position."""
    row, example = task.row_length, task.example_length
    longest = min(example.target, model.stream.max_length)
    if model.stream.image_size is not None:
        return RowShape(1, pack=False)
    if model.encoder is None or model.decoder is None:
        return RowShape(row.target, longest=longest, pack=task.pack)
    if model.encoder.image_size is not None:
        return RowShape(row.target, 1, longest, pack=False)
    return RowShape(row.target, row.source, longest, min(example.source, model.encoder.max_length), task.pack)
