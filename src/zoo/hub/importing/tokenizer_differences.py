"""Texts that transformers would encode in another way than zoo for an imported model."""

from collections.abc import Sequence

from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from zoo.data.tokenizers.backend import explain_failure, read_backend
from zoo.data.tokenizers.tokenizer import BACKEND_FILE, Tokenizer
from zoo.hub.exporting.tokenizer_files import with_post_processor
from zoo.hub.importing.padding import counts_as_padding, may_end_texts
from zoo.hub.importing.tokenizer import added_tokens
from zoo.hub.sources.folder import TOKENIZER_CONFIG, CheckpointFolder, Json
from zoo.hub.targets.declare.target import Target
from zoo.lazy_import import import_object

LETTERS = ("a", "b")  # sample texts that show the template around them
TYPES = "token_type_ids"
# families whose tokenizer classes in transformers 5 give types unless a folder says otherwise; the general one does not
TYPED = "Bert ConvBert Deberta DebertaV2 Electra LayoutLM MobileBert SqueezeBert".split()
# families whose tokenizer classes in transformers 5 take only the vocabulary from tokenizer.json
VOCABULARY_ONLY = """
    Bert Camembert CodeLlama Cohere GPT2 GPTNeoX Gemma Herbert Llama MPNet OpenAIGPT Pegasus Qwen2 Roberta T5 XLMRoberta
""".split()
DEFAULT_CLASSES = {"qwen3": "Qwen2Tokenizer"}  # the class of a family without a recipe, if a folder names none
SAMPLE = "Ab \u00c9 \u6f22\u5b57"  # a text that options such as lower-casing change
COMPOSED_SAMPLE = f" e\u0301  2000 {SAMPLE}"  # the same after spaces, a letter that NFC composes, and digits
SAMPLES = (SAMPLE, COMPOSED_SAMPLE)
Described = tuple[str, ...]


def tokenizer_differences(
    checkpoint: CheckpointFolder, tokenizer: Tokenizer | str, segments: bool, target: Target
) -> tuple[Described, Described, Described, Described]:
    """Where transformers reads texts in another way: special tokens, tokenizer options, added tokens, padding."""
    if isinstance(tokenizer, str):
        return (), (), (), ()
    made = rebuilt_backend(checkpoint, target)
    return (
        template_differences(checkpoint, tokenizer, segments, target, made),
        option_differences(checkpoint, target, made),
        lacking_tokens(checkpoint),
        padding_in_texts(tokenizer, checkpoint.config, target),
    )


def template_differences(
    checkpoint: CheckpointFolder, tokenizer: Tokenizer, segments: bool, target: Target, made: Backend | None
) -> tuple[str, ...]:
    """Describe the special tokens that the folder's tokenizer adds to texts, where zoo adds others.

    Of the family's own class, which adds its template whatever tokenizer.json says, only segments can differ. A text
    that a decoder continues begins as the tokenizer begins it (`Tokenizer.encode_prompt`), without the tokens that the
    tokenizer appends.

    Args:
        segments: whether the model distinguishes the two texts of a pair.
        made: the tokenizer that transformers builds instead of that of tokenizer.json.
    """
    typed = segments and gives_types(checkpoint)
    own = target.recipe is not None and target.recipe.adds_special_tokens_for(checkpoint.tokenizer_class)
    if own and typed == segments:
        return ()
    chosen = target.classes[0]
    ours, found = with_post_processor(tokenizer, segments, chosen), []
    other = ours if own else made or tokenizer.backend
    for texts in ((LETTERS[0],), LETTERS)[: 2 if chosen.pair else 1]:
        with explain_failure("tokenizer", "it cannot read a text"):
            mine = with_types(ours.encode(*texts), segments)
            theirs = with_types(other.encode(*texts), typed)
        if theirs != mine:
            found.append(f"'{format_tokens(theirs)}' (here '{format_tokens(mine)}')")
    return tuple(found)


def gives_types(checkpoint: CheckpointFolder) -> bool:
    """Return whether the folder's tokenizer tells a model which text of a pair a token belongs to (its type)."""
    named = checkpoint.read_json(TOKENIZER_CONFIG).get("model_input_names")
    if isinstance(named, list):
        return TYPES in named
    return checkpoint.tokenizer_class is None or family_of(checkpoint.tokenizer_class) in TYPED


def family_of(tokenizer_class: str) -> str:
    """The family that a tokenizer class of transformers is named after."""
    return tokenizer_class.removesuffix("Fast").removesuffix("Tokenizer")


def with_types(encoding: Encoding, typed: bool) -> list[tuple[str, int]]:
    """The sample letters and the special tokens around them, each with its type, which is 0 unless `typed`."""
    found: list[tuple[str, int]] = []
    for token, kind, text in zip(encoding.tokens, encoding.type_ids, encoding.sequence_ids, strict=True):
        one = (token if text is None else LETTERS[text], kind * typed)
        found += [one] * (text is None or one not in found)  # a letter may be several tokens
    return found


