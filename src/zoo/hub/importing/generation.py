"""Read generation settings from generation_config.json, or config.json in older folders, as a task's `generate:`."""

from contextlib import suppress
from typing import Any

from zoo.data.ids import Roles
from zoo.hub.exporting.tokenizer_files import ROLE_OF_TOKEN
from zoo.hub.sources.folder import GENERATION, CheckpointFolder, Json
from zoo.hub.targets.declare.target import Target
from zoo.models.generation.settings import parse_generate

MOST_BEAMS = 256  # each beam is a row in memory
DEFAULT_TOP_K = 50  # transformers' top_k when it samples and the key is missing or null
# the start token of a decoder with an encoder: the first one set
START_KEYS = ("decoder_start_token_id", "bos_token_id")
SAMPLING = ("temperature", "top_k", "top_p")
# keys that affect generated texts and have a zoo setting -> that setting
SETTING_OF_KEY = {"max_new_tokens": "max_new_tokens", "max_length": "max_new_tokens", "num_beams": "beams"}
SETTING_OF_KEY |= {key: key for key in ("length_penalty", *SAMPLING)}
# keys that affect generated texts and have no zoo setting, by the value with which they do nothing
NO_EFFECT_AT_ONE = """
    repetition_penalty encoder_repetition_penalty typical_p num_beam_groups guidance_scale num_return_sequences
""".split()
NO_EFFECT_IF_FALSE = """
    no_repeat_ngram_size encoder_no_repeat_ngram_size min_length min_new_tokens min_p top_h epsilon_cutoff eta_cutoff
    diversity_penalty penalty_alpha early_stopping renormalize_logits remove_invalid_values token_healing
    watermarking_config dola_layers max_time bad_words_ids suppress_tokens begin_suppress_tokens stop_strings
    sequence_bias force_words_ids constraints
""".split()
# for these keys 0 is a token id and has an effect
NO_EFFECT_IF_NULL = ("forced_bos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty")
Generation = tuple[Json, dict[str, int], tuple[str, ...]]


def read_generation(
    checkpoint: CheckpointFolder, config: Json, target: Target, writes: bool, vocab_size: int, roles: Roles
) -> Generation:
    """Read the generation settings of a folder, its special tokens, and the keys that are left out.

    The settings are those of a task's `generate:`, the special tokens ids by role. Left out are keys that affect
    generated texts and for which zoo has no setting, or no setting with this value.

    Args:
        writes: whether the class generates at all.
        roles: roles of the tokenizer; none without a tokenizer.

    Raises:
        ValueError: the file is not JSON.
    """
    written = checkpoint.read_json(GENERATION)
    keys = merge_files(config, written)
    special = ids_by_role(keys, target, vocab_size)
    if not writes:
        return {}, special, ()
    # transformers reads one file only, even if it is empty
    said, alone = written if checkpoint.has(GENERATION) else config, "encoder" not in target.sides
    wanted = translate_settings(said, not alone)
    settings = keep_valid(wanted)
    impossible = wanted.keys() - settings.keys()
    refused = [key for key, ours in SETTING_OF_KEY.items() if ours in impossible and said.get(key) is not None]
    left_out = [*unsupported_keys(said), *(f"{key} ({said[key]!r:.40})" for key in refused)]
    endless = said.get("eos_token_id") in (None, [])
    left_out += differing_ends(keys, endless, alone, roles)
    left_out += ["prefix"] * bool(alone and config.get("prefix"))  # transformers' pipeline puts it before each prompt
    left_out += ["do_sample (with beams)"] * (said.get("do_sample") is True and "beams" in wanted)
    special = {role: i for role, i in special.items() if role != "end" or not endless}
    counts_prompt = alone and "max_length" in said and "max_new_tokens" not in settings
    return settings, special, (*left_out, *["max_length (it counts the prompt)"] * counts_prompt)


