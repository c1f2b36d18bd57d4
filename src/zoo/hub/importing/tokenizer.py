"""Read the tokenizer of an untrusted folder: its tokens and template unchanged, and the role of each special token."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing

from zoo.data.ids import ROLES
from zoo.data.tokenizers.backend import check_ids, check_reads, explain_failure, read_backend
from zoo.data.tokenizers.tokenizer import BACKEND_FILE, ROLES_FILE, Tokenizer
from zoo.examples.template import Template
from zoo.hub.exporting.tokenizer_files import DEFAULT_CHAT, ROLE_OF_TOKEN
from zoo.hub.importing.generation import merge_files, pick_id
from zoo.hub.importing.padding import STAND_INS, counts_as_padding, padding_token
from zoo.hub.sources.folder import (
    ADDED_TOKENS,
    CHAT,
    CHAT_FOLDER,
    GENERATION,
    SPECIAL_TOKENS_MAP,
    TOKENIZER_CONFIG,
    CheckpointFolder,
    Json,
    decode_text,
)
from zoo.hub.targets.declare.recipes import token_text
from zoo.hub.targets.declare.target import NativeClass, Target
from zoo.strict_json import parse_json

UNSUPPORTED = ("source.spm", "target.spm", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "tekken.json")
# keys of tokenizer_config.json
ADDED_TOKENS_KEY = "added_tokens_decoder"
VERSIONED_FILES_KEY = "fast_tokenizer_files"
FLAGS = ("lstrip", "rstrip", "normalized", "single_word")  # of an added token
PLAIN_NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
Tokens = dict[str, str]


def read_tokenizer(checkpoint: CheckpointFolder, config: Json, target: Target, chosen: NativeClass) -> Tokenizer | str:
    """Read the folder's tokenizer, or say why there is none that can be read.

    Raises:
        ValueError: a file of it is damaged.
    """
    options = checkpoint.read_json(TOKENIZER_CONFIG)
    backend = find_backend(checkpoint, options, target)
    if isinstance(backend, str):
        return backend
    check_reads(backend, str(checkpoint.folder))
    config = merge_files(config, checkpoint.read_json(GENERATION)) if chosen.generates else config
    named = named_tokens(checkpoint, options, backend, target)
    every = special_tokens_by_name(named, config, backend, target, chosen.generates)
    class_adds = target.recipe is not None and target.recipe.adds_special_tokens_for(checkpoint.tokenizer_class)
    tokens = role_tokens(backend, every, target, chosen, class_adds)
    # a class that reads no `extract` may be fine-tuned to classify, and transformers would skip that token as padding
    unread = "extract" in tokens and "extract" not in chosen.text and tokens["extract"] == tokens.get("pad")
    if unread or counts_as_padding(tokens.get("extract"), backend, config, target, chosen):
        del tokens["extract"]
    if "pad" not in tokens:
        return f"its tokenizer has no padding token, and none that could serve as one ({', '.join(tokens)})"
    if backend.post_processor is None:  # make the empty template explicit: the folder's tokenizer adds no tokens
        backend.post_processor = TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    # through files, so that a tokenizer built by a recipe passes the same checks
    files = {BACKEND_FILE: backend.to_str().encode(), ROLES_FILE: json.dumps(tokens).encode()}
    tokenizer = Tokenizer.from_files(files, str(checkpoint.folder))
    tokenizer.role_tokens["pad"] = tokens["pad"] = padding_token(tokenizer, target)
    # a token that only config files name, by id, remains an ordinary token of texts (a newline; id 0 may be "!")
    special = {*named.values(), *template_tokens(backend)}
    tokenizer.make_special(token for token in tokens.values() if token in special)
    # a unigram model may still make a special token of a text that spells it: pre-tokenize such texts apart
    found = [t for role, t in tokens.items() if role != "unk" and t in special and is_encoded_as_token(t, tokenizer)]
    if found:
        cuts = pre_tokenizers.Sequence([*filter(None, [backend.pre_tokenizer]), *map(split_token, found)])
        tokenizer.backend.pre_tokenizer = cuts
        tokenizer.make_special(())  # rebuilds what was derived from the old pre-tokenizer
    tokenizer.chat_templates = read_chat_templates(checkpoint, options)
    return tokenizer


def read_chat_templates(checkpoint: CheckpointFolder, options: Json) -> dict[str, str]:
    """Chat templates by name, from their files or else from the tokenizer's options.

    Templates are programs: zoo keeps them for an export and never runs them. A template without a plain name is left
    out, since transformers would name a file after it.

    Raises:
        ValueError: a file is not UTF-8.
    """
    others = sorted((checkpoint.folder / CHAT_FOLDER).glob("*.jinja"))
    files = {DEFAULT_CHAT: CHAT} if checkpoint.has(CHAT) else {}
    files |= {file.stem: f"{CHAT_FOLDER}/{file.name}" for file in others}
    given = options.get("chat_template")
    listed = given if isinstance(given, list) else [{"name": DEFAULT_CHAT, "template": given}]
    pairs = [(one.get("name"), one.get("template")) for one in listed if isinstance(one, Mapping)]
    if files:
        pairs = [(n, decode_text(checkpoint.read(f), str(checkpoint.folder / f))) for n, f in files.items()]
    return {n: t for n, t in pairs if isinstance(t, str) and isinstance(n, str) and PLAIN_NAME.fullmatch(n)}


def is_encoded_as_token(token: str, tokenizer: Tokenizer) -> bool:
    """Return whether a text that spells a role's token gets its id, as with a unigram model that has it as a piece."""
    texts = [text.format(token) for text in ("{}", "a {} b", "a{}b")]
    return len(token) > 1 and any(tokenizer.vocabulary[token] in ids for ids in tokenizer.encode(texts))


