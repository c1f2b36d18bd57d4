"""Row lengths to choose from: for each, how much text is cut off and how much of a row is padding."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from zoo.batches.order import WINDOW, Examples
from zoo.batches.packing import RowShape, pack
from zoo.data.ids import Roles
from zoo.data.sources.origin import TEST
from zoo.data.store.split import Split
from zoo.data.task import Task
from zoo.examples.form import Form, ModelTraits
from zoo.examples.template import CAUSAL_TEXT, overhead
from zoo.objectives.mixture import Mixture
from zoo.survey.lengths import TOKENS, LengthTally, document_lengths

FACTORS = (0.5, 1, 2)  # multiples of the task's length that are tried
LOOKED_AT = 4  # windows of documents that are packed, spread over the data
MOST = 1 << 19  # tokens of a window, so that planning stays fast
READERS = (  # the kinds of model to try, in this order
    ModelTraits(causal=True),
    ModelTraits(causal=False, segments=True),
    ModelTraits(causal=True, source=True),
    ModelTraits(causal=False, image_size=32),
    ModelTraits(causal=True, source=True, image_size=32),
)


def form_for_some_model(mixture: Mixture, columns: Collection[str]) -> Form:
    """The form of the examples for the first kind of model in `READERS` that the objectives can train.

    Raises:
        ValueError: they can train none; with the first kind's reason.
    """
    refusal = None
    for reader in READERS:
        try:
            return mixture.form(columns, reader)
        except ValueError as error:
            refusal = refusal or error
    raise refusal or AssertionError("there is a kind of model")


def try_sizes(
    task: Task, form: Form, mixture: Mixture, split: Split, roles: Roles, lengths: dict[str, LengthTally]
) -> list[dict[str, Any]]:
    """For rows of half, once and twice the task's length: the share of text cut off and of positions left empty.

    Args:
        split: the one that a model is trained on.
        lengths: field name (or joined field names) -> its document lengths.
    """
    found = []
    for factor in FACTORS:
        shape = scaled_shape(task, form, factor)
        limits, around = shape.limits, overhead(form.template) - (form.template == CAUSAL_TEXT)  # the end is a target
        longest = {name: limits.source - 1 if name == "source" else limits.longest - around for name in lengths}
        if min(longest.values(), default=1) < 1:
            continue
        cut = share_cut(lengths, longest, mixture.whole or form.source) if form.lengths_suffice else {}
        empty: float | None = None
        with suppress(ValueError):  # raised if no example fits
            examples = Examples(form, mixture, split.lengths, split.read, roles, shape)
            cut = cut or planned_cut(examples)
            empty = empty_share(examples)
        if cut:
            found.append({"length": shape.length, "source": shape.source or None, **cut, "empty": empty})
    return found


def training_refusals(task: Task, form: Form, mixture: Mixture, splits: Mapping[str, Split]) -> list[str]:
    """Reasons why training on rows of the task's length would refuse the data; empty if it would not.

    Training does not read the test split.
    """
    shape, read = scaled_shape(task, form, 1), {name: split for name, split in splits.items() if name != TEST}
    try:
        mixture.refuse_obstacles(read, shape.limits)
    except ValueError as error:
        return [f"training with length {shape.length} refuses this: {error}"]
    return []


def share_cut(lengths: Mapping[str, LengthTally], longest: Mapping[str, int], truncated: bool) -> dict[str, Any]:
    """The share of texts longer than an example, and of tokens beyond its end, from the lengths of all texts.

    Args:
        longest: field name -> tokens of it that an example can hold.
        truncated: whether the rest is dropped instead of continued in further examples.
    """
    beyond = [tally.longer_than(longest[name]) for name, tally in lengths.items()]
    documents = sum(tally.documents for tally in lengths.values())
    tokens = sum(tally.tokens for tally in lengths.values())
    return {
        "longer": sum(count for count, _ in beyond) / max(1, documents),
        "beyond": sum(count for _, count in beyond) / max(1, tokens),
        "is": "truncated" if truncated else Form.split_phrase,
    }


def planned_cut(examples: Examples) -> dict[str, Any]:
    """What `share_cut` gives, from examples planned for a few windows: for forms that repeat or leave out tokens."""
    documents = [examples.plan(0, [document]) for window in sampled_windows(examples) for document in window]
    several = sum(len(plans) > 1 for plans in documents)
    longer = sum(len(plans) > 1 or plans[0].truncated > 0 for plans in documents if plans)
    lost = sum(plan.truncated for plans in documents for plan in plans)
    held = sum(plan.length for plans in documents for plan in plans)
    what = examples.form.split_phrase if several else "truncated"
    return {"longer": longer / max(1, len(documents)), "beyond": lost / max(1, lost + held), "is": what}


def scaled_shape(task: Task, form: Form, factor: float) -> RowShape:
    """The row shape for `factor` times the task's length."""
    row, example = task.row_length, task.example_length
    length, source = (max(1, int(side * factor)) for side in (row.target, row.source))
    longest = min(length, example.target) if task.longest is not None else length
    if not form.source:
        return RowShape(length, longest=longest, pack=task.pack)
    if form.pictures:
        return RowShape(length, 1, longest, pack=False)
    longest_source = min(source, example.source) if task.longest is not None else source
    return RowShape(length, source, longest, longest_source, task.pack)


def empty_share(examples: Examples) -> float | None:
    """The share of positions without a token, from packing a few windows; None if they give no rows."""
    shape, used, places = examples.shape, 0, 0
    for window in sampled_windows(examples):
        rows = pack(examples.plan(0, window), shape, examples.mixture)
        used += sum(plan.length + plan.source_length for row in rows for plan in row)
        places += len(rows) * (shape.length + shape.source)
    return 1 - used / places if places else None


def sampled_windows(examples: Examples) -> Iterator[range]:
    """Yield a few windows of documents, spread over the data, each cut to at most `MOST` tokens."""
    lengths, fields = examples.lengths, examples.form.texts
    for first in range(0, lengths.documents, max(WINDOW, lengths.documents // LOOKED_AT)):
        last = min(first + WINDOW, lengths.documents)
        if fields:
            sizes = np.cumsum(document_lengths(lengths, fields, first, last))
            last = first + max(1, int(np.searchsorted(sizes, MOST, side="right")))
            if sizes[0] > TOKENS:
                continue  # too long to read at once, and it fills its rows anyway
        yield range(first, last)
