"""A trained or imported tokenizer: encodes and decodes texts, and knows which token plays which role."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import count, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend

from zoo.data.ids import ROLES, Ids, Roles
from zoo.data.tokenizers.backend import encode_plainly, explain_failure, read_backend
from zoo.data.tokenizers.continuation import continuation_backend
from zoo.data.tokenizers.recipes.recipe import ANGLED, BRACKETED, TokenizerRecipe, role_token
from zoo.data.tokenizers.separable import is_separable, is_separable_at_marks
from zoo.data.tokenizers.word_cache import WordCache, clear_tables
from zoo.data.tokenizers.word_marks import word_marks
from zoo.registry import Choice, check
from zoo.strict_json import parse_json
from zoo.wording import refuse_unknown

BACKEND_FILE = "tokenizer.json"
ROLES_FILE = "roles.json"
CHATS_FILE = "chat_templates.json"
SENTINEL = "<extra_id_{}>"  # T5's spelling of the token for a masked span
MANY = 1 << 13  # characters of texts; from this many on, the word cache is faster


class Tokenizer:
    """Encodes texts as ids, and decodes ids.

    Args:
        backend: a tokenizer of the `tokenizers` library; padding and truncation are switched off.
        role_tokens: role -> its token. Two roles may share one; all roles but `pad` are optional. A token that is not a
            special token of the backend, such as a newline that ends texts, stays an ordinary one.
        place: where the tokenizer comes from, for messages.
        chat_templates: name -> template that the tokenizer was published with; kept for export, never used.
    """

    def __init__(
        self,
        backend: Backend,
        role_tokens: Mapping[str, str],
        place: str = "tokenizer",
        chat_templates: Mapping[str, str] = {},
    ) -> None:
        backend.no_padding()
        backend.no_truncation()
        self.backend = backend
        self.role_tokens = check_roles(role_tokens, backend, f"{place}/{ROLES_FILE}")
        self.chat_templates = dict(chat_templates)
        self.make_special(())

    @classmethod
    def train(cls, choice: Choice[TokenizerRecipe], texts: Iterable[str]) -> "Tokenizer":
        """Train the chosen kind of tokenizer on texts."""
        recipe = choice.build()
        return cls(recipe.train(texts), recipe.role_tokens)

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], place: str = "tokenizer") -> "Tokenizer":
        """Read a tokenizer from the contents of its files, by name.

        Raises:
            ValueError: a file is missing or malformed; the message names it.
        """
        for name in (BACKEND_FILE, ROLES_FILE):
            if name not in files:
                raise ValueError(f"{place}/{name}: the file is missing")
        backend = read_backend(files[BACKEND_FILE], f"{place}/{BACKEND_FILE}")
        roles = parse_json(files[ROLES_FILE], f"{place}/{ROLES_FILE}")
        chats = parse_json(files.get(CHATS_FILE, b"{}"), f"{place}/{CHATS_FILE}")
        return cls(backend, roles, place, check(chats, dict[str, str], f"{place}/{CHATS_FILE}"))

    def files(self) -> dict[str, bytes]:
        """The contents of the files that `from_files` reads back, by name."""
        maps = {ROLES_FILE: self.role_tokens, CHATS_FILE: self.chat_templates}
        written = {name: json.dumps(tree, indent=2, ensure_ascii=False) + "\n" for name, tree in maps.items() if tree}
        backend = self.backend.to_str(pretty=True)
        return {BACKEND_FILE: backend.encode(), **{name: text.encode() for name, text in written.items()}}

    @cached_property
    def digest(self) -> str:
        """A hash of everything that determines the ids of a text; roles and special tokens are no part of it."""
        spec = json.loads(self.backend.to_str())
        plain = [token for token in spec["added_tokens"] if not token["special"]]
        decided = {key: spec[key] for key in ("normalizer", "pre_tokenizer", "model")}
        return hashlib.sha256(json.dumps([decided, plain], sort_keys=True).encode()).hexdigest()

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Token -> id, added tokens included."""
        vocabulary: dict[str, int] = self.backend.get_vocab(with_added_tokens=True)
        return vocabulary

    @property
    def vocab_size(self) -> int:
        """One more than the largest id: the rows that an embedding needs."""
        return max(self.vocabulary.values()) + 1

    @property
    def special_tokens(self) -> set[str]:
        """The tokens that texts cannot contain, and that `decode` leaves out."""
        return {token.content for token in self.backend.get_added_tokens_decoder().values() if token.special}

    @cached_property
    def roles(self) -> Roles:
        """The ids of the roles, and which tokens continue a word."""
        ids = {role: self.vocabulary[t] if (t := self.role_tokens.get(role)) is not None else None for role in ROLES}
        sentinels = takewhile(lambda i: i is not None, map(self.vocabulary.get, map(SENTINEL.format, count())))
        known = {"continues": self.continues(), "sentinels": tuple(sentinels)}
        return Roles(vocab_size=self.vocab_size, **ids, **known)  # type: ignore[arg-type]  # pad is there

    @property
    def marks_continuing(self) -> bool:
        """Whether tokens that continue a word have a prefix, as WordPiece's ##."""
        return bool(getattr(self.backend.model, "continuing_subword_prefix", None))

    def continues(self) -> NDArray[np.bool_] | None:
        """Per id, whether the token continues a word; None if the tokens' spelling does not show it."""
        prefix, starts = word_marks(json.loads(self.backend.to_str()))
        if prefix is None and starts is None:
            return None
        added = self.backend.get_added_tokens_decoder()
        marks = np.zeros(self.vocab_size, dtype=np.bool_)
        for token, i in self.vocabulary.items():
            inside = token.startswith(prefix) if prefix is not None else not token.startswith(starts)  # type: ignore[arg-type]
            marks[i] = inside and i not in added
        return marks

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of each text, without special tokens; a role's spelling inside a text is ordinary text.

        Raises:
            ValueError: a text has a lone surrogate.
        """
        wholes = list(map(require_utf8, texts))
        with explain_failure("tokenizer", "it cannot read a text"):
            if self.word_cache is not None and sum(map(len, wholes)) >= MANY:
                return list(self.word_cache.encode(wholes))
            return encode_plainly(self.plain_backend, wholes)

    def encode_continuation(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of texts that continue others; only if the tokenizer adds something before a text."""
        assert self.continuation_backend is not None
        with explain_failure("tokenizer", "it cannot read a text"):
            return encode_plainly(self.continuation_backend, list(map(require_utf8, texts)))

    @cached_property
    def continuation_backend(self) -> Backend | None:
        return continuation_backend(self.plain_backend)

    @cached_property
    def word_cache(self) -> WordCache | None:
        """The cache of words' ids; None if the ids of a text are not those of its words."""
        spec = json.loads(self.plain_backend.to_str())
        return WordCache(self.plain_backend, is_separable_at_marks(spec)) if is_separable(spec) else None

    def clear_cache(self) -> None:
        """Free the cache of words' ids, some 50 MB (200 with short words), and the tables that all caches share."""
        self.__dict__.pop("word_cache", None)
        clear_tables()

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[Ids, Ids]]:
        """The ids of each text, as from `encode`, and the characters (begin, end) of each token.

        Raises:
            ValueError: a text has a lone surrogate.
        """
        wholes = list(map(require_utf8, texts))
        with explain_failure("tokenizer", "it cannot read a text"):
            encodings = self.plain_backend.encode_batch(wholes, add_special_tokens=False)
        pairs = [(np.array(e.ids, dtype=np.int64), np.array(e.offsets, dtype=np.int64)) for e in encodings]
        return [(ids, offsets.reshape(-1, 2)) for ids, offsets in pairs]

    def encode_with_roles(self, text: str) -> Ids:
        """The ids of a text in which a role's spelling, such as [MASK], stands for that role."""
        checked = require_utf8(text)
        with explain_failure("tokenizer", "it cannot read a text"):
            return np.array(self.backend.encode(checked, add_special_tokens=False).ids, dtype=np.int64)

    def span_bytes(self, text: str, spans: Iterable[tuple[int, int]]) -> int:
        """The number of UTF-8 bytes that some spans of a text's tokens stand for."""
        offsets = self.plain_backend.encode(require_utf8(text), add_special_tokens=False).offsets
        begins = [0, *(begin for begin, _ in offsets[1:]), len(text)]
        ends = [(begins[start], begins[min(stop, len(begins) - 1)]) for start, stop in spans]
        return sum(len(text[begin:end].encode()) for begin, end in ends)

    def encode_prompt(self, text: str) -> list[int]:
        """The ids that a decoder continues: `start` and the text, or those of an imported tokenizer's own template.

        Raises:
            ValueError: there is nothing to begin with.
        """
        if self.backend.post_processor is None:
            return [self.roles.id("start"), *self.encode([text])[0].tolist()]
        encoding = self.plain_backend.encode(require_utf8(text), add_special_tokens=True)
        written = [i for i, special in zip(encoding.ids, encoding.special_tokens_mask, strict=True) if not special]
        ahead = encoding.special_tokens_mask.index(0) if written else len(encoding.ids)
        return [*encoding.ids[:ahead], *written] or [self.roles.id("start")]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, special tokens left out."""
        text: str = self.backend.decode([int(i) for i in ids], skip_special_tokens=True)
        return text

    def spell(self, token_id: int) -> str:
        """The token of an id; `<8001>` for an id beyond the vocabulary, since a model may have more rows."""
        return self.backend.id_to_token(int(token_id)) or f"<{token_id}>"

    def words(self) -> list[str | None]:
        """Per id, the word that a token is; None for roles, sentinels and tokens that continue a word."""
        continues = self.roles.continues
        texts = set(self.roles.ordinary_ids.tolist())
        if continues is not None:
            texts -= set(np.flatnonzero(continues).tolist())
        return [self.backend.decode([i]).strip() if i in texts else None for i in range(self.vocab_size)]

    def add_roles(self, names: Iterable[str]) -> list[str]:
        """Give each role without a token one; returns the roles whose token is new (a new row of the embedding)."""
        wanted = list(names)
        for name in wanted:
            refuse_unknown(name, ROLES, "role", "tokenizer")
        prefix, _ = word_marks(json.loads(self.backend.to_str()))
        spellings = ANGLED if prefix is None else BRACKETED
        lacking = {name: spellings[name] for name in wanted if name not in self.role_tokens}
        new = [name for name, token in lacking.items() if token not in self.vocabulary]
        together = {**self.role_tokens, **lacking}
        self.role_tokens = {role: together[role] for role in ROLES if role in together}
        self.make_special(self.role_tokens[role] for role in ROLES if role in lacking)
        return new

    def add_sentinels(self, needed: int) -> int:
        """Add sentinels up to the number needed; returns how many are new (new rows of the embedding).

        As in T5's vocabulary, the first one has the largest id.
        Source: Raffel et al. 2020, arXiv:1910.10683, section 3.1.4; transformers' T5Tokenizer, `extra_ids`.
        """
        known = len(self.roles.sentinels)
        new = [SENTINEL.format(number) for number in reversed(range(known, needed))]
        self.make_special(new)
        return len(new)

    def make_special(self, tokens: Iterable[str]) -> None:
        """Make tokens special tokens of the backend, if they are not yet, and clear all cached values."""
        known = self.special_tokens
        self.backend.add_special_tokens([role_token(token) for token in tokens if token not in known])
        self.plain_backend = Backend.from_str(self.backend.to_str())
        self.plain_backend.encode_special_tokens = True  # special tokens found in a text are read as ordinary text
        for derived in ("digest", "vocabulary", "roles", "word_cache", "continuation_backend"):
            self.__dict__.pop(derived, None)


def require_utf8(text: str) -> str:
    """The text itself. Python reads bytes that are not UTF-8 as lone surrogates, which are refused.

    Raises:
        ValueError: the text has a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"character {error.start + 1} is a lone surrogate, from a byte that is not UTF-8"
        raise ValueError(f"text {text[:40]!r}: {problem}; expected text in UTF-8") from None
    return text


