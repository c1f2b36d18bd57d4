"""Claims about generation: the same tokens and scores as GPT-2's in transformers, and sampling that can be repeated."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from zoo.models.create import create_model
from zoo.models.generation.generate import build_search, generate
from zoo.models.generation.random import exponential
from zoo.models.generation.sampler import Sampler
from zoo.models.generation.settings import GenerateSettings, parse_generate
from zoo.models.model import Model

VOCAB, END = 23, 2
PROMPTS = [[5, 9, 4, 17], [8, 3]]


@pytest.fixture(scope="module")
def model() -> Model:
    """A GPT-2 whose next tokens are far from uniform."""
    made = create_model("gpt2-nano", vocab_size=VOCAB, dropout=0.0).eval()
    drawn = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn) * 0.3)
    return made


@pytest.fixture(scope="module")
def reference(model: Model) -> GPT2LMHeadModel:
    """The same weights in transformers."""
    sizes = {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}
    config = GPT2Config(vocab_size=VOCAB, **sizes, bos_token_id=1, eos_token_id=END, pad_token_id=0)
    made = GPT2LMHeadModel(config).eval()
    missing, unexpected = made.load_state_dict(renamed(model.state_dict()), strict=False)
    assert missing == ["lm_head.weight"] and not unexpected
    made.tie_weights()
    return made


def turned(tensor: torch.Tensor) -> torch.Tensor:
    """GPT-2's linear layers hold their matrices the other way round."""
    return tensor.mT if tensor.dim() == 2 else tensor


def renamed(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    stack, out = "decoder.stack.", {}
    out["transformer.wte.weight"] = state[stack + "embeddings.tokens.weight"]
    out["transformer.wpe.weight"] = state[stack + "positions.0.table.weight"]
    for kind in ("weight", "bias"):
        out[f"transformer.ln_f.{kind}"] = state[f"{stack}norm.{kind}"]
    for i in range(2):
        block, theirs = f"{stack}blocks.{i}.", f"transformer.h.{i}."
        for kind in ("weight", "bias"):
            parts = [state[f"{block}mixer.attention.{part}.{kind}"] for part in ("query", "key", "value")]
            out[f"{theirs}attn.c_attn.{kind}"] = turned(torch.cat(parts))
            for mine, name in (("mixer.attention.output", "attn.c_proj"), ("feed_forward.up", "mlp.c_fc")):
                out[f"{theirs}{name}.{kind}"] = turned(state[f"{block}{mine}.{kind}"])
            out[f"{theirs}mlp.c_proj.{kind}"] = turned(state[f"{block}feed_forward.down.{kind}"])
            for mine, name in (("mixer", "ln_1"), ("feed_forward", "ln_2")):
                out[f"{theirs}{name}.{kind}"] = state[f"{block}norms.{mine}.{kind}"]
    return out


@pytest.mark.parametrize(("beams", "penalty"), [(1, 1.0), *((b, p) for b in (3, 4) for p in (0.0, 0.6, 1.0, 2.0))])
def test_left_padded_prompts_are_continued_as_transformers_does(
    model: Model, reference: GPT2LMHeadModel, beams: int, penalty: float
):
    drawn = torch.Generator().manual_seed(beams)
    for _ in range(6):
        first, second = (torch.randint(3, VOCAB, (n,), generator=drawn).tolist() for n in (5, 3))
        ids, seen = torch.tensor([first, [0, 0, *second]]), torch.tensor([[1] * 5, [0, 0, 1, 1, 1]])
        theirs = reference.generate(
            ids,
            attention_mask=seen,
            max_new_tokens=12,
            num_beams=beams,
            do_sample=False,
            length_penalty=penalty,
            return_dict_in_generate=True,
            output_scores=True,
        )
        settings = GenerateSettings(max_new_tokens=12, beams=beams, length_penalty=penalty)
        for row, mine in enumerate(generate(model, [first, second], settings, END)):
            assert mine.tokens == until_end(theirs.sequences[row, 5:].tolist())
            if beams > 1:
                assert mine.score == pytest.approx(theirs.sequences_scores[row].item(), abs=1e-4)


@pytest.mark.parametrize(("likely", "batches"), [(1.5, (1, 6)), (3.0, (2, 12))])
def test_beams_stop_as_transformers_does_where_ends_are_likely(
    model: Model, reference: GPT2LMHeadModel, likely: float, batches: tuple[int, int]
):
    """Rows end at different times, so what a row keeps while others go on, and when it can gain no more, matters."""
    biased, theirs = copy.deepcopy(model), copy.deepcopy(reference)
    bias = torch.zeros(VOCAB)
    bias[END] = likely
    biased.heads["language"].bias = theirs.lm_head.bias = torch.nn.Parameter(bias)
    drawn, lengths = torch.Generator().manual_seed(7), set()
    for penalty in (-1.0, 0.0, 0.5, 2.0):
        settings = GenerateSettings(max_new_tokens=20, beams=3, length_penalty=penalty)
        for prompts in torch.randint(3, VOCAB, (*batches, 3), generator=drawn):
            said = theirs.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=20,
                num_beams=3,
                do_sample=False,
                length_penalty=penalty,
                return_dict_in_generate=True,
                output_scores=True,
            )
            for row, mine in enumerate(generate(biased, prompts.tolist(), settings, END)):
                assert mine.tokens == until_end(said.sequences[row, 3:].tolist())
                assert mine.score == pytest.approx(said.sequences_scores[row].item(), rel=1e-5)
                lengths.add(len(mine.tokens))
    assert len(lengths) >= 3


