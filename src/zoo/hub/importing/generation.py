"""How a stranger's model generates: generation_config.json, or config.json in older folders, in a task's words."""

from contextlib import suppress
from typing import Any

from zoo.data.ids import Roles
from zoo.hub.exporting.tokenizer_files import THEIR_ROLES
from zoo.hub.sources.folder import GENERATION, CheckpointFolder, Json
from zoo.hub.targets.declare.target import Target
from zoo.models.generation.settings import parse_generate

MOST_BEAMS = 256  # each of them is a row in memory
LIKELIEST = 50  # theirs, where they sample and top_k is not there or null
BEGINS = ("decoder_start_token_id", "bos_token_id")  # what a decoder beside an encoder begins with
SAMPLING = ("temperature", "top_k", "top_p")
# what acts on their texts and has a setting here -> that setting
OURS = {"max_new_tokens": "max_new_tokens", "max_length": "max_new_tokens", "num_beams": "beams"}
OURS |= {key: key for key in ("length_penalty", *SAMPLING)}
# what acts on their texts and has no setting here, by the values with which it does nothing
IDLE_AT_ONE = """
    repetition_penalty encoder_repetition_penalty typical_p num_beam_groups guidance_scale num_return_sequences
""".split()
IDLE_WHERE_FALSE = """
    no_repeat_ngram_size encoder_no_repeat_ngram_size min_length min_new_tokens min_p top_h epsilon_cutoff eta_cutoff
    diversity_penalty penalty_alpha early_stopping renormalize_logits remove_invalid_values token_healing
    watermarking_config dola_layers max_time bad_words_ids suppress_tokens begin_suppress_tokens stop_strings
    sequence_bias force_words_ids constraints
""".split()
# 0 is the id of a token
IDLE_WHERE_NULL = ("forced_bos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty")
Generation = tuple[Json, dict[str, int], tuple[str, ...]]


def read_generation(
    foreign: CheckpointFolder, config: Json, target: Target, writes: bool, vocab_size: int, roles: Roles
) -> Generation:
    """How a folder's model generates, its special tokens, and the keys that are left out.

    The settings are as a task's `generate:`, the special tokens ids by role. Left out are keys that act on their texts
    and that zoo has no setting for, or none with such a value.

    Args:
        writes: whether its class generates at all.
        roles: of its tokenizer; none where it has none.

    Raises:
        ValueError: the file is no JSON.
    """
    written = foreign.read_json(GENERATION)
    both = {**config, **written}
    special = ids_by_role(both, target, vocab_size)
    if not writes:
        return {}, special, ()
    said, alone = written or config, "encoder" not in target.sides  # transformers reads one of the files
    wanted = settings_of(said, not alone)
    settings = possible(wanted)
    impossible = wanted.keys() - settings.keys()
    refused = [key for key, ours in OURS.items() if ours in impossible and said.get(key) is not None]
    left_out = [*without_setting(said), *(f"{key} ({said[key]!r:.40})" for key in refused)]
    left_out += other_ends(both, endless=said.get("eos_token_id") in (None, []), alone=alone, roles=roles)
    left_out += ["do_sample (with beams)"] * (said.get("do_sample") is True and "beams" in wanted)
    counts_prompt = alone and "max_length" in said and "max_new_tokens" not in settings
    return settings, special, (*left_out, *["max_length (it counts the prompt)"] * counts_prompt)


def without_setting(said: Json) -> list[str]:
    """The keys that act on their texts and have no setting here."""
    found = [key for key in IDLE_AT_ONE if said.get(key) not in (None, 1)]
    found += [key for key in IDLE_WHERE_FALSE if said.get(key)]
    return found + [key for key in IDLE_WHERE_NULL if said.get(key) is not None]


def other_ends(both: Json, endless: bool, alone: bool, roles: Roles) -> list[str]:
    """The keys of tokens that begin and end their texts, where others do here.

    Args:
        both: what both files say.
        endless: whether what transformers generates with names no end, whatever its class has for it.
        alone: whether a decoder stands alone.
    """
    ends = both.get("eos_token_id")
    end = read_first(ends, roles.end)
    found = [f"eos_token_id (but {end})"] * (isinstance(ends, list) and len(ends) > 1)
    found += [f"eos_token_id (none, but {roles.end})"] * (endless and roles.end is not None)
    begins = BEGINS[0] if alone or both.get(BEGINS[0]) is not None else BEGINS[1]
    for key, value, read in (("eos_token_id", end, roles.end), (begins, both.get(begins), roles.start)):
        found += [f"{key} ({value})"] * (type(value) is int and read is not None and read != value)
    return found


def settings_of(said: Json, both: bool) -> Json:
    """Their words in ours, whether or not the values can be.

    Args:
        both: whether an output has a start token of its own, which `max_length` counts.
    """
    found: Json = {}
    longest = said.get("max_length")
    if said.get("max_new_tokens") is not None:
        found["max_new_tokens"] = said["max_new_tokens"]
    elif both and longest is not None:
        found["max_new_tokens"] = longest - 1 if type(longest) is int else longest
    if said.get("num_beams") not in (None, 1):
        found["beams"] = said["num_beams"]
        if said.get("length_penalty") is not None:
            found["length_penalty"] = said["length_penalty"]
    elif said.get("do_sample") is True:
        top_k = LIKELIEST if said.get("top_k") is None else said["top_k"]
        top_p = said.get("top_p")
        found["temperature"] = 1.0 if said.get("temperature") is None else said["temperature"]
        found |= {"top_k": top_k} if top_k != 0 else {}
        found |= {"top_p": top_p} if top_p not in (None, 1) else {}
    return found


def possible(wanted: Json) -> Json:
    """The settings whose values can be; without a temperature to sample with nothing is left of sampling."""
    found: Json = {}
    for key, value in wanted.items():
        with suppress(ValueError):
            if parse_generate({key: value}).beams <= MOST_BEAMS:
                found[key] = value
    gone = [*SAMPLING] * (not found.get("temperature")) + ["length_penalty"] * ("beams" not in found)
    return {key: value for key, value in found.items() if key not in gone}


def read_first(value: Any, known: int | None = None) -> Any:
    """Which of several ids, any of which may end a text, is read: the one that is known, else the first."""
    if not isinstance(value, list) or not value:
        return value
    return known if known in value else value[0]


def ids_by_role(said: Json, target: Target, vocab_size: int) -> dict[str, int]:
    """The special tokens that the files name by id; what a decoder begins with is its start."""
    found: dict[str, int] = {}
    for name, role in {**THEIR_ROLES, "decoder_start_token": "start"}.items():
        value = read_first(said.get(f"{name}_id"))
        if type(value) is int and 0 <= value < vocab_size:
            found[role] = value
    found.setdefault("pad", found.get("end", 0))
    if "decoder" in target.sides:
        found.setdefault("start", found["pad"] if "encoder" in target.sides else found.get("end", found["pad"]))
    return found
