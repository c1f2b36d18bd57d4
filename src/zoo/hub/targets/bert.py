"""Native target `bert`: encoders that are transformers' BertFor… classes.

Source: Devlin et al. 2019, arXiv:1810.04805; transformers' `models/bert`.
"""

from zoo.hub.targets.declare.classes import (
    chooser,
    masked_lm,
    next_sentence,
    pretraining,
    question_answerer,
    text_classifier,
    token_classifier,
)
from zoo.hub.targets.declare.key import Key, first_value, key, value_of
from zoo.hub.targets.declare.recipes import BERT
from zoo.hub.targets.declare.registry import register
from zoo.hub.targets.declare.renaming import affine, same
from zoo.hub.targets.declare.requirements import (
    SAME_WIDTH,
    UNMASKED,
    activation,
    equal_to,
    exactly,
    plain_blocks,
    plain_embeddings,
    plain_layernorm,
)
from zoo.hub.targets.declare.target import Copy, Target

OURS = "encoder.stack.blocks.{i}"
THEIRS = "bert.encoder.layer.{i}"

POOLER = affine("pooler.dense", "bert.pooler.dense")
NEXT_SENTENCE = affine("heads.next_sentence.output", "cls.seq_relationship")
MASKED_LM = (
    *affine("heads.masked_lm.dense", "cls.predictions.transform.dense"),
    *affine("heads.masked_lm.norm", "cls.predictions.transform.LayerNorm"),
    same("heads.masked_lm.bias", "cls.predictions.bias"),
)
# BERT's masked-LM head has no activation or eps of its own: it uses the stack's
MASKED_LM_REQUIREMENTS = (
    *exactly("heads.masked_lm", bias=True, width=None),
    *plain_layernorm("heads.masked_lm.norm"),
    equal_to("heads.masked_lm.norm.eps", "encoder.norm.eps"),
    equal_to("heads.masked_lm.activation", "encoder.feed_forward.activation"),
)

POOLER_REQUIREMENTS = exactly("pooler", activation="tanh", norm=None, bias=True, mean=False)
COPIES = (
    Copy("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    Copy("cls.predictions.decoder.bias", "cls.predictions.bias", rules=True),
)


def dropout(head: str) -> Key:
    """The key for a head's dropout."""
    return key("classifier_dropout", f"heads.{head}.dropout", default=None, null_means=value_of("hidden_dropout_prob"))


UNTIED = ("tie_word_embeddings",)  # classes without a masked_lm head ignore it

target = Target(
    name="bert",
    model_type="bert",
    family="transformers' BERT",
    models="post-norm encoders with learned positions",
    example="bert-tiny",
    rank=1,
    sides=("encoder",),
    requirements=(
        *plain_blocks("encoder", "post_norm", "learned", ends_with_norm=False),
        *plain_embeddings(segments=True),
        SAME_WIDTH,
        *plain_layernorm("embeddings.norm"),
        equal_to("embeddings.norm.eps", "encoder.norm.eps"),
    ),
    keys=(
        key("vocab_size", "encoder.vocab_size", default=30522),
        key("hidden_size", "encoder.d_model", default=768),
        key("num_hidden_layers", "encoder.n_layers", default=12),
        key("num_attention_heads", "encoder.n_heads", default=12),
        key("intermediate_size", "encoder.d_ff", default=3072),
        activation("hidden_act", "encoder.feed_forward.activation", default="gelu"),
        key("max_position_embeddings", "encoder.max_length", default=512),
        key("type_vocab_size", "embeddings.segments", default=2),
        key("layer_norm_eps", "encoder.norm.eps", default=1e-12),
        key("hidden_dropout_prob", "encoder.dropout", merge=first_value, default=0.1),
        key("attention_probs_dropout_prob", "encoder.attention.dropout", merge=first_value, default=0.1),
    ),
    constants={"is_decoder": False, "add_cross_attention": False, "tie_word_embeddings": True},
    roles={"pad_token_id": "pad"},
    renames=(
        same("encoder.stack.embeddings.tokens.weight", "bert.embeddings.word_embeddings.weight"),
        same("encoder.stack.embeddings.segments.weight", "bert.embeddings.token_type_embeddings.weight"),
        same("encoder.stack.positions.0.table.weight", "bert.embeddings.position_embeddings.weight"),
        *affine("encoder.stack.embeddings.norm", "bert.embeddings.LayerNorm"),
        *affine(f"{OURS}.mixer.attention.query", f"{THEIRS}.attention.self.query"),
        *affine(f"{OURS}.mixer.attention.key", f"{THEIRS}.attention.self.key"),
        *affine(f"{OURS}.mixer.attention.value", f"{THEIRS}.attention.self.value"),
        *affine(f"{OURS}.mixer.attention.output", f"{THEIRS}.attention.output.dense"),
        *affine(f"{OURS}.norms.mixer", f"{THEIRS}.attention.output.LayerNorm"),
        *affine(f"{OURS}.feed_forward.up", f"{THEIRS}.intermediate.dense"),
        *affine(f"{OURS}.feed_forward.down", f"{THEIRS}.output.dense"),
        *affine(f"{OURS}.norms.feed_forward", f"{THEIRS}.output.LayerNorm"),
    ),
    classes=(
        pretraining(
            "BertForPreTraining",
            requirements=(*MASKED_LM_REQUIREMENTS, *POOLER_REQUIREMENTS),
            renames=(*MASKED_LM, *POOLER, *NEXT_SENTENCE),
            copies=COPIES,
        ),
        masked_lm("BertForMaskedLM", requirements=MASKED_LM_REQUIREMENTS, renames=MASKED_LM, copies=COPIES),
        next_sentence(
            "BertForNextSentencePrediction",
            ignored_constants=UNTIED,
            requirements=POOLER_REQUIREMENTS,
            renames=(*POOLER, *NEXT_SENTENCE),
        ),
        text_classifier(
            "BertForSequenceClassification",
            ignored_constants=UNTIED,
            requirements=POOLER_REQUIREMENTS,
            keys=(dropout("classification"),),
            renames=(*POOLER, *affine("heads.classification.output", "classifier")),
        ),
        token_classifier(
            "BertForTokenClassification",
            ignored_constants=UNTIED,
            requirements=exactly("pooler", places=False),
            keys=(dropout("tagging"),),
            renames=affine("heads.tagging.output", "classifier"),
        ),
        chooser(
            "BertForMultipleChoice",
            ignored_constants=UNTIED,
            requirements=POOLER_REQUIREMENTS,
            keys=(dropout("choice"),),
            renames=(*POOLER, *affine("heads.choice.output", "classifier")),
        ),
        question_answerer(
            "BertForQuestionAnswering",
            ignored_constants=UNTIED,
            requirements=exactly("pooler", places=False),
            renames=affine("heads.span.output", "qa_outputs"),
        ),
    ),
    longest="encoder.max_length",
    prefix="bert.",
    strays=("embeddings.position_ids", "embeddings.token_type_ids"),
    demands={"position_embedding_type": ("absolute",), **UNMASKED},
    recipe=BERT,
)
register(target)
