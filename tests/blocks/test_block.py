"""Blocks against their formulas, with the sublayers they were given."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from zoo.blocks.attention import FullAttention
from zoo.blocks.block import Block, SourceView, blocks
from zoo.blocks.feed_forward import MLP
from zoo.blocks.mixer import AttentionMixer
from zoo.blocks.norm import LayerNorm
from zoo.blocks.rows.documents import Documents, positions_of
from zoo.blocks.rows.view import Recorder, View, Visibility

DOCUMENTS = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 2]])
MEMORY_DOCUMENTS = torch.tensor([[1, 1, 1], [1, 2, 0]])
EXACT = {"rtol": 1e-12, "atol": 1e-12}
Parts = tuple[Tensor, Callable[[str, Tensor], Tensor], Callable[[str, Tensor], Tensor]]


def build(name: str, crosses: bool, dropout: float = 0.0) -> Block:
    attention = lambda: FullAttention(6, 2)  # noqa: E731
    cross = FullAttention(6, 2, 5) if crosses else None
    block = blocks[name](lambda: LayerNorm(6), AttentionMixer(6, True, attention), cross, MLP(6, 7), dropout).double()
    for seed, parameter in enumerate(block.parameters()):
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(seed))
    return block


def inputs(*recorders: Recorder) -> tuple[Tensor, View, SourceView]:
    """A stream, its view and a memory; with recorders of the weights on both."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(2, 4, 6, dtype=torch.float64, generator=generator)
    states = torch.randn(2, 3, 5, dtype=torch.float64, generator=generator)
    documents, (own, of_memory) = Documents(DOCUMENTS), recorders or (None, None)
    source = SourceView(states, View(Visibility(documents, Documents(MEMORY_DOCUMENTS)), recorder=of_memory))
    return x, View(Visibility(documents, documents, causal=True), recorder=own), source


def post_norm(x: Tensor, names: list[str], sublayer: Callable[[str, Tensor], Tensor], norms: nn.ModuleDict) -> Tensor:
    for name in names:
        x = norms[name](x + sublayer(name, x))
    return x


def pre_norm(x: Tensor, names: list[str], sublayer: Callable[[str, Tensor], Tensor], norms: nn.ModuleDict) -> Tensor:
    for name in names:
        x = x + sublayer(name, norms[name](x))
    return x


def sandwich(x: Tensor, names: list[str], sublayer: Callable[[str, Tensor], Tensor], norms: nn.ModuleDict) -> Tensor:
    for name in names:
        x = x + norms[name]["after"](sublayer(name, norms[name]["before"](x)))
    return x


def parallel(x: Tensor, names: list[str], sublayer: Callable[[str, Tensor], Tensor], norms: nn.ModuleDict) -> Tensor:
    return x + sum(sublayer(name, norms["mixer"](x)) for name in names)


FORMULAS = {"post_norm": post_norm, "pre_norm": pre_norm, "sandwich": sandwich, "parallel": parallel}


def test_every_block_has_its_formula_here():
    assert set(FORMULAS) == set(blocks.names())


@pytest.mark.parametrize("crosses", [False, True])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_block_is_its_formula(name: str, crosses: bool):
    block, (x, view, source) = build(name, crosses), inputs()

    def sublayer(name: str, h: Tensor) -> Tensor:
        if name == "mixer":
            return block.mixer(h, view)
        if name == "cross":
            return block.cross(h, block.cross.read(source.states), source.view)
        return block.feed_forward(h)

    names = ["mixer", "cross", "feed_forward"] if crosses else ["mixer", "feed_forward"]
    expected = FORMULAS[name](x, names, sublayer, block.norms)
    torch.testing.assert_close(block(x, view, source if crosses else None), expected, **EXACT)


@pytest.mark.parametrize("name", ["pre_norm", "sandwich", "parallel"])
def test_dropping_every_sublayer_leaves_the_stream(name: str):
    block, (x, view, source) = build(name, True), inputs()
    block.dropout.forward = torch.zeros_like  # type: ignore[method-assign]
    if name == "sandwich":  # its outer norm comes after what is dropped
        block.norms.apply(lambda m: nn.init.zeros_(m.bias) if isinstance(m, LayerNorm) else None)
    assert torch.equal(block.train()(x, view, source), x)


@pytest.mark.parametrize("name", blocks.names())
def test_steps_are_the_whole_row(name: str):
    block, (x, view, source) = build(name, True), inputs()
    state, at = block.start_state(source.states), positions_of(DOCUMENTS)
    steps = []
    for start, stop in ((0, 1), (1, 3), (3, 4)):
        new = Documents(DOCUMENTS[:, start:stop], positions=at[:, start:stop])
        step_view = View(Visibility(new, Documents(DOCUMENTS[:, :stop]), start, causal=True))
        source_view = View.of(new, Documents(MEMORY_DOCUMENTS))
        out, state = block.step(x[:, start:stop], step_view, source_view, state)
        steps.append(out)
    torch.testing.assert_close(torch.cat(steps, dim=1), block(x, view, source), **EXACT)


def test_weights_are_recorded_for_the_mixer_and_the_memory():
    block, own, of_memory = build("post_norm", True), Recorder(), Recorder()
    torch.testing.assert_close(block(*inputs(own, of_memory)), block(*inputs()), **EXACT)
    assert own.written.shape == (2, 2, 4, 4) and of_memory.written.shape == (2, 2, 4, 3)


def test_only_pre_norm_can_do_without_its_first_norm():
    build("pre_norm", False).skip_first_norm()
    for name in ("post_norm", "sandwich", "parallel"):
        with pytest.raises(ValueError, match="first_norm: false works only with block pre_norm"):
            build(name, False).skip_first_norm()


@pytest.mark.parametrize("name", blocks.names())
def test_a_block_says_whether_its_stream_needs_a_norm_at_the_end(name: str):
    block, (x, view, _) = build(name, False), inputs()
    for norm in (m for m in block.modules() if isinstance(m, LayerNorm)):
        nn.init.ones_(norm.weight)
        nn.init.zeros_(norm.bias)
    normalized = block(100 * x, view).square().mean(-1).allclose(torch.ones(2, 4).double(), atol=1e-2)
    assert normalized != block.final_norm
