"""Stateless random numbers: each is a function of what it is drawn for, the same on any device."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

STRIDE = 0x9E3779B97F4A7C15 - 2**64  # 2^64 divided by the golden ratio, as an int64
MIXERS = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))
BITS = 23  # of the fraction of a float32


def shift_right(x: Int[Tensor, "*any"], bits: int) -> Int[Tensor, "*any"]:
    """Shift x right logically, filling with zeros."""
    return (x >> bits) & (2 ** (64 - bits) - 1)  # torch's shift of an int64 is arithmetic: it repeats the sign


def mix_bits(x: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Return a hash of x, in which each bit of x flips about half of the bits.

    Source: Steele et al. 2014, "Fast splittable pseudorandom number generators", the finalizer of SplitMix64. Products
    of int64 wrap modulo 2^64 on every device.
    """
    for bits, factor in MIXERS:
        x = (x ^ shift_right(x, bits)) * factor
    return x ^ shift_right(x, 31)


def exponential(seed: int, texts: Int[Tensor, " rows"], step: int, n_tokens: int) -> Float[Tensor, "rows n_tokens"]:
    """Return exponential random numbers with mean 1, each a function of seed, text, step and token alone.

    The token with the largest ratio of probability to random number is a sample (the race of Gumbel 1954). So there is
    no generator state, which would depend on the rest of the batch.
    """
    key = texts.new_full((1,), seed % 2**63)
    for part in (texts, texts.new_full((1,), step)):
        key = mix_bits(key * STRIDE + part)
    tokens = torch.arange(n_tokens, device=texts.device)
    words = mix_bits(mix_bits(key)[:, None] + tokens * STRIDE)
    high, low = (shift_right(words, 64 - BITS), shift_right(words, 64 - 2 * BITS) & (2**BITS - 1))
    # float32 cannot hold 46 bits, but near 0, where a rare token wins, the lower ones matter
    uniform = (high.float() + (low.float() + 0.5) * 2.0**-BITS) * 2.0**-BITS
    # it may be rounded up to 1, whose logarithm is infinite: then even the likeliest token could not win
    return -torch.log1p(-uniform.clamp_max(1 - 2.0**-24))
