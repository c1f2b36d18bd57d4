"""Slot `initialize`: how parameters are initialized, as published. Supplied: nothing."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from zoo.blocks.attention import Attention
from zoo.blocks.position import Learned, sinusoids
from zoo.blocks.residual import IntoScores, IntoStream
from zoo.models.embeddings import Embeddings
from zoo.registry import Slot


class Initializer(ABC):
    """Initializes a model's matrices; norms, attention sinks and recurrent biases keep what their constructors set."""

    @abstractmethod
    def matrix(self, weight: Tensor, generator: torch.Generator) -> None:
        """Initialize a linear layer's weight in place."""

    @abstractmethod
    def table(self, weight: Tensor, generator: torch.Generator) -> None:
        """Initialize a table of token, segment or position vectors in place."""

    def state(self, weight: Tensor, generator: torch.Generator) -> None:
        """Initialize a map from a recurrent state to itself: orthogonal, so that the state neither grows nor fades.

        Source: Bahdanau et al. 2015, arXiv:1409.0473, section B.1; Saxe et al. 2014, arXiv:1312.6120.
        """
        drawn = torch.empty_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))  # no half precision
        weight.copy_(nn.init.orthogonal_(drawn, generator=generator))

    def filters(self, weight: Tensor, generator: torch.Generator) -> None:
        """Initialize a convolution's filters so that they keep the variance of their input.

        Source: He et al. 2015, arXiv:1502.01852, equation 10, without the rectifier's 2.
        """
        nn.init.normal_(weight, 0.0, weight[0].numel() ** -0.5, generator=generator)

    def into_stream(self, n_layers: int) -> float:
        """Return the factor for maps that write into a stack's residual stream."""
        return 1.0

    def into_scores(self, d_key: int) -> float:
        """Return the factor for maps to queries."""
        return 1.0

    def places(self, drawn: Tensor) -> Tensor:
        """Return the initial table of learned positions (max_length, d_model), given what `table` drew."""
        return drawn

    def agreement(self, query: Tensor, key: Tensor, d_key: int) -> tuple[Tensor, Tensor]:
        """Return the initial query and key maps (heads · d_key, d_model) of self-attention, given what was drawn."""
        return query, key

    def projection(self, drawn: Tensor) -> Tensor:
        """Return the initial map (d_model, width) from token vectors to the stream, given what `matrix` drew."""
        return drawn


initializers: Slot[Initializer] = Slot("initialize")


@initializers.register("normal")
class Normal(Initializer):
    """Normal distribution with mean 0.

    Source: Radford et al. 2018 (GPT-1) and Devlin et al. 2019 (BERT): standard deviation 0.02; Radford et al. 2019
    (GPT-2), section 2.3: maps into the residual stream scaled by 1/sqrt(N), N their number: two per layer.

    Args:
        std: standard deviation, above 0: with zeros alone, nothing could be learned.
        truncated: truncate at two standard deviations (BERT's code).
        residual: scale the maps into the residual stream by 1/sqrt(2 n_layers) (GPT-2).
    """

    def __init__(self, *, std: float = 0.02, truncated: bool = False, residual: bool = False) -> None:
        if std <= 0:
            raise ValueError(f"initialize: std must be above 0, got {std}")
        self.std, self.truncated, self.residual = std, truncated, residual

    def matrix(self, weight: Tensor, generator: torch.Generator) -> None:
        if self.truncated:
            nn.init.trunc_normal_(weight, 0.0, self.std, -2 * self.std, 2 * self.std, generator=generator)
        else:
            nn.init.normal_(weight, 0.0, self.std, generator=generator)

    def table(self, weight: Tensor, generator: torch.Generator) -> None:
        self.matrix(weight, generator)

    def into_stream(self, n_layers: int) -> float:
        return (2 * n_layers) ** -0.5 if self.residual else 1.0


