"""What all classes of the shell have in common: a model of ours inside a `PreTrainedModel`."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from zoo.hub.modeling.cache import StateCache
from zoo.hub.modeling.config import ZooConfig
from zoo.hub.targets.declare.words import articles
from zoo.hub.targets.shell import with_classes
from zoo.models.kinds.part import Memory, Part, PartInput
from zoo.models.model import Model
from zoo.models.settings import ModelSettings
from zoo.objectives.cross_entropy import cross_entropy

IGNORED = -100  # transformers' mark of labels that do not count


@dataclass
class Inside:
    """The model itself; a plain object, so that torch finds its parts in the shell alone, under their own names."""

    model: Model


class Shell(PreTrainedModel):  # type: ignore[misc]
    """A model of ours that transformers loads, saves, generates with and trains.

    Class attributes:
        carries: the heads that it has; empty: those that the settings name.
        sides: the parts it can have; empty: any.
    """

    config_class = ZooConfig
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = True  # the count of labels in a whole step, by which losses are divided
    _supports_sdpa = True
    _is_stateful = True  # a state cannot go back, so there is no assisted generation
    carries: ClassVar[tuple[str, ...]] = ()
    sides: ClassVar[tuple[tuple[str, ...], ...]] = ()

    def __init__(self, config: ZooConfig) -> None:
        settings = self.settle(config)
        super().__init__(config)
        self.config.take(settings)
        model = Model(settings)
        self.inside = Inside(model)
        self.encoder, self.decoder, self.heads, self.pooler = model.encoder, model.decoder, model.heads, model.pooler
        if model.encoder is not None and model.encoder.image_size is not None:
            self.main_input_name = "pixel_values"
        for part in self.parts:
            # `generate` asks it of whatever is called `encoder`
            setattr(part, "main_input_name", self.main_input_name)  # noqa: B010 - a module declares tensors only
        self._tied_weights_keys = ties(model) or None  # `peft` asks a model with ties for its token vectors
        self._no_split_modules = {type(part).__name__ for part in self.parts}
        self.post_init()

    def settle(self, config: ZooConfig) -> ModelSettings:
        """The settings, with the heads that this class has.

        Raises:
            ValueError: the model does not have the parts for it.
        """
        settings = config.model_settings
        if self.sides and tuple(settings.parts) not in self.sides:
            can = " or ".join(map(articles, self.sides))
            raise ValueError(f"{type(self).__name__} has {can}; this model has {articles(settings.parts)}")
        return with_classes(settings, self.carries, config.num_labels) if self.carries else settings

    @property
    def parts(self) -> list[Part]:
        """The encoder and the decoder, where they are there."""
        return [part for part in (self.inside.model.encoder, self.inside.model.decoder) if part is not None]

    def score(self, head: str, states: Tensor, given: PartInput) -> Tensor:
        """A head's logits."""
        return self.inside.model.score(head, states, given, None)

    def encode(self, given: PartInput) -> Tensor:
        """The states of an encoder that stands alone, or of a whole row of a decoder that does."""
        part = self.inside.model.stream
        said = part(given)
        states: Tensor = said.states if isinstance(said, Memory) else said
        return states

    def decode(
        self, given: PartInput, memory: Memory | None, cache: StateCache | None = None, use_cache: bool | None = None
    ) -> tuple[Tensor, StateCache | None]:
        """The states of the decoder; of new tokens, where a cache has the others."""
        decoder = self.inside.model.decoder
        assert decoder is not None
        if cache is None and use_cache:
            cache = StateCache(decoder, len(given.tokens), memory)
        if cache is None:
            states: Tensor = decoder(given, memory)
            return states, None
        if given.segments is not None and bool(given.segments.any()):
            raise ValueError("token_type_ids: with a cache all tokens are of type 0; pass use_cache=False")
        return cache.step(given.tokens, given.documents), cache

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Let what no file gave begin as a new model of these settings begins; torch's seed decides."""
        named = [(name, p) for name, p in self.named_parameters() if not p.is_meta]
        fresh = [name for name, p in named if not getattr(p, "_is_hf_initialized", False)]
        if fresh:
            begun = Model(self.inside.model.settings).initialize(int(torch.randint(2**31, ())))
            drawn = dict(begun.named_parameters())
            for name in fresh:
                self.get_parameter(name).copy_(drawn[name])

    def _init_weights(self, module: nn.Module) -> None:
        """Nothing: `initialize_weights` has done it for the whole model."""

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False

    def _set_gradient_checkpointing(self, enable: bool = True, *_: Any, **__: Any) -> None:
        for part in self.parts:
            part.checkpoint_layers(enable)

    def get_input_embeddings(self) -> nn.Module:
        embeddings = self.inside.model.stream.embeddings
        if embeddings is None:
            raise NotImplementedError(f"{type(self).__name__} has no token vectors: it reads pictures")
        return embeddings.tokens

    def get_output_embeddings(self) -> None:
        """None: a tied head reads the token vectors without a module of its own."""

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *_: Any, **__: Any) -> nn.Module:
        """The token vectors, where their number stays.

        Raises:
            ValueError: another number is wanted.
        """
        size = self.config.vocab_size
        if new_num_tokens not in (None, size):
            raise ValueError(
                f"this model has {size} token vectors and cannot be resized to {new_num_tokens} here; "
                "`zoo finetune` adds the tokens that a task needs"
            )
        return self.get_input_embeddings()


def ties(model: Model) -> dict[str, str]:
    """Further names of tensors that several parts share -> the first."""
    first: dict[int, str] = {}
    return {
        name: kept
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if (kept := first.setdefault(id(parameter), name)) != name
    }


def documents_of(mask: Tensor | None, row: Tensor) -> Tensor | None:
    """What the mask shows as one document a row, for the last places that it speaks of; None where all is shown.

    Raises:
        ValueError: it is no mask of rows.
    """
    if mask is None:
        return None
    rows, length = row.shape[:2]
    if mask.dim() != 2 or mask.shape[1] < length or len(mask) != rows:
        raise ValueError(f"attention_mask: expected one number a token, {(rows, length)}; got {tuple(mask.shape)}")
    new = mask[:, -length:] > 0
    return None if bool(new.all()) else new.long()


def loss_of(*terms: tuple[Tensor, Tensor | None], count: Tensor | int | None = None) -> Tensor | None:
    """The mean cross-entropy over labels, added up over terms (logits, labels); None where no labels are given.

    Args:
        count: of the labels in all rows of a step, of which these may be a part; None: these are all.
    """
    losses = []
    for logits, labels in terms:
        if labels is not None:
            targets = labels.to(logits.device)
            targets = targets.where(targets != IGNORED, -1)
            known = (targets >= 0).sum() if count is None else torch.as_tensor(count, device=logits.device)
            losses.append(cross_entropy(logits, targets) / known.clamp_min(1))
    return sum(losses[1:], losses[0]) if losses else None