def split_token(token: str) -> pre_tokenizers.PreTokenizer:
    """A pre-tokenizer that splits texts after the first letter of a token's spelling, so that no piece equals it."""
    return pre_tokenizers.Split(Regex(f"{re.escape(token[0])}(?={re.escape(token[1:])})"), "merged_with_previous")


def find_backend(checkpoint: CheckpointFolder, options: Json, target: Target) -> Backend | str:
    """Read tokenizer.json, or build a tokenizer from vocabulary files by the family's recipe, or say why neither works.

    Raises:
        ValueError: a file is damaged.
    """
    if options.get(VERSIONED_FILES_KEY):
        return f"{TOKENIZER_CONFIG} has {VERSIONED_FILES_KEY}, from which transformers chooses by its own version"
    if checkpoint.has(BACKEND_FILE):
        content, place = checkpoint.read(BACKEND_FILE), str(checkpoint.folder / BACKEND_FILE)
        parse_json(content, place)  # refuses duplicate keys, so that the library reads what is checked here
        backend = read_backend(content, place)
        backend.no_padding()  # a file may ask for any length
        backend.no_truncation()
        return backend
    recipe = target.recipe
    wanted = f"no {BACKEND_FILE}" + (f" and no {' and '.join(recipe.files)}" if recipe else "")
    if recipe is None or not all(checkpoint.has(name) for name in recipe.files):
        unread = ", ".join(name for name in UNSUPPORTED if checkpoint.has(name))
        return f"{wanted}; zoo does not read {unread}" if unread else wanted
    named = checkpoint.tokenizer_class
    if not recipe.builds(named):
        return f"no {BACKEND_FILE}, and a tokenizer_class ({named!r:.80}) whose recipe zoo does not know"
    remedy = f"download them again, or add a {BACKEND_FILE}, which zoo reads instead"
    with explain_failure(str(checkpoint.folder), f"no tokenizer can be made from its vocabulary files ({remedy})"):
        files = {name: checkpoint.read(name) for name in recipe.files}
        backend = recipe.build(files, {**options, **special_tokens_map(checkpoint, options)})
    # before the tokenizer is serialized, which takes memory for every id up to the largest
    check_ids(backend.get_vocab(), str(checkpoint.folder))
    for token in added_tokens(checkpoint, options, recipe.tokens):
        (backend.add_special_tokens if token.special else backend.add_tokens)([token])
    return backend


def added_tokens(checkpoint: CheckpointFolder, options: Json, own: Mapping[str, str]) -> list[AddedToken]:
    """The added tokens in order of their ids, from tokenizer_config.json or, in older folders, added_tokens.json.

    Args:
        own: special tokens that the tokenizer class has by default.
    """
    listed = options.get(ADDED_TOKENS_KEY)
    if listed is None:  # added_tokens.json maps spellings to ids; the other files say which tokens are special
        sources = (options, checkpoint.read_json(SPECIAL_TOKENS_MAP), own)
        named = [value for source in sources for value in source.values()]
        special = {token_text(t) for value in named for t in (value if isinstance(value, list) else [value])}
        older = checkpoint.read_json(ADDED_TOKENS)
        listed = {i: {"content": t, "special": t in special} for t, i in older.items() if type(i) is int}
    if not isinstance(listed, Mapping) or not all(str(i).isdecimal() for i in listed):
        return []
    found = [token for i in sorted(listed, key=int) if isinstance(token := listed[i], Mapping)]
    return [added_token(token) for token in found if is_utf8(token_text(token))]


def is_utf8(text: str | None) -> bool:
    """Whether there is a text that UTF-8 can hold: JSON may have a lone surrogate."""
    return text is not None and text == text.encode(errors="replace").decode()


def added_token(token: Mapping[str, Any]) -> AddedToken:
    """An added token as a file describes it; a special one is matched before a text is normalized."""
    special = bool(token.get("special"))
    said = {} if special else {flag: value for flag in FLAGS if type(value := token.get(flag)) is bool}
    return AddedToken(token["content"], **{"normalized": not special, **said}, special=special)


