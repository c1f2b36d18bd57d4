"""What the classes of transformers have in common across families: Auto class, heads, template, pipeline.

`own` are the other fields of `NativeClass`: the family's renames, keys, requirements and copies.
"""

from typing import Any

from zoo.examples.template import CLASSIFIED_PAIR, CLASSIFIED_TEXT, ENCODED_PAIR, ENCODED_TEXT
from zoo.hub.targets.declare.renaming import same
from zoo.hub.targets.declare.requirements import plain_language
from zoo.hub.targets.declare.target import Copy, NativeClass, key

SCORES = "logits"  # the field of their output


def causal_lm(name: str, **own: Any) -> NativeClass:
    """A decoder that continues a text."""
    return NativeClass(
        name=name,
        auto="AutoModelForCausalLM",
        heads={"language": SCORES},
        text=("start", None),
        generates=True,
        shifts=True,
        pipeline="text-generation",
        **own,
    )


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
    return NativeClass(
        name=name,
        auto="AutoModelForSequenceClassification",
        heads={"classification": SCORES},
        pipeline="text-classification",
        **{"text": ENCODED_TEXT, "pair": ENCODED_PAIR, **own},
    )


def masked_lm(name: str, **own: Any) -> NativeClass:
    """An encoder that fills masks."""
    return NativeClass(
        name=name,
        auto="AutoModelForMaskedLM",
        heads={"masked_lm": SCORES},
        text=ENCODED_TEXT,
        pair=ENCODED_PAIR,
        reads_roles=True,
        pipeline="fill-mask",
        **own,
    )


def next_sentence(name: str, **own: Any) -> NativeClass:
    """An encoder that says whether one text follows another."""
    return NativeClass(
        name=name,
        auto="AutoModelForNextSentencePrediction",
        heads={"next_sentence": SCORES},
        text=ENCODED_TEXT,
        pair=ENCODED_PAIR,
        **own,
    )


def pretraining(name: str, **own: Any) -> NativeClass:
    """BERT's two heads."""
    return NativeClass(
        name=name,
        auto="AutoModelForPreTraining",
        heads={"masked_lm": "prediction_logits", "next_sentence": "seq_relationship_logits"},
        labels={"next_sentence": "next_sentence_label"},
        text=ENCODED_TEXT,
        pair=ENCODED_PAIR,
        reads_roles=True,
        pipeline="fill-mask",
        **own,
    )


def translator(name: str, **own: Any) -> NativeClass:
    """An encoder-decoder that writes a text about another one."""
    return NativeClass(
        name=name,
        auto="AutoModelForSeq2SeqLM",
        heads={"language": SCORES},
        text=(None, "end"),
        generates=True,
        pipeline="translation",
        **own,
    )
