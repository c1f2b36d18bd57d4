"""Freezing: exclude parameters from training, by part or by name pattern."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from torch import nn

from zoo.training.weights.adapters import LowRank, add_adapters
from zoo.training.weights.depth import embeddings, parts
from zoo.wording import nearest

KEY = "training.freeze"
EMBEDDINGS = "embeddings"


def freeze(model: nn.Module, chosen: Sequence[str], lora: LowRank | None = None, seed: int = 0) -> None:
    """Exclude parameters from training: they get no gradient, no optimizer state and no weight decay.

    Adapters are trained even in frozen modules, as in peft: freezing is about the checkpoint's weights.

    Args:
        chosen: each `embeddings`, `encoder:6` (its first 6 layers), or the name of a module or a parameter, with `*` as
            wildcard.
        lora: the adapters to add; None: none.
        seed: of the adapters' initial values.

    Raises:
        ValueError: an item matches nothing, a target of `lora` is not a linear layer of the model, or nothing is left
            to train.
    """
    for item in chosen:
        for parameter in matching_parameters(item, model):
            parameter.requires_grad_(False)
    if lora is not None:
        add_adapters(model, lora, seed)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(f"{KEY}: {', '.join(chosen)} are all parameters of this model; leave some to train")


def matching_parameters(item: str, model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that one item of `training.freeze` stands for.

    Raises:
        ValueError: there are none.
    """
    side, colon, count = item.partition(":")
    if colon:
        return parameters_of(first_layers(item, side, count, model))
    below = parameters_of(module for part in parts(model) for module in embeddings(part))
    if item == EMBEDDINGS:
        found = below
    else:
        named = model.named_parameters(remove_duplicate=False)
        found = [p for name, p in named if fnmatchcase(name, item) or fnmatchcase(name, f"{item}.*")]
    if not found:
        names = [name for name, module in model.named_modules() if name and any(True for _ in module.parameters())]
        offered = [EMBEDDINGS] if below else []  # a CNN has none
        known = [*offered, *names, *(name for name, _ in model.named_parameters())]
        top = [*offered, *(f"{name}:N" for name in layers_by_part(model)), *(name for name in names if "." not in name)]
        raise ValueError(f"{KEY}: '{item}' matches no parameter{nearest(item, known)}; parts: {', '.join(top)}")
    return found


def first_layers(item: str, side: str, count: str, model: nn.Module) -> list[nn.Module]:
    """Return the first layers of a part, counted from its input.

    Raises:
        ValueError: there is no such part, or it has fewer layers.
    """
    known = layers_by_part(model)
    if side not in known:
        raise ValueError(f"{KEY}: '{item}': no part '{side}'{nearest(side, known)}; allowed: {', '.join(known)}")
    layers = known[side]
    if not count.isdecimal() or not 1 <= int(count) <= len(layers):
        raise ValueError(f"{KEY}: '{item}': the {side} has layers 1 to {len(layers)}, got '{count}'")
    return layers[: int(count)]


def layers_by_part(model: nn.Module) -> dict[str, list[nn.Module]]:
    """Return the layers of the encoder and the decoder, by the name of the part."""
    names = {id(module): name for name, module in model.named_modules()}
    return {names[id(part)]: part.layers_upward() for part in parts(model)}


def parameters_of(modules: Iterable[nn.Module]) -> list[nn.Parameter]:
    return [parameter for module in modules for parameter in module.parameters()]
