"""How the next token is chosen: greedily, by sampling, or with beams."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo import config

UNREACHABLE = -1.0e9  # a log-probability that no sequence has, finite so that sums of it stay numbers


@dataclass(frozen=True)
class GenerateSettings:
    """How text is generated.

    Args:
        max_new_tokens: tokens, the end token included.
        temperature: logits are divided by it before sampling; 0: the likeliest token; None: 1 where top_k or top_p is
            given, else 0.
        top_k: sample from this many likeliest tokens only.
        top_p: sample from the likeliest tokens that together have this probability.
        beams: sequences that are carried on side by side; 1: no beam search.
        length_penalty: scores are the sum of log-probabilities divided by length ** length_penalty.
        seed: of sampling; a row's samples do not depend on the other rows.
    """

    max_new_tokens: int = 100
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    beams: int = 1
    length_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        limits = [
            ("max_new_tokens", self.max_new_tokens >= 1, "at least 1"),
            ("temperature", self.temperature is None or self.temperature >= 0, "at least 0"),
            ("top_k", self.top_k is None or self.top_k >= 1, "at least 1"),
            ("top_p", self.top_p is None or 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("beams", self.beams >= 1, "at least 1"),
            ("seed", self.seed >= 0, "at least 0"),
        ]
        for name, holds, allowed in limits:
            if not holds:
                raise ValueError(f"generate.{name}: expected a number {allowed}, got {getattr(self, name)}")
        if self.samples and self.beams > 1:
            advice = "set beams to 1 or temperature to 0"
            raise ValueError(f"generate: beams and sampling (temperature, top_k, top_p) do not combine; {advice}")
        if self.temperature == 0 and (self.top_k or self.top_p):
            raise ValueError("generate: top_k and top_p need a temperature above 0")

    @property
    def samples(self) -> bool:
        if self.temperature is None:
            return self.top_k is not None or self.top_p is not None
        return self.temperature > 0


def parse_generate(tree: config.Tree, place: str = "generate") -> GenerateSettings:
    """Read a `generate:` map.

    Raises:
        ValueError: an unknown key, a wrong type or a value that cannot be.
    """
    return config.build(GenerateSettings, tree, place)


class Generated(NamedTuple):
    """New tokens (the end token left out) and their score: log-probability / length ** length_penalty."""

    tokens: list[int]
    score: float


class Search(ABC):
    """Chooses tokens for `rows` rows of `width` sequences each, until done."""

    width: int

    @abstractmethod
    def choose(
        self, logits: Float[Tensor, "sequences vocab_size"]
    ) -> tuple[Int[Tensor, " sequences"], Int[Tensor, " sequences"] | None]:
        """The next token of each sequence, and which sequences they continue (None: each its own)."""

    @abstractmethod
    def done(self) -> bool:
        """Whether nothing better can come."""

    @abstractmethod
    def results(self) -> list[Generated]:
        """The best sequence of each row."""


class Sampler(Search):
    """One token after the other: the likeliest, or a sample.

    Source: Fan et al. 2018, arXiv:1805.04833 (top-k); Holtzman et al. 2020, arXiv:1904.09751 (top-p).
    """

    width = 1

    def __init__(self, rows: int, limit: int, end: int | None, settings: GenerateSettings) -> None:
        self.settings, self.limit, self.end = settings, limit, end
        self.tokens: list[list[int]] = [[] for _ in range(rows)]
        self.scores = [0.0] * rows
        self.finished = [False] * rows
        self.generators = [torch.Generator().manual_seed(settings.seed * 1_000_003 + row) for row in range(rows)]

    def choose(self, logits: Float[Tensor, "sequences vocab_size"]) -> tuple[Int[Tensor, " sequences"], None]:
        log_probs = logits.float().log_softmax(-1)
        picked = self.sample(logits.float()) if self.settings.samples else log_probs.argmax(-1)
        gains = log_probs.gather(1, picked[:, None])[:, 0].tolist()
        for row, token in enumerate(picked.tolist()):
            if not self.finished[row]:
                self.scores[row] += gains[row]
                self.tokens[row].append(token)
                self.finished[row] = token == self.end or len(self.tokens[row]) >= self.limit
        return picked, None

    def sample(self, logits: Float[Tensor, "sequences vocab_size"]) -> Int[Tensor, " sequences"]:
        """A token a row, each row with random numbers of its own."""
        drawn = [
            torch.multinomial(share, 1, generator=generator)
            for share, generator in zip(self.shares(logits).cpu(), self.generators, strict=True)
        ]
        return torch.cat(drawn).to(logits.device)

    def shares(self, logits: Float[Tensor, "sequences vocab_size"]) -> Float[Tensor, "sequences vocab_size"]:
        """The probabilities to sample from: temperature first, then top-k, then top-p among those that are left."""
        temperature = 1.0 if self.settings.temperature is None else self.settings.temperature
        logits = logits / temperature
        if self.settings.top_k is not None:
            least = logits.topk(min(self.settings.top_k, logits.shape[1])).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if self.settings.top_p is not None:
            ordered, order = logits.softmax(-1).sort(descending=True)
            # A token stays while those before it have not reached top_p: the likeliest one always does.
            late = ordered.cumsum(-1) - ordered >= self.settings.top_p
            logits = logits.masked_fill(late.scatter(1, order, late), -torch.inf)
        return logits.softmax(-1)

    def done(self) -> bool:
        return all(self.finished)

    def results(self) -> list[Generated]:
        penalty = self.settings.length_penalty
        pairs = zip(self.tokens, self.scores, strict=True)
        return [
            Generated([t for t in tokens if t != self.end], score / len(tokens) ** penalty) for tokens, score in pairs
        ]


class BeamSearch(Search):
    """Carry on the likeliest `beams` sequences; keep the best finished ones.

    Source: Wu et al. 2016, arXiv:1609.08144, section 7, with the length penalty, the candidates (2 beams) and the
    stopping rule of transformers (early_stopping=False), so that an exported model generates the same.
    """

    def __init__(
        self, rows: int, limit: int, end: int | None, settings: GenerateSettings, device: torch.device
    ) -> None:
        self.width, self.limit, self.end, self.penalty = settings.beams, limit, end, settings.length_penalty
        self.running = torch.zeros(rows, self.width, 0, dtype=torch.long, device=device)
        self.scores = torch.full((rows, self.width), UNREACHABLE, device=device)
        self.scores[:, 0] = 0.0  # all beams begin equal: only the first may be continued
        self.best = torch.full((rows, self.width, limit), -1, dtype=torch.long, device=device)
        self.best_scores = torch.full((rows, self.width), UNREACHABLE, device=device)
        self.finished = torch.zeros(rows, self.width, dtype=torch.bool, device=device)
        self.improvable = torch.ones(rows, 1, dtype=torch.bool, device=device)
        self.exhausted = False

    def choose(
        self, logits: Float[Tensor, "sequences vocab_size"]
    ) -> tuple[Int[Tensor, " sequences"], Int[Tensor, " sequences"]]:
        rows, length = len(self.scores), self.running.shape[2] + 1
        totals = self.scores[..., None] + logits.float().log_softmax(-1).view(rows, self.width, -1)
        candidates, flat = totals.flatten(1).topk(min(2 * self.width, totals[0].numel()))
        parents, tokens = flat // totals.shape[2], flat % totals.shape[2]
        sequences = torch.cat([pick(self.running, parents), tokens[..., None]], dim=2)
        ends = torch.full_like(tokens, length >= self.limit, dtype=torch.bool)
        if self.end is not None:
            ends |= tokens == self.end
        self.finish(sequences, candidates / length**self.penalty, ends)
        onward = (candidates + ends * UNREACHABLE).topk(self.width)
        self.scores, self.running = onward.values, pick(sequences, onward.indices)
        reachable = self.scores[:, :1] / length**self.penalty
        worst = torch.where(self.finished, self.best_scores.min(1, keepdim=True).values, UNREACHABLE)
        self.improvable &= (reachable > worst).any(1, keepdim=True)
        self.exhausted = bool(ends.all())
        offsets = torch.arange(rows, device=flat.device)[:, None] * self.width
        return self.running[..., -1].flatten(), (parents.gather(1, onward.indices) + offsets).flatten()

    def finish(
        self, sequences: Int[Tensor, "rows candidates length"], scores: Float[Tensor, "rows candidates"], ends: Tensor
    ) -> None:
        """Keep the best of the finished sequences and those that end now among the first `width` candidates."""
        now = ends & (torch.arange(ends.shape[1], device=ends.device) < self.width)
        scores = scores + (~now | ~self.improvable) * UNREACHABLE
        padded = torch.nn.functional.pad(sequences, (0, self.limit - sequences.shape[2]), value=-1)
        merged = torch.cat([self.best_scores, scores], dim=1)
        kept = merged.topk(self.width)
        self.best_scores = kept.values
        self.best = pick(torch.cat([self.best, padded], dim=1), kept.indices)
        self.finished = torch.cat([self.finished, now], dim=1).gather(1, kept.indices)

    def done(self) -> bool:
        return self.exhausted or not bool(self.improvable.any())

    def results(self) -> list[Generated]:
        best = zip(self.best[:, 0].tolist(), self.best_scores[:, 0].tolist(), strict=True)
        return [Generated([t for t in tokens if t not in (-1, self.end)], score) for tokens, score in best]


def pick(sequences: Int[Tensor, "rows n length"], which: Int[Tensor, "rows m"]) -> Int[Tensor, "rows m length"]:
    """Of each row the sequences with these numbers."""
    return sequences.gather(1, which[..., None].expand(-1, -1, sequences.shape[2]))
