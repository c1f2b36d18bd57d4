"""Slot `position`: how a model knows the order of tokens.

The model supplies d_model, n_heads, d_key, max_length and causal.
"""

import math
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.blocks.rotary_scaling import At, ScalingOption, plain_rates, scalings
from zoo.registry import Slot

Vectors = Float[Tensor, "batch length d_model"]
Heads = Float[Tensor, "batch heads length d_key"]
Bias = Float[Tensor, "heads queries keys"]
Rotations = tuple[Float[Tensor, "batch 1 length d_key"], Float[Tensor, "batch 1 length d_key"]]


class Position(nn.Module):
    """How a model knows the order of tokens.

    A variant overrides one of three hooks: `embed`, `rotate` (with `rotations`) or `bias`; the defaults do nothing.

    Class attributes:
        embeds, rotates, biases: which hook the variant overrides; set automatically.
    """

    embeds: ClassVar[bool] = False
    rotates: ClassVar[bool] = False
    biases: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.embeds = cls.embed is not Position.embed
        cls.rotates = cls.rotate is not Position.rotate
        cls.biases = cls.bias is not Position.bias

    def embed(self, x: Vectors, at: At, reach: int) -> Vectors:
        """Add position vectors to the token embeddings, before the first layer.

        Args:
            at: position of each token within its document, from 0.
            reach: exclusive upper bound of `at`, known without reading it from the device.
        """
        return x

    def rotations(self, at: At, dtype: torch.dtype) -> Rotations:
        """Compute the cosines and sines for `rotate`, once for all layers; `dtype` is that of queries and keys."""
        raise NotImplementedError(f"{type(self).__name__} does not implement rotations")

    def rotate(self, heads: Heads, turns: Rotations) -> Heads:
        """Rotate queries or keys."""
        return heads

    def bias(self, query_at: Int[Tensor, " queries"], key_at: Int[Tensor, " keys"]) -> Bias | None:
        """Compute what is added to the scores; it may depend only on differences, so indices in the row will do."""
        return None

    def extend(self, known: int) -> None:
        """Initialize the positions from `known` on, when a trained model gets a larger max_length."""


positions: Slot[Position] = Slot("position")


@positions.register("none")
class NoPosition(Position):
    """No position information: attention without a causal mask is then equivariant to permutations.

    Source: Kazemnejad et al. 2023, arXiv:2305.19466, "NoPE".
    """

    def __init__(self, d_model: int, n_heads: int, d_key: int, max_length: int, causal: bool) -> None:
        super().__init__()


