"""Choices that no class of transformers has, and exports of them loaded by zoo's own classes."""

from collections.abc import Callable
from typing import Any

import transformers

import zoo.hub.modeling.shell  # noqa: F401
from zoo.hub.exporting.export import ExportReport

PLAIN = {"decoder.n_heads": 3, "decoder.d_ff": 14}
ALIBI = {**PLAIN, "position": "alibi", "norm": "rmsnorm", "block": "parallel"}
GROUPED = {"decoder.n_heads": 4, "decoder.attention": {"name": "grouped", "n_kv_heads": 2, "sinks": 1, "window": 3}}
MIXED = {"decoder.d_ff": 14, "mixer": ["recurrent", {"name": "convolution", "kernel": 3}]}
MIXING = {"encoder.d_ff": 14, "embeddings.norm": None}
ENCODER = {**MIXING, "encoder.n_heads": 3}
SCALED = {**ENCODER, "norm": "scalenorm", "block": "sandwich", "position": {"name": "relative", "buckets": 8}}
ADDITIVE = {"decoder.attention": {"name": "direct", "score": "additive"}}
BOTH = {"encoder.block": "parallel", "decoder.block": "sandwich", "encoder.n_heads": 3, "decoder.n_heads": 3}
CLASSES = {"heads": {"classification": {"labels": 3}}}
Shelled = Callable[..., ExportReport]
MODELS = [
    ("gpt2-nano", ALIBI, "ZooForCausalLM"),
    ("gpt2-nano", GROUPED, "ZooForCausalLM"),
    ("gpt2-nano", {**MIXED, "heads.language.tied": False}, "ZooForCausalLM"),
    ("gpt2-nano", {**MIXED, **CLASSES}, "ZooForSequenceClassification"),
    ("bert-nano", SCALED, "ZooForPreTraining"),
    ("bert-nano", {**MIXING, "norm": "scalenorm", "mixer": "convolution", "heads": ["masked_lm"]}, "ZooForMaskedLM"),
    ("bert-nano", {**ENCODER, "heads": ["next_sentence"]}, "ZooForNextSentencePrediction"),
    ("bert-nano", {**MIXING, "mixer": "recurrent", **CLASSES}, "ZooForSequenceClassification"),
    ("transformer-nano", BOTH, "ZooForConditionalGeneration"),
    ("transformer-nano", {"embeddings.shared": False, "decoder.mixer": "recurrent"}, "ZooForConditionalGeneration"),
    ("rnn-seq2seq-nano", {}, "ZooForConditionalGeneration"),
    ("rnn-attention-nano", ADDITIVE, "ZooForConditionalGeneration"),
]  # fmt: skip


def load(report: ExportReport, auto: str | None = None, **options: Any) -> Any:
    model, faults = getattr(transformers, auto or report.auto).from_pretrained(
        report.folder, output_loading_info=True, **options
    )
    assert not any(faults.values()), faults
    return model.eval()
