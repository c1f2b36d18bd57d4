"""Models of transformers with random weights and odd sizes, saved as strangers save them."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
import transformers
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from zoo.models.model import Model
from zoo.registry import REQUIRED

Sizes = dict[str, Any]
DTYPES = {"float32": 1e-5, "float64": 1e-10}
TOKENS = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "vocab_size": 37}
T5 = {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4}
OPUS = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "max_position_embeddings": 33,
}
OPUS |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 9, "decoder_ffn_dim": 11}
BERT = {"vocab_size": 31, "hidden_size": 6, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 7}
PLACES = {"max_position_embeddings": 12}
GPT2 = {"vocab_size": 31, "n_embd": 6, "n_head": 3, "n_layer": 2, "n_positions": 12, "bos_token_id": 1}


@dataclasses.dataclass(frozen=True)
class Stranger:
    """A class of transformers with settings of its own.

    Args:
        outputs: our head -> the field of theirs with its logits.
    """

    class_name: str
    sizes: Sizes
    outputs: dict[str, str]

    def make(self) -> Any:
        """The model, with every weight moved away from where it begins."""
        torch.manual_seed(0)
        cls = getattr(transformers, self.class_name)
        model = cls(cls.config_class(**self.sizes))
        with torch.no_grad():
            for parameter in filter(lambda parameter: parameter.requires_grad, model.parameters()):
                parameter.add_(0.1 * torch.randn_like(parameter))
        return model.eval()

    def save(self, folder: Path) -> Any:
        model = self.make()
        model.save_pretrained(folder)
        return model


def widths() -> st.SearchStrategy[tuple[int, int]]:
    """Heads, and a width that they divide."""
    return st.tuples(st.integers(1, 5), st.sampled_from([2, 3, 4, 5, 7])).map(lambda pair: (pair[0], pair[0] * pair[1]))


def sizes(draw: Any, **names: Any) -> Sizes:
    return {name: draw(value) if isinstance(value, st.SearchStrategy) else value for name, value in names.items()}


SMALL = st.integers(1, 3)
VOCABULARY = st.integers(11, 97)
WIDE = st.integers(3, 33)
LENGTHS = st.integers(9, 40)
SHARE = st.sampled_from([0.0, 0.1, 0.25])
EPS = st.sampled_from([1e-12, 1e-5, 1e-3])
WORDS = st.sampled_from(["gelu", "gelu_new", "relu", "silu", "swish", "gelu_pytorch_tanh"])


@st.composite
def bert(draw: Any) -> Stranger:
    heads, width = draw(widths())
    common = sizes(
        draw,
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_attention_heads=heads,
        num_hidden_layers=SMALL,
        intermediate_size=WIDE,
        max_position_embeddings=LENGTHS,
        type_vocab_size=st.integers(1, 3),
        hidden_act=WORDS,
        layer_norm_eps=EPS,
        hidden_dropout_prob=SHARE,
    )
    classes = {
        "BertForPreTraining": {"masked_lm": "prediction_logits", "next_sentence": "seq_relationship_logits"},
        "BertForMaskedLM": {"masked_lm": "logits"},
        "BertForNextSentencePrediction": {"next_sentence": "logits"},
        "BertForSequenceClassification": {"classification": "logits"},
    }
    name = draw(st.sampled_from(list(classes)))
    labels = {"num_labels": draw(st.integers(2, 5))} if "classification" in classes[name] else {}
    return Stranger(name, {**common, **labels}, classes[name])


@st.composite
def electra(draw: Any) -> Stranger:
    heads, width = draw(widths())
    common = sizes(
        draw,
        vocab_size=VOCABULARY,
        embedding_size=st.sampled_from([width, 5, 8]),
        hidden_size=width,
        num_attention_heads=heads,
        num_hidden_layers=SMALL,
        intermediate_size=WIDE,
        max_position_embeddings=LENGTHS,
        type_vocab_size=st.integers(1, 3),
        hidden_act=WORDS,
        layer_norm_eps=EPS,
    )
    classes = {
        "ElectraForPreTraining": {"replaced_token": "logits[]"},
        "ElectraForMaskedLM": {"masked_lm": "logits"},
        "ElectraForSequenceClassification": {"classification": "logits"},
    }
    name = draw(st.sampled_from(list(classes)))
    return Stranger(name, common, classes[name])


@st.composite
def gpt2(draw: Any, family: str = "GPT2") -> Stranger:
    heads, width = draw(widths())
    common = sizes(
        draw,
        vocab_size=VOCABULARY,
        n_embd=width,
        n_head=heads,
        n_layer=SMALL,
        n_positions=LENGTHS,
        layer_norm_epsilon=EPS,
        tie_word_embeddings=st.booleans(),
        pad_token_id=0,
    )
    if family == "GPT2":
        common |= sizes(draw, n_inner=st.none() | WIDE, activation_function=WORDS, bos_token_id=1, eos_token_id=2)
    else:
        common |= sizes(draw, afn=st.sampled_from(["gelu", "relu", "silu"]))
    if draw(st.booleans()):
        return Stranger(f"{family}LMHeadModel", common, {"language": "logits"})
    labels = {"num_labels": draw(st.integers(2, 5))}
    return Stranger(f"{family}ForSequenceClassification", {**common, **labels}, {"classification": "logits"})


@st.composite
def marian(draw: Any, family: str = "Marian") -> Stranger:
    heads, width = draw(st.sampled_from([(1, 6), (2, 8), (3, 12), (4, 20), (5, 10)]))
    shared = draw(st.booleans()) if family == "Marian" else True
    vocabulary = draw(VOCABULARY)
    common = sizes(
        draw,
        vocab_size=vocabulary,
        d_model=width,
        encoder_layers=SMALL,
        decoder_layers=SMALL,
        encoder_attention_heads=heads,
        decoder_attention_heads=st.sampled_from([1, heads]),
        encoder_ffn_dim=WIDE,
        decoder_ffn_dim=WIDE,
        max_position_embeddings=LENGTHS,
        activation_function=WORDS,
        scale_embedding=st.booleans(),
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        bos_token_id=None,
        forced_eos_token_id=None,
    )
    if not shared:
        common |= {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": draw(VOCABULARY)}
    name = {"Marian": "MarianMTModel", "Pegasus": "PegasusForConditionalGeneration"}[family]
    return Stranger(name, common, {"language": "logits"})


@st.composite
def llama(draw: Any, family: str = "Llama") -> Stranger:
    heads = draw(st.sampled_from([1, 2, 4, 6]))
    width = heads * draw(st.sampled_from([2, 4, 6]))
    common = sizes(
        draw,
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_attention_heads=heads,
        num_key_value_heads=st.sampled_from([n for n in range(1, heads + 1) if heads % n == 0]),
        head_dim=st.sampled_from([width // heads, 2, 8]),
        num_hidden_layers=SMALL,
        intermediate_size=WIDE,
        max_position_embeddings=LENGTHS,
        hidden_act=st.sampled_from(["silu", "gelu", "relu"]),
        rms_norm_eps=EPS,
        tie_word_embeddings=st.booleans(),
        rope_parameters={"rope_type": "default", "rope_theta": draw(st.sampled_from([100.0, 1e4, 5e5]))},
        pad_token_id=0,
    )
    if family == "Llama":
        common |= sizes(draw, attention_bias=st.booleans())
    if family == "Mistral":
        common |= sizes(draw, sliding_window=st.none() | st.integers(2, 7))
    if draw(st.booleans()):
        return Stranger(f"{family}ForCausalLM", common, {"language": "logits"})
    labels = {"num_labels": draw(st.integers(2, 5))}
    return Stranger(f"{family}ForSequenceClassification", {**common, **labels}, {"classification": "logits"})


@st.composite
def modernbert(draw: Any) -> Stranger:
    heads = draw(st.sampled_from([1, 2, 4]))
    common = sizes(
        draw,
        vocab_size=VOCABULARY,
        hidden_size=heads * draw(st.sampled_from([2, 4, 6])),
        num_attention_heads=heads,
        num_hidden_layers=st.integers(1, 4),
        intermediate_size=WIDE,
        max_position_embeddings=LENGTHS,
        hidden_activation=st.sampled_from(["gelu", "silu", "relu"]),
        norm_eps=EPS,
        local_attention=st.sampled_from([2, 4, 6]),
        global_attn_every_n_layers=st.integers(1, 3),
        pad_token_id=0,
    )
    if draw(st.booleans()):
        return Stranger("ModernBertForMaskedLM", common, {"masked_lm": "logits"})
    labels = {"num_labels": draw(st.integers(2, 5)), "classifier_pooling": draw(st.sampled_from(["cls", "mean"]))}
    return Stranger("ModernBertForSequenceClassification", {**common, **labels}, {"classification": "logits"})


STRANGERS = {
    "bert": bert(),
    "electra": electra(),
    "gpt2": gpt2(),
    "openai-gpt": gpt2(family="OpenAIGPT"),
    "marian": marian(),
    "pegasus": marian(family="Pegasus"),
    "llama": llama(),
    "mistral": llama(family="Mistral"),
    "qwen3": llama(family="Qwen3"),
    "modernbert": modernbert(),
}


def saved(folder: Path, class_name: str, **sizes: Any) -> Path:
    """A folder with a model of a class."""
    family = {**BERT, **PLACES} if class_name.startswith("Bert") else GPT2
    Stranger(class_name, {**family, **sizes}, {}).save(folder)
    return folder


def change(folder: Path, **changed: Any) -> Path:
    """The folder with other values in config.json; a key goes where its value is REQUIRED."""
    tree = {**json.loads((folder / "config.json").read_text()), **changed}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in tree.items() if v is not REQUIRED}))
    return folder


def rewrite(folder: Path, renamed: Any) -> None:
    """Write the weights anew under other names (None: left out), or with others."""
    tensors = load_file(folder / "model.safetensors")
    kept = {new: tensor.clone() for name, tensor in tensors.items() if (new := renamed(name)) is not None}
    save_file(kept, folder / "model.safetensors")


def look_up(tree: Any, path: str) -> Any:
    """What a config.json, or a config, says under a key whose dots lead into maps."""
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, dict) else getattr(tree, name, None)
    return tree


def disturb(model: Model) -> Model:
    """Move every parameter, so that no norm, bias or table is what it is elsewhere."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model