@initializers.register("mimetic")
class Mimetic(Normal):
    """Normal distribution, but attention starts like a trained one: each position attends to similar and near ones.

    The key map starts equal to the query map, so that the score of two positions is large where they are similar, and
    learned positions start as the sinusoids of 2017, which are similar for near positions. A map from token vectors to
    d_model keeps their norm. A masked language model otherwise starts with uniform attention, a bag of words, and has
    to leave that plateau first.

    Source: Trockman & Kolter 2023, arXiv:2305.09828, section 3 (products of query and key maps near a multiple of the
    identity; sinusoidal positions); here one drawn map serves as both.

    Args:
        std: standard deviation.
        truncated: truncate at two standard deviations.
        residual: scale the maps into the residual stream by 1/sqrt(2 n_layers).
        scores: standard deviation of the maps to queries and keys, above 0.
    """

    def __init__(
        self, *, std: float = 0.02, truncated: bool = False, residual: bool = False, scores: float = 0.05
    ) -> None:
        super().__init__(std=std, truncated=truncated, residual=residual)
        if scores <= 0:
            raise ValueError(f"initialize: scores must be above 0, got {scores}")
        self.scores = scores

    def places(self, drawn: Tensor) -> Tensor:
        return sinusoids(*drawn.shape) * self.std * 2**0.5  # sines have a mean square of 1/2

    def agreement(self, query: Tensor, key: Tensor, d_key: int) -> tuple[Tensor, Tensor]:
        query = query * (self.scores / query.std())
        heads = query.view(-1, d_key, query.shape[1])
        shared = len(heads) * d_key // len(key)  # query heads per key head: the first one's map is used
        return query, heads[::shared].flatten(0, 1)

    def projection(self, drawn: Tensor) -> Tensor:
        # keeps the vectors' norm: with 0.02, as in the code of ELECTRA (2020), the first layer's scores would be near 0
        # and its attention uniform
        return drawn * (drawn.shape[1] ** -0.5 / drawn.std())


@initializers.register("xavier")
class Xavier(Initializer):
    """Uniform with variance 2 / (fan_in + fan_out); tables normal with standard deviation d_model^-0.5.

    Source: Glorot & Bengio 2010, equation 16. The 2017 paper does not specify it; this is its authors' tensor2tensor
    code (arXiv:1803.07416), which multiplies token vectors by sqrt(d_model) in the forward pass.
    """

    def matrix(self, weight: Tensor, generator: torch.Generator) -> None:
        nn.init.xavier_uniform_(weight, generator=generator)

    def table(self, weight: Tensor, generator: torch.Generator) -> None:
        nn.init.normal_(weight, 0.0, weight.shape[1] ** -0.5, generator=generator)


@initializers.register("t5")
class T5(Initializer):
    """Normal with variance 1 / fan_in, tables with variance 1; query maps are divided by sqrt(d_key).

    Source: Raffel et al. 2020, arXiv:1910.10683; the authors' Mesh TensorFlow code, whose attention does not divide the
    scores (`dot`). There, tables of relative positions start smaller.
    """

    def matrix(self, weight: Tensor, generator: torch.Generator) -> None:
        nn.init.normal_(weight, 0.0, weight.shape[1] ** -0.5, generator=generator)

    def table(self, weight: Tensor, generator: torch.Generator) -> None:
        nn.init.normal_(weight, 0.0, 1.0, generator=generator)

    def into_scores(self, d_key: int) -> float:
        return float(d_key**-0.5)


@torch.no_grad()
def initialize(model: nn.Module, initializer: Initializer, n_layers: int, generator: torch.Generator) -> None:
    """Initialize every matrix and table of a part of a model in place; biases of linear layers start at 0.

    Args:
        n_layers: layers of the stack that the part's residual stream runs through.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            initializer.matrix(module.weight, generator)
            if isinstance(module, IntoStream):
                module.weight.mul_(initializer.into_stream(n_layers))
            if isinstance(module, IntoScores):
                module.weight.mul_(initializer.into_scores(module.d_key))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            initializer.table(module.weight, generator)
        elif isinstance(module, nn.Conv1d | nn.Conv2d):
            initializer.filters(module.weight, generator)
        elif isinstance(module, nn.RNNBase):
            initialize_recurrence(module, initializer, generator)
    for module in model.modules():  # a second pass, since these change what was drawn
        if isinstance(module, Embeddings) and module.project is not None:
            module.project.weight.copy_(initializer.projection(module.project.weight))
        elif isinstance(module, Learned):
            module.table.weight.copy_(initializer.places(module.table.weight))
        elif isinstance(module, Attention) and not module.crosses:
            query, key = module.query, module.key
            if isinstance(query, IntoScores) and isinstance(key, nn.Linear):
                maps = initializer.agreement(query.weight, key.weight, module.d_key)
                query.weight.copy_(maps[0])
                key.weight.copy_(maps[1])


def initialize_recurrence(kernel: nn.RNNBase, initializer: Initializer, generator: torch.Generator) -> None:
    """Initialize the input and state maps of every gate."""
    for name, weight in kernel.named_parameters():
        if "weight" in name:
            draw = initializer.state if "weight_hh" in name else initializer.matrix
            # torch stacks the gates along the first axis, but fan and orthogonality are those of each gate's own map
            for gate in weight.view(-1, kernel.hidden_size, weight.shape[1]):
                draw(gate, generator)
