"""What beam search keeps of texts that have ended while others go on."""

from typing import Any

import pytest
import torch

from zoo.models.generation.beams import BeamSearch
from zoo.models.generation.settings import GenerateSettings

VOCAB, END = 23, 2


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 2.0])
def test_a_text_that_has_ended_is_the_same_however_long_it_waits_for_others(penalty: float):
    """On a GPU it stays until several have ended."""
    drawn, limits = torch.Generator().manual_seed(5), [3, 12, 12, 12, 12, 12, 12, 12]
    search = BeamSearch(limits, END, GenerateSettings(beams=3, length_penalty=penalty), torch.device("cpu"))
    ended: dict[int, Any] = {}
    for _ in range(12):
        logits = 3 * torch.randn(len(limits) * 3, VOCAB, generator=drawn)
        logits[:, END] += 3
        search.choose(logits)
        said = search.results()
        ended |= {n: said[n] for n, gone in enumerate(search.ended.tolist()) if gone and n not in ended}
    assert list(ended.values()) == [said[n] for n in ended] and len(ended) == len(limits)
    assert len({len(one.tokens) for one in said}) > 2
