"""The classes of a head: two tasks may number the same ones differently, or write them in other letters."""

from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

from zoo.models.heads.head import heads
from zoo.wording import first_few

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


def refuse_others(wanted: Sequence[str], own: Sequence[str]) -> None:
    """Raise a ValueError where a task's classes can be none of a checkpoint's by name, nor by number.

    As many names, all of them others, may be the same classes: many checkpoints have LABEL_0, LABEL_1 and so on.
    """
    known = {name.casefold() for name in own}
    common = [name for name in wanted if name.casefold() in known]
    if not wanted or not own or same_classes(own, wanted) or (not common and len(wanted) == len(own)):
        return
    lacking = first_few([name for name in wanted if name.casefold() not in known] or sorted(set(wanted) - set(own)))
    raise ValueError(
        f"task.labels: the checkpoint has no class {lacking}; it has: {first_few(own)}: fine-tune it on this task first"
    )


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
