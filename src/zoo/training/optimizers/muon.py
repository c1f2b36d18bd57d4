"""Optimizers that make the update of a matrix orthogonal."""

import torch
from torch import nn

from zoo.models.embeddings import Embeddings
from zoo.models.heads.head import Head
from zoo.models.heads.pooler import Pooler
from zoo.training.optimizers.optimizer import (
    NeedsWholeMatrices,
    added_to_scores,
    check_betas,
    check_momentum,
    decay_groups,
    fusible,
    optimizers,
    trained,
)

# what turns ids into vectors or states into scores, and the gates of a cell, which are several maps in one matrix
OUTSIDE = (Embeddings, nn.Embedding, Head, Pooler, nn.RNNBase)


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices within hidden layers: maps of one vector of states to another."""
    outside = {id(p) for module in model.modules() if isinstance(module, OUTSIDE) for p in module.parameters()}
    outside |= {id(p) for p in added_to_scores(model)}
    return [p for p in trained(model) if p.dim() == 2 and min(p.shape) > 1 and id(p) not in outside]


@optimizers.register("muon")
class HiddenMuon(NeedsWholeMatrices):
    """Matrices of hidden layers step by their momentum made orthogonal (torch's Muon), all else by AdamW.

    All else is: embeddings, heads, the pooler, norms, biases, scalars, convolutions and the gates of recurrent cells.
    An orthogonal update is scaled to the size that AdamW's has (0.2 sqrt(max(rows, columns)), Liu et al.), so both
    parts share one learning rate and one decay, and those that are good for AdamW are a good start.

    Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv:2502.16982, equation 4.

    Args:
        momentum, nesterov: of the matrices.
        betas, eps: of AdamW.
    """

    def __init__(
        self,
        model: nn.Module,
        learning_rate: float,
        *,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
    ) -> None:
        check_betas(betas, eps)
        check_momentum(momentum)
        matrices = hidden_matrices(model)
        inside = {id(p) for p in matrices}
        others = [p for p in trained(model) if id(p) not in inside]
        self.parts: list[torch.optim.Optimizer] = []
        if matrices:
            groups = decay_groups(model, matrices, weight_decay)
            muon = torch.optim.Muon(
                groups, learning_rate, momentum=momentum, nesterov=nesterov, adjust_lr_fn="match_rms_adamw"
            )
            self.parts.append(muon)
        if others:
            groups = decay_groups(model, others, weight_decay)
            self.parts.append(torch.optim.AdamW(groups, learning_rate, betas, eps, fused=fusible(others)))
        parts = enumerate(self.parts)
        super().__init__([{**group, "part": number} for number, part in parts for group in part.param_groups], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for number, part in enumerate(self.parts):
            # handed over each time: loading a state makes new ones
            part.param_groups = [group for group in self.param_groups if group["part"] == number]
            part.state = self.state
            part.step()
