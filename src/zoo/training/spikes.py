"""Loss spikes: steps whose loss is far above its running mean."""

import math
from dataclasses import dataclass

WINDOW = 50  # steps that the running mean is over, about
SIGMAS, LEAST = 6.0, 0.1  # a spike exceeds the mean by that many standard deviations and that share of the mean


@dataclass
class RunningLoss:
    """The exponentially weighted running mean and variance of the loss.

    A spike is a loss above the mean by more than 6 standard deviations and by more than a tenth of the mean, once 50
    steps were seen. A loss that stays high raises the mean, and is no spike after a while.

    Source: Finch 2009, "Incremental calculation of weighted mean and variance", for the exponentially weighted update.
    """

    mean: float = 0.0
    variance: float = 0.0
    seen: int = 0

    def update(self, loss: float) -> float | None:
        """Add a step's loss. Return how many standard deviations it is above the mean if it is a spike, else None."""
        above, deviation = loss - self.mean, math.sqrt(self.variance)
        spike = self.seen >= WINDOW and above > max(SIGMAS * deviation, LEAST * abs(self.mean))
        weight = 1 / min(self.seen + 1, WINDOW)  # the plain mean of the first steps, then an exponential one
        self.mean += weight * above
        self.variance = (1 - weight) * (self.variance + weight * above**2)
        self.seen += 1
        return above / max(deviation, 1e-9) if spike else None  # a constant loss has a deviation of 0
