"""The order of the data: the n-th row is a function of data, seed and n, whatever the processes and workers."""

import math
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from zoo.batches.packing import RowShape, pack
from zoo.batches.permutation import LARGEST_TABLE, ORDER_VERSION, count_windows, window_of
from zoo.data.columns.pictures import Augment
from zoo.data.ids import Lengths, Read, Roles
from zoo.examples.example import Example, ExamplePlan
from zoo.examples.form import Form
from zoo.examples.randomness import Purpose, Randomness, keyed
from zoo.objectives.mixture import Mixture

WINDOW = 1024  # documents that are planned and packed together
WINDOW_TOKENS = 1 << 22  # tokens per window at most, on average: where documents are long, a window has fewer of them
ALL_EXAMPLES = range(sys.maxsize)  # holds the number of every example of a document


class PackedRow(NamedTuple):
    """Planned examples that share a row, their epoch and, in a mixture, the index of their source."""

    epoch: int
    plans: tuple[ExamplePlan, ...]
    source: int | None = None

    @property
    def names(self) -> list[tuple[int, int, int]]:
        """(epoch, document, number) of each example."""
        return [(self.epoch, plan.document, plan.number) for plan in self.plans]


def normalize_weights(weights: Sequence[float]) -> list[Fraction]:
    """Normalize weights to exact fractions that sum to 1."""
    exact = [Fraction(str(weight)) for weight in weights]  # str: 0.1 is 1/10, not the nearest binary fraction
    return [weight / sum(exact) for weight in exact]


class MixedSource(NamedTuple):
    """One of the sources of a mixture.

    Args:
        weight: rows are drawn in proportion to it.
        lengths, read: its part of the token store.
    """

    name: str
    weight: float
    lengths: Lengths
    read: Read


