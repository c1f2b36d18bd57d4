"""Choose the target of an export: the named one, or the first native one that fits. Needs no transformers."""

from zoo.hub.targets.declare.registry import targets
from zoo.hub.targets.declare.target import Target
from zoo.hub.targets.zoo_target import MODEL_TYPE as SHELL
from zoo.hub.targets.zoo_target import MODULE, target_of
from zoo.models.settings import ModelSettings
from zoo.wording import refuse_unknown


def obstacles(settings: ModelSettings) -> dict[str, str]:
    """Return, for every native target that the model does not fit, the first choice in the way."""
    found = {name: target.obstacle(settings) for name, target in targets.items()}
    return {name: obstacle for name, obstacle in found.items() if obstacle is not None}


def fitting_targets(settings: ModelSettings) -> list[str]:
    """The native targets that a model can be exported to, the default one first."""
    in_the_way = obstacles(settings)
    return [name for name in targets if name not in in_the_way]


def choose_target(settings: ModelSettings, name: str | None = None) -> Target:
    """Return the named target, or the first native one that fits.

    Raises:
        ValueError: an unknown target, the model does not fit it, or none fits; the message names the choice in the way.
    """
    if name == SHELL:
        try:
            return target_of(settings)
        except ValueError as error:
            raise ValueError(f"export: this model does not fit '{SHELL}': {error}") from None
    in_the_way = obstacles(settings)
    fitting = [target for target in targets if target not in in_the_way]
    if name is not None:
        refuse_unknown(name, (*targets, SHELL), "target", "export")
        if name in in_the_way:
            others = f"targets that fit: {', '.join(fitting) or 'none'}"
            raise ValueError(f"export: this model does not fit '{name}': {in_the_way[name]}; {others}")
        return targets[name]
    if not fitting:
        near = [target for target in targets if targets[target].sides == tuple(settings.parts)]
        reasons = [f"{target}: {in_the_way[target]}" for target in near]
        reasons += [f"{', '.join(target for target in targets if target not in near)}: made of other parts"]
        raise ValueError(
            f"export: no transformers class matches this model. {'; '.join(reasons)}. {shell_advice(settings)}"
        )
    return targets[fitting[0]]


def shell_advice(settings: ModelSettings) -> str:
    """How to export a model that fits no native target, or why that is not possible."""
    try:
        target_of(settings)
    except ValueError as error:
        return f"{SHELL}: {error}"
    return f"`zoo export … --to {SHELL}` writes it for programs that import {MODULE}"
