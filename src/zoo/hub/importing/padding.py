"""The padding token of an imported tokenizer, which a decoder that classifies texts skips at their end."""

from tokenizers import Tokenizer as Backend

from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.sources.folder import Json
from zoo.hub.targets.declare.target import NativeClass, Target

STAND_INS = ("end", "unk", "separator", "start")  # roles whose token may pad, in the order of preference
RARE_SAMPLE = "\u2603 \U0002a6a5"  # characters that few vocabularies have


def padding_token(tokenizer: Tokenizer, target: Target) -> str:
    """The token for padding: another role's for a decoder alone if texts may end with the folder's own, such as "!".

    transformers' classifier would read such a text without its end.
    """
    roles = tokenizer.role_tokens
    if target.sides != ("decoder",) or "extract" in roles or not may_end_texts(roles["pad"], tokenizer):
        return roles["pad"]
    others = (roles[role] for role in STAND_INS if role in roles)
    return next((token for token in others if not may_end_texts(token, tokenizer)), roles["pad"])


def may_end_texts(token: str, tokenizer: Tokenizer) -> bool:
    """Return whether a text may get a token at its end: one of unknown words, or a word such as "!"."""
    number = tokenizer.vocabulary[token]
    texts = tokenizer.encode([RARE_SAMPLE, token, tokenizer.decode([number])])
    return any(number in ids for ids in texts)


def counts_as_padding(token: str | None, backend: Backend, config: Json, target: Target, chosen: NativeClass) -> bool:
    """Return whether `token`, which the tokenizer appends to a text, is padding to a decoder that classifies texts.

    Its transformers class reads the last token that is not `pad_token_id`, so it would read the one before `token`.
    """
    if target.sides != ("decoder",) or "classification" not in chosen.heads:
        return False
    padding = config.get("pad_token_id")
    return token is not None and type(padding) is int and backend.token_to_id(token) == padding