@dataclass(frozen=True)
class Examples:
    """The examples of one split: everything that planning, packing and building them depends on.

    Args:
        form, mixture: how examples are built, and the objectives that annotate them.
        lengths, read: the split's part of the token store.
        roles: the tokenizer's special tokens.
        shape: the capacity of a row.
        seed: of order, cuts, pairs and masks.
        augment: image augmentation; None: none.
        subset: by document, the numbers of the examples to use; None: all.
        mix: the sources that training mixes; empty if there is only one. Evaluation reads them as one split.

    Raises:
        ValueError: the tokenizer lacks an objective's own role, or the shape leaves no room for text.
    """

    form: Form
    mixture: Mixture
    lengths: Lengths
    read: Read
    roles: Roles
    shape: RowShape
    seed: int = 0
    augment: Augment | None = None
    subset: Mapping[int, Container[int]] | None = None
    mix: tuple[MixedSource, ...] = ()

    def __post_init__(self) -> None:
        self.form.check(self.shape.limits)
        for role in (role for member in self.mixture.members.values() for role in member.roles):
            self.roles.id(role)

    @cached_property
    def window_size(self) -> int:
        """Documents per window."""
        documents, size = self.lengths.documents, WINDOW
        tokens = sum(int(offsets[len(offsets) - 1]) for offsets in self.lengths.offsets.values())
        while size > 1 and tokens * size > WINDOW_TOKENS * documents:
            size //= 2
        return size

    @property
    def order_version(self) -> int:
        """The version of the order, which checkpoints store; windows of fewer documents have their own."""
        return ORDER_VERSION + (self.window_size < WINDOW)

    @property
    def window_count(self) -> int:
        """Number of windows in an epoch."""
        return count_windows(self.lengths.documents, self.window_size)

    def plans(self, epoch: int, documents: Iterable[int]) -> Iterator[ExamplePlan]:
        """Yield the examples of some documents in an epoch, in order."""
        waiting = iter(documents)
        while some := list(islice(waiting, WINDOW)):
            for plan in self.form.plan_all(self.lengths, some, epoch, self.seed, self.shape.limits):
                if self.subset is None or plan.number in self.subset.get(plan.document, ()):
                    yield plan

    def plan(self, epoch: int, documents: Sequence[int]) -> list[ExamplePlan]:
        """Return the examples of some documents in an epoch as a list."""
        return list(self.plans(epoch, documents))

    @property
    def documents(self) -> Sequence[int]:
        """The documents whose examples are used, in the order of the data."""
        return range(self.lengths.documents) if self.subset is None else sorted(self.subset)

    @cached_property
    def count(self) -> int:
        """Number of examples in epoch 0; plans all of them, once."""
        return sum(1 for _ in self.plans(0, self.documents))

    def of_documents(self, documents: Iterable[int]) -> "Examples":
        """Restrict the examples to some documents."""
        if self.subset is None:
            return replace(self, subset=dict.fromkeys(documents, ALL_EXAMPLES))
        return replace(self, subset={d: self.subset[d] for d in documents if d in self.subset})

    def sample(self, most: int) -> "Examples":
        """Restrict the examples to a random sample of at most `most`, which depends on the data and the seed alone.

        Of more than LARGEST_TABLE documents, take the first examples of epoch 0, whose order is random already.
        """
        documents = self.lengths.documents
        if documents > LARGEST_TABLE:
            return self.first(most)
        counts = (len(self.plan(0, [document])) for document in range(documents))
        ends = np.cumsum(np.fromiter(counts, dtype=np.int64, count=documents))
        if not len(ends) or most >= ends[-1]:
            return self
        chosen = keyed(Purpose.SAMPLE, self.seed).permutation(int(ends[-1]))[:most]
        of = np.searchsorted(ends, chosen, side="right")
        places = zip(of.tolist(), (chosen - ends[of]).tolist(), strict=True)  # indices from the document's end
        return self.of_plans(self.plan(0, [document])[place] for document, place in places)

    def first(self, most: int) -> "Examples":
        """Restrict the examples to the first `most` of epoch 0's order."""
        windows = (
            window_of(self.seed, 0, self.lengths.documents, n, self.window_size) for n in range(self.window_count)
        )
        found = list(islice((plan for window in windows for plan in self.plans(0, window.tolist())), most + 1))
        return self if len(found) <= most else self.of_plans(found[:most])

    def of_plans(self, plans: Iterable[ExamplePlan]) -> "Examples":
        """Restrict the examples to those of some plans of epoch 0."""
        subset: dict[int, set[int]] = {}
        for plan in plans:
            subset.setdefault(plan.document, set()).add(plan.number)
        return replace(self, subset=subset)

    def rows(self, epoch: int, window: int) -> list[PackedRow]:
        """Return the rows of a window of an epoch, shuffled."""
        documents = window_of(self.seed, epoch, self.lengths.documents, window, self.window_size).tolist()
        packed = pack(self.plan(epoch, documents), self.shape, self.mixture)
        shuffled = keyed(Purpose.ROWS, self.seed, epoch, window).permutation(len(packed))
        return [PackedRow(epoch, packed[i]) for i in shuffled]

    def count_rows(self) -> int:
        """Number of rows in epoch 0; plans all of it. A mixture's epoch ends when its largest source was read once."""
        if not self.mix:
            return sum(len(self.rows(0, window)) for window in range(self.window_count))
        rows = [examples.count_rows() for examples in self.sources]
        largest = max(range(len(rows)), key=rows.__getitem__)
        return math.ceil(rows[largest] / normalize_weights([one.weight for one in self.mix])[largest])

    @cached_property
    def sources(self) -> tuple["Examples", ...]:
        """The examples of each source of the mixture; a source's random draws do not depend on the other sources."""
        seeds = [keyed(Purpose.SOURCE, self.seed, *one.name.encode()).integers(2**31) for one in self.mix]
        return tuple(
            replace(self, lengths=one.lengths, read=one.read, seed=int(seed), mix=())
            for one, seed in zip(self.mix, seeds, strict=True)
        )

    def rows_in_order(self) -> Iterator[PackedRow]:
        """Yield every example of epoch 0 once, in the order of the data: packed per window, not shuffled."""
        documents = self.documents  # kept: the property sorts at every access
        for start in range(0, len(documents), self.window_size):
            packed = pack(self.plan(0, documents[start : start + self.window_size]), self.shape, self.mixture)
            rows = [tuple(sorted(plans, key=lambda plan: (plan.document, plan.number))) for plans in packed]
            rows.sort(key=lambda plans: (plans[0].document, plans[0].number))
            yield from (PackedRow(0, plans) for plans in rows)

    @property
    def truncates(self) -> bool:
        """Whether documents that are too long are truncated; otherwise they are cut into several examples."""
        return self.mixture.whole or self.form.source or self.form.writes

    def count_truncated(self) -> tuple[int, int]:
        """Return how many examples of epoch 0 are truncated, and their total loss (in the form's `truncation_unit`)."""
        count = tokens = 0
        for plan in self.plans(0, self.documents):
            count, tokens = count + (plan.truncated > 0), tokens + plan.truncated
        return count, tokens

    def build(self, row: PackedRow) -> list[Example]:
        """Read and annotate the examples of a row; random draws are keyed by (seed, epoch, document, number)."""
        if self.mix and row.source is not None:  # None in evaluation, which reads a mixture as one split
            return self.sources[row.source].build(row)
        built = []
        for plan in row.plans:
            example = self.form.build(plan, self.read, self.roles)
            randomness = Randomness(Purpose.EXAMPLE, self.seed, row.epoch, plan.document, plan.number)
            if example.picture is not None and self.augment is not None:
                example.picture = self.augment.apply(example.picture, randomness.generator)
            self.mixture.annotate(example, randomness, self.roles)
            built.append(example)
        return built


def split_rows(rows: Sequence[PackedRow], process: int, processes: int, micro_batch: int) -> list[list[PackedRow]]:
    """Return one process's rows of a step, every `processes`-th of them, split into micro-batches.

    All processes get the same number of micro-batches; the last ones may have fewer rows than `micro_batch`, or none.
    """
    mine = rows[process::processes]
    count = -(-len(rows) // (processes * micro_batch)) if rows else 0
    return [list(mine[i * micro_batch : (i + 1) * micro_batch]) for i in range(count)]
