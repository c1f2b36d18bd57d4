"""One token after the other: the likeliest, or a sample."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.models.generation.random import exponential
from zoo.models.generation.search import Generated, Search
from zoo.models.generation.settings import GenerateSettings


class Sampler(Search):
    """One token after the other: the likeliest, or a sample.

    Source: Fan et al. 2018, arXiv:1805.04833 (top-k); Holtzman et al. 2020, arXiv:1904.09751 (top-p).
    """

    width = 1

    def __init__(
        self, texts: Int[Tensor, " rows"], limits: Sequence[int], end: int | None, settings: GenerateSettings
    ) -> None:
        self.settings, self.texts, self.limits, self.end = settings, texts, limits, end
        self.tokens: list[list[int]] = [[] for _ in limits]
        self.scores = [0.0] * len(limits)
        self.finished = [False] * len(limits)
        self.steps = 0

    def choose(self, logits: Float[Tensor, "sequences vocab_size"]) -> tuple[Int[Tensor, " sequences"], None]:
        log_probs = logits.float().log_softmax(-1)
        picked = self.sample(logits.float()) if self.settings.samples else log_probs.argmax(-1)
        gains = log_probs.gather(1, picked[:, None])[:, 0].tolist()
        for row, token in enumerate(picked.tolist()):
            if not self.finished[row]:
                self.scores[row] += gains[row]
                self.tokens[row].append(token)
                self.finished[row] = token == self.end or len(self.tokens[row]) >= self.limits[row]
        self.steps += 1
        return picked, None

    def sample(self, logits: Float[Tensor, "sequences vocab_size"]) -> Int[Tensor, " sequences"]:
        """A token a row, which depends on the row's own text and logits alone."""
        shares = self.shares(logits)
        return (shares / exponential(self.settings.seed, self.texts, self.steps, shares.shape[1])).argmax(-1)

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

    def running(self) -> list[bool]:
        return [not finished for finished in self.finished]

    def results(self) -> list[Generated]:
        penalty = self.settings.length_penalty
        pairs = zip(self.tokens, self.scores, strict=True)
        return [
            Generated([t for t in tokens if t != self.end], score / len(tokens) ** penalty) for tokens, score in pairs
        ]
