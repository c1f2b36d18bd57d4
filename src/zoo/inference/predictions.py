"""What a model says of each row of a split, as a file: one JSON line a row, in the order of the data."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.disk import refuse_unwritable, settle_output, written_aside
from zoo.inference.gathered import About
from zoo.inference.loaded import refuse_not_finite
from zoo.inference.predict import numbers_in
from zoo.inference.predictors.predictor import first_predictor

BEGINNING, MOST = re.compile(rb'\{"row": \d+, "input": '), 64  # of every line, and bytes that it may take


def check_file(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done for it.

    Raises:
        ValueError: as `settle_output`, or it holds something else, such as the data.
    """
    settled = settle_output(path, "predictions.jsonl")
    if path.is_file() and not holds_predictions(path):
        raise ValueError(f"{path}: exists and does not hold predictions; name another file")
    refuse_unwritable(settled)


def holds_predictions(path: Path) -> bool:
    """Whether a file begins as `write_predictions` does, or is empty: it may be replaced."""
    with path.open("rb") as file:
        begins = file.read(MOST)
    return not begins or BEGINNING.match(begins) is not None


def write_predictions(path: Path, about: About, kept: Mapping[int, Sequence[Any]]) -> None:
    """Write the file; where there is one, it is replaced once the new one is whole.

    Args:
        kept: by document, what its examples showed.

    Raises:
        OSError: it cannot be written.
    """
    with written_aside(path.resolve()) as aside, aside.open("w", encoding="utf-8") as file:  # a link goes on naming it
        for line in told(about, kept):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def told(about: About, kept: Mapping[int, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """By row: its number in its file, from 1, what the model was given and what it says, and what the data says.

    Raises:
        RuntimeError: the model's scores are not finite; of rows without a label no loss has told it.
    """
    predictor = first_predictor(about.loaded)
    form, rows, numbers = about.examples.form, about.split.rows, about.split.kept
    for document in sorted(kept):
        given = form.given(rows[document])
        said = predictor.tell(about, document, kept[document])
        refuse_not_finite(numbers_in(said.scores))
        place = {"row": int(numbers[document]) + 1, "input": given[0] if len(given) == 1 else given or None}
        yield place | {"output": said.output, "scores": said.scores, "expected": said.expected}
