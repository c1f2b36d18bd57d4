"""Claims about what a model costs: parameters once each, arithmetic by the formula, memory in float32."""

from typing import Any

import pytest
import torch

from zoo.models import cost
from zoo.models.cost import blank_source, count_tokens, flops_per_token, forward_flops, memory, on_meta, parameters
from zoo.models.settings import load_settings


def test_shared_parameters_count_once():
    tied, apart = (on_meta(load_settings("gpt2-nano", [(("heads", "language", "tied"), t)])) for t in (True, False))
    assert parameters(apart) - parameters(tied) == 300 * 32


@pytest.mark.parametrize("length", [16, 64])
def test_arithmetic_is_six_times_the_matrices_plus_attention(length: int):
    model = on_meta(load_settings("gpt2-nano"))
    d_model, d_ff, layers, vocab_size = 32, 128, 2, 300
    matrices = layers * (4 * d_model**2 + 2 * d_model * d_ff) + vocab_size * d_model
    attention = layers * 2 * length * d_model  # queries x keys, and weights x values, over the whole row
    assert flops_per_token(model, length) == 6 * (matrices + attention)


def test_tokens_of_the_source_count_as_those_of_the_target():
    """As in `tokens_per_second`, with which the share of a device is computed."""
    model, length = on_meta(load_settings("transformer-nano")), 16
    d_model, d_ff, layers, vocab_size = 32, 48, 2, 300
    encoder = layers * (4 * d_model**2 + 2 * d_model * d_ff + 2 * length * d_model)
    decoder = layers * (8 * d_model**2 + 2 * d_model * d_ff + 4 * length * d_model) + vocab_size * d_model
    assert flops_per_token(model, length) == 6 * (encoder + decoder) / 2


def test_an_image_counts_as_one_token():
    assert [count_tokens(source) for source in (None, torch.zeros(1, 7), torch.zeros(1, 3, 8, 8))] == [0, 7, 1]


def test_a_source_is_as_long_as_the_encoder_can_read():
    sets = [(("encoder", "max_length"), 8), (("encoder", "position"), "learned")]
    model, length = on_meta(load_settings("transformer-nano", sets)), 16
    d_model, d_ff, layers, vocab_size = 32, 48, 2, 300
    encoder = layers * (4 * d_model**2 + 2 * d_model * d_ff + 2 * 8 * d_model)
    read_once = 2 * d_model**2 * layers  # keys and values of the source
    decoder = layers * (6 * d_model**2 + 2 * d_model * d_ff + 2 * (length + 8) * d_model) + vocab_size * d_model
    assert flops_per_token(model, length) == 6 * (8 * (encoder + read_once) + length * decoder) / (length + 8)


RECURRENT_AND_ATTENTION = ["recurrent", "attention"]


TWO_HEADS = [(("heads",), {"classification": {"labels": 3}, "next_sentence": {}})]


@pytest.mark.parametrize(
    ("name", "changes", "scored"),
    [
        ("rnn-attention-nano", [], {}),
        ("rnn-attention-nano", [(("encoder", "max_length"), 2)], {}),
        ("rnn-seq2seq-nano", [(("encoder", "cell"), "lstm")], {}),
        ("captioner-rnn-nano", [], {}),
        ("gpt-nano", [(("decoder", "mixer"), RECURRENT_AND_ATTENTION)], {}),
        ("bert-nano", [(("encoder", "mixer"), RECURRENT_AND_ATTENTION)], {}),
        ("bert-nano", [(("encoder", "mixer"), RECURRENT_AND_ATTENTION)], {"masked_lm": 8}),
        ("bert-nano", [(("encoder", "mixer"), RECURRENT_AND_ATTENTION), *TWO_HEADS], {}),
        ("electra-nano", [(("encoder", "mixer"), RECURRENT_AND_ATTENTION)], {"masked_lm": 4}),
        ("transformer-nano", [(("encoder", "mixer"), RECURRENT_AND_ATTENTION)], {}),
        ("transformer-nano", [(("decoder", "mixer"), RECURRENT_AND_ATTENTION)], {"language": 5}),
    ],
)
@pytest.mark.parametrize("length", [3, 9, 20])
def test_recurrent_models_are_counted_at_small_sizes_as_if_in_whole(
    name: str, changes: list[Any], scored: dict[str, int], length: int, monkeypatch: pytest.MonkeyPatch
):
    model, lengths = on_meta(load_settings(name, changes)), []
    counts = {head: 1 for head, one in model.heads.items() if one.scores_documents} | scored
    source = count_tokens(blank_source(model, length))
    whole = forward_flops(model, counts, length, source)
    monkeypatch.setattr(cost, "forward_flops", lambda *given: lengths.append(given[2]) or forward_flops(*given))
    assert flops_per_token(model, length, scored) == 3 * whole / (length + source) > 0
    assert max(lengths) == min(length, sum(counts.values()) + 3)


def test_a_head_that_scores_few_positions_costs_less():
    model = on_meta(load_settings("bert-nano"))
    assert flops_per_token(model, 64, {"masked_lm": 8}) < flops_per_token(model, 64)


def test_a_head_that_reads_the_mean_of_a_document_is_counted():
    changes = [(("heads",), ["classification"]), (("pooler", "mean"), True)]
    flops = flops_per_token(on_meta(load_settings("bert-nano", changes)), 64, {"classification": 1})
    assert flops > 0


def test_memory_is_four_bytes_for_weights_gradients_and_two_moments():
    model = on_meta(load_settings("transformer-nano"))
    found = memory(model)
    assert found["total"] == 16 * parameters(model) == found["weights"] + found["gradients"] + found["optimizer"]


@pytest.mark.parametrize(
    ("path", "size", "said"),
    [
        (("d_model",), 3_000_000_000, "the model is too large: a parameter has more bytes than 64 bits can count"),
        (("encoder", "n_heads"), 2**62, r"must be a multiple of n_heads \(4611686018427387904\)"),
        (("encoder", "d_ff"), 2**63, r"encoder\.d_ff: expected a whole number below 2\*\*63, got 9223372036854"),
    ],
)
def test_a_size_beyond_all_measure_is_refused_at_once(path: tuple[str, ...], size: int, said: str):
    with pytest.raises(ValueError, match=said):
        on_meta(load_settings("bert-nano", [(path, size)]))
