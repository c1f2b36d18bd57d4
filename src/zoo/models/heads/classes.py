"""The classes of a head: two tasks may number the same ones differently, or write them in other letters."""

from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

from zoo.models.heads.head import heads

SCORING = ("output.weight", "output.bias")  # of a head that scores classes: a row, or a number, for each


def same_classes(own: Sequence[str], wanted: Sequence[str]) -> list[int] | None:
    """Where among a checkpoint's classes those of a task stand; None: they are others.

    Upper and lower case are one, as in transformers' examples: many checkpoints have names such as ENTAILMENT.
    """
    if sorted(own) == sorted(wanted):  # then classes may differ in case alone
        return [own.index(name) for name in wanted]
    known = {name.casefold(): number for number, name in enumerate(own)}
    asked = [name.casefold() for name in wanted]
    if len(known) != len(own) or sorted(known) != sorted(asked):
        return None
    return [known[name] for name in asked]


def with_others(wanted: Sequence[str], own: Sequence[str]) -> list[str]:
    """A task's classes, and behind them those that a checkpoint has beside them; the task's alone where it has others.

    A task may ask a checkpoint for some of its classes only: numbers in its data count those.
    """
    exact = set(wanted) <= set(own)
    asked = {name if exact else name.casefold() for name in wanted}
    beside = [name for name in own if (name if exact else name.casefold()) not in asked]
    return [*wanted, *beside] if len(asked) + len(beside) == len(own) else list(wanted)


def numbered_as(
    wanted: Sequence[str], own: Sequence[str], tensors: Mapping[str, Tensor], names: Iterable[str]
) -> dict[str, Tensor] | None:
    """The weights of a model with its classes in the order of `wanted`; None: nothing is to be done, or can be.

    Args:
        own: the classes as the weights have them.
        names: of the model's heads.
    """
    order = None if list(own) == list(wanted) else same_classes(own, wanted)
    if order is None:
        return None
    scoring = {f"heads.{name}.{weight}" for name in names if "labels" in heads.options(name) for weight in SCORING}
    ordered = {name: t[order] for name, t in tensors.items() if name in scoring and len(t) == len(order)}
    return {**tensors, **ordered} if ordered else None
