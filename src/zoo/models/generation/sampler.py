"""Greedy decoding and sampling: one sequence per row."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.models.generation.random import exponential
from zoo.models.generation.search import NO_TOKEN, Generated, NextLogits, NextTokens, Search, nan_if_infinite
from zoo.models.generation.settings import GenerateSettings

MIN_TOP_P = 1e-30  # top_p: a value that is 0 in float32 would remove even the likeliest token
MIN_TEMPERATURE = 1e-30  # temperature: lower ones change nothing, as all but the likeliest tokens have probability 0


class Sampler(Search):
    """Take the likeliest token of each row, or a sample.

    Source: Fan et al. 2018, arXiv:1805.04833 (top-k); Holtzman et al. 2020, arXiv:1904.09751 (top-p).
    """

    width = 1

    def __init__(
        self, texts: Int[Tensor, " rows"], limits: Sequence[int], end: int | None, settings: GenerateSettings
    ) -> None:
        self.settings, self.texts, self.end = settings, texts, end
        self.limits = torch.tensor(limits, device=texts.device)
        self.tokens = texts.new_full((len(texts), max(limits)), NO_TOKEN)
        self.log_probabilities = torch.zeros(self.tokens.shape, dtype=torch.float32, device=texts.device)
        self.ended = torch.zeros(len(texts), dtype=torch.bool, device=texts.device)
        self.steps = 0

    def choose(self, logits: NextLogits) -> tuple[NextTokens, None]:
        logits = logits.float()
        picked = self.sample(logits) if self.settings.samples else logits.argmax(-1)
        gains = logits.log_softmax(-1).gather(1, picked[:, None])[:, 0] + nan_if_infinite(logits)
        self.log_probabilities[:, self.steps] = gains.where(~self.ended, 0.0)
        self.tokens[:, self.steps] = picked.where(~self.ended, NO_TOKEN)
        self.steps += 1
        self.ended = self.ended | (self.limits <= self.steps)
        if self.end is not None:
            self.ended = self.ended | (picked == self.end)
        return picked, None

    def sample(self, logits: NextLogits) -> NextTokens:
        """Draw one token per row, which depends on the row's own text and logits alone."""
        probabilities = self.probabilities(logits)
        draws = exponential(self.settings.seed, self.texts, self.steps, probabilities.shape[1])
        return (probabilities / draws).argmax(-1)

    def probabilities(self, logits: NextLogits) -> Float[Tensor, "sequences vocab_size"]:
        """Return the probabilities to sample from: temperature, then top-k, then top-p over the remaining tokens."""
        temperature = 1.0 if self.settings.temperature is None else max(self.settings.temperature, MIN_TEMPERATURE)
        # subtract the largest logit first: it stays 0, where a low temperature would make it infinite
        logits = (logits - logits.amax(-1, keepdim=True)) / temperature
        if self.settings.top_k is not None:
            least = logits.topk(min(self.settings.top_k, logits.shape[1])).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if self.settings.top_p is not None:
            ordered, order = logits.softmax(-1).sort(descending=True)
            # a token is kept if those before it sum to less than top_p, so the likeliest one always is
            late = ordered.cumsum(-1) - ordered >= max(self.settings.top_p, MIN_TOP_P)
            logits = logits.masked_fill(late.scatter(1, order, late), -torch.inf)
        return logits.softmax(-1)

    def take(self, rows: Int[Tensor, " kept"]) -> None:
        self.texts, self.limits, self.tokens = self.texts[rows], self.limits[rows], self.tokens[rows]
        self.log_probabilities, self.ended = self.log_probabilities[rows], self.ended[rows]

    def results(self) -> list[Generated]:
        found = []
        for row, gains in zip(self.tokens[:, : self.steps].tolist(), self.log_probabilities.tolist(), strict=True):
            tokens = [token for token in row if token != NO_TOKEN]
            score = sum(gains) / len(tokens) ** self.settings.length_penalty
            found.append(Generated([token for token in tokens if token != self.end], score))
        return found