def merge_files(config: Json, written: Json) -> Json:
    """The keys of config.json, overridden by those of generation_config.json (`written`).

    If the latter names `bos_token_id` alone, transformers starts a decoder with an encoder from that token, even if
    config.json has a `decoder_start_token_id`.
    """
    first = next((key for key in START_KEYS if written.get(key) is not None), None)
    return {**config, **written, **({START_KEYS[0]: None} if first == START_KEYS[1] else {})}


def unsupported_keys(said: Json) -> list[str]:
    """The keys that affect generated texts and have no zoo setting."""
    found = [key for key in NO_EFFECT_AT_ONE if said.get(key) not in (None, 1)]
    found += [key for key in NO_EFFECT_IF_FALSE if said.get(key)]
    return found + [key for key in NO_EFFECT_IF_NULL if said.get(key) is not None]


def differing_ends(keys: Json, endless: bool, alone: bool, roles: Roles) -> list[str]:
    """Describe the start and end tokens of the folder that differ from those that zoo uses.

    Args:
        keys: those of config.json, overridden by those of generation_config.json.
        endless: whether the file that transformers generates from names no end token.
        alone: whether it is a decoder without an encoder.
    """
    ends = keys.get("eos_token_id")
    end = pick_id(ends, roles.end)
    found = [f"eos_token_id (but {end})"] * (isinstance(ends, list) and len(ends) > 1)
    found += [f"eos_token_id (none, but {roles.end})"] * (endless and roles.end is not None)
    begins = START_KEYS[0] if alone or keys.get(START_KEYS[0]) is not None else START_KEYS[1]
    for key, value, read in (("eos_token_id", end, roles.end), (begins, keys.get(begins), roles.start)):
        found += [f"{key} ({value})"] * (type(value) is int and read is not None and read != value)
    return found


def translate_settings(said: Json, has_encoder: bool) -> Json:
    """Translate generation keys into zoo's settings, valid or not.

    Args:
        has_encoder: if so, an output has a start token of its own, which `max_length` counts.
    """
    found: Json = {}
    longest = said.get("max_length")
    if said.get("max_new_tokens") is not None:
        found["max_new_tokens"] = said["max_new_tokens"]
    elif has_encoder and longest is not None:
        found["max_new_tokens"] = longest - 1 if type(longest) is int else longest
    if said.get("num_beams") not in (None, 1):
        found["beams"] = said["num_beams"]
        if said.get("length_penalty") is not None:
            found["length_penalty"] = said["length_penalty"]
    elif said.get("do_sample") is True:
        top_k = DEFAULT_TOP_K if said.get("top_k") is None else said["top_k"]
        top_p = said.get("top_p")
        found["temperature"] = 1.0 if said.get("temperature") is None else said["temperature"]
        found |= {"top_k": top_k} if top_k != 0 else {}
        found |= {"top_p": top_p} if top_p not in (None, 1) else {}
    return found


def keep_valid(wanted: Json) -> Json:
    """Drop settings with invalid values, and settings that have no effect without a dropped one."""
    found: Json = {}
    for key, value in wanted.items():
        with suppress(ValueError):
            if parse_generate({key: value}).beams <= MOST_BEAMS:
                found[key] = value
    gone = [*SAMPLING] * (not found.get("temperature")) + ["length_penalty"] * ("beams" not in found)
    return {key: value for key, value in found.items() if key not in gone}


def pick_id(value: Any, known: int | None = None) -> Any:
    """Pick one of several ids that may end a text: `known` if it is among them, else the first."""
    if not isinstance(value, list) or not value:
        return value
    return known if known in value else value[0]


def ids_by_role(said: Json, target: Target, vocab_size: int) -> dict[str, int]:
    """The special tokens that the files name by id; `start` is the token that a decoder starts from."""
    found: dict[str, int] = {}
    for name, role in {**ROLE_OF_TOKEN, "decoder_start_token": "start"}.items():
        value = pick_id(said.get(f"{name}_id"))
        if type(value) is int and 0 <= value < vocab_size:
            found[role] = value
    found.setdefault("pad", found.get("end", 0))
    if "decoder" in target.sides:
        found.setdefault("start", found["pad"] if "encoder" in target.sides else found.get("end", found["pad"]))
    return found
