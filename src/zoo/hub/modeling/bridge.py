"""What classes of the shell with an encoder and a decoder have in common: how sources are read, and targets written."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils.generic import can_return_tuple

from zoo.blocks.documents import Documents
from zoo.hub.modeling.cache import StateCache
from zoo.hub.modeling.model import IGNORED, Shell, documents_of, loss_of
from zoo.models.kinds.part import Encoder, Memory, PartInput

F = TypeVar("F", bound=Callable[..., Any])
# what tools hand on to every model, empty, and what no class here takes: positions follow from the mask
FOREIGN = ("inputs_embeds", "decoder_inputs_embeds", "position_ids", "output_attentions", "output_hidden_states")


def answer(forward: F) -> F:
    """Let a forward pass give a tuple for `return_dict=False`, and refuse what is in `FOREIGN` by name."""
    said = can_return_tuple(forward)

    @wraps(forward)
    def wrapped(self: nn.Module, *given: Any, **named: Any) -> Any:
        values = {name: named.pop(name, None) for name in FOREIGN}
        asked = [name for name, value in values.items() if value is not None and value is not False]
        if asked:
            raise ValueError(f"{type(self).__name__} takes no {' and no '.join(asked)}")
        return said(self, *given, **named)

    return wrapped  # type: ignore[return-value]


class SourceReader(nn.Module):
    """An encoder with the arguments and the answer that `generate` expects of one."""

    main_input_name = "input_ids"

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    @answer
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        memory = self.encoder(PartInput(input_ids, documents_of(attention_mask, input_ids)))
        return BaseModelOutput(last_hidden_state=memory.states)


class PictureReader(SourceReader):
    """As `Reader`, of pictures."""

    main_input_name = "pixel_values"

    @answer
    def forward(self, pixel_values: Tensor) -> Any:  # type: ignore[override]  # `generate` reads the names
        return BaseModelOutput(last_hidden_state=self.encoder(PartInput(pixel_values)).states)


class Bridge(Shell):
    """A shell that reads sources and writes targets, or reads rows, as its parts are."""

    def get_encoder(self, modality: str | None = None) -> SourceReader:
        encoder = self.inside.model.encoder
        assert encoder is not None
        return SourceReader(encoder) if encoder.image_size is None else PictureReader(encoder)

    def remember(self, read: Any, mask: Tensor | None) -> Memory:
        """The memory, from an encoder's answer and the mask of its sources."""
        encoder = self.inside.model.encoder
        assert encoder is not None
        return Memory(read[0], Documents.of(documents_of(mask, read[0]), read[0]), encoder)


class TargetWriter(Bridge, GenerationMixin):  # type: ignore[misc]
    """A shell that writes targets; labels are targets without their start token."""

    carries, sides = ("language",), (("encoder", "decoder"),)

    def write(
        self,
        source: dict[str, Tensor | None],
        target: tuple[Tensor | None, Tensor | None],
        encoder_outputs: Any,
        cache: StateCache | None,
        labels: Tensor | None,
        use_cache: bool | None,
        count: Tensor | int | None,
    ) -> Any:
        """Scores of the next token of each place of a target.

        Args:
            source: what the encoder reads, by argument.
            target: tokens and their mask; no tokens: they follow from the labels.
            encoder_outputs: what the encoder said of the source, where it was asked before.
        """
        tokens, mask = target
        if tokens is None and labels is not None:
            tokens = self.prepare_decoder_input_ids_from_labels(labels)
        if tokens is None:
            raise ValueError(f"{type(self).__name__} needs decoder_input_ids, or labels to make them of")
        memory = None
        if cache is None:
            encoder_outputs = encoder_outputs or self.get_encoder()(**source)
            memory = self.remember(encoder_outputs, source.get("attention_mask"))
        given = PartInput(tokens, documents_of(mask, tokens))
        states, cache = self.decode(given, memory, cache, use_cache)
        logits = self.score("language", states, given)
        read = None if encoder_outputs is None else encoder_outputs[0]
        loss = loss_of((logits, labels), count=count)
        return Seq2SeqLMOutput(loss=loss, logits=logits, past_key_values=cache, encoder_last_hidden_state=read)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The labels one place later, behind the start token; what does not count is padding."""
        tokens = labels.new_full(labels.shape, self.config.decoder_start_token_id)
        tokens[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, self.config.pad_token_id)
        return tokens
