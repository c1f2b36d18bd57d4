"""Build tokenizers from published vocabulary files, as each family's tokenizer class builds them.

`transformers.convert_slow_tokenizer` is no alternative: it converts a loaded transformers tokenizer, and loading one
needs sentencepiece and follows file names in an untrusted tokenizer_config.json. Importing a checkpoint must also work
without transformers.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing

from zoo.hub.sources.folder import decode_text
from zoo.hub.sources.sentencepiece import Pieces, read_pieces
from zoo.strict_json import parse_json

Files = Mapping[str, bytes]
Options = Mapping[str, Any]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recipe:
    """How to build a tokenizer from a family's vocabulary files.

    Args:
        class_name: the tokenizer class that the recipe reproduces. other_classes: further classes that build the same.
        files: the vocabulary files that it needs.
        tokens: default special tokens, by their names in tokenizer_config.json.
        build: builds the tokenizer from the vocabulary files and the options in tokenizer_config.json.
        minimal_files: the smallest vocabulary files, to see what options in tokenizer_config.json do to a text; None:
            not compared.
        adds_special_tokens: whether the class adds its own special tokens around a text, whatever tokenizer.json says.
    """

    class_name: str
    files: tuple[str, ...]
    tokens: Mapping[str, str]
    build: Callable[[Files, Options], Backend]
    minimal_files: Files | None = None
    other_classes: tuple[str, ...] = ()
    adds_special_tokens: bool = True

    def builds(self, named: Any) -> bool:
        """Return whether a class, or its Fast version, builds this tokenizer; None means the family's own class."""
        every = (self.class_name, *self.other_classes)
        return named is None or named in (*every, *(f"{name}Fast" for name in every))

    def adds_special_tokens_for(self, named: Any) -> bool:
        """Return whether a folder's tokenizer class adds its own special tokens, whatever tokenizer.json says."""
        return self.adds_special_tokens and self.builds(named)


def read_switch(options: Options, name: str, default: bool | None) -> bool | None:
    """Read a switch of tokenizer_config.json.

    Raises:
        ValueError: it is neither true, false nor null.
    """
    value = options.get(name, default)
    if value is not None and type(value) is not bool:
        raise ValueError(f"tokenizer_config.json: {name} must be true or false, got {value!r:.80}")
    return value


def token_text(token: Any) -> str | None:
    """The text of a token, which a file gives as a string or as a map with `content`; None if it is neither."""
    token = token.get("content") if isinstance(token, Mapping) else token
    return token if isinstance(token, str) and token else None


def read_vocabulary(files: Files) -> dict[str, int]:
    """Read vocab.json: token -> id.

    Raises:
        ValueError: it is not a JSON map, or an id is not a whole number from 0.
    """
    vocabulary = parse_json(files["vocab.json"], "vocab.json")
    if not all(type(i) is int and i >= 0 for i in vocabulary.values()):
        raise ValueError("vocab.json: ids must be whole numbers from 0")
    return vocabulary


def read_merges(files: Files) -> list[tuple[str, str]]:
    """Read merges.txt: two pieces per line, most frequent first; the first line may be a comment.

    Raises:
        ValueError: it is not UTF-8, or a line does not hold two pieces.
    """
    lines = [
        line
        for line in decode_text(files["merges.txt"], "merges.txt").replace("\r\n", "\n").split("\n")
        if line.strip()
    ]
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    pairs = [tuple(line.split(" ")) for line in lines]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("merges.txt: each line must hold two pieces")
    return [(pair[0], pair[1]) for pair in pairs]


def wordpiece(files: Files, options: Options) -> Backend:
    """BERT's tokenizer: `BasicTokenizer`, then greedy longest-match-first WordPiece (Devlin et al. 2019)."""
    words = decode_text(files["vocab.txt"], "vocab.txt").removesuffix("\n").split("\n")
    vocabulary = {word.rstrip("\r"): i for i, word in enumerate(words)}
    unk = token_text(options.get("unk_token")) or BERT.tokens["unk_token"]
    backend = Backend(models.WordPiece(vocabulary, unk_token=unk))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(read_switch(options, "tokenize_chinese_chars", True)),
        strip_accents=read_switch(options, "strip_accents", None),
        lowercase=bool(read_switch(options, "do_lower_case", True)),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    ends = [token for token in ("[CLS]", "[SEP]") if token in vocabulary]
    if len(ends) == 2:
        backend.post_processor = TemplateProcessing(
            single="[CLS]:0 $A:0 [SEP]:0",
            pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            special_tokens=[(token, vocabulary[token]) for token in ends],
        )
    return backend


def byte_level(files: Files, options: Options) -> Backend:
    """GPT-2's tokenizer: byte-level BPE; words include their leading space (Radford et al. 2019, section 2.2)."""
    backend = Backend(models.BPE(read_vocabulary(files), read_merges(files), continuing_subword_prefix=""))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=bool(read_switch(options, "add_prefix_space", False))
    )
    backend.decoder = decoders.ByteLevel()
    around = {name: end_of_text(options, name, backend) for name in ENDS if read_switch(options, f"add_{name}", False)}
    if around:
        single = [*filter(None, (around.get("bos_token"), "$A", around.get("eos_token")))]
        pair = [*single, *("$B" if piece == "$A" else piece for piece in single)]
        special = [(token, backend.token_to_id(token)) for token in dict.fromkeys(around.values())]
        backend.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=special)
    return backend


