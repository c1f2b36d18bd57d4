"""Mix the rows of several sources in proportion to their weights; the source of the n-th row is a function of n."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from zoo.batches.feed import Feed, refuse_order
from zoo.batches.order import Examples, PackedRow, normalize_weights
from zoo.strict_yaml import Tree
from zoo.wording import first_few


def feed_of(examples: Examples) -> Feed:
    """Build the feed of a run, from one source or from several."""
    return MixedFeed(examples) if examples.mix else Feed(examples)


class MixedFeed(Feed):
    """The rows of several sources, mixed by weight; each source has its own order and epochs."""

    def __init__(self, examples: Examples) -> None:
        self.examples = examples
        self.names = [one.name for one in examples.mix]
        self.shares = normalize_weights([one.weight for one in examples.mix])
        self.feeds = [Feed(source) for source in examples.sources]
        self.counts = [0] * len(self.feeds)
        self.order_version = max(source.order_version for source in examples.sources)

    @property
    def position(self) -> Tree:
        """The data position: each source's cursor, and how many of its rows were taken."""
        places = {name: feed.cursor._asdict() for name, feed in zip(self.names, self.feeds, strict=True)}
        return {
            "sources": places,
            "taken": dict(zip(self.names, self.counts, strict=True)),
            "order": self.order_version,
        }

    def seek(self, position: Tree) -> None:
        """Continue from a `position`. One window per source is planned again.

        Raises:
            ValueError: the position is for other sources, or they have no such window or row.
        """
        refuse_order(position, self.order_version)
        found: Mapping[str, Tree] = position.get("sources", {})
        if list(found) != self.names or set(position.get("taken", ())) != set(self.names):
            there = first_few(list(found)) or "one source"
            raise ValueError(f"data position: from {there}, but source.mix has {first_few(self.names)}")
        for name, feed in zip(self.names, self.feeds, strict=True):
            feed.seek(found[name])
        self.counts = [int(position["taken"][name]) for name in self.names]

    def take(self, n: int) -> list[PackedRow]:
        """Return the next n rows.

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

    def rows_taken(self, position: Tree) -> dict[str, float]:
        """Return the log line's entries `rows/NAME`: the rows taken from each source up to a position."""
        return {f"rows/{name}": float(count) for name, count in position["taken"].items()}


def next_source(shares: Sequence[Fraction], taken: Sequence[int]) -> int:
    """Return the source of the next row, so that after every row each source is within one row of its share.

    Among the sources that are at least 1/(2k - 2) rows behind, choose the one whose deficit reaches its limit first.
    Source: Tijdeman 1980, "The chairman assignment problem", Discrete Mathematics 32, the algorithm of theorem 1: no
    source is ever more than 1 - 1/(2k - 2) rows from its share, k being the number of sources.
    """
    if len(shares) == 1:
        return 0
    number, least = sum(taken) + 1, Fraction(1, 2 * len(shares) - 2)
    behind = [share * number - count for share, count in zip(shares, taken, strict=True)]
    able = [source for source, rows in enumerate(behind) if rows >= least]
    return min(able, key=lambda source: (1 - least - behind[source]) / shares[source])
