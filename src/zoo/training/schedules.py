"""Slot `schedule`: the learning rate as a function of the step. Supplied: learning rate (the peak), steps, warm-up."""

import math
from abc import ABC, abstractmethod

from zoo.registry import Slot


class Schedule(ABC):
    """The learning rate of each optimizer step.

    `rate` takes the number of the update, counted from 1. Unless a variant says otherwise, the rate rises linearly over
    the first `warmup_steps` updates to its peak, and `after` shapes the rest. A run of one update uses the peak: with a
    schedule that ends at 0 it would learn nothing.
    """

    def __init__(self, learning_rate: float, steps: int, warmup_steps: int) -> None:
        self.peak, self.steps, self.warmup_steps = learning_rate, steps, warmup_steps

    def rate(self, update: int) -> float:
        """Return the learning rate of an update, counted from 1."""
        if update <= self.warmup_steps:
            return self.peak * update / self.warmup_steps
        return self.peak * (1.0 if self.steps == 1 else self.after(update))

    @abstractmethod
    def after(self, update: int) -> float:
        """Return the share of the peak at an update after the warm-up."""

    def progress(self, update: int) -> float:
        """Return the fraction of the run after the warm-up that is done: 0 at its start, 1 at the last update."""
        return (update - self.warmup_steps) / (self.steps - self.warmup_steps)


schedules: Slot[Schedule] = Slot("schedule")


@schedules.register("constant")
class Constant(Schedule):
    """The peak, after the warm-up."""

    def after(self, update: int) -> float:
        return 1.0


@schedules.register("linear")
class Linear(Schedule):
    """A straight line from the peak to a fraction of it.

    Source: Devlin et al. 2019, arXiv:1810.04805, appendix A.2.

    Args:
        floor: share of the peak at the last update.
    """

    def __init__(self, learning_rate: float, steps: int, warmup_steps: int, *, floor: float = 0.0) -> None:
        super().__init__(learning_rate, steps, warmup_steps)
        self.floor = check_share(floor, "floor")

    def after(self, update: int) -> float:
        return self.floor + (1 - self.floor) * (1 - self.progress(update))


@schedules.register("cosine")
class Cosine(Schedule):
    """Half a cosine wave from the peak to a fraction of it.

    Source: Loshchilov & Hutter 2017, arXiv:1608.03983, equation 5, without restarts.

    Args:
        floor: share of the peak at the last update.
    """

    def __init__(self, learning_rate: float, steps: int, warmup_steps: int, *, floor: float = 0.1) -> None:
        super().__init__(learning_rate, steps, warmup_steps)
        self.floor = check_share(floor, "floor")

    def after(self, update: int) -> float:
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * self.progress(update))) / 2


@schedules.register("inverse_sqrt")
class InverseSqrt(Schedule):
    """peak * sqrt(warmup / update): the shape of `noam`, given by its peak.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 3, scaled so that it is 1 at the end of the warm-up.
    """

    def after(self, update: int) -> float:
        return math.sqrt(max(1, self.warmup_steps) / update)


@schedules.register("noam")
class Noam(Schedule):
    """factor * d_model^-0.5 * min(update^-0.5, update * warmup^-1.5); the learning rate is the factor, 1 in the paper.

    Source: Vaswani et al. 2017, arXiv:1706.03762, equation 3.

    Args:
        d_model: the model's width; None takes it from the model.
    """

    def __init__(self, learning_rate: float, steps: int, warmup_steps: int, *, d_model: int | None = None) -> None:
        super().__init__(learning_rate, steps, warmup_steps)
        if d_model is None or d_model < 1:
            raise ValueError(f"schedule.d_model: noam needs the model's width, got {d_model}")
        self.d_model = d_model

    def rate(self, update: int) -> float:
        return self.peak * self.after(update)

    def after(self, update: int) -> float:
        return float(self.d_model**-0.5 * min(update**-0.5, update * max(1, self.warmup_steps) ** -1.5))


@schedules.register("wsd")
class WarmupStableDecay(Schedule):
    """The peak until the last part of the run, then a straight line down.

    Source: Hu et al. 2024, arXiv:2404.06395, section 4; the decay is linear as in Hägele et al. 2024, arXiv:2405.18392.

    Args:
        decay: share of the run that the decay takes; at 0 the rate stays at the peak.
        floor: share of the peak at the last update.
    """

    def __init__(
        self, learning_rate: float, steps: int, warmup_steps: int, *, decay: float = 0.2, floor: float = 0.0
    ) -> None:
        super().__init__(learning_rate, steps, warmup_steps)
        self.decay, self.floor = check_share(decay, "decay"), check_share(floor, "floor")

    def after(self, update: int) -> float:
        if not self.decay:
            return 1.0
        left = (self.steps - update) / (self.decay * self.steps)
        return self.floor + (1 - self.floor) * min(1.0, left)


def check_share(value: float, option: str) -> float:
    """Check and return an option that is a fraction.

    Raises:
        ValueError: it is not from 0 to 1.
    """
    if not 0 <= value <= 1:
        raise ValueError(f"schedule.{option}: must be from 0 to 1, got {value}")
    return value
