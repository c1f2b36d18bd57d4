"""Native target `electra`: encoders that are transformers' ElectraFor… classes.

The layers are BERT's. Token, segment and position embeddings may have a width of their own, and the pooler uses gelu.
Of a model with a generator, only the discriminator is exported.

Source: Clark et al. 2020, arXiv:2003.10555; transformers' `models/electra`.
"""

import dataclasses

from zoo.hub.targets.bert import dropout
from zoo.hub.targets.bert import target as bert
from zoo.hub.targets.declare.classes import (
    chooser,
    masked_lm,
    question_answerer,
    replaced_token,
    text_classifier,
    token_classifier,
)
from zoo.hub.targets.declare.key import key
from zoo.hub.targets.declare.recipes import BERT
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import Rename, affine, same
from zoo.hub.targets.declare.requirements import SAME_WIDTH, equal_to, exactly, plain_layernorm
from zoo.hub.targets.declare.target import Copy, Target

TOKENS = "electra.embeddings.word_embeddings.weight"
POOLER = exactly("pooler", activation="gelu", norm=None, bias=True, mean=False)
UNPOOLED = exactly("pooler", places=False)
SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}  # of choices
UNTIED = (*SUMMARY, "tie_word_embeddings")  # classes without a head for masked tokens or choices ignore them
SMALL = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}  # defaults that differ from BERT's


def rename_to_electra(rename: Rename) -> Rename:
    """Rename BERT's tensor to ELECTRA's."""
    return dataclasses.replace(rename, theirs=rename.theirs.replace("bert.", "electra.", 1))


target = Target(
    name="electra",
    model_type="electra",
    family="transformers' ELECTRA",
    models="post-norm encoders with learned positions, trained to detect replaced tokens",
    example="electra-nano",
    rank=2,
    sides=("encoder",),
    requirements=tuple(demand for demand in bert.requirements if demand != SAME_WIDTH),
    keys=(
        key("embedding_size", "embeddings.width", default=128),
        *(dataclasses.replace(each, default=SMALL.get(each.theirs, each.default)) for each in bert.keys),
    ),
    constants={**bert.constants, **SUMMARY},
    roles=bert.roles,
    renames=(
        *map(rename_to_electra, bert.renames),
        *affine("encoder.stack.embeddings.project", "electra.embeddings_project"),
    ),
    classes=(
        replaced_token(
            "ElectraForPreTraining",
            ignored_constants=UNTIED,
            requirements=(equal_to("heads.replaced_token.activation", "encoder.feed_forward.activation"),),
            renames=(
                *affine("heads.replaced_token.dense", "discriminator_predictions.dense"),
                *affine("heads.replaced_token.output", "discriminator_predictions.dense_prediction"),
            ),
        ),
        masked_lm(
            "ElectraForMaskedLM",
            ignored_constants=tuple(SUMMARY),
            requirements=(
                *exactly("heads.masked_lm", bias=True, activation="gelu", width=None),
                *plain_layernorm("heads.masked_lm.norm"),
                equal_to("heads.masked_lm.norm.eps", "encoder.norm.eps"),
            ),
            renames=(
                *affine("heads.masked_lm.dense", "generator_predictions.dense"),
                *affine("heads.masked_lm.norm", "generator_predictions.LayerNorm"),
                same("heads.masked_lm.bias", "generator_lm_head.bias"),
            ),
            copies=(Copy("generator_lm_head.weight", TOKENS),),
        ),
        text_classifier(
            "ElectraForSequenceClassification",
            ignored_constants=UNTIED,
            requirements=POOLER,
            keys=(dropout("classification"),),
            renames=(
                *affine("pooler.dense", "classifier.dense"),
                *affine("heads.classification.output", "classifier.out_proj"),
            ),
        ),
        token_classifier(
            "ElectraForTokenClassification",
            ignored_constants=UNTIED,
            requirements=UNPOOLED,
            keys=(dropout("tagging"),),
            renames=affine("heads.tagging.output", "classifier"),
        ),
        chooser(
            "ElectraForMultipleChoice",
            ignored_constants=("tie_word_embeddings",),
            requirements=POOLER,
            keys=(key("summary_last_dropout", "heads.choice.dropout", default=0.1),),
            renames=(
                *affine("pooler.dense", "sequence_summary.summary"),
                *affine("heads.choice.output", "classifier"),
            ),
        ),
        question_answerer(
            "ElectraForQuestionAnswering",
            ignored_constants=UNTIED,
            requirements=UNPOOLED,
            renames=affine("heads.span.output", "qa_outputs"),
        ),
    ),
    longest="encoder.max_length",
    prefix="electra.",
    strays=bert.strays,
    demands=bert.demands,
    headless_defaults={"pooler.activation": lambda flat: "gelu"},  # for a pooler that fine-tuning adds
    recipe=dataclasses.replace(BERT, class_name="ElectraTokenizer"),
)
register(target)
