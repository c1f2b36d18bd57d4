"""How well a model predicts text, from sums of its negative log-likelihood in nats (never label-smoothed)."""

import math

from zoo.metrics.metric import Metric, metrics


@metrics.register("perplexity")
class Perplexity(Metric):
    """exp(loss / count): the number of equally likely tokens that would be as hard to guess."""

    higher_is_better = False
    needs = "loss"
    inputs = {"loss": "float64", "count": "int64"}

    def measure(self, loss: list[float], count: list[int]) -> float:
        try:
            return math.exp(math.fsum(loss) / check_positive(sum(count), "count"))
        except OverflowError:
            return math.inf


@metrics.register("bits_per_byte")
class BitsPerByte(Metric):
    """loss / (ln 2 · bytes): bits that the model needs per byte of UTF-8, whatever its tokenizer."""

    higher_is_better = False
    needs = "loss"
    inputs = {"loss": "float64", "bytes": "int64"}

    def measure(self, loss: list[float], bytes: list[int]) -> float:
        return math.fsum(loss) / (math.log(2) * check_positive(sum(bytes), "bytes"))


def check_positive(total: int, what: str) -> int:
    """Check that a sum to divide by is above 0, and return it.

    Raises:
        ValueError: it is not.
    """
    if total <= 0:
        raise ValueError(f"{what}: there is nothing to measure (their sum is {total})")
    return total
