"""Texts that transformers would write in another way for an imported model than zoo does."""

from pathlib import Path
from typing import Any

from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from zoo.data.tokenizers.backend import read_backend
from zoo.data.tokenizers.tokenizer import BACKEND_FILE, Tokenizer
from zoo.hub.exporting.tokenizer_files import with_template
from zoo.hub.sources.folder import OPTIONS, CheckpointFolder
from zoo.hub.targets.declare.target import Target
from zoo.late import load

LETTERS = ("a", "b")  # texts to see templates around
# whose classes in transformers 5 take nothing but the vocabulary of tokenizer.json
REBUILDING = ("Bert", "GPT2", "Gemma", "Llama", "OpenAIGPT", "Pegasus", "Qwen2", "T5")
OWN = {"qwen3": "Qwen2Tokenizer"}  # of a family without a recipe, where a folder names no class
SWITCHED = "Ab \u00c9 \u6f22\u5b57"  # a text that switches make something else of
COMPOSED = f" e\u0301 {SWITCHED}"  # the same behind a space, and behind a letter that NFC composes


def texts_otherwise(
    foreign: CheckpointFolder, tokenizer: Tokenizer | str, segments: bool, target: Target
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How transformers writes texts for the model where zoo does in another way: by templates, and by switches."""
    if isinstance(tokenizer, str):
        return (), ()
    return other_templates(foreign, tokenizer, segments, target), other_switches(foreign, target)


def other_templates(foreign: CheckpointFolder, tokenizer: Tokenizer, segments: bool, target: Target) -> tuple[str, ...]:
    """How the folder's tokenizer writes texts, where zoo writes those of the class in another way.

    The family's own class writes its own template, whatever tokenizer.json says. A text that is continued begins as the
    tokenizer begins it (`Tokenizer.begin`), without what that puts behind it.

    Args:
        segments: whether the model tells a pair's texts apart.
    """
    if target.recipe is not None and target.recipe.writes_around(foreign.tokenizer_class):
        return ()
    chosen = target.classes[0]
    ours, found = with_template(tokenizer, segments, chosen), []
    for texts in ((LETTERS[0],), LETTERS)[: 2 if chosen.pair else 1]:
        mine, theirs = (backend.encode(*texts) for backend in (ours, tokenizer.backend))
        if theirs.ids != mine.ids or (segments and theirs.type_ids != mine.type_ids):
            found.append(f"'{spelled(theirs, segments)}' (here '{spelled(mine, segments)}')")
    return tuple(found)


def other_switches(foreign: CheckpointFolder, target: Target) -> tuple[str, ...]:
    """What transformers' own class makes of a text by tokenizer_config.json, where tokenizer.json makes something else.

    That class (version 5) takes the vocabulary of tokenizer.json, and its own switches instead of what stands there.
    """
    if not foreign.has(BACKEND_FILE):
        return ()
    options, recipe = foreign.read_json(OPTIONS), target.recipe
    own_class = OWN.get(target.model_type) if recipe is None else recipe.class_name
    named = foreign.tokenizer_class or own_class
    own = read_backend(foreign.read(BACKEND_FILE), str(foreign.folder / BACKEND_FILE))
    found: list[tuple[list[str], list[str]]] = []
    if recipe is not None and recipe.least is not None and recipe.is_of(named):
        switches = {name: value for name, value in options.items() if not name.endswith("_token")}
        found.append((pieces(recipe.build(recipe.least, {**switches, "add_bos_token": False})), pieces(own)))
    elif (rebuilt := rebuilt_backend(foreign.folder, named)) is not None:
        found += [(tokens(rebuilt, text), tokens(own, text)) for text in (SWITCHED, COMPOSED)]
    return tuple(f"'{' '.join(theirs)}' (here '{' '.join(ours)}')" for theirs, ours in found if theirs != ours)


def rebuilt_backend(folder: Path, named: Any) -> Backend | None:
    """The tokenizer that one of `REBUILDING` makes of a folder; None for other classes, and where none can be made."""
    if not isinstance(named, str) or named.removesuffix("Fast").removesuffix("Tokenizer") not in REBUILDING:
        return None
    try:
        maker = load("transformers:AutoTokenizer")
        made: Backend = maker.from_pretrained(folder, local_files_only=True, trust_remote_code=False).backend_tokenizer
    except Exception:  # it is not installed, or a stranger's files make it raise: there is nothing to compare with
        return None
    return made


def tokens(backend: Backend, text: str) -> list[str]:
    """Those of a text, without what stands around it."""
    found: list[str] = backend.encode(text, add_special_tokens=False).tokens
    return found


def pieces(backend: Backend) -> list[str]:
    """What is left of a text with capitals, marks and Chinese before the vocabulary is looked at."""
    text = SWITCHED if backend.normalizer is None else backend.normalizer.normalize_str(SWITCHED)
    cut_up = [(text, None)] if backend.pre_tokenizer is None else backend.pre_tokenizer.pre_tokenize_str(text)
    return [piece for piece, _ in cut_up]


def spelled(encoding: Encoding, segments: bool) -> str:
    """The tokens of a text, with their segments behind them where those are of more than one kind."""
    several = segments and len(set(encoding.type_ids)) > 1
    return " ".join(f"{t}:{n}" if several else t for t, n in zip(encoding.tokens, encoding.type_ids, strict=True))
