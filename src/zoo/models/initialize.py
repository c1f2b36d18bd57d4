"""Slot `initialize`: how parameters begin, as published. Supplied: nothing."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from zoo.blocks.attention import Attention
from zoo.blocks.position import Learned, sinusoids
from zoo.blocks.residual import IntoScores, IntoStream
from zoo.models.embeddings import Embeddings
from zoo.registry import Slot


class Initializer(ABC):
    """Draws the first values of a model's matrices; norms, sinks and cells' biases keep their constructors'."""

    @abstractmethod
    def matrix(self, weight: Tensor, generator: torch.Generator) -> None:
        """A linear map's weight."""

    @abstractmethod
    def table(self, weight: Tensor, generator: torch.Generator) -> None:
        """A table of vectors: tokens, segments, positions."""

    def state(self, weight: Tensor, generator: torch.Generator) -> None:
        """A map from a recurrent state to itself: orthogonal, so that it neither grows nor fades.

        Source: Bahdanau et al. 2015, arXiv:1409.0473, section B.1; Saxe et al. 2014, arXiv:1312.6120.
        """
        drawn = torch.empty_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))  # torch's has no less
        weight.copy_(nn.init.orthogonal_(drawn, generator=generator))

    def filters(self, weight: Tensor, generator: torch.Generator) -> None:
        """A convolution's filters: the variance of what they read stays.

        Source: He et al. 2015, arXiv:1502.01852, equation 10, without the rectifier's 2.
        """
        nn.init.normal_(weight, 0.0, weight[0].numel() ** -0.5, generator=generator)

    def into_stream(self, n_layers: int) -> float:
        """What the maps that write into the residual stream of a stack are multiplied by."""
        return 1.0

    def into_scores(self, d_key: int) -> float:
        """What the maps to queries are multiplied by."""
        return 1.0

    def places(self, drawn: Tensor) -> Tensor:
        """A table of learned positions (max_length, d_model), given what `table` drew for it."""
        return drawn

    def agreement(self, query: Tensor, key: Tensor, d_key: int) -> tuple[Tensor, Tensor]:
        """The maps to queries and keys (heads · d_key, d_model) of self-attention, given what was drawn for them."""
        return query, key

    def projection(self, drawn: Tensor) -> Tensor:
        """The map (d_model, width) of token vectors to the stream, given what `matrix` drew for it."""
        return drawn


initializers: Slot[Initializer] = Slot("initialize")


@initializers.register("normal")
class Normal(Initializer):
    """Normal numbers around 0.

    Source: Radford et al. 2018 (GPT-1) and Devlin et al. 2019 (BERT): standard deviation 0.02; Radford et al. 2019
    (GPT-2), section 2.3: maps into the residual stream scaled by 1/sqrt(N), N their number: two for each layer.

    Args:
        std: standard deviation, above 0: of zeros alone, nothing could be learned.
        truncated: draw again beyond two standard deviations (BERT's code).
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
    """Normal numbers, but attention starts like a trained one: each position attends to similar and near ones.

    Keys begin as the queries, so that a score is |W x|^2 of what two places share, and learned positions begin as the
    sinusoids of 2017, which are alike where they are near. Where a map brings token vectors to d_model, they keep their
    size. Uniform attention, a bag of words, is the plateau that a masked-word model has to leave first.

    Source: Trockman & Kolter 2023, arXiv:2305.09828, section 3 (products of query and key maps near a multiple of the
    identity; sinusoidal positions); here by one drawn map for both.

    Args:
        std: standard deviation.
        truncated: draw again beyond two standard deviations.
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
        shared = len(heads) * d_key // len(key)  # heads of one group read the keys of its first
        return query, heads[::shared].flatten(0, 1)

    def projection(self, drawn: Tensor) -> Tensor:
        # vectors as large as they were: with 0.02, as the 2020 paper's code has it, the first layer's scores would be
        # near 0 and its attention uniform
        return drawn * (drawn.shape[1] ** -0.5 / drawn.std())


@initializers.register("xavier")
class Xavier(Initializer):
    """Uniform numbers with variance 2 / (fan_in + fan_out); tables normal with standard deviation d_model^-0.5.

    Source: Glorot & Bengio 2010, equation 16. The 2017 paper does not say; this is its authors' tensor2tensor code
    (arXiv:1803.07416), whose tables are scaled back by sqrt(d_model) on the way in.
    """

    def matrix(self, weight: Tensor, generator: torch.Generator) -> None:
        nn.init.xavier_uniform_(weight, generator=generator)

    def table(self, weight: Tensor, generator: torch.Generator) -> None:
        nn.init.normal_(weight, 0.0, weight.shape[1] ** -0.5, generator=generator)


@initializers.register("t5")
class T5(Initializer):
    """Normal numbers with variance 1 / fan_in, tables with variance 1; queries are divided by sqrt(d_key).

    Source: Raffel et al. 2020, arXiv:1910.10683; the authors' Mesh TensorFlow code, whose scores (`dot`) are not
    divided later. There tables of relative positions begin smaller.
    """

    def matrix(self, weight: Tensor, generator: torch.Generator) -> None:
        nn.init.normal_(weight, 0.0, weight.shape[1] ** -0.5, generator=generator)

    def table(self, weight: Tensor, generator: torch.Generator) -> None:
        nn.init.normal_(weight, 0.0, 1.0, generator=generator)

    def into_scores(self, d_key: int) -> float:
        return float(d_key**-0.5)


@torch.no_grad()
def initialize(model: nn.Module, initializer: Initializer, n_layers: int, generator: torch.Generator) -> None:
    """Draw every matrix and table of a part of a model; biases of linear maps begin at 0.

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
    for module in model.modules():  # again, since these change what has been drawn
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
    """Draw the two maps of every gate."""
    for name, weight in kernel.named_parameters():
        if "weight" in name:
            draw = initializer.state if "weight_hh" in name else initializer.matrix
            for gate in weight.view(-1, kernel.hidden_size, weight.shape[1]):
                draw(gate, generator)
