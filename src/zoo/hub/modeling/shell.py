"""Classes of transformers for the models of zoo; once this module is imported, `AutoModelFor…` knows them.

    import zoo.hub.modeling.shell
    model = transformers.AutoModelForCausalLM.from_pretrained(DIR)

Labels, masks and answers are those of transformers' own classes: a label of -100 does not count, and a mask hides
places on either side. A cache is made where `use_cache=True` asks for it, as `generate` does.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import transformers
from torch import Tensor
from transformers import GenerationMixin
from transformers.modeling_outputs import (
    BaseModelOutput,
    CausalLMOutputWithPast,
    MaskedLMOutput,
    ModelOutput,
    NextSentencePredictorOutput,
    Seq2SeqModelOutput,
    SequenceClassifierOutput,
)
from transformers.models.auto.image_processing_auto import (
    AutoImageProcessor,
)  # some versions hide it without torchvision

from zoo.hub.modeling.bridge import Bridge, TargetWriter, answer
from zoo.hub.modeling.cache import StateCache
from zoo.hub.modeling.config import ZooConfig
from zoo.hub.modeling.model import Shell, documents_of, loss_of
from zoo.hub.modeling.pictures import ZooForImageClassification, ZooForImageTextToText, ZooImageProcessor
from zoo.hub.targets.shell import MODEL_TYPE
from zoo.models.kinds.part import PartInput

ENCODER, DECODER = ("encoder",), ("decoder",)


class ZooModel(Bridge):
    """The states of every place, of the targets where there are sources; it keeps the heads but does not use them."""

    @answer
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        pixel_values: Tensor | None = None,
    ) -> Any:
        read_first = input_ids if pixel_values is None else pixel_values
        if read_first is None:
            raise ValueError(f"{type(self).__name__} needs {self.main_input_name}")
        if decoder_input_ids is None:
            mask = None if pixel_values is not None else documents_of(attention_mask, read_first)
            return BaseModelOutput(last_hidden_state=self.encode(PartInput(read_first, mask, token_type_ids)))
        read = self.get_encoder()(*(x for x in (read_first, attention_mask) if x is not None))
        given = PartInput(decoder_input_ids, documents_of(decoder_attention_mask, decoder_input_ids))
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
        given = PartInput(input_ids, documents_of(attention_mask, input_ids), token_type_ids)
        states, cache = self.decode(given, None, past_key_values, use_cache)
        logits = self.score("language", states[:, -logits_to_keep:] if logits_to_keep else states, given)
        following = None if labels is None else labels[:, 1:]
        loss = loss_of((logits[:, :-1], following), count=num_items_in_batch)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)


class ZooForConditionalGeneration(TargetWriter):
    """Scores of the next token of a target, given its source; labels are targets without their start token."""

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
        source = {"input_ids": input_ids, "attention_mask": attention_mask}
        target = (decoder_input_ids, decoder_attention_mask)
        return self.write(source, target, encoder_outputs, past_key_values, labels, use_cache, num_items_in_batch)


class Scorer(Shell):
    """A shell with one head, whose labels are those of its places or rows.

    Class attributes:
        answers: what holds the loss and the logits.
    """

    answers: ClassVar[type[ModelOutput]]

    @answer
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        given = PartInput(input_ids, documents_of(attention_mask, input_ids), token_type_ids)
        logits = self.score(self.carries[0], self.encode(given), given)
        return self.answers(loss=loss_of((logits, labels), count=num_items_in_batch), logits=logits)


class ZooForMaskedLM(Scorer):
    """Scores of the tokens that were masked."""

    carries, sides, answers = ("masked_lm",), (ENCODER,), MaskedLMOutput


class ZooForNextSentencePrediction(Scorer):
    """Scores of whether the second text follows the first (0: it does)."""

    carries, sides, answers = ("next_sentence",), (ENCODER,), NextSentencePredictorOutput


class ZooForSequenceClassification(Scorer):
    """Scores of the classes of each row."""

    carries, sides, answers = ("classification",), (ENCODER, DECODER), SequenceClassifierOutput


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
        given = PartInput(input_ids, documents_of(attention_mask, input_ids), token_type_ids)
        states = self.encode(given)
        words, follows = self.score("masked_lm", states, given), self.score("next_sentence", states, given)
        loss = loss_of((words, labels), (follows, next_sentence_label))
        return PreTrainingOutput(loss=loss, prediction_logits=words, seq_relationship_logits=follows)


AUTO: dict[str, type[Shell]] = {
    "AutoModel": ZooModel,
    "AutoModelForCausalLM": ZooForCausalLM,
    "AutoModelForSeq2SeqLM": ZooForConditionalGeneration,
    "AutoModelForMaskedLM": ZooForMaskedLM,
    "AutoModelForPreTraining": ZooForPreTraining,
    "AutoModelForNextSentencePrediction": ZooForNextSentencePrediction,
    "AutoModelForSequenceClassification": ZooForSequenceClassification,
    "AutoModelForImageClassification": ZooForImageClassification,
    "AutoModelForImageTextToText": ZooForImageTextToText,
}
transformers.AutoConfig.register(MODEL_TYPE, ZooConfig)
for name, known in AUTO.items():
    getattr(transformers, name).register(ZooConfig, known)
AutoImageProcessor.register(ZooConfig, slow_image_processor_class=ZooImageProcessor)
