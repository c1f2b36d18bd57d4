"""zoo's model classes for transformers; importing this module registers them with `AutoModelFor…`.

    import zoo.hub.modeling.shell
    model = transformers.AutoModelForCausalLM.from_pretrained(DIR)

Labels, masks and outputs are those of transformers' own classes: a label of -100 is ignored, and a mask may hide
positions on either side. A cache is created if `use_cache=True` is passed, as `generate` does.
"""

from dataclasses import dataclass
from typing import Any

import transformers
from torch import Tensor
from transformers import GenerationMixin, modeling_outputs

# without torchvision some versions do not export it from `transformers` itself
from transformers.models.auto.image_processing_auto import AutoImageProcessor
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from zoo.hub.modeling.config import ZooConfig
from zoo.hub.modeling.image_processor import ZooImageProcessor
from zoo.hub.modeling.inputs import part_input, shift
from zoo.hub.modeling.losses import mean_loss, place_loss
from zoo.hub.modeling.model import INPUT_ARGUMENTS, LABEL_ARGUMENTS, Shell, checked_forward
from zoo.hub.targets.zoo_target import MODEL_TYPE

ENCODER, DECODER, BOTH = ("encoder",), ("decoder",), ("encoder", "decoder")
TARGET_ARGUMENTS = ("decoder_input_ids", "decoder_attention_mask")
GENERATION_ARGUMENTS = (*LABEL_ARGUMENTS, "cache", "use_cache", "logits_to_keep")


class ZooModel(Shell):
    """Hidden states of every position, of the targets if there are sources; heads are kept but not used."""

    head_names, output_class = None, modeling_outputs.Seq2SeqModelOutput
    arguments = (*INPUT_ARGUMENTS, *TARGET_ARGUMENTS, "pixel_values")


class ZooForCausalLM(Shell, GenerationMixin):  # type: ignore[misc]
    """Logits of the next token."""

    head_names, sides, arguments = ("language",), (DECODER,), (*INPUT_ARGUMENTS, *GENERATION_ARGUMENTS)
    output_class, shifts = modeling_outputs.CausalLMOutputWithPast, True


class TargetWriter(Shell, GenerationMixin):  # type: ignore[misc]
    """Logits of the next token of a target, given its source; labels are targets without their start token."""

    head_names, sides, output_class = ("language",), (BOTH,), modeling_outputs.Seq2SeqLMOutput

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """The decoder's inputs for labels. `DataCollatorForSeq2Seq` calls this method if a model has it."""
        return shift(labels, self.config.decoder_start_token_id, self.config.pad_token_id)


class ZooForConditionalGeneration(TargetWriter):
    """A target generated from a text."""

    arguments = ("input_ids", "attention_mask", *TARGET_ARGUMENTS, "encoder_outputs", *GENERATION_ARGUMENTS)


class ZooForImageTextToText(TargetWriter):
    """A target generated from an image."""

    # `generate` makes a mask for any input, though an image needs none
    arguments = ("pixel_values", "attention_mask", *TARGET_ARGUMENTS, "encoder_outputs", *GENERATION_ARGUMENTS)


class ZooForMaskedLM(Shell):
    """Logits of masked tokens."""

    head_names, sides, output_class = ("masked_lm",), (ENCODER,), modeling_outputs.MaskedLMOutput


class ZooForNextSentencePrediction(Shell):
    """Logits of whether the second text follows the first (label 0: it does)."""

    head_names, sides, output_class = ("next_sentence",), (ENCODER,), modeling_outputs.NextSentencePredictorOutput


class ZooForSequenceClassification(Shell):
    """Logits of the classes of each row."""

    head_names, sides = ("classification",), (ENCODER, DECODER)
    output_class = modeling_outputs.SequenceClassifierOutput


class ZooForTokenClassification(Shell):
    """Logits of the classes of each token."""

    head_names, sides, output_class = ("tagging",), (ENCODER, DECODER), modeling_outputs.TokenClassifierOutput


