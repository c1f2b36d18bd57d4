"""The base of zoo's transformers classes: a zoo model inside a `PreTrainedModel`."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, ModelOutput
from transformers.utils.generic import can_return_tuple

from zoo.blocks.rows.documents import Documents
from zoo.hub.modeling.cache import StateCache
from zoo.hub.modeling.config import ZooConfig
from zoo.hub.modeling.inputs import documents_of, part_input, shift
from zoo.hub.modeling.losses import LOSSES, detection_loss, mean_loss, problem_of
from zoo.hub.targets.declare.spelling import name_parts
from zoo.hub.targets.zoo_target import heads_of, plain_settings, with_heads
from zoo.models.kinds.part import Encoder, Memory, PartInput
from zoo.models.model import Model
from zoo.models.reading import Reading
from zoo.models.settings import ModelSettings

F = TypeVar("F", bound=Callable[..., Any])
INPUT_ARGUMENTS = ("input_ids", "attention_mask", "token_type_ids")
LABEL_ARGUMENTS = ("labels", "num_items_in_batch")
OLD_CACHE = "past_key_values"  # transformers' name of `cache` before 5.24
UNUSED_ARGUMENTS = {"tokenizer"}  # `generate` uses it for its stop strings, and passes it on to the model


def checked_forward(forward: F) -> F:
    """Let a forward pass return a tuple for `return_dict=False`, and refuse arguments that its class does not take.

    Tools pass `inputs_embeds`, `position_ids`, `output_attentions` and the like to every model, mostly empty. Empty
    ones are dropped; any other would be silently ignored, so it is an error (positions follow from the mask). The cache
    may have either of its names: transformers 5.24 renamed `past_key_values` to `cache`.
    """

    @wraps(forward)
    def wrapped(self: Any, *given: Any, **named: Any) -> Any:
        known = {name: value for name, value in named.items() if name not in UNUSED_ARGUMENTS}
        passed = {name: value for name, value in known.items() if value is not None and value is not False}
        if "cache" in self.arguments and OLD_CACHE in passed:
            if "cache" in passed:
                raise ValueError(f"cache and {OLD_CACHE} are two names of one thing; pass one of them")
            passed["cache"] = passed.pop(OLD_CACHE)
        if refused := [name for name in passed if name not in self.arguments]:
            raise ValueError(f"{type(self).__name__} does not take {', '.join(refused)}")
        if hasattr(self, "_hf_hook") and any(parameter.is_meta for parameter in self.parameters()):
            # accelerate loads offloaded weights when their module is called, but a tied head reads them directly
            raise ValueError(f"{type(self).__name__} cannot be offloaded: load it where all weights fit into memory")
        return forward(self, *given, **passed)

    return can_return_tuple(wrapped)  # type: ignore[no-any-return]


class SourceReader(nn.Module):
    """An encoder with the arguments and the output that `generate` expects."""

    arguments = ("input_ids", "attention_mask", "pixel_values")

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    @checked_forward
    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, pixel_values: Tensor | None = None
    ) -> Any:
        memory = self.encoder(part_input(input_ids if pixel_values is None else pixel_values, attention_mask))
        return BaseModelOutput(last_hidden_state=memory.states)


class Shell(PreTrainedModel):  # type: ignore[misc]
    """A zoo model that transformers loads, saves, trains and generates with.

    Class attributes:
        head_names: the heads of the class, unless the folder names others for it; None: the folder's heads, all unused.
        sides: the allowed combinations of parts; empty: any.
        arguments: the arguments of `forward` that the class accepts.
        output_class: the type of its output, whose fields decide what is returned.
        shifts: whether the logits at a position are compared with the label of the next one.
    """

    config_class = ZooConfig
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = True  # `num_items_in_batch`: labels in the whole optimizer step, by which losses are divided
    _supports_sdpa = True
    _is_stateful = True  # a state cannot drop tokens, which assisted generation needs
    head_names: ClassVar[tuple[str, ...] | None] = ()
    sides: ClassVar[tuple[tuple[str, ...], ...]] = ()
    arguments: ClassVar[tuple[str, ...]] = (*INPUT_ARGUMENTS, *LABEL_ARGUMENTS)
    output_class: ClassVar[type[ModelOutput]]
    shifts: ClassVar[bool] = False
    zoo_model: Model

    def __init__(self, config: ZooConfig) -> None:
        settings = self.class_settings(config)
        super().__init__(config)
        self.config.settings = plain_settings(settings)  # what `save_pretrained` writes
        model = Model(settings)
        self.__dict__["zoo_model"] = model  # not as a submodule, so that each tensor has one name only
        self.encoder, self.decoder, self.heads, self.pooler = model.encoder, model.decoder, model.heads, model.pooler
        self._modules = model._modules  # shared, so that `zoo_model` uses modules that peft replaces
        if model.parts[0].image_size is not None:
            self.main_input_name = "pixel_values"
        # `generate` reads this attribute of the module named `encoder`
        setattr(model.parts[0], "main_input_name", self.main_input_name)  # noqa: B010 - a module declares tensors only
        # None without ties: peft asks any model with ties for its token embeddings
        self._tied_weights_keys = tied_names(model) or None
        self._no_split_modules = {type(part).__name__ for part in model.parts}
        self.post_init()

    def class_settings(self, config: ZooConfig) -> ModelSettings:
        """The settings, with the heads of this class.

        Raises:
            ValueError: the model lacks the parts, or the head, that the class needs.
        """
        settings, name = config.model_settings, type(self).__name__
        if self.sides and tuple(settings.parts) not in self.sides:
            can = " or ".join(map(name_parts, self.sides))
            raise ValueError(f"{name} has {can}; this model has {name_parts(settings.parts)}")
        if self.head_names is None:
            return settings
        return with_heads(settings, heads_of(settings, name) or self.head_names, config.num_labels)

    @checked_forward
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        pixel_values: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        cache: StateCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Compute the class's output; `arguments` lists the arguments that it accepts."""
        row, mask, memory = input_ids if pixel_values is None else pixel_values, attention_mask, None
        if self.main_input_name == "pixel_values":
            mask = None  # `generate` makes one for any input, here of shape (batch, channels)
        if self.config.is_encoder_decoder:
            if cache is None:
                encoder_outputs = encoder_outputs or self.get_encoder()(row, mask)
                memory = self.memory_of(encoder_outputs[0], mask)
            row, mask = decoder_input_ids, decoder_attention_mask
            if row is None and labels is not None:
                row = shift(labels, self.config.decoder_start_token_id, self.config.pad_token_id)
        given = part_input(row, mask, token_type_ids)
        states, cache = self.hidden_states(given, memory, cache, use_cache)
        output: dict[str, Any] = {"last_hidden_state": states, "cache": cache, OLD_CACHE: cache}
        output["encoder_last_hidden_state"] = None if encoder_outputs is None else encoder_outputs[0]
        if self.head_names is not None:
            states = states[:, -logits_to_keep:] if logits_to_keep else states
            output["logits"] = logits = self.logits_of(states, given)
            if labels is not None:
                pair = (logits[:, :-1], labels[:, 1:]) if self.shifts else (logits, labels)
                loss = detection_loss if any(head.detects for head in self.heads.values()) else mean_loss
                if logits.dim() == 2:
                    self.config.problem_type = self.config.problem_type or problem_of(logits, labels)
                    loss = LOSSES[self.config.problem_type]
                output["loss"] = loss(*pair, num_items_in_batch)
        return self.output_class(**{name: output.get(name) for name in self.output_class.__dataclass_fields__})

    def logits_of(self, states: Tensor, given: PartInput, head: str | None = None) -> Tensor:
        """The logits of the named head, by default the first one."""
        model, name = self.zoo_model, head or next(iter(self.heads))
        reading = Reading(model.stream, given, {}, model.averages)
        return model.score(name, reading.select(name, model.heads_by_name()[name], states)).logits()

    def hidden_states(
        self,
        given: PartInput,
        memory: Memory | None = None,
        cache: StateCache | None = None,
        use_cache: bool | None = None,
    ) -> tuple[Tensor, StateCache | None]:
        """The hidden states of a row; with a cache, those of the new tokens."""
        model, types = self.zoo_model, given.segments
        if types is not None and not model.settings.embeddings.segments and not torch.compiler.is_compiling():
            if bool(types.any()):
                raise ValueError("token_type_ids: this model has no segment embeddings; leave them out, or pass zeros")
        if model.decoder is None:
            assert model.encoder is not None
            return model.encoder(given).states, None
        if cache is None and use_cache:
            cache = StateCache(model.decoder, len(given.tokens), memory)
        if cache is None:
            return model.decoder(given, memory), None
        if not isinstance(cache, StateCache):
            raise ValueError(
                f"a {type(cache).__name__} does not fit this model; use_cache=True creates a cache that does"
            )
        if types is not None and bool(types.any()):
            raise ValueError("token_type_ids: with a cache all tokens are of type 0; pass use_cache=False")
        assert not isinstance(given.documents, Documents)  # `part_input` gives a tensor or None
        return cache.step(given.tokens, given.documents), cache

    def memory_of(self, states: Tensor, mask: Tensor | None) -> Memory:
        """The memory, from an encoder's hidden states and the mask of its sources."""
        encoder = self.zoo_model.encoder
        assert encoder is not None
        return Memory(states, Documents.of(documents_of(mask, states), states), encoder)

    def _replicate_for_data_parallel(self) -> Any:
        replica, inner = (nn.Module._replicate_for_data_parallel(each) for each in (self, self.zoo_model))  # type: ignore[no-untyped-call]
        replica.__dict__["zoo_model"], inner._modules = inner, replica._modules  # which torch fills in later
        return replica

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        encoder = self.zoo_model.encoder
        return self if encoder is None else SourceReader(encoder)

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Initialize the parameters that no file provided, as in a new model; torch's seed decides."""
        named = [(name, p) for name, p in self.named_parameters() if not p.is_meta]
        fresh = [name for name, p in named if not getattr(p, "_is_hf_initialized", False)]
        if fresh:
            begun = Model.from_seed(self.zoo_model.settings, int(torch.randint(2**31, ())))
            drawn = dict(begun.named_parameters())
            for name in fresh:
                self.get_parameter(name).copy_(drawn[name])

    def _init_weights(self, module: nn.Module) -> None:
        """Do nothing: `initialize_weights` initializes the whole model."""

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # `generate` would create one for keys and values, which not every decoder has

    def _set_gradient_checkpointing(self, enable: bool = True, *_: Any, **__: Any) -> None:
        self.gradient_checkpointing = enable  # what `is_gradient_checkpointing` looks for
        for part in self.zoo_model.parts:
            part.checkpointing = enable

    def get_input_embeddings(self) -> nn.Module:
        embeddings = self.zoo_model.stream.embeddings
        if embeddings is None:
            raise NotImplementedError(f"{type(self).__name__} has no token embeddings: it reads images")
        return embeddings.tokens

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, *_: Any, **__: Any
    ) -> nn.Module:
        """Return the token embeddings; their number cannot change.

        Raises:
            ValueError: another number is wanted.
        """
        size = self.config.vocab_size
        wanted = size if new_num_tokens is None else new_num_tokens
        wanted += -wanted % (pad_to_multiple_of or 1)
        if wanted != size:
            raise ValueError(
                f"this model has {size} token embeddings and cannot be resized to {wanted} here; "
                "`zoo finetune` adds the tokens that a task needs"
            )
        return self.get_input_embeddings()


def tied_names(model: Model) -> dict[str, str]:
    """The tensors that several parts share: every further name -> the first name."""
    first: dict[int, str] = {}
    return {
        name: kept
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if (kept := first.setdefault(id(parameter), name)) != name
    }