def named_tokens(checkpoint: CheckpointFolder, options: Json, backend: Backend, target: Target) -> Tokens:
    """The special tokens by name (`cls_token` …), from the folder's files, else from its tokenizer class."""
    default = target.recipe.tokens if target.recipe is not None else {}
    found: Tokens = {}
    for source in (special_tokens_map(checkpoint, options), options, default):
        for name, token in source.items():
            spelled = token_text(token)
            if name not in found and spelled is not None and backend.token_to_id(spelled) is not None:
                found[name] = spelled
    return found


def special_tokens_map(checkpoint: CheckpointFolder, options: Json) -> Json:
    """The special tokens that special_tokens_map.json names.

    As in transformers, this older file overrides tokenizer_config.json, unless that one lists the added tokens itself.
    """
    return {} if ADDED_TOKENS_KEY in options else checkpoint.read_json(SPECIAL_TOKENS_MAP)


def special_tokens_by_name(named: Tokens, config: Json, backend: Backend, target: Target, writes: bool) -> Tokens:
    """The special tokens by name: those that the tokenizer names, and those that config files give as ids.

    Args:
        config: config.json, overridden by generation_config.json if the class generates.
        writes: whether the class generates.
    """
    own = named.get("eos_token")  # the one that ends a chat model's turns, where several may end a text
    known = None if own is None else backend.token_to_id(own)
    ids = {name.removesuffix("_id"): pick_id(i, known) for name, i in config.items() if name.endswith("_token_id")}
    # the library raises OverflowError for ids beyond 32 bits
    numbered = {name: backend.id_to_token(i) for name, i in ids.items() if type(i) is int and 0 <= i < 2**31}
    by_id = {name: token for name, token in numbered.items() if token is not None}
    # generation starts and ends with the tokens of the config, whatever the tokenizer names as its own
    start = by_id.get("decoder_start_token") or (by_id.get("bos_token") if writes and len(target.sides) > 1 else None)
    deciding = {"bos_token": start, "eos_token": by_id.get("eos_token") if writes else None}
    return by_id | named | {name: token for name, token in deciding.items() if token is not None}


def role_tokens(
    backend: Backend, named: Mapping[str, str], target: Target, chosen: NativeClass, class_adds_tokens: bool
) -> Tokens:
    """Assign tokens to roles; one token may have several roles.

    Args:
        class_adds_tokens: whether the folder's class adds the named tokens to a text, whatever the tokenizer's template
            shows.
    """
    found: Tokens = {}
    first = ("cls_token", "bos_token") if target.sides == ("encoder",) else ("bos_token", "cls_token")
    for name in dict.fromkeys((*first, *ROLE_OF_TOKEN)):
        if name in named:
            found.setdefault(ROLE_OF_TOKEN[name], named[name])
    if target.sides == ("decoder",) and not chosen.generates:  # the tokenizer decides what surrounds a text
        around = ("start", "separator", "extract")
        found = {role: token for role, token in found.items() if role not in around} | surrounding_tokens(backend)
    written = template_roles(backend, chosen.text) | template_roles(backend, chosen.pair)
    found = written | found if class_adds_tokens and target.sides == ("encoder",) else found | written
    if "start" not in found and "end" in found and chosen.generates:  # as in GPT-2, one token does both
        found["start"] = found["end"]
    stand_ins = [found[role] for role in STAND_INS if role in found]
    if "pad" not in found and stand_ins:
        found["pad"] = stand_ins[0]
    return {role: found[role] for role in ROLES if role in found}


def template_tokens(backend: Backend) -> set[str]:
    """The tokens that the tokenizer itself adds to one text, or to a pair."""
    encodings = (backend.encode("a"), backend.encode("a", "a"))
    return {t for e in encodings for t, added in zip(e.tokens, e.special_tokens_mask, strict=True) if added}


def surrounding_tokens(backend: Backend) -> Tokens:
    """The tokens that the tokenizer itself adds before a text (`start`) and after it (`extract`)."""
    encoding = backend.encode("a")
    special = [token for token, added in zip(encoding.tokens, encoding.special_tokens_mask, strict=True) if added]
    ahead = bool(encoding.special_tokens_mask) and bool(encoding.special_tokens_mask[0])
    behind = len(special) > ahead
    return ({"start": special[0]} if ahead else {}) | ({"extract": special[-1]} if behind else {})


def template_roles(backend: Backend, template: Template) -> Tokens:
    """The token of each role in `template`, if the tokenizer's own template has the same shape."""
    post = json.loads(backend.to_str())["post_processor"] or {}
    steps: Sequence[Any] = post.get("processors", [post])
    kind = "single" if template.count(None) == 1 else "pair"
    for step in steps:
        pieces = step.get(kind) or []
        if step.get("type") == "TemplateProcessing" and len(pieces) == len(template):
            spelled = [piece.get("SpecialToken", {}).get("id") for piece in pieces]
            if [token is None for token in spelled] == [role is None for role in template]:
                return {role: token for role, token in zip(template, spelled, strict=True) if role is not None}
    return {}