class ZooForMultipleChoice(Shell):
    """Scores of the choices of each example; inputs have shape (examples, choices, length)."""

    head_names, sides, output_class = ("choice",), (ENCODER, DECODER), modeling_outputs.MultipleChoiceModelOutput
    accepts_loss_kwargs = False  # one label per example, not per row

    @checked_forward
    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Any:
        rows = [None if each is None else each.flatten(0, 1) for each in (input_ids, attention_mask, token_type_ids)]
        given = part_input(*rows)
        logits = self.logits_of(self.hidden_states(given)[0], given).view(input_ids.shape[:2])
        loss = None if labels is None else mean_loss(logits, labels)
        return modeling_outputs.MultipleChoiceModelOutput(loss, logits)


class ZooForQuestionAnswering(Shell):
    """Logits of the positions where the answer starts, and of those where it ends."""

    head_names, sides, arguments = ("span",), (ENCODER,), (*INPUT_ARGUMENTS, "start_positions", "end_positions")
    output_class = modeling_outputs.QuestionAnsweringModelOutput

    # A signature of its own: Trainer finds the label arguments of a model in it.
    @checked_forward
    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
    ) -> Any:
        given = part_input(input_ids, attention_mask, token_type_ids)
        begins, ends = self.logits_of(self.hidden_states(given)[0], given).unbind(-1)
        pairs = (begins, start_positions), (ends, end_positions)
        losses = [place_loss(logits, at, attention_mask) for logits, at in pairs if at is not None]
        loss = sum(losses) / len(losses) if losses else None
        return modeling_outputs.QuestionAnsweringModelOutput(loss, begins.contiguous(), ends.contiguous())


class ZooForImageClassification(Shell):
    """Logits of the classes of each image."""

    head_names, sides, arguments = ("classification",), (ENCODER,), ("pixel_values", *LABEL_ARGUMENTS)
    output_class = modeling_outputs.ImageClassifierOutput


@dataclass
class PreTrainingOutput(modeling_outputs.ModelOutput):  # type: ignore[misc]
    """The logits of both heads, and the sum of their losses."""

    loss: Tensor | None = None
    prediction_logits: Tensor | None = None
    seq_relationship_logits: Tensor | None = None


class ZooForPreTraining(Shell):
    """Logits of masked tokens, and of whether the second text follows the first (label 0: it does)."""

    head_names, sides = ("masked_lm", "next_sentence"), (ENCODER,)
    arguments = (*INPUT_ARGUMENTS, "labels", "next_sentence_label")
    accepts_loss_kwargs = False  # the two losses count different things

    # A signature of its own: Trainer takes every argument with `label` in its name as a label.
    @checked_forward
    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
    ) -> Any:
        given = part_input(input_ids, attention_mask, token_type_ids)
        states, _ = self.hidden_states(given)
        words, follows = self.logits_of(states, given, "masked_lm"), self.logits_of(states, given, "next_sentence")
        pairs = (words, labels), (follows, next_sentence_label)
        losses = [mean_loss(logits, wanted) for logits, wanted in pairs if wanted is not None]
        return PreTrainingOutput(sum(losses) if losses else None, words, follows)


AUTO_CLASSES: dict[str, type[Shell]] = {
    "AutoModel": ZooModel,
    "AutoModelForCausalLM": ZooForCausalLM,
    "AutoModelForSeq2SeqLM": ZooForConditionalGeneration,
    "AutoModelForMaskedLM": ZooForMaskedLM,
    "AutoModelForPreTraining": ZooForPreTraining,
    "AutoModelForNextSentencePrediction": ZooForNextSentencePrediction,
    "AutoModelForSequenceClassification": ZooForSequenceClassification,
    "AutoModelForTokenClassification": ZooForTokenClassification,
    "AutoModelForMultipleChoice": ZooForMultipleChoice,
    "AutoModelForQuestionAnswering": ZooForQuestionAnswering,
    "AutoModelForImageClassification": ZooForImageClassification,
    "AutoModelForImageTextToText": ZooForImageTextToText,
}
transformers.AutoConfig.register(MODEL_TYPE, ZooConfig)
for name, known in AUTO_CLASSES.items():
    getattr(transformers, name).register(ZooConfig, known)
# `register` leaves this table as it is, by which Trainer's label smoothing decides whether labels are the next tokens
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[MODEL_TYPE] = ZooForCausalLM.__name__
AutoImageProcessor.register(ZooConfig, slow_image_processor_class=ZooImageProcessor)