@pytest.mark.parametrize(
    "changes", [{}, {"temperature": 1.0}, {"beams": 3}, {"beams": 3, "length_penalty": 0.0}], ids=str
)
@pytest.mark.parametrize("end", [4, None])  # which some of the samples and beams write
def test_a_prompt_has_the_room_that_it_has_alone(model: Model, changes: dict[str, Any], end: int | None):
    settings, drawn = parse_generate({"max_new_tokens": 100, **changes}), torch.Generator().manual_seed(2)
    prompts = [torch.randint(3, VOCAB, (n,), generator=drawn).tolist() for n in (60, 44, 64, 53)]
    together = generate(model, prompts, settings, end)
    for number, (prompt, found) in enumerate(zip(prompts, together, strict=True)):
        (alone,) = generate(model, [prompt], settings, end, numbers=[number])
        assert found.tokens == alone.tokens and found.score == pytest.approx(alone.score, abs=1e-4)
        assert end is not None or len(found.tokens) == 64 - len(prompt) + 1


def test_a_model_in_training_is_left_in_evaluation_mode():
    model, settings = create_model("gpt2-nano", dropout=0.5).train(), GenerateSettings(max_new_tokens=4)
    assert generate(model, PROMPTS, settings, None) == generate(model, PROMPTS, settings, None)
    assert not model.training


def test_texts_that_end_at_the_models_length_are_marked(model: Model):
    prompts, settings = [[5] * 60, [5], [5] * 58], GenerateSettings(max_new_tokens=7)
    found = generate(model, prompts, settings, None)
    assert [one.full for one in found] == [True, False, False]
    (ended,) = generate(model, prompts[:1], settings, found[0].tokens[-2])
    assert len(ended.tokens) < 4 and not ended.full
    (last,) = generate(model, [[5] * 64], settings, None)  # the last place that the model has may hold an end
    (ended,) = generate(model, [[5] * 64], settings, last.tokens[0])
    assert last.full and (ended.tokens, ended.full) == ([], False)


def test_a_sample_depends_on_the_number_of_its_text_and_not_on_its_row(model: Model):
    settings = GenerateSettings(max_new_tokens=9, temperature=3.0)
    alike = [found.tokens for found in generate(model, [[5, 9]] * 40, settings, None)]
    assert len({tuple(tokens) for tokens in alike}) == 40
    assert [f.tokens for f in generate(model, [[5, 9]] * 8, settings, None, numbers=range(32, 40))] == alike[32:]


