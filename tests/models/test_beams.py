"""What beam search keeps of texts that have ended while others go on."""

import pytest
import torch

from zoo.models.generation.beams import BeamSearch
from zoo.models.generation.search import Generated
from zoo.models.generation.settings import GenerateSettings

VOCAB, END = 23, 2


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 2.0])
def test_a_text_that_has_ended_is_the_same_however_long_it_waits_for_others(penalty: float):
    """On a GPU it stays until several have ended; on a CPU it leaves at once."""
    drawn, limits = torch.Generator().manual_seed(5), [3] + [12] * 40
    settings, here = GenerateSettings(beams=3, length_penalty=penalty), torch.arange(len(limits))
    waiting, leaving = (BeamSearch(limits, END, settings, torch.device("cpu")) for _ in range(2))
    ended: dict[int, Generated] = {}
    while len(here):
        logits = 3 * torch.randn(len(limits), 3, VOCAB, generator=drawn)
        logits[..., END] += 3
        waiting.choose(logits.flatten(0, 1))
        leaving.choose(logits[here].flatten(0, 1))
        said = leaving.results()
        ended |= {int(here[row]): said[row] for row in leaving.ended.nonzero().flatten().tolist()}
        kept = (~leaving.ended).nonzero().flatten()
        leaving.take(kept)
        here = here[kept]
    for _ in range(12 - waiting.sequences.shape[2]):
        waiting.choose(torch.zeros(len(limits) * 3, VOCAB))
    assert [ended[n] for n in range(len(limits))] == waiting.results()
    assert len({len(one.tokens) for one in ended.values()}) > 2


def test_scores_are_added_up_in_float32_whatever_logits_are():
    narrow = 3 * torch.randn(4, 2 * 3, VOCAB, generator=torch.Generator().manual_seed(1)).bfloat16()
    said = []
    for logits in (narrow, narrow.float()):
        search = BeamSearch([4, 4], END, GenerateSettings(beams=3), torch.device("cpu"))
        for step in logits:
            search.choose(step)
        said.append(search.results())
    assert said[0] == said[1]
