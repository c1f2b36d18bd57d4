"""What sampling and greedy decoding keep of texts that have ended while others go on."""

import pytest
import torch

from zoo.models.generation.sampler import Sampler
from zoo.models.generation.settings import GenerateSettings

VOCAB, END, LIMITS = 7, 2, [6, 2, 6, 6, 6, 6]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_text_that_has_ended_is_the_same_however_long_it_waits_for_others(temperature: float) -> None:
    """On a GPU it stays until several have ended; on a CPU it leaves at once."""
    settings = GenerateSettings(temperature=temperature, length_penalty=0.0)
    steps = 3 * torch.randn(6, len(LIMITS), VOCAB, generator=torch.Generator().manual_seed(3))
    waiting = Sampler(torch.arange(len(LIMITS)), LIMITS, END, settings)
    for logits in steps:
        waiting.choose(logits)
    alone = [Sampler(torch.tensor([n]), [limit], END, settings) for n, limit in enumerate(LIMITS)]
    for logits in steps:
        for number, search in enumerate(alone):
            if not search.ended:
                search.choose(logits[number, None])
    assert waiting.results() == [search.results()[0] for search in alone]
    assert len({len(one.tokens) for one in waiting.results()}) > 2


@pytest.mark.parametrize("changes", [{}, {"temperature": 0.7, "top_p": 0.9}], ids=str)
def test_tokens_and_scores_are_computed_in_float32_whatever_logits_are(changes: dict[str, float]) -> None:
    narrow = 3 * torch.randn(6, 40, VOCAB, generator=torch.Generator().manual_seed(1)).bfloat16()
    said = []
    for logits in (narrow, narrow.float()):
        search = Sampler(torch.arange(40), [6] * 40, END, GenerateSettings(**changes))
        for step in logits:
            search.choose(step)
        said.append(search.results())
    assert said[0] == said[1]
