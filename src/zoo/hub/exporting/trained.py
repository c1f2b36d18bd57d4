"""A run as something to export: its model, and all that a model card tells of it."""

from zoo.hub.exporting.exportable import ADDRESS, Exportable
from zoo.hub.exporting.record import record_of
from zoo.inference.loaded import load_run
from zoo.runs.saved import SavedRun


def exportable(saved: SavedRun, address: str = ADDRESS) -> Exportable:
    """A run's model, tokenizer and task.

    Args:
        address: where the export will be found, as its card says it.

    Raises:
        ValueError: a file of the run is damaged, or does not fit the others.
    """
    loaded = load_run(saved)
    return Exportable(
        model=loaded.model,
        tokenizer=loaded.given_tokenizer,
        special=loaded.special,
        heads=loaded.mixture.heads,
        labels=loaded.task.labels or (),
        generate=loaded.task.generate,
        record=record_of(saved, loaded),
        address=address,
    )