def test_draws_are_exponential_and_independent_of_text_step_and_seed():
    texts = torch.arange(500)
    drawn = exponential(3, texts, 0, 400).double()
    assert drawn.min() > 0 and abs(drawn.mean() - 1) < 0.01 and abs(drawn.var() - 1) < 0.02
    assert abs((drawn < 0.01).double().mean() - (1 - math.exp(-0.01))) < 0.001
    rare = drawn[drawn < 2**-7]  # numbers of 23 bits alone would be alike here, where rare tokens win
    assert len(rare.unique()) == len(rare) > 1000
    others = [exponential(3, texts, 1, 400), exponential(4, texts, 0, 400), exponential(3, texts + 1, 0, 400)]
    for other in others:
        assert abs(torch.corrcoef(torch.stack([drawn.flatten(), other.double().flatten()]))[0, 1]) < 0.01
    assert torch.equal(exponential(3, texts[7:8], 0, 400), exponential(3, texts, 0, 400)[7:8])


def test_no_draw_is_infinite():
    """Where the uniform number would be rounded up to 1, as for this text's token 5."""
    assert exponential(0, torch.tensor([10_642_406]), 0, 8).isfinite().all()


def test_tokens_are_drawn_as_often_as_they_are_probable():
    shares = torch.tensor([0.5, 0.3, 0.15, 0.05])
    sampler = Sampler(torch.arange(20_000), [1] * 20_000, None, GenerateSettings(temperature=1.0))
    found = sampler.sample(shares.log().expand(20_000, -1)).bincount(minlength=4) / 20_000
    torch.testing.assert_close(found, shares, rtol=0, atol=0.015)


def test_top_p_at_an_exact_tie_keeps_no_token_more():
    logits = torch.zeros(1, 4)
    sampler = Sampler(torch.arange(1), [1], None, GenerateSettings(top_p=0.5))
    theirs = TopPLogitsWarper(0.5)(torch.zeros(1, 1, dtype=torch.long), logits)
    assert int((sampler.probabilities(logits) > 0).sum()) == int(theirs.isfinite().sum()) == 2


def until_end(tokens: Sequence[int]) -> list[int]:
    tokens = list(tokens)
    return tokens[: tokens.index(END)] if END in tokens else tokens


def test_a_greedy_score_is_the_log_probability_by_length_to_the_penalty(model: Model):
    (found,) = generate(model, [[5, 9]], GenerateSettings(max_new_tokens=4, length_penalty=2.0), None)
    row = torch.tensor([[5, 9, *found.tokens]])
    chosen = model(row).logits.log_softmax(-1)[0, 1:5].gather(1, row[0, 2:, None])
    assert found.score == pytest.approx(chosen.sum().item() / 4**2, abs=1e-5)


def test_a_greedy_score_counts_the_end(model: Model):
    (whole,) = generate(model, [PROMPTS[0]], GenerateSettings(max_new_tokens=4), None)
    end = whole.tokens[2]
    assert end not in whole.tokens[:2]
    (found,) = generate(model, [PROMPTS[0]], GenerateSettings(max_new_tokens=4, length_penalty=2.0), end)
    row = torch.tensor([[*PROMPTS[0], *whole.tokens[:3]]])
    shares = model(row).logits.log_softmax(-1)[0, len(PROMPTS[0]) - 1 : -1]
    chosen = shares.gather(1, row[0, len(PROMPTS[0]) :, None])
    assert found.tokens == whole.tokens[:2] and found.score == pytest.approx(chosen.sum().item() / 3**2, abs=1e-5)


@pytest.mark.parametrize("changes", [{"top_k": 5}, {"top_p": 0.7}, {"temperature": 2.0}])
def test_a_row_is_sampled_alike_alone_and_in_a_batch_and_again(model: Model, changes: dict[str, float]):
    settings = parse_generate({"max_new_tokens": 8, "seed": 4, **changes})
    together = generate(model, PROMPTS, settings, END)
    (alone,) = generate(model, PROMPTS[:1], settings, END)
    assert together[0].tokens == alone.tokens
    assert together == generate(model, PROMPTS, settings, END)


