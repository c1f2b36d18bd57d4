"""tokenizer.json and tokenizer_config.json that AutoTokenizer loads to the same ids, template included."""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing

from zoo.data.tokenizers.recipes.recipe import SPACE
from zoo.data.tokenizers.tokenizer import BACKEND_FILE, Tokenizer
from zoo.examples.template import Template, roles_of
from zoo.hub.sources.folder import CHAT, OPTIONS
from zoo.hub.targets.declare.target import NativeClass

# their names of special tokens; [CLS] is our start, both [SEP] are our separator
THEIR_ROLES = {
    "pad_token": "pad",
    "unk_token": "unk",
    "bos_token": "start",
    "cls_token": "start",
    "eos_token": "end",
    "sep_token": "separator",
    "mask_token": "mask",
}

LETTER = "a"  # a text to see what stands ahead of it
DEFAULT_CHAT = "default"  # what transformers calls the template of conversations that is not asked for by a name


def tokenizer_files(
    tokenizer: Tokenizer, segments: bool, native: NativeClass, longest: int, chats: Mapping[str, str] = {}
) -> dict[str, bytes]:
    """The contents of the tokenizer's files, by name.

    Args:
        segments: whether pairs are told apart by token types.
        longest: the most tokens of a text.
        chats: by name, the templates that conversations are written with.
    """
    config = tokenizer_config(tokenizer, segments, native, longest)
    alone = [*chats] == [DEFAULT_CHAT]
    listed = [{"name": name, "template": template} for name, template in chats.items()]
    return {
        BACKEND_FILE: with_template(tokenizer, segments, native).to_str(pretty=True).encode(),
        OPTIONS: to_json(config | ({"chat_template": listed} if listed and not alone else {})),
        **({CHAT: chats[DEFAULT_CHAT].encode()} if alone else {}),
    }


def with_template(tokenizer: Tokenizer, segments: bool, native: NativeClass) -> Backend:
    """The tokenizer, writing special tokens where the objective's examples have them."""
    backend = Backend.from_str(tokenizer.backend.to_str())  # a copy: the model goes on with a tokenizer without one
    if (ahead := ahead_of(tokenizer, native)) is not None:
        single = [*(f"{tokenizer.spell(i)}:0" for i in ahead), "$A:0"]
        special = [(tokenizer.spell(i), i) for i in dict.fromkeys(ahead)]
        backend.post_processor = TemplateProcessing(single=single, pair=[*single, "$B:0"], special_tokens=special)
        return backend
    pair = native.pair or (*native.text, None)
    roles = [role for role in roles_of((*native.text, *pair)) if role in tokenizer.role_tokens]
    backend.post_processor = TemplateProcessing(
        single=spell(tokenizer, native.text, segments),
        pair=spell(tokenizer, pair, segments),
        special_tokens=[(tokenizer.role_tokens[role], tokenizer.roles.id(role)) for role in roles],
    )
    return backend


def ahead_of(tokenizer: Tokenizer, native: NativeClass) -> list[int] | None:
    """What an imported tokenizer puts ahead of a text that a decoder continues (`Tokenizer.begin`).

    None: it is no such tokenizer, or no such class, and the class's template says what stands around a text.
    """
    if not native.shifts or native.pair or tokenizer.backend.post_processor is None:
        return None
    begun = tokenizer.begin(LETTER)
    return begun[: len(begun) - len(tokenizer.encode([LETTER])[0])]


def spell(tokenizer: Tokenizer, template: Template, segments: bool) -> list[str]:
    """A template as `tokenizers` writes it, without roles that an imported tokenizer lacks.

    Segment 0 ends with the special token after the first text.
    """
    pieces = iter(("$A", "$B"))
    names = [next(pieces) if role is None else tokenizer.role_tokens.get(role) for role in template]
    return [f"{name}:{int(segments and place > 2)}" for place, name in enumerate(names) if name is not None]


def tokenizer_config(tokenizer: Tokenizer, segments: bool, native: NativeClass, longest: int) -> dict[str, Any]:
    """How AutoTokenizer wraps tokenizer.json."""
    inputs = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    known = tokenizer.special_tokens
    tokens = {name: t for name, role in THEIR_ROLES.items() if (t := tokenizer.role_tokens.get(role)) in known}
    return {
        # the name that every version knows, and the only one whose class takes tokenizer.json as it is
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "model_input_names": inputs,
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": not native.reads_roles,  # what a text spells is text, as it was in training
        **tokens,
    }


def chat_template(tokenizer: Tokenizer) -> str:
    """What `apply_chat_template` writes a conversation with: the form `chat`, with marks around what is learned.

    A tokenizer that writes a space before a text writes none behind a special token, so the template does.
    """
    space = " " if any(tokenizer.spell(i).startswith(SPACE) for i in tokenizer.encode(["a"])[0][:1]) else ""
    special = tokenizer.special_tokens
    ids = {role: tokenizer.roles.id(role) for role in ("start", "separator", "end")}
    texts = {role: t if (t := tokenizer.spell(i)) in special else tokenizer.decode([i]) for role, i in ids.items()}
    start, separator, end = map(in_quotes, texts.values())
    content = f"{{{{ '{space}' + message['content'] | trim }}}}"
    return (
        f"{{{{ {start} }}}}{{% for message in messages %}}{{% if message['role'] == 'assistant' %}}"
        f"{{% generation %}}{content}{{{{ {end} }}}}{{% endgeneration %}}"
        f"{{% else %}}{content}{{{{ {separator} }}}}{{% endif %}}{{% endfor %}}"
    )


def in_quotes(text: str) -> str:
    """A text as a template's program writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\r", "\\r")  # jinja makes an LF of a CR
    return f"'{escaped}'"


def to_json(tree: Any) -> bytes:
    """JSON as transformers' own files have it: other scripts stay readable, where a run's files are plain ASCII."""
    return (json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
