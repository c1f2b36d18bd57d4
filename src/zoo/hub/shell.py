"""Classes of transformers for the models of zoo; once this module is imported, `AutoModelFor…` knows them.

    import zoo.hub.shell
    model = transformers.AutoModelForCausalLM.from_pretrained(DIR)

Labels, masks and answers are those of transformers' own classes: a label of -100 does not count, and a mask hides
places on either side. A cache is made where `use_cache=True` asks for it, as `generate` does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import transformers
from torch import Tensor, nn
from transformers import GenerationMixin
from transformers.modeling_outputs import (
    BaseModelOutput,
    CausalLMOutputWithPast,
    MaskedLMOutput,
    ModelOutput,
    NextSentencePredictorOutput,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
    SequenceClassifierOutput,
)
from transformers.utils.generic import can_return_tuple

from zoo.hub.shell_cache import StateCache
from zoo.hub.shell_config import ZooConfig
from zoo.hub.shell_model import IGNORED, Shell, documents_of, loss_of
from zoo.hub.shell_target import MODEL_TYPE
from zoo.models.parts import Encoder, Memory, Pass

F = TypeVar("F", bound=Callable[..., Any])
# what tools hand on to every model, empty, and what no class here takes: positions follow from the mask
FOREIGN = ("inputs_embeds", "decoder_inputs_embeds", "position_ids", "output_attentions", "output_hidden_states")
ENCODER, DECODER, BOTH = ("encoder",), ("decoder",), ("encoder", "decoder")


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


class Reader(nn.Module):
    """An encoder with the arguments and the answer that `generate` expects of one."""

    main_input_name = "input_ids"

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    @answer
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        memory = self.encoder(Pass(input_ids, documents_of(attention_mask, input_ids)))
        return BaseModelOutput(last_hidden_state=memory.states)


class Bridge(Shell):
    """A shell that reads sources and writes targets, or reads rows, as its parts are."""

    def get_encoder(self, modality: str | None = None) -> Reader:
        encoder = self.inside.model.encoder
        assert encoder is not None
        return Reader(encoder)

    def remember(self, read: Any, mask: Tensor | None) -> Memory:
        """The memory, from an encoder's answer and the mask of its sources."""
        encoder = self.inside.model.encoder
        assert encoder is not None
        return Memory(read[0], documents_of(mask, read[0]), encoder)


class ZooModel(Bridge):
    """The states of every place, of the targets where there are sources; it keeps the heads but does not use them."""

    @answer
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
    ) -> Any:
        if decoder_input_ids is None:
            given = Pass(input_ids, documents_of(attention_mask, input_ids), token_type_ids)
            return BaseModelOutput(last_hidden_state=self.encode(given))
        read = self.get_encoder()(input_ids, attention_mask)
        given = Pass(decoder_input_ids, documents_of(decoder_attention_mask, decoder_input_ids))
        states, _ = self.decode(given, self.remember(read, attention_mask))
        return Seq2SeqModelOutput(last_hidden_state=states, encoder_last_hidden_state=read[0])


class ZooForCausalLM(Shell, GenerationMixin):  # type: ignore[misc]
    """Scores of the next token."""

    carries, sides = ("language",), (DECODER,)

    @answer
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        past_key_values: StateCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        given = Pass(input_ids, documents_of(attention_mask, input_ids), token_type_ids)
        states, cache = self.decode(given, None, past_key_values, use_cache)
        logits = self.score("language", states[:, -logits_to_keep:] if logits_to_keep else states, given)
        following = None if labels is None else labels[:, 1:]
        loss = loss_of((logits[:, :-1], following), count=num_items_in_batch)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)


