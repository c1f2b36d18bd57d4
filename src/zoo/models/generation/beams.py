"""Beam search."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from zoo.models.generation.search import NO_TOKEN, Generated, NextLogits, NextTokens, Search, nan_if_infinite
from zoo.models.generation.settings import GenerateSettings

UNREACHABLE = -1.0e30  # lower than any sequence's score at any penalty; finite, so that sums stay finite


class BeamSearch(Search):
    """Extend the likeliest `beams` sequences of each row; keep the best finished ones.

    Source: Wu et al. 2016, arXiv:1609.08144, section 7, with the length penalty, the candidates (2 beams) and the
    stopping rule of transformers (early_stopping=False), so that an exported model generates the same.

    Attributes:
        sequences, scores: the running beams: (rows, width, tokens so far), and log-probabilities (rows, width).
        best, best_scores: the best finished sequences (rows, width, most tokens), and their scores with the penalty.
        finished: whether a slot of `best` is filled (rows, width).
        improvable: whether a running beam may still beat a finished one (rows, 1).
    """

    def __init__(
        self, limits: Sequence[int], end: int | None, settings: GenerateSettings, device: torch.device
    ) -> None:
        self.width, self.end, self.penalty = settings.beams, end, settings.length_penalty
        rows, self.limits = len(limits), torch.tensor(limits, device=device)[:, None]
        self.sequences = torch.zeros(rows, self.width, 0, dtype=torch.long, device=device)
        self.scores = torch.full((rows, self.width), UNREACHABLE, dtype=torch.float32, device=device)
        self.scores[:, 0] = 0.0  # all beams start equal, so only the first may be extended
        self.best = torch.full((rows, self.width, max(limits)), NO_TOKEN, dtype=torch.long, device=device)
        self.best_scores = torch.full_like(self.scores, UNREACHABLE)
        self.finished = torch.zeros(rows, self.width, dtype=torch.bool, device=device)
        self.improvable = torch.ones(rows, 1, dtype=torch.bool, device=device)
        self.ended = torch.zeros(rows, dtype=torch.bool, device=device)

    def choose(self, logits: NextLogits) -> tuple[NextTokens, NextTokens]:
        rows, length = len(self.scores), self.sequences.shape[2] + 1
        scores = self.scores + nan_if_infinite(logits).view(rows, self.width)
        totals = scores[..., None] + logits.float().log_softmax(-1).view(rows, self.width, -1)
        # twice the beams: `width` candidates may end here, and `width` must go on
        candidates, flat = totals.flatten(1).topk(min(2 * self.width, totals[0].numel()))
        parents, tokens = flat // totals.shape[2], flat % totals.shape[2]
        sequences = torch.cat([select(self.sequences, parents), tokens[..., None]], dim=2)
        last = length >= self.limits
        ends = last.expand_as(tokens).clone()
        if self.end is not None:
            ends |= tokens == self.end
        self.finish(sequences, candidates / length**self.penalty, ends)
        onward = (candidates + ends.float() * UNREACHABLE).topk(self.width)
        self.scores, self.sequences = onward.values, select(sequences, onward.indices)
        reachable = self.scores[:, :1] / length**self.penalty
        worst = torch.where(self.finished, self.best_scores.min(1, keepdim=True).values, UNREACHABLE)
        self.improvable &= (reachable > worst).any(1, keepdim=True) & ~last
        self.ended = ~self.improvable[:, 0]
        offsets = torch.arange(rows, device=flat.device)[:, None] * self.width
        return self.sequences[..., -1].flatten(), (parents.gather(1, onward.indices) + offsets).flatten()

    def finish(
        self, sequences: Int[Tensor, "rows candidates length"], scores: Float[Tensor, "rows candidates"], ends: Tensor
    ) -> None:
        """Keep the best `width` of the finished sequences and of the first `width` candidates that end now.

        Args:
            ends: whether a candidate ends (rows, candidates).
        """
        now = ends & (torch.arange(ends.shape[1], device=ends.device) < self.width)
        scores = scores + (~now | ~self.improvable).float() * UNREACHABLE
        padded = F.pad(sequences, (0, self.best.shape[2] - sequences.shape[2]), value=NO_TOKEN)
        merged = torch.cat([self.best_scores, scores], dim=1)
        kept = merged.topk(self.width)
        self.best_scores = kept.values
        self.best = select(torch.cat([self.best, padded], dim=1), kept.indices)
        self.finished = torch.cat([self.finished, now], dim=1).gather(1, kept.indices)

    def take(self, rows: Int[Tensor, " kept"]) -> None:
        self.limits, self.sequences, self.scores = self.limits[rows], self.sequences[rows], self.scores[rows]
        self.best, self.best_scores, self.finished = self.best[rows], self.best_scores[rows], self.finished[rows]
        self.improvable, self.ended = self.improvable[rows], self.ended[rows]

    def results(self) -> list[Generated]:
        best = zip(self.best[:, 0].tolist(), self.best_scores[:, 0].tolist(), strict=True)
        return [Generated([t for t in tokens if t not in (NO_TOKEN, self.end)], score) for tokens, score in best]


def select(sequences: Int[Tensor, "rows n length"], which: Int[Tensor, "rows m"]) -> Int[Tensor, "rows m length"]:
    """Select sequences of each row by index."""
    return sequences.gather(1, which[..., None].expand(-1, -1, sequences.shape[2]))
