"""Every native target: each family of `hub/targets/` registers itself."""

from zoo.hub.targets.declare.target import Target

targets: dict[str, Target] = {}  # in the order in which export tries them


def register(target: Target) -> None:
    """Add a family to those that export and import know.

    Raises:
        ValueError: its name or model type is taken.
    """
    for other in targets.values():
        if target.name == other.name or target.model_type == other.model_type:
            raise ValueError(f"target '{target.name}' ({target.model_type}): '{other.name}' is already registered")
    ordered = sorted([*targets.values(), target], key=lambda known: (known.rank, known.name))
    targets.clear()
    targets.update({known.name: known for known in ordered})
