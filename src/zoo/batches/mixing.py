"""Rows of several sources in proportion to their weights: which one comes n-th is a function of n."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from zoo.batches.feed import Feed, refuse_order
from zoo.batches.order import Examples, PackedRow, shares
from zoo.strict_yaml import Tree
from zoo.wording import first_few


def feed_of(examples: Examples) -> Feed:
    """What the loop is fed: the rows of one source, or of several."""
    return MixedFeed(examples) if examples.mix else Feed(examples)


class MixedFeed(Feed):
    """The rows of several sources, each in its own order and epochs, drawn by weight."""

    def __init__(self, examples: Examples) -> None:
        self.examples = examples
        self.names = [one.name for one in examples.mix]
        self.shares = shares([one.weight for one in examples.mix])
        self.feeds = [Feed(source) for source in examples.sources]
        self.counts = [0] * len(self.feeds)
        self.order = max(source.order for source in examples.sources)

    @property
    def position(self) -> Tree:
        """Where the data stands: the cursor of each source, and how many rows of it were taken."""
        places = {name: feed.cursor._asdict() for name, feed in zip(self.names, self.feeds, strict=True)}
        return {"sources": places, "taken": dict(zip(self.names, self.counts, strict=True)), "order": self.order}

    def seek(self, position: Tree) -> None:
        """Go on from a `position`; one window of each source is planned again.

        Raises:
            ValueError: it is that of other sources, or they have no such window or row.
        """
        refuse_order(position, self.order)
        found: Mapping[str, Tree] = position.get("sources", {})
        if list(found) != self.names or set(position.get("taken", ())) != set(self.names):
            there = first_few(list(found)) or "one source"
            raise ValueError(f"data position: from {there}, but source.mix has {first_few(self.names)}")
        for name, feed in zip(self.names, self.feeds, strict=True):
            feed.seek(found[name])
        self.counts = [int(position["taken"][name]) for name in self.names]

    def take(self, n: int) -> list[PackedRow]:
        """The next n rows.

        Raises:
            ValueError: a whole epoch of a source has no example.
        """
        taken = []
        for _ in range(n):
            source = next_source(self.shares, self.counts)
            (row,) = self.feeds[source].take(1)
            self.counts[source] += 1
            taken.append(row._replace(source=source))
        return taken

    def taken(self, position: Tree) -> dict[str, float]:
        return {f"rows/{name}": float(count) for name, count in position["taken"].items()}


def next_source(shares: Sequence[Fraction], taken: Sequence[int]) -> int:
    """The source of the next row, so that after every row each source is within one row of its share.

    Of those that are far enough behind, the one that would be the first to fall too far behind.
    Source: Tijdeman 1980, "The chairman assignment problem", Discrete Mathematics 32, the algorithm of theorem 1: no
    source is ever more than 1 - 1/(2k - 2) rows from its share, k being the number of sources.
    """
    if len(shares) == 1:
        return 0
    number, least = sum(taken) + 1, Fraction(1, 2 * len(shares) - 2)
    behind = [share * number - count for share, count in zip(shares, taken, strict=True)]
    able = [source for source, rows in enumerate(behind) if rows >= least]
    return min(able, key=lambda source: (1 - least - behind[source]) / shares[source])
