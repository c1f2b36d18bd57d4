"""Kind `grid` of encoder: convolutional stages turn an image into a grid of states that can be attended to."""

from dataclasses import dataclass
from itertools import accumulate
from operator import mul

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from zoo.blocks.dropout import Dropout
from zoo.blocks.rows.documents import Documents
from zoo.blocks.rows.view import View, Visibility
from zoo.blocks.stage import StageOption, group_norm
from zoo.models.embeddings import EmbeddingSettings
from zoo.models.kinds.part import CHANNELS, Encoder, Memory, PartInput, States, encoders
from zoo.registry import refuse_below


@dataclass(frozen=True)
class GridSettings:
    """Settings of the encoder.

    Args:
        stages: in order, the first one reads the pixels.
        d_model, dropout: inherited from the model where the encoder does not set them.
        image_size: side of the square that images are cropped and resized to (pixels).
        groups: number of channel groups in the final group norm.
    """

    stages: tuple[StageOption, ...]
    d_model: int
    image_size: int = 64
    dropout: float = 0.1
    groups: int = 8

    def __post_init__(self) -> None:
        refuse_below(1, d_model=self.d_model, image_size=self.image_size)
        if not self.stages:
            raise ValueError("stages: a grid needs at least one")


@encoders.register("grid")
class GridEncoder(Encoder):
    """A convolutional network: W relu(norm(stages(pixels))) per grid position; an image's summary is their mean.

    An image is one document, its grid positions in row-major order. Pixels are bytes, scaled to the range -1 to 1.
    Source: Xu et al. 2015, arXiv:1502.03044, section 3.1.1 (annotation vectors); He et al. 2016, arXiv:1603.05027.
    """

    Settings = GridSettings
    max_length = 1  # an image is one position of its row
    image_size: int

    def __init__(self, settings: GridSettings, embeddings: EmbeddingSettings) -> None:
        super().__init__()
        self.d_model, self.n_layers = settings.d_model, len(settings.stages)
        self.image_size = settings.image_size
        width, built = CHANNELS, []
        for number, choice in enumerate(settings.stages):
            try:
                built.append(choice.build(width))
            except ValueError as error:
                raise ValueError(f"stages[{number}]: {error}") from None
            width = built[-1].d_output
        self.strides = list(accumulate((stage.stride for stage in built), mul))
        self.stages = nn.ModuleList(built)
        self.norm = group_norm(settings.groups, width)
        self.output = nn.Linear(width, self.d_model)
        self.dropout = Dropout(settings.dropout)

    def layers_upward(self) -> list[nn.Module]:
        return list(self.stages)

    @property
    def grids(self) -> list[tuple[int, int]]:
        return [(-(-self.image_size // stride),) * 2 for stride in self.strides]

    def blank(self, length: int, device: torch.device | str) -> Tensor:
        return torch.zeros(1, CHANNELS, self.image_size, self.image_size, dtype=torch.uint8, device=device)

    def forward(self, given: PartInput) -> Memory:
        refuse_other_pictures(given.tokens)
        weight = self.output.weight
        # channels stay first: with channels last torch's group norm took half of a bfloat16 step on a CPU
        x = given.tokens.to(weight.dtype) / 127.5 - 1
        recorder = given.recorders.get("encoder.self")
        for stage in self.stages:
            places = everywhere(x)
            view = View(Visibility(places, places), recorder=recorder)
            if self.recomputes:
                x = checkpoint(stage, x, view, use_reentrant=False)
            else:
                x = stage(x, view)
            view.end_layer()
        states = self.dropout(self.output(F.relu(self.norm(x)).flatten(2).transpose(1, 2)))
        return Memory(states, given.rows().repeat_positions(states.shape[1]), self)

    def summarize(
        self, states: States, documents: Int[Tensor, "batch row"], places: Int[Tensor, " places"]
    ) -> Float[Tensor, "places d_model"]:
        """Return the mean over each image's grid, whatever position of the image `places` names."""
        return states.mean(1)[places.clamp_min(0) // documents.shape[1]]


def everywhere(x: Float[Tensor, "batch channels height width"]) -> Documents:
    """Return all positions of each grid, in row-major order, as one document."""
    return Documents.of(None, x[:, 0].flatten(1))


def refuse_other_pictures(pictures: Tensor) -> None:
    """Check that images are uint8 tensors with channels first.

    Raises:
        ValueError: they are not.
    """
    if pictures.dtype != torch.uint8 or pictures.dim() != 4 or pictures.shape[1] != CHANNELS:
        got = f"{str(pictures.dtype).removeprefix('torch.')} {tuple(pictures.shape)}"
        raise ValueError(f"images: expected uint8 (batch, {CHANNELS}, height, width), 0 to 255, got {got}")
