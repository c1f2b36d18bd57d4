"""What the classes of transformers have in common across families: Auto class, heads, template, pipeline.

`own` are the other fields of `NativeClass`: the family's renames, keys, requirements and copies.
"""

import dataclasses
from functools import partial
from typing import Any

from zoo.examples.template import BEGUN, CLASSIFIED_PAIR, CLASSIFIED_TEXT, ENCODED_PAIR, ENCODED_TEXT
from zoo.hub.targets.declare.key import key
from zoo.hub.targets.declare.renaming import affine, same
from zoo.hub.targets.declare.requirements import plain_language
from zoo.hub.targets.declare.target import Copy, NativeClass
from zoo.models.heads.head import heads as known

SCORES = "logits"  # the field of their output
ONE_SCORE = "logits[]"  # the same, with one score for each place
CHECKED = 2  # choices of an example, where an export is checked
SPAN = "start_logits end_logits"
TAGS = "token-classification"  # the pipeline
# how a choice is summed up: transformers' SequenceSummary can read other places, and compute more than a map
SUMMED_UP: dict[str, tuple[Any, ...]] = {
    "summary_type": ("cls_index",),
    "summary_activation": (None, "linear"),
    "summary_use_proj": (True,),
    "summary_proj_to_labels": (True,),
}
encoder = partial(NativeClass, text=ENCODED_TEXT, pair=ENCODED_PAIR)
decoder = partial(NativeClass, heads={"language": SCORES}, generates=True)


def classifies(native: NativeClass) -> bool:
    """Whether a head of a class says what the label of a whole row is, which config.json has a `problem_type` for."""
    return any(known[head].scores_documents and "labels" in known.options(head) for head in native.heads)


def causal_lm(name: str, **own: Any) -> NativeClass:
    """A decoder that continues a text."""
    begun = ("start", None)
    return decoder(name, "AutoModelForCausalLM", text=begun, shifts=True, pipeline="text-generation", **own)


def tied_causal_lm(name: str, table: str, tied: bool = True) -> NativeClass:
    """A decoder whose head is tied to the token vectors, or is a matrix `lm_head.weight` of its own, without a bias.

    Args:
        table: their name of the token vectors. tied: what a config.json means that does not say.
    """
    return causal_lm(
        name,
        requirements=plain_language(),
        keys=(key("tie_word_embeddings", "heads.language.tied", default=tied),),
        renames=(same("heads.language.output.weight", "lm_head.weight", when=("heads.language.tied", False)),),
        copies=(Copy("lm_head.weight", table, untied="heads.language.tied"),),
    )


def last_token_classifier(name: str) -> NativeClass:
    """A decoder that classifies by its last token."""
    renames = (same("heads.classification.output.weight", "score.weight"),)
    return text_classifier(name, text=CLASSIFIED_TEXT, pair=CLASSIFIED_PAIR, renames=renames)


def text_classifier(name: str, **own: Any) -> NativeClass:
    """A class that chooses one of several labels; an encoder by its first token, unless `own` has other templates."""
    heads = {"classification": SCORES}
    return encoder(name, "AutoModelForSequenceClassification", heads, pipeline="text-classification", **own)


def token_classifier(name: str, **own: Any) -> NativeClass:
    """A class that chooses a label for every token, of which those count that words begin with."""
    heads = {"tagging": SCORES}
    return encoder(name, "AutoModelForTokenClassification", heads, **{"pair": (), "pipeline": TAGS, **own})


def decoder_tagger(name: str, output: str) -> NativeClass:
    """A decoder that chooses a label for every token.

    Args:
        output: their name of the last linear map.
    """
    dropped = key("classifier_dropout", "heads.tagging.dropout", default=0.1, null=lambda config: 0.1)
    return token_classifier(name, text=BEGUN, keys=(dropped,), renames=affine("heads.tagging.output", output))


def chooser(name: str, **own: Any) -> NativeClass:
    """An encoder that scores the choices of an example."""
    return encoder(name, "AutoModelForMultipleChoice", {"choice": SCORES}, choices=CHECKED, **own)


def double_heads(name: str, table: str) -> NativeClass:
    """GPT-1's pair of heads: a decoder that scores the next token, and the choices of an example by their last place.

    Args:
        table: their name of the token vectors.
    """
    writer = tied_causal_lm(name, table)
    return dataclasses.replace(
        writer,
        auto=name,  # no Auto class finds it
        heads={"language": SCORES, "choice": "mc_logits"},
        text=CLASSIFIED_TEXT,
        pair=CLASSIFIED_PAIR,
        labels={"choice": "mc_labels"},
        choices=CHECKED,
        lasts="mc_token_ids",
        keys=(*writer.keys, key("summary_first_dropout", "heads.choice.dropout", default=0.1)),
        renames=(*writer.renames, *affine("heads.choice.output", "multiple_choice_head.summary")),
        generates=False,
        demands=SUMMED_UP,
        pipeline=None,
    )


def question_answerer(name: str, **own: Any) -> NativeClass:
    """An encoder that finds the answer to the first text in the second one."""
    labels = {"span": "start_positions end_positions"}
    return encoder(name, "AutoModelForQuestionAnswering", {"span": SPAN}, labels=labels, **own)


def masked_lm(name: str, **own: Any) -> NativeClass:
    """An encoder that fills masks."""
    heads = {"masked_lm": SCORES}
    return encoder(name, "AutoModelForMaskedLM", heads, reads_roles=True, pipeline="fill-mask", **own)


def replaced_token(name: str, **own: Any) -> NativeClass:
    """An encoder that tells which tokens were replaced."""
    return encoder(name, "AutoModelForPreTraining", {"replaced_token": ONE_SCORE}, **own)


def next_sentence(name: str, **own: Any) -> NativeClass:
    """An encoder that says whether one text follows another."""
    return encoder(name, "AutoModelForNextSentencePrediction", {"next_sentence": SCORES}, **own)


def pretraining(name: str, **own: Any) -> NativeClass:
    """BERT's two heads."""
    heads = {"masked_lm": "prediction_logits", "next_sentence": "seq_relationship_logits"}
    labels = {"next_sentence": "next_sentence_label"}
    auto = "AutoModelForPreTraining"
    return encoder(name, auto, heads, labels=labels, reads_roles=True, pipeline="fill-mask", **own)


def translator(name: str, **own: Any) -> NativeClass:
    """An encoder-decoder that writes a text about another one."""
    return decoder(name, "AutoModelForSeq2SeqLM", text=(None, "end"), pipeline="translation", **own)