def sinusoids(length: int, d_model: int) -> Float[Tensor, "length d_model"]:
    """PE(p, 2i) = sin(p / 10000^(2i/d_model)), PE(p, 2i+1) = cos(p / 10000^(2i/d_model)), in float64 on the CPU."""
    # not on the model's device: Apple's GPUs have no float64
    at = torch.arange(length, dtype=torch.float64, device="cpu")[:, None]
    rates = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") / d_model)
    table = at.new_empty(length, d_model)
    table[:, 0::2] = torch.sin(at * rates)
    table[:, 1::2] = torch.cos(at * rates)[:, : d_model // 2]
    return table


@positions.register("sinusoidal")
class Sinusoidal(Position):
    """Add sines and cosines of the position, interleaved, to the token embeddings.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5. The table is computed in float64 and rounded to float32.
    """

    def __init__(self, d_model: int, n_heads: int, d_key: int, max_length: int, causal: bool) -> None:
        super().__init__()
        self.max_length = max_length
        # Not a buffer: it would be cast with the model, and be lost if the model is built on the meta device.
        self.table: Tensor | None = None

    def embed(self, x: Vectors, at: At, reach: int) -> Vectors:
        if self.table is None or self.table.device != x.device or len(self.table) < reach:
            size = max(self.max_length, reach)  # the formula has no maximum length
            self.table = sinusoids(size, x.shape[2]).float().to(x.device)
        return x + F.embedding(at, self.table).to(x.dtype)


@positions.register("learned")
class Learned(Position):
    """Add a learned vector per position to the token embeddings.

    Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1; GPT and BERT.
    """

    def __init__(self, d_model: int, n_heads: int, d_key: int, max_length: int, causal: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, d_model)

    def embed(self, x: Vectors, at: At, reach: int) -> Vectors:
        known = len(self.table.weight)  # not num_embeddings: peft's wrapper has only the weight
        # A packed row may be longer than each of its documents; only then is `at` read, which waits for the device.
        if reach > known and int(at.max()) >= known:
            raise ValueError(f"a text has {int(at.max()) + 1} tokens, but this model learned positions up to {known}")
        learned: Tensor = self.table(at)
        return x + learned.to(x.dtype)

    @torch.no_grad()
    def extend(self, known: int) -> None:
        """Repeat the trained vectors, which keeps local relations (Beltagy et al. 2020, arXiv:2004.05150, sec. 5)."""
        places = torch.arange(known, self.table.num_embeddings, device=self.table.weight.device)
        self.table.weight[known:] = self.table.weight[places % known]


@positions.register("rotary")
class Rotary(Position):
    """Rotate each pair of features (i, i + d_key/2) of queries and keys by the angle position · base^(-2i/d_key).

    Source: Su et al. 2021, arXiv:2104.09864, equation 34; paired by halves, as in GPT-NeoX and Llama.

    Args:
        base: sets the wavelengths: the slowest pair turns once in about 2 pi base tokens.
        scaling: a registered rotary scaling, for texts longer than in training; None: unscaled.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_key: int,
        max_length: int,
        causal: bool,
        *,
        base: float = 10000.0,
        scaling: ScalingOption | None = None,
    ) -> None:
        super().__init__()
        if d_key % 2:
            raise ValueError(f"position rotary needs an even d_key, got {d_key}")
        if base <= 1:
            raise ValueError(f"position rotary needs a base above 1, got {base}")
        self.base, self.d_key = base, d_key
        self.scaling = None if scaling is None else scalings.build(scaling, base, d_key)

    def rotations(self, at: At, dtype: torch.dtype) -> Rotations:
        # bfloat16 has not all integers above 256, so angles are computed in at least float32.
        wide, scaling = torch.promote_types(dtype, torch.float32), self.scaling
        rates = plain_rates(self.base, self.d_key, at.device)
        if scaling is not None:
            rates = scaling.scale(rates, at, wide)
        angles = (at[..., None].to(wide) * rates)[:, None]
        cos, sin = angles.cos(), angles.sin()
        if scaling is not None:
            cos, sin = cos * scaling.attention_factor, sin * scaling.attention_factor
        cos, sin = cos.to(dtype), sin.to(dtype)
        # a pair (a, b) becomes (a cos - b sin, b cos + a sin)
        return torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)

    def rotate(self, heads: Heads, turns: Rotations) -> Heads:
        cos, sin = turns
        others = heads.roll(self.d_key // 2, dims=-1)  # each feature's partner in its pair
        return heads * cos + others * sin


@positions.register("alibi")
class ALiBi(Position):
    """Subtract from each score the distance times a fixed slope per head.

    Source: Press et al. 2021, arXiv:2108.12409, section 3; if n_heads is not a power of two, slopes are those of the
    authors' code. Symmetric in an encoder.
    """

    def __init__(self, d_model: int, n_heads: int, d_key: int, max_length: int, causal: bool) -> None:
        super().__init__()
        self.slopes = alibi_slopes(n_heads)

    def bias(self, query_at: Int[Tensor, " queries"], key_at: Int[Tensor, " keys"]) -> Bias:
        distance = (query_at[:, None] - key_at[None, :]).abs()
        # filled on the device: a copy from the host would wait for the GPU and could not be captured in a CUDA graph
        slopes = [distance.new_full((), slope, dtype=torch.float32) for slope in self.slopes]
        return -torch.stack(slopes)[:, None, None] * distance


def alibi_slopes(n_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), … if n is a power of two; else those of the power below, then every other of the next."""
    below = 2 ** math.floor(math.log2(n_heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / below) for i in range(below)]
    between = [2.0 ** (-8.0 * (i + 1) / (2 * below)) for i in range(0, 2 * below, 2)]
    return slopes + between[: n_heads - below]


@positions.register("relative")
class Relative(Position):
    """Add to the scores a learned bias per head and bucket of distances.

    Source: Raffel et al. 2020 (T5), arXiv:1910.10683, section 2.1: half of the buckets are for exact distances, the
    others grow logarithmically up to `max_distance`; in an encoder, each direction has half of the buckets.

    Args:
        buckets: number of distance buckets.
        max_distance: distances from here on (tokens) share the last bucket.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_key: int,
        max_length: int,
        causal: bool,
        *,
        buckets: int = 32,
        max_distance: int = 128,
    ) -> None:
        super().__init__()
        if buckets < 4 or max_distance <= buckets // 2:
            needed = "position relative needs 4 buckets or more and a max_distance above half of them"
            raise ValueError(f"{needed}, got buckets {buckets} and max_distance {max_distance}")
        self.table = nn.Embedding(buckets, n_heads)
        self.buckets, self.max_distance, self.causal = buckets, max_distance, causal

    def bias(self, query_at: Int[Tensor, " queries"], key_at: Int[Tensor, " keys"]) -> Bias:
        offset = key_at[None, :] - query_at[:, None]
        by_pair: Tensor = self.table(self.bucket(offset))
        return by_pair.permute(2, 0, 1)

    def bucket(self, offset: Int[Tensor, "queries keys"]) -> Int[Tensor, "queries keys"]:
        """Return the bucket of each offset (key minus query, in tokens)."""
        size = self.buckets if self.causal else self.buckets // 2
        side = torch.zeros_like(offset) if self.causal else (offset > 0).long() * size
        distance = (-offset).clamp_min(0) if self.causal else offset.abs()
        exact = size // 2
        growth = torch.log(distance.clamp_min(1).float() / exact) / math.log(self.max_distance / exact)
        far = (exact + (growth * (size - exact)).long()).clamp_max(size - 1)
        return side + torch.where(distance < exact, distance, far)
