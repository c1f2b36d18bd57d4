"""Token, segment and position vectors, their scale, norm and dropout."""

import pytest
import torch
from torch.nn import functional as F

from zoo.blocks.norm import norms
from zoo.blocks.position import Learned
from zoo.models.embeddings import Embeddings, EmbeddingSettings

TOKENS = torch.tensor([[3, 1, 4], [1, 5, 9]])
SEGMENTS = torch.tensor([[0, 1, 1], [0, 0, 1]])
AT = torch.arange(3).expand(2, 3)
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def test_vectors_of_token_segment_and_position_are_added_then_normalized():
    settings = EmbeddingSettings(segments=2, norm=norms.parse({"name": "layernorm", "eps": 0.1}))
    embeddings, learned = Embeddings(11, 6, 0.0, settings).double(), Learned(6, 2, 3, 5, False).double()
    total = embeddings.tokens.weight[TOKENS] + embeddings.segments.weight[SEGMENTS] + learned.table.weight[:3]
    embedded = embeddings(TOKENS, SEGMENTS, AT, [learned], 3)
    torch.testing.assert_close(embedded, F.layer_norm(total, (6,), eps=0.1), **EXACT)


def test_scaled_token_vectors_are_multiplied_by_the_root_of_d_model_before_positions_are_added():
    embeddings, learned = (
        Embeddings(11, 9, 0.0, EmbeddingSettings(scale=True)).double(),
        Learned(9, 1, 9, 5, True).double(),
    )
    expected = 3 * embeddings.tokens.weight[TOKENS] + learned.table.weight[:3]
    torch.testing.assert_close(embeddings(TOKENS, None, AT, [learned], 3), expected, **EXACT)


def test_narrow_token_vectors_are_multiplied_by_the_root_of_their_own_width():
    embeddings = Embeddings(11, 6, 0.0, EmbeddingSettings(width=4, scale=True)).double()
    expected = F.linear(2 * embeddings.tokens.weight[TOKENS], embeddings.project.weight, embeddings.project.bias)
    torch.testing.assert_close(embeddings(TOKENS, None, AT, [], 3), expected, **EXACT)


def test_dropout_comes_last():
    embeddings = Embeddings(11, 6, 0.0, EmbeddingSettings(norm=norms.parse("layernorm"))).train()
    embeddings.dropout.forward = torch.ones_like  # of which a norm behind it would make zeros
    assert (embeddings(TOKENS, None, AT, [], 3) == 1).all()


def test_fewer_segments_than_none_are_refused():
    with pytest.raises(ValueError, match="segments must be at least 0, got -1"):
        EmbeddingSettings(segments=-1)