class ZooForConditionalGeneration(Bridge, GenerationMixin):  # type: ignore[misc]
    """Scores of the next token of a target, given its source; labels are targets without their start token."""

    carries, sides = ("language",), (BOTH,)

    @answer
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: StateCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        if decoder_input_ids is None and labels is not None:
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if decoder_input_ids is None:
            raise ValueError("ZooForConditionalGeneration needs decoder_input_ids, or labels to make them of")
        memory = None
        if past_key_values is None:
            encoder_outputs = encoder_outputs or self.get_encoder()(input_ids, attention_mask)
            memory = self.remember(encoder_outputs, attention_mask)
        given = Pass(decoder_input_ids, documents_of(decoder_attention_mask, decoder_input_ids))
        states, cache = self.decode(given, memory, past_key_values, use_cache)
        logits = self.score("language", states, given)
        loss = loss_of((logits, labels), count=num_items_in_batch)
        read = None if encoder_outputs is None else encoder_outputs[0]
        return Seq2SeqLMOutput(loss=loss, logits=logits, past_key_values=cache, encoder_last_hidden_state=read)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The labels one place later, behind the start token; what does not count is padding."""
        tokens = labels.new_full(labels.shape, self.config.decoder_start_token_id)
        tokens[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, self.config.pad_token_id)
        return tokens


class ZooForMaskedLM(Shell):
    """Scores of the tokens that were masked."""

    carries, sides = ("masked_lm",), (ENCODER,)

    @answer
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        given = Pass(input_ids, documents_of(attention_mask, input_ids), token_type_ids)
        logits = self.score("masked_lm", self.encode(given), given)
        return MaskedLMOutput(loss=loss_of((logits, labels), count=num_items_in_batch), logits=logits)


@dataclass
class PreTrainingOutput(ModelOutput):  # type: ignore[misc]
    """Both heads' logits, and the sum of their losses."""

    loss: Tensor | None = None
    prediction_logits: Tensor | None = None
    seq_relationship_logits: Tensor | None = None


class ZooForPreTraining(Shell):
    """Scores of masked tokens, and of whether the second text follows the first (0: it does)."""

    carries, sides = ("masked_lm", "next_sentence"), (ENCODER,)
    accepts_loss_kwargs = False  # the two losses count different things

    @answer
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
    ) -> Any:
        given = Pass(input_ids, documents_of(attention_mask, input_ids), token_type_ids)
        states = self.encode(given)
        words, follows = self.score("masked_lm", states, given), self.score("next_sentence", states, given)
        loss = loss_of((words, labels), (follows, next_sentence_label))
        return PreTrainingOutput(loss=loss, prediction_logits=words, seq_relationship_logits=follows)


class ZooForNextSentencePrediction(Shell):
    """Scores of whether the second text follows the first (0: it does)."""

    carries, sides = ("next_sentence",), (ENCODER,)

    @answer
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        given = Pass(input_ids, documents_of(attention_mask, input_ids), token_type_ids)
        logits = self.score("next_sentence", self.encode(given), given)
        return NextSentencePredictorOutput(loss=loss_of((logits, labels), count=num_items_in_batch), logits=logits)


class ZooForSequenceClassification(Shell):
    """Scores of the classes of each row."""

    carries, sides = ("classification",), (ENCODER, DECODER)

    @answer
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        given = Pass(input_ids, documents_of(attention_mask, input_ids), token_type_ids)
        logits = self.score("classification", self.encode(given), given)
        return SequenceClassifierOutput(loss=loss_of((logits, labels), count=num_items_in_batch), logits=logits)


AUTO = {
    "AutoModel": ZooModel,
    "AutoModelForCausalLM": ZooForCausalLM,
    "AutoModelForSeq2SeqLM": ZooForConditionalGeneration,
    "AutoModelForMaskedLM": ZooForMaskedLM,
    "AutoModelForPreTraining": ZooForPreTraining,
    "AutoModelForNextSentencePrediction": ZooForNextSentencePrediction,
    "AutoModelForSequenceClassification": ZooForSequenceClassification,
}
transformers.AutoConfig.register(MODEL_TYPE, ZooConfig)
for name, known in AUTO.items():
    getattr(transformers, name).register(ZooConfig, known)