def roles_by_id(files: Mapping[str, bytes], vocab_size: int, place: str) -> Roles:
    """The roles of a model without a tokenizer, whose special tokens are known only by their ids.

    Raises:
        ValueError: the file with the ids is damaged.
    """
    where = f"{place}/{ROLES_FILE}"
    ids = parse_json(files.get(ROLES_FILE, b"{}"), where)
    for role, i in ids.items():
        refuse_unknown(role, ROLES, "role", where)
        if type(i) is not int or not 0 <= i < vocab_size:
            raise ValueError(f"{where}: {role} must be an id below {vocab_size}, got {i!r:.80}")
    return Roles(vocab_size, **{**dict.fromkeys(ROLES), "pad": 0, **ids})  # type: ignore[arg-type]  # pad is there


def check_roles(role_tokens: Mapping[str, Any], backend: Backend, place: str) -> dict[str, str]:
    """The roles in the order of `ROLES`; raises a ValueError if a role's token is not in the vocabulary."""
    for role, token in role_tokens.items():
        refuse_unknown(str(role), ROLES, "role", place)
        if not isinstance(token, str) or backend.token_to_id(token) is None:
            raise ValueError(f"{place}: the token {token!r} of role '{role}' is not in the vocabulary")
    if "pad" not in role_tokens:
        raise ValueError(f"{place}: the role 'pad' is missing (it may share another role's token)")
    return {role: role_tokens[role] for role in ROLES if role in role_tokens}
