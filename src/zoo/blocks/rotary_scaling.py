"""Slot `rotary_scaling`: rotary positions for texts longer than in training. The model supplies base and d_key.

Names and numbers match transformers' `rope_parameters`, so that exported models compute the same.
"""

import math
from abc import ABC, abstractmethod
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.registry import Choice, Slot, refuse_below

Rates = Float[Tensor, " pairs"]
At = Int[Tensor, "batch length"]


class RotaryScaling(ABC):
    """Changes the rates (radians per position) at which the pairs of a rotary position rotate.

    Attributes:
        attention_factor: multiplies queries and keys.
    """

    attention_factor: float = 1.0

    def __init__(self, base: float, d_key: int) -> None:
        self.base, self.d_key = base, d_key

    @abstractmethod
    def scale(self, rates: Rates, at: At, dtype: torch.dtype) -> Rates:
        """Compute the rate of each pair.

        Args:
            rates: the unscaled rates, base^(-2i/d_key).
            at: positions of all tokens of the batch.
            dtype: of the angles.
        """


scalings: Slot[RotaryScaling] = Slot("rotary_scaling")
ScalingOption = Annotated[str | Choice[RotaryScaling], scalings]


def plain_rates(base: float | Tensor, d_key: int, device: torch.device, dtype: torch.dtype = torch.float32) -> Rates:
    """base^(-2i/d_key), in float32 by default, as in transformers' Llama."""
    rates: Tensor = 1.0 / base ** (torch.arange(0, d_key, 2, device=device, dtype=dtype) / d_key)
    return rates


def check_factor(factor: float) -> float:
    """Return the factor if it is valid.

    Raises:
        ValueError: it is below 1.
    """
    if factor < 1:
        raise ValueError(f"rotary_scaling: factor must be at least 1, got {factor}")
    return factor


@scalings.register("linear")
class LinearScaling(RotaryScaling):
    """Rotate all pairs `factor` times slower: positions are interpolated between the trained ones.

    Source: Chen et al. 2023, arXiv:2306.15595, equation 4.

    Args:
        factor: new maximum length divided by the trained one.
    """

    def __init__(self, base: float, d_key: int, *, factor: float) -> None:
        super().__init__(base, d_key)
        self.factor = check_factor(factor)

    def scale(self, rates: Rates, at: At, dtype: torch.dtype) -> Rates:
        return rates / self.factor


@scalings.register("dynamic")
class DynamicScaling(RotaryScaling):
    """Raise the base if the longest text of a batch, n tokens, is longer than `trained_length`.

    The base becomes base · (factor · n / trained_length - (factor - 1))^(d_key / (d_key - 2)). The output for a text
    thus depends on the longest text in its batch, as in transformers. Source: Peng et al. 2023, arXiv:2309.00071,
    section 3.3, "Dynamic NTK".

    Args:
        trained_length: the maximum length in training (tokens).
        factor: how steeply the base grows with n.
    """

    def __init__(self, base: float, d_key: int, *, factor: float, trained_length: int) -> None:
        super().__init__(base, d_key)
        refuse_below(1, trained_length=trained_length)
        if d_key < 4:
            raise ValueError(f"rotary_scaling dynamic needs a d_key above 2, got {d_key}")
        self.factor, self.trained_length = check_factor(factor), trained_length

    def scale(self, rates: Rates, at: At, dtype: torch.dtype) -> Rates:
        longest = (at.max() + 1).float()  # integers would be divided in torch's default dtype
        beyond = self.factor * longest.clamp_min(self.trained_length) / self.trained_length - (self.factor - 1)
        raised = plain_rates(self.base * beyond ** (self.d_key / (self.d_key - 2)), self.d_key, at.device, dtype)
        # unraised rates are float32, as in the other scalings
        return torch.where(longest > self.trained_length, raised, rates)


@scalings.register("yarn")
class YarnScaling(RotaryScaling):
    """Rotate slow pairs `factor` times slower, keep fast ones unchanged, and interpolate in between.

    Source: Peng et al. 2023, arXiv:2309.00071, definitions 2 and 3, equation 22.

    Args:
        factor: new maximum length divided by the trained one.
        trained_length: the maximum length in training (tokens).
        attention_factor: multiplies queries and keys; None: 0.1 ln(factor) + 1.
        beta_fast: pairs with more turns within `trained_length` are unchanged.
        beta_slow: pairs with fewer turns are slowed by the whole factor.
        truncate: whether the two borders are rounded outwards to whole pairs.
    """

    def __init__(
        self,
        base: float,
        d_key: int,
        *,
        factor: float,
        trained_length: int,
        attention_factor: float | None = None,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        truncate: bool = True,
    ) -> None:
        super().__init__(base, d_key)
        refuse_below(1, trained_length=trained_length)
        if not 0 < beta_slow <= beta_fast:
            raise ValueError(f"rotary_scaling yarn: 0 < beta_slow <= beta_fast, got {beta_slow} and {beta_fast}")
        if attention_factor is not None and attention_factor <= 0:  # with 0 all scores would be equal
            raise ValueError(f"rotary_scaling yarn: attention_factor must be above 0, got {attention_factor}")
        self.factor = check_factor(factor)
        self.attention_factor = 0.1 * math.log(factor) + 1 if attention_factor is None else attention_factor
        first, last = (self.pair_that_turns(times, trained_length) for times in (beta_fast, beta_slow))
        if truncate:
            first, last = math.floor(first), math.ceil(last)
        self.first, self.last = max(first, 0), min(last, d_key - 1)

    def pair_that_turns(self, times: float, places: int) -> float:
        """Index of the pair that turns `times` times within `places` tokens; fractional between two pairs."""
        return self.d_key * math.log(places / (times * 2 * math.pi)) / (2 * math.log(self.base))

    def scale(self, rates: Rates, at: At, dtype: torch.dtype) -> Rates:
        width = (self.last - self.first) or 0.001  # equal borders: a step instead of a ramp
        features = torch.arange(0, self.d_key, 2, device=rates.device, dtype=torch.float32)
        kept = 1 - ((features / 2 - self.first) / width).clamp(0, 1)
        # the order of operations is that of transformers, for bit-identical rates
        slow = 1.0 / (self.factor * self.base ** (features / self.d_key))
        return slow * (1 - kept) + rates * kept


@scalings.register("llama3")
class Llama3Scaling(RotaryScaling):
    """Rotate slow pairs `factor` times slower, keep fast ones unchanged, and blend by the number of turns in between.

    Source: Grattafiori et al. 2024, arXiv:2407.21783, section 3.4.2; transformers' `modeling_rope_utils.py`.

    Args:
        factor: new maximum length divided by the trained one.
        trained_length: the maximum length in training (tokens).
        low: pairs with at most so many turns within `trained_length` are slowed by the whole factor.
        high: pairs with at least so many turns are unchanged.
    """

    def __init__(
        self, base: float, d_key: int, *, factor: float, trained_length: int, low: float = 1.0, high: float = 4.0
    ) -> None:
        super().__init__(base, d_key)
        refuse_below(1, trained_length=trained_length)
        if not 0 < low < high:
            raise ValueError(f"rotary_scaling llama3: 0 < low < high, got {low} and {high}")
        self.factor, self.trained_length, self.low, self.high = check_factor(factor), trained_length, low, high

    def scale(self, rates: Rates, at: At, dtype: torch.dtype) -> Rates:
        turns = self.trained_length / (2 * math.pi / rates)  # order of operations as in transformers
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return (1 - kept) * rates / self.factor + kept * rates
