"""What the check of an export takes for the same text."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from zoo.hub.exporting.comparing import compare, compare_generated, compare_logits
from zoo.hub.exporting.samples import SampleRow
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings


@pytest.mark.parametrize("name", ["gpt2-nano", "transformer-nano"])
@pytest.mark.parametrize("beams", [1, 3])
def test_beams_may_write_either_of_two_equally_likely_texts(build: Any, name: str, beams: int):
    trained = build(name)
    model, roles, settings = trained.model.double(), trained.roles, GenerateSettings(max_new_tokens=4, beams=beams)
    read = [11, 12, 13]
    beginning = read if model.encoder is None else [roles.id("start")]
    source = None if model.encoder is None else torch.tensor([read])
    prompt = {"tokens": read, "longest": 4 + len(read), "skip": len(read), "row": 0}

    def written() -> list[int]:
        return generate(model, [beginning], settings, roles.end, source)[0].tokens

    def check(text: Sequence[int]) -> None:
        compare_generated(model, roles, [prompt], [list(text)], settings, None)

    first, *rest = written()
    twin, other = [token for token in range(20, 26) if token not in (first, *rest)][:2]
    check([first, *rest])
    check([first, *rest, roles.end, roles.pad])  # an end, and what stands behind it, is not part of a text
    with pytest.raises(RuntimeError, match="text 0 generated .* differs"):
        check([twin, *rest])
    table = model.decoder.embeddings.tokens.weight.data
    table[twin] = table[first]
    for token in (first, twin):
        if beams > 1 or [token, *rest] == written():
            check([token, *rest])
        else:
            with pytest.raises(RuntimeError, match="text 0 generated greedily differs"):
                check([token, *rest])
    with pytest.raises(RuntimeError, match="text 0 generated .* differs"):
        check([other, *rest])
    table[twin] = table[first] * 1.001  # nearly as likely
    best, *others = written()
    with pytest.raises(RuntimeError, match="text 0 generated .* differs"):
        check([first if best == twin else twin, *others])
    for unreadable in ([len(table), *rest], [first] * 100):  # beyond the vocabulary, and beyond the positions
        with pytest.raises(RuntimeError, match="text 0 generated .* differs"):
            check(unreadable)


@pytest.mark.parametrize(("dtype", "apart"), [("float32", 5e-4), ("float64", 5e-10)])
def test_a_score_near_0_may_differ_by_the_rounding_of_the_large_ones_beside_it(dtype: str, apart: float):
    ours = torch.tensor([[[0.0, -10.0], [0.0, 0.5]]], dtype=getattr(torch, dtype))
    theirs = ours.clone()
    theirs[0, 0, 0] += apart
    assert compare("logits", dtype, ours, theirs) == pytest.approx(apart)
    theirs[0, 1, 0] += apart
    with pytest.raises(
        RuntimeError, match=rf"logits differ by up to .* in {dtype}, first at sequence 0, position 1: ours 0, "
    ):
        compare("logits", dtype, ours, theirs)


def test_the_largest_difference_of_all_heads_is_told_and_padding_is_left_out():
    rows = [SampleRow([5, 6], [], []), SampleRow([5], [], [])]
    ours = {"language": torch.zeros(2, 2, 3), "classification": torch.zeros(2, 3)}
    theirs = {"right/language": torch.full((2, 2, 3), 5e-5), "right/classification": torch.full((2, 3), 1e-5)}
    theirs["right/language"][1, 1] = 7.0  # after the end of the second row
    assert compare_logits("float32", ours, theirs, rows) == pytest.approx(5e-5)
