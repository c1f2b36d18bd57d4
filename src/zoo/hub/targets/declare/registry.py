"""The registry of native targets; each module of `hub/targets/` registers its family."""

from zoo.hub.targets.declare.target import Target

targets: dict[str, Target] = {}  # in the order in which export tries them


def register(target: Target) -> None:
    """Register a family for export and import.

    Raises:
        ValueError: its name or model type is already registered.
    """
    for other in targets.values():
        if target.name == other.name or target.model_type == other.model_type:
            raise ValueError(f"target '{target.name}' ({target.model_type}): '{other.name}' is already registered")
    ordered = sorted([*targets.values(), target], key=lambda known: (known.rank, known.name))
    targets.clear()
    targets.update({known.name: known for known in ordered})
