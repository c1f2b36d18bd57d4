"""Slot `head`: what scores the states. Supplied: d_model, vocab_size, pooled."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from zoo.blocks.activation import ActivationOption, activations
from zoo.blocks.dropout import Dropout
from zoo.blocks.norm import NormOption, norms
from zoo.registry import Choice, Slot


class Head(nn.Module, ABC):
    """Scores vectors: one for each place it is asked for.

    Class attributes:
        scores_documents: whether it scores documents (one vector each) instead of tokens.
    """

    scores_documents: ClassVar[bool]

    @abstractmethod
    def forward(
        self, states: Float[Tensor, "*places d_model"], table: Float[Tensor, "vocab_size width"]
    ) -> Float[Tensor, "*places n"]:
        """Logits; `table` is the matrix of token vectors, for heads that are tied to it."""


heads: Slot[Head] = Slot("head")


@dataclass(frozen=True)
class PoolerSettings:
    """How a document's summary becomes the vector that heads score.

    Args:
        activation: a registered activation.
        norm: applied at the end (ModernBERT); None: none.
        bias: whether the linear map has a bias.
        mean: summarize a document by the mean of its states instead of what its encoder gives.
    """

    activation: Annotated[Choice[nn.Module], activations] = activations.parse("tanh")
    norm: Annotated[Choice[nn.Module], norms] | None = None
    bias: bool = True
    mean: bool = False


def average(
    states: Float[Tensor, "batch length d_model"],
    documents: Int[Tensor, "batch length"],
    places: Int[Tensor, " places"],
) -> Float[Tensor, "places d_model"]:
    """The mean state of the document that each flat place (row * length + place; -1: any document) belongs to."""
    places = places.clamp_min(0)
    rows = places // documents.shape[1]
    its = (documents[rows] == documents.flatten()[places][:, None]).to(states.dtype)
    return torch.einsum("pl,pld->pd", its / its.sum(1, keepdim=True), states[rows])


class Pooler(nn.Module):
    """norm(f(x W + b)) of a document's summary; tanh(x W + b) in BERT.

    Source: Devlin et al. 2019, arXiv:1810.04805; the authors' code. With gelu and a norm: Warner et al. 2024
    (ModernBERT), arXiv:2412.13663; the authors' code.
    """

    def __init__(self, d_model: int, settings: PoolerSettings) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model, settings.bias)
        self.activation = settings.activation.build()
        self.norm = None if settings.norm is None else settings.norm.build(d_model)

    def forward(self, summary: Float[Tensor, "documents d_model"]) -> Float[Tensor, "documents d_model"]:
        pooled: Tensor = self.activation(self.dense(summary))
        return pooled if self.norm is None else self.norm(pooled)


@heads.register("language")
class LanguageHead(Head):
    """Scores of the next token: x E' with the token vectors E, or with a matrix of its own.

    Source: Press & Wolf 2017, arXiv:1608.05859; Vaswani et al. 2017, section 3.4.

    Args:
        tied: whether E is the matrix of token vectors.
        bias: whether a learned bias is added.
        scale: divide x by sqrt(d_model), for token vectors of size 1 (Raffel et al. 2020, arXiv:1910.10683; T5's code).
    """

    scores_documents = False

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        pooled: bool,
        *,
        tied: bool = True,
        bias: bool = False,
        scale: bool = False,
    ) -> None:
        super().__init__()
        self.output = None if tied else nn.Linear(d_model, vocab_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if bias else None
        self.factor = d_model**-0.5 if scale else 1.0

    def forward(
        self, states: Float[Tensor, "*places d_model"], table: Float[Tensor, "vocab_size width"]
    ) -> Float[Tensor, "*places n"]:
        states = states if self.factor == 1.0 else states * self.factor
        return F.linear(states, table if self.output is None else self.output.weight, self.bias)


@heads.register("masked_lm")
class MaskedLMHead(Head):
    """norm(f(x W + b)) E' + c, with the token vectors E.

    Source: Devlin et al. 2019, arXiv:1810.04805; the authors' code. Without bias in W as in ModernBERT.

    Args:
        activation: f, a registered activation.
        norm: a registered norm.
        bias: whether W has a bias (c is always there).
    """

    scores_documents = False

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        pooled: bool,
        *,
        activation: ActivationOption = "gelu",
        norm: NormOption = "layernorm",
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model, bias)
        self.activation = activations.build(activation)
        self.norm = norms.build(norm, d_model)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(
        self, states: Float[Tensor, "*places d_model"], table: Float[Tensor, "vocab_size width"]
    ) -> Float[Tensor, "*places n"]:
        return F.linear(self.norm(self.activation(self.dense(states))), table, self.bias)


@heads.register("next_sentence")
class NextSentenceHead(Head):
    """Scores of "is next" (0) and "is not" (1), from the pooled summary.

    Source: Devlin et al. 2019, arXiv:1810.04805, section 3.1, task 2.
    """

    scores_documents = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool) -> None:
        super().__init__()
        self.output = nn.Linear(d_model, 2)

    def forward(
        self, states: Float[Tensor, "*places d_model"], table: Float[Tensor, "vocab_size width"]
    ) -> Float[Tensor, "*places n"]:
        logits: Tensor = self.output(states)
        return logits


@heads.register("classification")
class ClassificationHead(Head):
    """One score for each class: from the pooled summary of an encoder, or a decoder's last place (then without bias).

    Source: Devlin et al. 2019, section 4.1; Radford et al. 2018 (GPT-1), equation 3.

    Args:
        labels: number of classes.
        dropout: share of the vector dropped in training; the model's, where it is not set.
    """

    scores_documents = True

    def __init__(self, d_model: int, vocab_size: int, pooled: bool, *, labels: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        if labels < 2:
            raise ValueError(f"classification needs at least 2 labels, got {labels}")
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(d_model, labels, bias=pooled)

    def forward(
        self, states: Float[Tensor, "*places d_model"], table: Float[Tensor, "vocab_size width"]
    ) -> Float[Tensor, "*places n"]:
        logits: Tensor = self.output(self.dropout(states))
        return logits