@pytest.mark.parametrize("changes", [{"temperature": 3.0}, {"top_k": 9}, {"top_p": 0.99}], ids=str)
def test_another_seed_gives_another_sample(model: Model, changes: dict[str, float]):
    samples = {
        tuple(generate(model, PROMPTS, parse_generate({"max_new_tokens": 9, "seed": s, **changes}), None)[0].tokens)
        for s in range(3)
    }
    assert len(samples) == 3


@pytest.mark.parametrize("temperature", [0.3, None, 2.5])  # none is 1
@pytest.mark.parametrize(("top_k", "top_p"), [(1, 0.5), (7, 0.8), (VOCAB, 0.99), (4, 1e-6), (VOCAB + 5, 1.0)])
def test_tokens_are_sampled_with_the_probabilities_of_transformers(temperature: float | None, top_k: int, top_p: float):
    logits = torch.randn(6, VOCAB, generator=torch.Generator().manual_seed(1)) * 2
    prompts = torch.zeros(6, 1, dtype=torch.long)
    warped = logits
    for warper in (TemperatureLogitsWarper(temperature or 1.0), TopKLogitsWarper(top_k), TopPLogitsWarper(top_p)):
        warped = warper(prompts, warped)
    sampler = Sampler(
        torch.arange(6), [1] * 6, END, GenerateSettings(temperature=temperature, top_k=top_k, top_p=top_p)
    )
    torch.testing.assert_close(sampler.probabilities(logits), warped.softmax(-1), rtol=0, atol=1e-6)


COLD = [{"temperature": temperature} for temperature in (1e-4, 1e-40, 1e-300, 0.0)]  # which float32 holds, or does not


@pytest.mark.parametrize(
    "changes", [{"top_k": 1}, {"top_p": 1e-6}, {"top_p": 1e-300}, *COLD, {"temperature": 1e-300, "top_p": 0.5}]
)
def test_sampling_from_the_likeliest_token_alone_is_greedy(model: Model, changes: dict[str, float]):
    greedy = generate(model, PROMPTS, GenerateSettings(max_new_tokens=8), END)
    assert generate(model, PROMPTS, parse_generate({"max_new_tokens": 8, **changes}), END) == greedy


def test_the_coldest_sample_of_the_largest_logits_is_the_likeliest():
    settings = GenerateSettings(temperature=1e-300)
    logits = torch.tensor([[1e12, 3e12, 0.0, -torch.inf], [2.0, 0.0, 1.0, 1.0]])
    shares = Sampler(torch.arange(2), [1, 1], None, settings).probabilities(logits)
    assert shares.tolist() == [[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]


def test_scores_of_a_strong_penalty_stay_those_of_sequences(model: Model):
    """A long text's score may fall far below what stands for a sequence that cannot be."""
    for penalty in (-5.0, 5.0):
        found = generate(model, PROMPTS, GenerateSettings(max_new_tokens=60, beams=3, length_penalty=penalty), None)
        for prompt, (tokens, score, *_) in zip(PROMPTS, found, strict=True):
            row = torch.tensor([[*prompt, *tokens]])
            chosen = (
                model(row[:, :-1]).logits.log_softmax(-1)[0, -len(tokens) :].gather(1, row[0, -len(tokens) :, None])
            )
            assert len(tokens) > 20 and score == pytest.approx(chosen.sum().item() / len(tokens) ** penalty, rel=1e-4)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_lone_logit_of_minus_infinity_shows_in_the_score(beams: int):
    settings = GenerateSettings(max_new_tokens=2, beams=beams)
    for spoiled, is_finite in ((None, True), (7, False)):
        search = build_search(settings, [2, 2], END, None, torch.device("cpu"))
        for step in range(2):
            logits = torch.arange(2 * beams * VOCAB).view(2 * beams, VOCAB) % 11 / 3
            if step == 1 and spoiled is not None:
                logits[beams:, spoiled] = -torch.inf  # of the second text alone
            search.choose(logits)
        first, second = search.results()
        assert math.isfinite(first.score) and math.isfinite(second.score) == is_finite
