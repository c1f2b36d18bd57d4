"""What transformers classes have in common across families: Auto class, heads, template, pipeline.

`own` holds further fields of `NativeClass`: the family's renames, keys, requirements and copies.
"""

import dataclasses
from functools import partial
from typing import Any

from zoo.examples.template import CLASSIFIED_PAIR, CLASSIFIED_TEXT, ENCODED_PAIR, ENCODED_TEXT, STARTED_TEXT
from zoo.hub.targets.declare.key import key
from zoo.hub.targets.declare.renaming import affine, same
from zoo.hub.targets.declare.requirements import plain_language
from zoo.hub.targets.declare.target import Copy, NativeClass
from zoo.models.heads.head import has_classes
from zoo.models.heads.head import heads as known

SCORES = "logits"  # the output field
ONE_SCORE = "logits[]"  # the same field, with a single score per token
CHECKED_CHOICES = 2  # choices per example when an export is checked
SPAN = "start_logits end_logits"
TOKEN_CLASSIFICATION, TEXT_GENERATION = "token-classification", "text-generation"  # pipelines
# the only form of transformers' `SequenceSummary` that zoo's head computes: a linear map of one position's state
SEQUENCE_SUMMARY: dict[str, tuple[Any, ...]] = {
    "summary_type": ("cls_index",),
    "summary_activation": (None, "linear"),
    "summary_use_proj": (True,),
    "summary_proj_to_labels": (True,),
}
encoder = partial(NativeClass, text=ENCODED_TEXT, pair=ENCODED_PAIR)
decoder = partial(NativeClass, heads={"language": SCORES}, generates=True)


def classifies(native: NativeClass) -> bool:
    """Return whether a head assigns a label to whole documents, for which config.json has a `problem_type`."""
    return any(known[head].scores_documents and has_classes(head) for head in native.heads)


def causal_lm(name: str, **own: Any) -> NativeClass:
    """A decoder that predicts the next token."""
    begun = ("start", None)
    return decoder(name, "AutoModelForCausalLM", text=begun, shifts=True, pipeline=TEXT_GENERATION, **own)


def tied_causal_lm(name: str, table: str, tied: bool = True) -> NativeClass:
    """A decoder whose language head is tied to the token embeddings or has its own `lm_head.weight`, without a bias.

    Args:
        table: transformers' name of the token embeddings.
        tied: the default of `tie_word_embeddings`.
    """
    return causal_lm(
        name,
        requirements=plain_language(),
        keys=(key("tie_word_embeddings", "heads.language.tied", default=tied),),
        renames=(same("heads.language.output.weight", "lm_head.weight", when=("heads.language.tied", False)),),
        copies=(Copy("lm_head.weight", table, untied="heads.language.tied"),),
    )


def last_token_classifier(name: str) -> NativeClass:
    """A decoder that classifies a text by its last token."""
    renames = (same("heads.classification.output.weight", "score.weight"),)
    return text_classifier(name, text=CLASSIFIED_TEXT, pair=CLASSIFIED_PAIR, renames=renames)


def text_classifier(name: str, **own: Any) -> NativeClass:
    """A text classifier, with an encoder's templates unless `own` has others."""
    heads = {"classification": SCORES}
    return encoder(name, "AutoModelForSequenceClassification", heads, pipeline="text-classification", **own)


def token_classifier(name: str, **own: Any) -> NativeClass:
    """A token classifier; only the first token of each word counts."""
    heads = {"tagging": SCORES}
    return encoder(
        name, "AutoModelForTokenClassification", heads, **{"pair": (), "pipeline": TOKEN_CLASSIFICATION, **own}
    )


def decoder_tagger(name: str, output: str) -> NativeClass:
    """A decoder that classifies every token.

    Args:
        output: transformers' name of the last linear layer.
    """
    dropped = key("classifier_dropout", "heads.tagging.dropout", default=0.1, null_means=lambda config: 0.1)
    return token_classifier(name, text=STARTED_TEXT, keys=(dropped,), renames=affine("heads.tagging.output", output))


def chooser(name: str, **own: Any) -> NativeClass:
    """A multiple-choice class: it scores the choices of an example."""
    return encoder(name, "AutoModelForMultipleChoice", {"choice": SCORES}, choices=CHECKED_CHOICES, **own)


def double_heads(name: str, table: str) -> NativeClass:
    """GPT-1's pair of heads: next-token logits, and a score for each choice, read at its last position.

    Args:
        table: transformers' name of the token embeddings.
    """
    writer = tied_causal_lm(name, table)
    return dataclasses.replace(
        writer,
        auto=name,  # no Auto class loads it
        heads={"language": SCORES, "choice": "mc_logits"},
        text=CLASSIFIED_TEXT,
        pair=CLASSIFIED_PAIR,
        labels={"choice": "mc_labels"},
        choices=CHECKED_CHOICES,
        last_positions="mc_token_ids",
        keys=(*writer.keys, key("summary_first_dropout", "heads.choice.dropout", default=0.1)),
        renames=(*writer.renames, *affine("heads.choice.output", "multiple_choice_head.summary")),
        generates=False,
        demands=SEQUENCE_SUMMARY,
        pipeline=None,
    )


def question_answerer(name: str, **own: Any) -> NativeClass:
    """An encoder that marks the answer to the first text within the second one."""
    labels = {"span": "start_positions end_positions"}
    return encoder(name, "AutoModelForQuestionAnswering", {"span": SPAN}, labels=labels, **own)


def masked_lm(name: str, **own: Any) -> NativeClass:
    """An encoder that predicts masked tokens."""
    heads = {"masked_lm": SCORES}
    return encoder(name, "AutoModelForMaskedLM", heads, reads_special_tokens=True, pipeline="fill-mask", **own)


def replaced_token(name: str, **own: Any) -> NativeClass:
    """An encoder that detects replaced tokens."""
    return encoder(name, "AutoModelForPreTraining", {"replaced_token": ONE_SCORE}, **own)


def next_sentence(name: str, **own: Any) -> NativeClass:
    """An encoder that predicts whether the second text follows the first."""
    return encoder(name, "AutoModelForNextSentencePrediction", {"next_sentence": SCORES}, **own)


def pretraining(name: str, **own: Any) -> NativeClass:
    """BERT's two pretraining heads."""
    heads = {"masked_lm": "prediction_logits", "next_sentence": "seq_relationship_logits"}
    labels = {"next_sentence": "next_sentence_label"}
    auto = "AutoModelForPreTraining"
    return encoder(name, auto, heads, labels=labels, reads_special_tokens=True, pipeline="fill-mask", **own)


def translator(name: str, **own: Any) -> NativeClass:
    """An encoder-decoder that generates a target text from a source text."""
    return decoder(name, "AutoModelForSeq2SeqLM", text=(None, "end"), pipeline="translation", **own)