def end_of_text(options: Options, name: str, backend: Backend) -> str:
    """The token that the switch `add_<name>` adds to every text.

    Raises:
        ValueError: `name` is not a token of the vocabulary.
    """
    named = options.get(name, ENDING)
    token = token_text(named)
    if token is None or backend.token_to_id(token) is None:
        raise ValueError(f"tokenizer_config.json: add_{name} is true, but {name} is not a token: {named!r:.80}")
    return token


def end_of_word_bpe(files: Files, options: Options) -> Backend:
    """GPT-1's tokenizer: BPE within lower-cased words, with `</w>` at the end of a word (Radford et al. 2018)."""
    unk = token_text(options.get("unk_token")) or OPENAI_GPT.tokens["unk_token"]
    merges = read_merges(files)
    backend = Backend(models.BPE(read_vocabulary(files), merges, end_of_word_suffix="</w>", unk_token=unk))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.BPEDecoder(suffix="</w>")
    return backend


def t5_pieces(files: Files, options: Options) -> Backend:
    """T5's tokenizer: a unigram model, then the sentinels, with <extra_id_0> as the last id (Raffel et al. 2020)."""
    found = read_pieces(files[SPIECE], SPIECE)
    if found.unk != T5_UNK:
        logger.warning(
            "%s: unknown words get id %d, its unk_id; transformers 5 gives them id %d", SPIECE, found.unk, T5_UNK
        )
    sentinels = [f"<extra_id_{i}>" for i in reversed(range(read_count(options, "extra_ids", 100)))]
    backend = unigram([*found.scored, *((token, 0.0) for token in sentinels)], found.unk, found)
    if found.charsmap:
        backend.normalizer = normalizers.Precompiled(found.charsmap)
    split = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    backend.pre_tokenizer = pre_tokenizers.Sequence(split)
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in sentinels[::-1]])
    return backend


def pegasus_pieces(files: Files, options: Options) -> Backend:
    """Pegasus's tokenizer: special and unused tokens, then the pieces of a unigram model (Zhang et al. 2020)."""
    found, offset = read_pieces(files[SPIECE], SPIECE), read_count(options, "offset", 103)
    ahead = ["<pad>", "</s>", "<mask_1>", "<mask_2>"]
    if found.unk < 2:
        raise ValueError(f"{SPIECE}: the unknown piece is number {found.unk}; Pegasus has <pad> and </s> before it")
    unused = [f"<unk_{i}>" for i in range(2, offset)]
    # the model's own first two pieces stand for <pad> and </s>, which `ahead` has; -100, as transformers converts them,
    # is a log-probability so low that no segmentation uses an unused token
    scored = [*((t, 0.0) for t in ahead), *((t, -100.0) for t in unused), *found.scored[2:]]
    backend = unigram(scored, found.unk + offset, found)
    doubled = normalizers.Replace(Regex(" {2,}"), " ")
    first = normalizers.Precompiled(found.charsmap) if found.charsmap else normalizers.Replace(Regex("\n"), " ")
    backend.normalizer = normalizers.Sequence([first, doubled])
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in [*ahead, *unused]])
    return backend


def unigram(scored: list[tuple[str, float]], unk: int, found: Pieces) -> Backend:
    """A unigram tokenizer that appends </s> to each text.

    Args:
        scored: (piece, log-probability) by id.
        unk: id of the unknown piece.
        found: the sentencepiece model, whose special and user-defined pieces are matched before segmentation.

    Raises:
        ValueError: there is no piece </s>, or no unknown piece.
    """
    words = [word for word, _ in scored]
    if "</s>" not in words or unk >= len(words):
        raise ValueError(f"{SPIECE}: has no piece </s>, or no unknown piece")
    backend = Backend(models.Unigram(scored, unk, byte_fallback=False))
    backend.decoder = decoders.Metaspace(prepend_scheme="always")
    backend.add_tokens([AddedToken(token, normalized=False) for token in found.user if token in words])
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in found.special if token in words])
    backend.post_processor = TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", words.index("</s>"))]
    )
    return backend


def read_count(options: Options, name: str, default: int) -> int:
    """Read a count from tokenizer_config.json.

    Raises:
        ValueError: it is not a whole number from 0 to `MOST_EXTRA`.
    """
    value = options.get(name, default)
    if type(value) is not int or not 0 <= value <= MOST_EXTRA:
        raise ValueError(f"tokenizer_config.json: {name} must be 0 to {MOST_EXTRA}, got {value!r:.80}")
    return value


SPIECE = "spiece.model"
T5_UNK = 2  # the id of unknown words in transformers' T5Tokenizer since version 5, whatever the file says
MOST_EXTRA = 10_000  # tokens that a config may ask to add; published tokenizers add about a hundred
ENDING = "<|endoftext|>"
ENDS = ("bos_token", "eos_token")
BERT = Recipe(
    "BertTokenizer",
    ("vocab.txt",),
    {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"},
    wordpiece,
    minimal_files={"vocab.txt": b"[UNK]\n"},
    other_classes=("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
)
BPE_FILES = ("vocab.json", "merges.txt")
GPT2 = Recipe(
    "GPT2Tokenizer",
    BPE_FILES,
    dict.fromkeys(("unk_token", *ENDS), ENDING),
    byte_level,
    minimal_files={"vocab.json": b"{}", "merges.txt": b""},
    adds_special_tokens=False,
)
OPENAI_GPT = Recipe("OpenAIGPTTokenizer", BPE_FILES, {"unk_token": "<unk>"}, end_of_word_bpe, adds_special_tokens=False)
SEQ2SEQ = {"unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "</s>"}
T5 = Recipe("T5Tokenizer", (SPIECE,), SEQ2SEQ, t5_pieces)
PEGASUS = Recipe("PegasusTokenizer", (SPIECE,), SEQ2SEQ, pegasus_pieces)