def option_differences(checkpoint: CheckpointFolder, target: Target, made: Backend | None) -> tuple[str, ...]:
    """Describe what transformers' class makes of sample texts by tokenizer_config.json, where tokenizer.json differs.

    In transformers 5 these classes take the vocabulary from tokenizer.json, and all else from their own options.
    """
    if not checkpoint.has(BACKEND_FILE):
        return ()
    options, recipe = checkpoint.read_json(TOKENIZER_CONFIG), target.recipe
    own = read_own(checkpoint)
    found: list[tuple[list[str], list[str]]] = []
    if recipe is not None and recipe.minimal_files is not None and recipe.builds(checkpoint.tokenizer_class):
        switches = {name: value for name, value in options.items() if not name.endswith("_token")}
        rebuilt = recipe.build(recipe.minimal_files, {**switches, "add_bos_token": False})
        both = [(pieces(rebuilt, text), pieces(own, text)) for text in SAMPLES]
        found += [pair for pair in both if pair[0] != pair[1]][:1]  # one switch shows in both texts
    elif made is not None:
        found += zip(read_texts(made, SAMPLES), read_texts(own, SAMPLES), strict=False)
    return tuple(f"'{' '.join(theirs)}' (here '{' '.join(ours)}')" for theirs, ours in found if theirs != ours)


def lacking_tokens(checkpoint: CheckpointFolder) -> tuple[str, ...]:
    """The tokens that tokenizer.json lacks and transformers adds, each with what tokenizer.json makes of it.

    They are listed in tokenizer_config.json or added_tokens.json.
    """
    if not checkpoint.has(BACKEND_FILE):
        return ()
    own, options = read_own(checkpoint), checkpoint.read_json(TOKENIZER_CONFIG)
    known = {token.content for token in own.get_added_tokens_decoder().values()}
    listed = [t.content for t in added_tokens(checkpoint, options, {}) if t.content not in known]
    found = zip(listed, read_texts(own, listed), strict=False)  # nothing if it cannot read them
    return tuple(f"'{text}' (here '{' '.join(read)}')" for text, read in found if read != [text])


def read_own(checkpoint: CheckpointFolder) -> Backend:
    """The tokenizer of tokenizer.json, which is there, without its padding and truncation."""
    return bare(read_backend(checkpoint.read(BACKEND_FILE), str(checkpoint.folder / BACKEND_FILE)))


def bare(backend: Backend) -> Backend:
    """The tokenizer itself, without padding and truncation."""
    backend.no_padding()
    backend.no_truncation()
    return backend


def padding_in_texts(tokenizer: Tokenizer, config: Json, target: Target) -> tuple[str, ...]:
    """The token of `pad_token_id`, if texts may end with it, and a decoder's classifier in transformers skips it there.

    It may be that of unknown words, or a word such as "!".
    """
    padding = config.get("pad_token_id")
    if type(padding) is not int or not 0 <= padding < tokenizer.vocab_size:
        return ()
    token = tokenizer.spell(padding)
    if not counts_as_padding(token, tokenizer.backend, config, target, target.classes[0]):
        return ()
    return (token,) if may_end_texts(token, tokenizer) else ()


def rebuilt_backend(checkpoint: CheckpointFolder, target: Target) -> Backend | None:
    """The tokenizer that a class of `VOCABULARY_ONLY` builds from a folder with a tokenizer.json.

    None for another class, for a family's own class whose options a recipe shows, or if it fails.
    """
    named, recipe = checkpoint.tokenizer_class, target.recipe
    if recipe is not None and recipe.minimal_files is not None and recipe.builds(named):
        return None
    named = named or (DEFAULT_CLASSES.get(target.model_type) if recipe is None else recipe.class_name)
    if not checkpoint.has(BACKEND_FILE) or not isinstance(named, str) or family_of(named) not in VOCABULARY_ONLY:
        return None
    try:
        load = import_object("transformers:AutoTokenizer").from_pretrained
        made: Backend = load(checkpoint.folder, local_files_only=True, trust_remote_code=False).backend_tokenizer
        with explain_failure("tokenizer"):
            made.encode(*LETTERS)
    except Exception:  # transformers is missing, or untrusted files make it raise: there is nothing to compare with
        return None
    return bare(made)


def read_texts(backend: Backend, texts: Sequence[str]) -> list[list[str]]:
    """The tokens of each text, without special tokens around it; an empty list if the tokenizer cannot read them."""
    try:
        with explain_failure("tokenizer"):
            return [backend.encode(text, add_special_tokens=False).tokens for text in texts]
    except ValueError:
        return []


def pieces(backend: Backend, text: str) -> list[str]:
    """The pieces of a text after normalization and pre-tokenization, before the vocabulary is used."""
    text = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
    cut_up = [(text, None)] if backend.pre_tokenizer is None else backend.pre_tokenizer.pre_tokenize_str(text)
    return [piece for piece, _ in cut_up]


def format_tokens(typed: Sequence[tuple[str, int]]) -> str:
    """The tokens of a text, each with its type if there are several types."""
    several = len({kind for _, kind in typed}) > 1
    return " ".join(f"{token}:{kind}" if several else token for token, kind in typed)
