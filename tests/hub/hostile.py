"""Folders that mean harm: a table of changes to a benign one, and what must become of each.

A change takes the folder (a copy of the benign one) and a place outside of it where a canary lies. `REFUSED` ones end
every command with a ValueError whose words are given; `INERT` ones are used as if the change were not there.
"""

import base64
import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Change = Callable[[Path, Path], None]
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
TOUCH = "__import__('pathlib').Path('canary-ran').touch()"


class Payload:
    """A pickle that leaves a trace where it is loaded."""

    def __reduce__(self) -> Any:
        return exec, (TOUCH,)


def config(**values: Any) -> Change:
    """Other values in config.json."""
    return merged("config.json", values)


def merged(name: str, values: Any) -> Change:
    def change(folder: Path, outside: Path) -> None:
        tree = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
        (folder / name).write_text(json.dumps({**tree, **values}))

    return change


def put(name: str, content: str | bytes) -> Change:
    """A file with this content."""

    def change(folder: Path, outside: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return change


def after(*changes: Change) -> Change:
    def change(folder: Path, outside: Path) -> None:
        for one in changes:
            one(folder, outside)

    return change


def appended(name: str, old: str, new: str) -> Change:
    """A text in a file replaced."""

    def change(folder: Path, outside: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return change


def sparse(name: str, size: int, start: bytes = b"") -> Change:
    """A file that claims many bytes and takes none."""

    def change(folder: Path, outside: Path) -> None:
        (folder / name).write_bytes(start)
        os.truncate(folder / name, size)

    return change


def link(name: str, to: str) -> Change:
    """A link; `{outside}` is where the canary lies."""

    def change(folder: Path, outside: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(to.format(outside=outside))

    return change


def moved_out(name: str) -> Change:
    """The true file outside, and a link to it."""

    def change(folder: Path, outside: Path) -> None:
        target = outside / f"{folder.name}-{name}"
        (folder / name).rename(target)
        (folder / name).symlink_to(target)

    return change


def fifo(name: str) -> Change:
    def change(folder: Path, outside: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def gone(name: str) -> Change:
    return lambda folder, outside: (folder / name).unlink()


def header(edit: Callable[[dict[str, Any]], Any]) -> Change:
    """The weights with another header; `edit` may return the whole header as bytes."""

    def change(folder: Path, outside: Path) -> None:
        content = (folder / WEIGHTS).read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        tree = json.loads(content[8 : 8 + length])
        said = edit(tree)
        text = said if isinstance(said, bytes) else json.dumps(tree).encode()
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])

    return change


def first(**values: Any) -> Callable[[dict[str, Any]], Any]:
    """Other values in the first tensor's entry."""

    def edit(tree: dict[str, Any]) -> None:
        name = next(name for name in tree if name != "__metadata__")
        tree[name] = {**tree[name], **values}

    return edit


def zeros(count: int) -> Callable[[dict[str, Any]], Any]:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return lambda tree: tree.update({f"bert.flood.{i}": entry for i in range(count)})


def index(where: Any) -> Change:
    """An index in place of the one file; `where` is its weight_map."""

    def change(folder: Path, outside: Path) -> None:
        (folder / WEIGHTS).rename(folder / "model-00001-of-00001.safetensors")
        (folder / INDEX).write_text(json.dumps({"weight_map": where}))

    return change


def tokenizer(edit: Callable[[dict[str, Any]], Any]) -> Change:
    """Another tokenizer.json."""

    def change(folder: Path, outside: Path) -> None:
        tree = json.loads((folder / "tokenizer.json").read_text())
        edit(tree)
        (folder / "tokenizer.json").write_text(json.dumps(tree))

    return change


def splitting(pattern: str) -> Change:
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return tokenizer(lambda tree: tree.update(pre_tokenizer=step))


CODE = f"{TOUCH}\n"
DEEP = "[" * 100_000
# a trie of one unit, which leads beyond it at the first letter of any text
CHARSMAP = base64.b64encode(struct.pack("<II", 4, 5000 << 10) + b"x\0").decode()
INERT: dict[str, Change] = {
    "auto_map": after(config(auto_map={"AutoModel": "modeling.Bad"}), put("modeling.py", CODE)),
    "auto_map_elsewhere": config(auto_map={"AutoConfig": "evil/repository--configuration.Bad"}),
    "custom_pipelines": after(config(custom_pipelines={"x": {"impl": "pipe.Bad"}}), put("pipe.py", CODE)),
    "attention_kernel": config(_attn_implementation_internal="evil/kernel", _attn_implementation="evil/kernel"),
    "trust_remote_code": config(trust_remote_code=True, text_config={"trust_remote_code": True}),
    "target": config(_target_="os.system", _args_=["touch canary-ran"]),
    "dtype_is_code": config(torch_dtype=TOUCH, dtype=TOUCH),
    "path_as_name": config(_name_or_path="../../outside", name_or_path="/etc/passwd"),
    "strange_architectures": config(architectures=[{"a": 1}, "../x"]),
    "init_of_a_package": after(put("__init__.py", CODE), put("conftest.py", CODE), put("sitecustomize.py", CODE)),
    "kernels": after(put("setup.py", CODE), put("build/evil.so", b"\x7fELF")),
    "tokenizer_auto_map": merged("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["tok.Bad", None]}}),
    "tokenizer_paths": merged("tokenizer_config.json", {"vocab_file": ".env", "tokenizer_file": "/etc/passwd"}),
    "chat_template_names": merged(
        "tokenizer_config.json", {"chat_template": [{"name": "../../outside/evil", "template": "{{ 1 }}"}]}
    ),
    "chat_template_code": merged("tokenizer_config.json", {"chat_template": "{{ ''.__class__.__mro__ }}"}),
    "chat_template_file": put("chat_template.jinja", "{% for x in range(10**12) %}{% endfor %}"),
    "more_templates": put("additional_chat_templates/evil.jinja", "{{ cycler.__init__.__globals__ }}"),
    "strange_special_tokens": put("special_tokens_map.json", '{"pad_token": {"content": "../../outside"}}'),
    "pickle_beside": put("pytorch_model.bin", pickle.dumps(Payload())),
    "training_args": put("training_args.bin", pickle.dumps(Payload())),
    "html_label": config(id2label={"0": "<script>alert(1)</script>", "1": "</textarea>"}),
    "yaml_label": config(id2label={"0": "---\ttags".replace("\t", " "), "1": "!!python/object:os.system"}),
    "card": put("README.md", "---\nlicense: [javascript:alert(1)]\n---\n<script src='http://evil'></script>"),
    "environment": put(".env", "HF_TOKEN=canary"),
    "preprocessor": put("preprocessor_config.json", '{"image_processor_type": "../x", "auto_map": {"A": "b.C"}}'),
    "generation": put("generation_config.json", '{"custom_generate": "evil/repository", "eos_token_id": [999999, -1]}'),
    "generate_code": put("custom_generate/generate.py", CODE),
    "broken_link_beside": link("tf_model.h5", "{outside}/canary"),
    "metadata": header(lambda tree: tree.update(__metadata__={"format": "../../x", "auto_map": "x"})),
}
REFUSED: dict[str, tuple[Change, str]] = {
    "config_link": (moved_out("config.json"), "leads out of the folder"),
    "config_is_a_pipe": (fifo("config.json"), "not an ordinary file|no such folder|is not a run"),
    "config_is_a_list": (put("config.json", "[1]"), "expected a map"),
    "config_is_no_json": (put("config.json", "{'model_type': 'bert'}"), "is not JSON"),
    "config_is_no_text": (put("config.json", b"\xff\xfe{}"), "is not JSON"),
    "config_is_deep": (put("config.json", DEEP), "nested too deeply|is not JSON"),
    "config_is_large": (sparse("config.json", 2**31, b'{"model_type": "bert"}'), "is larger than"),
    "config_nan": (put("config.json", '{"model_type": "bert", "layer_norm_eps": NaN}'), "NaN is not a number"),
    "config_infinity": (put("config.json", '{"layer_norm_eps": -Infinity}'), "Infinity is not a number"),
    "config_beyond": (put("config.json", '{"layer_norm_eps": 1e999}'), "larger than any number"),
    "config_twice": (put("config.json", '{"model_type": "bert", "model_type": "gpt2"}'), "is written twice"),
    "config_digits": (put("config.json", '{"vocab_size": ' + "9" * 5000 + "}"), "is not JSON"),
    "model_type_path": (config(model_type="../../outside"), "none that zoo imports"),
    "model_type_list": (config(model_type=["bert"]), "none that zoo imports"),
    "layers": (config(num_hidden_layers=10**9), "n_layers is 10+, which|n_layers must be at most"),
    "vocabulary": (config(vocab_size=10**12), "vocab_size is 1000000000000, which the tensors cannot be"),
    "width": (config(hidden_size=10**12, num_attention_heads=1), "d_model is 10+, which|d_key is 10+, which"),
    "feed_forward": (config(intermediate_size=2**62), "d_ff is .* which the tensors cannot be"),
    "places": (config(max_position_embeddings=10**15), "max_length is .* which the tensors cannot be"),
    "heads": (config(num_attention_heads=10**9), "n_heads|d_key"),
    "no_heads": (config(num_attention_heads=0), "num_attention_heads|n_heads"),
    "negative_layers": (config(num_hidden_layers=-1), "n_layers must be at least 1"),
    "size_is_true": (config(hidden_size=True), "expected a whole number"),
    "size_is_a_list": (config(vocab_size=[31]), "expected a whole number"),
    "eps_is_a_text": (config(layer_norm_eps="1e-5"), "expected a number"),
    "activation_is_a_path": (config(hidden_act="os.system"), "hidden_act is 'os.system'; zoo reads gelu"),
    "activation_is_a_map": (config(hidden_act={"_target_": "os.system"}), "hidden_act is "),
    "relative_positions": (config(position_embedding_type="relative_key"), "position_embedding_type is relative_key"),
    "quantized": (config(quantization_config={"quant_method": "evil"}), "quantization_config is"),
    "escape_label": (config(id2label={"0": "\x1b]0;owned\x07", "1": "b"}), "control characters"),
    "line_label": (config(id2label={"0": "a\nERROR root: owned", "1": "b"}), "control characters"),
    "labels_are_a_list": (config(id2label=["a", "b"]), "id2label must name the classes"),
    "labels_have_holes": (config(id2label={"0": "a", "10000000000": "b"}), "id2label must name the classes"),
    "labels_are_twice": (config(id2label={"0": "a", "1": "a"}), "at least two names are needed and none twice"),
    "labels_are_many": (config(id2label={str(i): f"l{i}" for i in range(3000)}), "labels|not of the sizes"),
    "weights_link": (moved_out(WEIGHTS), "leads out of the folder"),
    "weights_absolute_link": (link(WEIGHTS, "/etc/passwd"), "leads out of the folder"),
    "weights_loop": (link(WEIGHTS, WEIGHTS), "no such file"),
    "weights_pipe": (fifo(WEIGHTS), "is not an ordinary file"),
    "weights_gone": (gone(WEIGHTS), "has no model.safetensors"),
    "weights_empty": (put(WEIGHTS, ""), "is not safetensors"),
    "weights_pickle": (after(gone(WEIGHTS), put("pytorch_model.bin", pickle.dumps(Payload()))), "is a pickle"),
    "weights_pickle_renamed": (put(WEIGHTS, pickle.dumps(Payload())), "is not safetensors"),
    "weights_zip_renamed": (put(WEIGHTS, b"PK\x03\x04" + b"\0" * 64), "is not safetensors"),
    "header_endless": (put(WEIGHTS, struct.pack("<Q", 2**63) + b"{}"), "is not safetensors"),
    "header_100_mb": (sparse(WEIGHTS, 2**28, struct.pack("<Q", 100 * 2**20)), "has a header of 104857600 bytes"),
    "header_deep": (header(lambda tree: DEEP.encode()), "nested too deeply|is not JSON"),
    "header_twice": (header(lambda tree: b'{"a": 1, "a": 2}'), "is written twice"),
    "header_nan": (header(lambda tree: b'{"a": NaN}'), "NaN is not a number"),
    "header_of_lists": (header(lambda tree: b'{"a": [1]}'), "entry 'a' is damaged"),
    "elements": (header(first(shape=[2**60])), "is said to be"),
    "elements_product": (header(first(shape=[2**40, 2**40, 2**40])), "is said to be"),
    "negative_shape": (header(first(shape=[-1, 4])), "are damaged"),
    "true_shape": (header(first(shape=[True])), "are damaged"),
    "offsets_beyond": (header(first(data_offsets=[0, 2**50])), "is said to lie at bytes"),
    "offsets_backwards": (header(first(data_offsets=[8, 0])), "is said to lie at bytes"),
    "tensor_dtype_is_code": (header(first(dtype="__import__")), "a weight is one of|is damaged"),
    "dtype_is_whole": (header(first(dtype="I32")), "a weight is one of|is damaged|is I32"),
    "flood_of_nothing": (header(zeros(20_000)), "is none of transformers' BERT"),
    "flood_in_the_header": (header(zeros(200_000)), "has a header of|is none of"),
    "index_up": (index({"a": "../outside/canary.safetensors"}), "a name of a safetensors file was expected"),
    "index_absolute": (index({"a": "/etc/passwd"}), "a name of a safetensors file was expected"),
    "index_pickle": (index({"a": "pytorch_model.bin"}), "a name of a safetensors file was expected"),
    "index_number": (index({"a": 1}), "a name of a safetensors file was expected"),
    "index_empty": (index({}), "'weight_map' is missing"),
    "index_missing": (index({"a": "model-9.safetensors"}), "no such file"),
    "index_many": (index({f"a{i}": f"m{i}.safetensors" for i in range(2000)}), "names 2000 files"),
    "index_lies": (index({"a": "model-00001-of-00001.safetensors"}), "but is not there"),
    "index_link": (
        after(index({"a": "s.safetensors"}), link("s.safetensors", "{outside}/canary")),
        "leads out of the folder",
    ),
    "tokenizer_link": (moved_out("tokenizer.json"), "leads out of the folder"),
    "tokenizer_broken": (put("tokenizer.json", "{}"), "not a tokenizer"),
    "tokenizer_deep": (put("tokenizer.json", DEEP), "nested too deeply|is not JSON"),
    "tokenizer_evil_regex": (splitting(r"(a+)+$"), "may take forever"),
    "tokenizer_evil_choice": (splitting(r"(a|aa)*c"), "may take forever"),
    "tokenizer_evil_power": (splitting(r"a*a*a*a*a*a*b"), "may take forever"),
    "tokenizer_evil_back": (splitting(r"(a*)\1b"), "may take forever"),
    "tokenizer_evil_normalizer": (
        tokenizer(lambda t: t.update(normalizer={"type": "Replace", "pattern": {"Regex": "(x+)+y"}, "content": ""})),
        "may take forever",
    ),
    "tokenizer_evil_charsmap": (
        tokenizer(lambda t: t.update(normalizer={"type": "Precompiled", "precompiled_charsmap": CHARSMAP})),
        "precompiled_charsmap of its normalizer is damaged|not a tokenizer",
    ),
    "generation_deep": (put("generation_config.json", DEEP), "nested too deeply|is not JSON"),
    "generation_link": (link("generation_config.json", "{outside}/canary"), "leads out of the folder"),
    "generation_large": (sparse("generation_config.json", 2**31, b"{}"), "is larger than"),
    "tokenizer_absurd_id": (
        tokenizer(lambda t: t["added_tokens"].append({**t["added_tokens"][0], "id": 2**30, "content": "zz"})),
        "out of range|not a tokenizer|do not belong together",
    ),
    "tokenizer_too_large": (
        tokenizer(lambda t: t["model"]["vocab"].update({f"w{i}": 1000 + i for i in range(50)})),
        "do not belong together",
    ),
    "tokenizer_config_deep": (put("tokenizer_config.json", DEEP), "nested too deeply|is not JSON"),
    "tokenizer_config_link": (moved_out("tokenizer_config.json"), "leads out of the folder"),
}
