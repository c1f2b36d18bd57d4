"""Numbers as digits -> the same numbers in English words: a translation that needs no file."""

import random
from collections.abc import Sequence

from zoo.data.builtin.builtin import builtins
from zoo.data.sources.origin import Origin
from zoo.data.sources.part import SourcePart, Table

SEED = 0
SIZES = {"train": 20_000, "validation": 500, "test": 500}
# limit -> how many numbers are drawn between the limit before and it; drawn evenly, nine in ten would have six digits
DRAWS = {1_000: 600, 10_000: 4_400, 100_000: 6_000, 1_000_000: 10_000}
TEENS = (
    "zero one two three four five six seven eight nine ten eleven twelve "
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


@builtins.register("numbers")
class Numbers(Origin):
    """Pairs such as `4 0 7` -> `four hundred seven`; no number occurs in two splits."""

    def splits(self) -> tuple[str, ...]:
        return tuple(SIZES)

    def place(self, split: str) -> str:
        return f"numbers ({split})"

    def parts(self, split: str) -> Sequence[SourcePart]:
        def make() -> dict[str, list[str]]:
            start = sum(SIZES[name] for name in list(SIZES)[: list(SIZES).index(split)])
            chosen = draw()[start : start + SIZES[split]]
            return {"source": [" ".join(str(n)) for n in chosen], "target": [spell(n) for n in chosen]}

        decided = f"numbers 1 {SEED} {SIZES} {DRAWS} {split}"
        return [Table(self.place(split), decided, ["source", "target"], make)]


def draw() -> list[int]:
    """Distinct numbers below a million, in a fixed random order."""
    generator = random.Random(SEED)
    drawn: list[int] = []
    least = 0
    for limit, count in DRAWS.items():
        drawn += generator.sample(range(least, limit), count)
        least = limit
    generator.shuffle(drawn)
    return drawn


def spell(n: int) -> str:
    """A number from 0 to 999,999 in words: 21,407 -> twenty one thousand four hundred seven."""
    if n == 0:
        return TEENS[0]
    thousands = [*below_thousand(n // 1000), "thousand"] if n >= 1000 else []
    return " ".join(thousands + below_thousand(n % 1000))


def below_thousand(n: int) -> list[str]:
    """The words of a number from 0 to 999; none for 0."""
    words = [TEENS[n // 100], "hundred"] if n >= 100 else []
    n %= 100
    if n >= 20:
        words.append(TENS[n // 10 - 2])
        n %= 10
    return [*words, TEENS[n]] if n else words
