"""Match a task's classes with a checkpoint's: the same classes may be in another order, or in upper or lower case."""

from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

from zoo.models.heads.head import has_classes
from zoo.wording import first_few

SCORING = ("output.weight", "output.bias")  # parameters of a head with one row, or one number, per class


def same_classes(own: Sequence[str], wanted: Sequence[str]) -> list[int] | None:
    """The index of each of a task's classes among a checkpoint's; None if these are different classes.

    Case is ignored, as in transformers' examples: many checkpoints have names such as ENTAILMENT.
    """
    if sorted(own) == sorted(wanted):  # exact first: two of the classes may differ in case alone
        return [own.index(name) for name in wanted]
    known = {name.casefold(): number for number, name in enumerate(own)}
    asked = [name.casefold() for name in wanted]
    if len(known) != len(own) or sorted(known) != sorted(asked):
        return None
    return [known[name] for name in asked]


def append_other_classes(wanted: Sequence[str], own: Sequence[str]) -> list[str]:
    """Append a checkpoint's remaining classes to a task's, if the task's are a subset; else return the task's alone.

    A task may use only some of a checkpoint's classes; class numbers in its data are indices into the task's list.
    """
    exact = set(wanted) <= set(own)
    asked = {name if exact else name.casefold() for name in wanted}
    beside = [name for name in own if (name if exact else name.casefold()) not in asked]
    return [*wanted, *beside] if len(asked) + len(beside) == len(own) else list(wanted)


def refuse_different_classes(wanted: Sequence[str], own: Sequence[str]) -> None:
    """Refuse a task whose classes match a checkpoint's neither by name nor by number.

    Equally many classes without a common name may be the same ones: many checkpoints have LABEL_0, LABEL_1 and so on.

    Raises:
        ValueError: they do not match; the message names the missing classes.
    """
    known = {name.casefold() for name in own}
    common = [name for name in wanted if name.casefold() in known]
    if not wanted or not own or same_classes(own, wanted) or (not common and len(wanted) == len(own)):
        return
    lacking = first_few([name for name in wanted if name.casefold() not in known] or sorted(set(wanted) - set(own)))
    raise ValueError(
        f"task.labels: the checkpoint has no class {lacking}; it has: {first_few(own)}: fine-tune it on this task first"
    )


def reorder_classes(
    wanted: Sequence[str], own: Sequence[str], tensors: Mapping[str, Tensor], names: Iterable[str]
) -> dict[str, Tensor] | None:
    """Reorder a model's weights so that its classes have the order of `wanted`; None if that is unneeded or impossible.

    Args:
        own: the classes in the order of the weights.
        tensors: the weights, by parameter name.
        names: of the model's heads.
    """
    order = None if list(own) == list(wanted) else same_classes(own, wanted)
    if order is None:
        return None
    scoring = {f"heads.{name}.{weight}" for name in names if has_classes(name) for weight in SCORING}
    ordered = {name: t[order] for name, t in tensors.items() if name in scoring and len(t) == len(order)}
    return {**tensors, **ordered} if ordered else None
