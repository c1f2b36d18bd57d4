"""tokenizer.json and tokenizer_config.json, from which AutoTokenizer gives the same ids, special tokens included."""

import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing

from zoo.data.columns.messages import ASSISTANT, SPEAKERS
from zoo.data.tokenizers.recipes.recipe import SPACE
from zoo.data.tokenizers.tokenizer import BACKEND_FILE, Tokenizer
from zoo.examples.template import Template, roles_of
from zoo.hub.sources.folder import CHAT, TOKENIZER_CONFIG
from zoo.hub.targets.declare.target import NativeClass

# transformers' names of special tokens -> zoo's roles; [CLS] is start, both [SEP] are separator
ROLE_OF_TOKEN = {
    "pad_token": "pad",
    "unk_token": "unk",
    "bos_token": "start",
    "cls_token": "start",
    "eos_token": "end",
    "sep_token": "separator",
    "mask_token": "mask",
}

LETTER = "a"  # a sample text that shows what is added before it
DEFAULT_CHAT = "default"  # transformers' name of the chat template that is used if none is named


def tokenizer_files(
    tokenizer: Tokenizer, segments: bool, native: NativeClass, longest: int, chats: Mapping[str, str] = {}
) -> dict[str, bytes]:
    """The tokenizer's files, as name -> content.

    Args:
        segments: whether token types distinguish the texts of a pair.
        longest: the maximum length of a text (tokens).
        chats: chat templates by name.
    """
    config = tokenizer_config(tokenizer, segments, native, longest)
    alone = [*chats] == [DEFAULT_CHAT]
    listed = [{"name": name, "template": template} for name, template in chats.items()]
    return {
        BACKEND_FILE: with_post_processor(tokenizer, segments, native).to_str(pretty=True).encode(),
        TOKENIZER_CONFIG: to_json(config | ({"chat_template": listed} if listed and not alone else {})),
        **({CHAT: chats[DEFAULT_CHAT].encode()} if alone else {}),
    }


def with_post_processor(tokenizer: Tokenizer, segments: bool, native: NativeClass) -> Backend:
    """A copy of the tokenizer that adds special tokens where the objective's examples have them."""
    backend = Backend.from_str(tokenizer.backend.to_str())  # a copy: zoo's own use needs no template
    if (ahead := prefix_ids(tokenizer, native)) is not None:
        single = [*(f"{tokenizer.spell(i)}:0" for i in ahead), "$A:0"]
        special = [(tokenizer.spell(i), i) for i in dict.fromkeys(ahead)]
        backend.post_processor = TemplateProcessing(single=single, pair=[*single, "$B:0"], special_tokens=special)
        return backend
    pair = native.pair or (*native.text, None)
    roles = [role for role in roles_of((*native.text, *pair)) if role in tokenizer.role_tokens]
    backend.post_processor = TemplateProcessing(
        single=spell_template(tokenizer, native.text, segments),
        pair=spell_template(tokenizer, pair, segments),
        special_tokens=[(tokenizer.role_tokens[role], tokenizer.roles.id(role)) for role in roles],
    )
    return backend


def prefix_ids(tokenizer: Tokenizer, native: NativeClass) -> list[int] | None:
    """The ids that an imported tokenizer adds before a text that a decoder continues (`Tokenizer.encode_prompt`).

    None: the tokenizer has no template of its own or the class continues no texts, so the class's template applies.
    """
    if not native.shifts or native.pair or tokenizer.backend.post_processor is None:
        return None
    begun = tokenizer.encode_prompt(LETTER)
    return begun[: len(begun) - len(tokenizer.encode([LETTER])[0])]


def spell_template(tokenizer: Tokenizer, template: Template, segments: bool) -> list[str]:
    """A template in the syntax of `tokenizers`, without roles that an imported tokenizer lacks.

    Segment 0 ends with the special token after the first text.
    """
    pieces = iter(("$A", "$B"))
    names = [next(pieces) if role is None else tokenizer.role_tokens.get(role) for role in template]
    return [f"{name}:{int(segments and place > 2)}" for place, name in enumerate(names) if name is not None]


def tokenizer_config(tokenizer: Tokenizer, segments: bool, native: NativeClass, longest: int) -> dict[str, Any]:
    """The content of tokenizer_config.json."""
    inputs = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
    known = tokenizer.special_tokens
    tokens = {name: t for name, role in ROLE_OF_TOKEN.items() if (t := tokenizer.role_tokens.get(role)) in known}
    return {
        # every version knows this class, and no other takes tokenizer.json unchanged
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "model_input_names": inputs,
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": not native.reads_special_tokens,  # as in training, a spelled special token is text
        **tokens,
    }


def chat_template(tokenizer: Tokenizer) -> str:
    """The Jinja template for `apply_chat_template` that writes the form `chat`; `generation` marks trained tokens.

    It refuses the turns that `zoo predict` refuses. Jinja would write a list of parts as Python does, and no content as
    an empty text.
    """
    space, special = " " * lacks_space_after(tokenizer, "separator"), tokenizer.special_tokens
    ids = {role: tokenizer.roles.id(role) for role in ("start", "separator", "end")}
    texts = {role: t if (t := tokenizer.spell(i)) in special else tokenizer.decode([i]) for role, i in ids.items()}
    start, separator, end = map(jinja_string, texts.values())
    content = f"{{{{ '{space}' + message['content'] | trim }}}}"
    return (
        f"{{{{ {start} }}}}{{% for message in messages %}}"
        f"{{% if message['role'] not in {[*SPEAKERS]} %}}"
        f"{{{{ raise_exception('turn ' ~ loop.index ~ ': unknown role; allowed: {', '.join(SPEAKERS)}') }}}}"
        "{% elif message['content'] is not string or not message['content'] | trim %}"
        "{{ raise_exception('turn ' ~ loop.index ~ ': content must be a non-empty text') }}"
        f"{{% elif message['role'] == '{ASSISTANT}' %}}"
        f"{{% generation %}}{content}{{{{ {end} }}}}{{% endgeneration %}}"
        f"{{% else %}}{content}{{{{ {separator} }}}}{{% endif %}}{{% endfor %}}"
    )


def lacks_space_after(tokenizer: Tokenizer, role: str) -> bool:
    """Whether a text gets its own ids after a special token only if a space precedes it.

    `prepend_scheme: first` of Metaspace writes a space before a whole text, none after a special token. `always`, and
    the normalizer `Prepend` of Llama 2, write one after special tokens, too.
    """
    alone: list[int] = tokenizer.encode([LETTER])[0].tolist()
    if not any(tokenizer.spell(i).startswith(SPACE) for i in alone[:1]):
        return False
    after: list[int] = tokenizer.encode_with_roles(f"{tokenizer.role_tokens[role]}{LETTER}").tolist()
    return after != [tokenizer.roles.id(role), *alone]


def jinja_string(text: str) -> str:
    """A text as a Jinja string."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\r", "\\r")  # Jinja turns CR into LF
    return f"'{escaped}'"


def to_json(tree: Any) -> bytes:
    """JSON as transformers writes its files: non-ASCII text stays readable, while a run's files are ASCII."""
    return (json.dumps(tree, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
