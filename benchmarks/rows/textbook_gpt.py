"""A textbook GPT after nanoGPT: what one would write without a library.

Source: Karpathy, nanoGPT (2022), model.py: pre-norm blocks, one product for queries, keys and values,
scaled_dot_product_attention, exact gelu, the output layer tied to the token vectors.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, dropout: float, bias: bool) -> None:
        super().__init__()
        self.qkv, self.projection = nn.Linear(d_model, 3 * d_model, bias=bias), nn.Linear(d_model, d_model, bias=bias)
        self.n_heads, self.dropout = n_heads, dropout

    def forward(self, x: Tensor) -> Tensor:
        batch, length, d_model = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.n_heads, d_model // self.n_heads).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(*qkv.unbind(0), dropout_p=dropout, is_causal=True)
        return F.dropout(self.projection(attended.transpose(1, 2).reshape(x.shape)), self.dropout, self.training)


class Layer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, dropout: float, bias: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model, bias=bias), nn.LayerNorm(d_model, bias=bias)
        self.attention = SelfAttention(d_model, n_heads, dropout, bias)
        widen, narrow = nn.Linear(d_model, 4 * d_model, bias=bias), nn.Linear(4 * d_model, d_model, bias=bias)
        self.mlp = nn.Sequential(widen, nn.GELU(), narrow, nn.Dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class TextbookGPT(nn.Module):
    """Logits and their mean loss; targets of -1 are not scored."""

    def __init__(
        self, vocab_size: int, length: int, n_layers: int, n_heads: int, d_model: int,
        dropout: float = 0.0, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab_size, d_model), nn.Embedding(length, d_model)
        self.dropout, self.final_norm = nn.Dropout(dropout), nn.LayerNorm(d_model, bias=bias)
        self.layers = nn.ModuleList(Layer(d_model, n_heads, dropout, bias) for _ in range(n_layers))
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                is_residual = name.endswith(("projection.weight", "mlp.2.weight"))
                nn.init.normal_(weight, 0.0, 0.02 / math.sqrt(2 * n_layers) if is_residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def forward(self, idx: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        x = self.dropout(self.tokens(idx) + self.positions(torch.arange(idx.shape[1], device=idx.device)))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.final_norm(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
