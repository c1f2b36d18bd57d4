"""A textbook GPT after nanoGPT: what one would write without a library.

Source: Karpathy, nanoGPT (2022), model.py: pre-norm blocks, one product for queries, keys and values,
scaled_dot_product_attention, exact gelu, the output layer tied to the token vectors.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float, bias: bool) -> None:
        super().__init__()
        self.read, self.write = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        self.heads, self.dropout = heads, dropout

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.read(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        seen = F.scaled_dot_product_attention(*parts.unbind(0), dropout_p=dropout, is_causal=True)
        return F.dropout(self.write(seen.transpose(1, 2).reshape(x.shape)), self.dropout, self.training)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float, bias: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.attention = SelfAttention(width, heads, dropout, bias)
        wide = nn.Linear(width, 4 * width, bias=bias), nn.GELU(), nn.Linear(4 * width, width, bias=bias)
        self.mlp = nn.Sequential(*wide, nn.Dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class TextbookGPT(nn.Module):
    """Logits and their mean loss; targets of -1 are not scored."""

    def __init__(
        self, vocabulary: int, length: int, layers: int, heads: int, width: int, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.dropout, self.last = nn.Dropout(dropout), nn.LayerNorm(width, bias=bias)
        self.layers = nn.ModuleList(Layer(width, heads, dropout, bias) for _ in range(layers))
        self.out = nn.Linear(width, vocabulary, bias=False)
        self.out.weight = self.tokens.weight
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                narrow = name.endswith(("write.weight", "mlp.2.weight"))
                nn.init.normal_(weight, 0.0, 0.02 / math.sqrt(2 * layers) if narrow else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def forward(self, idx: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        x = self.dropout(self.tokens(idx) + self.places(torch.arange(idx.shape[1], device=idx.device)))
        for layer in self.layers:
            x = layer(x)
        logits = self.out(self.last(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
