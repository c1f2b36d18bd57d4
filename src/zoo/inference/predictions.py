"""A file of predictions for a split: one JSON line per row, in the order of the data."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.disk import atomic_write, refuse_unwritable, resolve_output
from zoo.inference.loaded import refuse_not_finite
from zoo.inference.metric_inputs import EvaluatedSplit
from zoo.inference.predict import numeric_scores
from zoo.inference.predictors.predictor import first_predictor

LINE_START, START_BYTES = re.compile(rb'\{"row": \d+, "input": '), 64  # the start of every line, and its most bytes


def check_predictions_file(path: Path) -> None:
    """Refuse a predictions file that cannot be written, before the work starts.

    Raises:
        ValueError: as `resolve_output`; or it cannot be written, or holds something else, such as the data.
    """
    settled = resolve_output(path, "predictions.jsonl")
    if path.is_file() and not holds_predictions(path):
        raise ValueError(f"{path}: exists and does not hold predictions; name another file")
    refuse_unwritable(settled)


def holds_predictions(path: Path) -> bool:
    """Whether a file may be replaced: it is empty, or begins like a file of `write_predictions`."""
    with path.open("rb") as file:
        begins = file.read(START_BYTES)
    return not begins or LINE_START.match(begins) is not None


def write_predictions(path: Path, evaluated: EvaluatedSplit, collected: Mapping[int, Sequence[Any]]) -> None:
    """Write the file; an existing one is replaced only when the new one is complete.

    Args:
        collected: by document, what the predictor collected of its examples (`collect_results`), or the generated text.

    Raises:
        OSError: it cannot be written.
    """
    with atomic_write(path.resolve()) as aside, aside.open("w", encoding="utf-8") as file:  # resolved, to keep a link
        for line in prediction_rows(evaluated, collected):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def prediction_rows(evaluated: EvaluatedSplit, collected: Mapping[int, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield, per row, its number in its file, from 1, the model's input, output and scores, and the expected output.

    Raises:
        RuntimeError: scores are not finite; rows without a label have no loss that would have shown this before.
    """
    predictor = first_predictor(evaluated.loaded)
    form, rows, numbers = evaluated.examples.form, evaluated.split.rows, evaluated.split.row_numbers
    for document in sorted(collected):
        given = form.model_inputs(rows[document])
        prediction = predictor.row_prediction(evaluated, document, collected[document])
        refuse_not_finite(numeric_scores(prediction.scores))
        place = {"row": int(numbers[document]) + 1, "input": given[0] if len(given) == 1 else given or None}
        yield place | {"output": prediction.output, "scores": prediction.scores, "expected": prediction.expected}
