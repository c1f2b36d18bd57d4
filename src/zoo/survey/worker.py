"""A process that surveys some parts of a task's source: `python -m zoo.survey.worker REQUEST NUMBER COUNT`.

It locates the parts itself, from the request, and imports only what reading them needs.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from zoo.data.home import explain_write_error
from zoo.data.processes import LARGE, end_with_caller, processes_for, run_together
from zoo.data.sources.request import RowsRequest
from zoo.data.sources.rows import SplitRows
from zoo.survey.rows import SourceSurvey

WORKER = "zoo.survey.worker"
SEEN = "seen.json"


@dataclass(frozen=True)
class SurveyRequest(RowsRequest):
    """What a worker process needs to survey its share of a task's parts.

    Args:
        folder: an empty folder, in which each process writes its statistics to a sub-folder.
    """

    folder: str


def survey_rows(rows: Mapping[str, SplitRows], asked: RowsRequest, folder: Path) -> SourceSurvey:
    """Survey all rows of a task's source, in several processes if there is much to read.

    Args:
        asked: the request by which these processes find `rows`.
        folder: an empty folder.
    """
    (folder / "rows").mkdir()
    source = SourceSurvey(rows, folder / "rows")
    every = range(len(source.parts))
    count = processes_for(len(every)) if source.size >= LARGE else 1
    if count < 2:
        source.read(every)
        return source
    request = SurveyRequest(**vars(asked), folder=str(folder))
    run_together(WORKER, asdict(request), count)
    places = {number: folder / str(number) for number in range(count)}
    seen = {number: place for number, place in places.items() if (place / SEEN).exists()}
    # a process without a result most likely met an unreadable part: reading it here raises the error with its message
    source.read([number for number in every if number % count not in seen])
    source.join({place: json.loads((place / SEEN).read_text("utf-8")) for place in seen.values()})
    return source


def main(request: str, number: str, count: str) -> None:
    """Survey every COUNT-th part, starting at NUMBER, and write the statistics."""
    end_with_caller()
    asked = SurveyRequest.read(request)
    folder = Path(asked.folder) / number
    folder.mkdir()
    source = SourceSurvey(asked.rows(), folder)
    source.read(range(int(number), len(source.parts), int(count)))
    aside = folder / f"{SEEN}.partial"
    with explain_write_error(aside):
        aside.write_text(json.dumps(source.plain()), "utf-8")
        aside.rename(folder / SEEN)


if __name__ == "__main__":
    main(*sys.argv[1:])
