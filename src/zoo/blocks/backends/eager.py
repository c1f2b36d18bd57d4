"""Backend `eager`: the formula, whose weights can be shown."""

import torch
from torch import Tensor

from zoo.blocks.backends.backend import Backend, Heads, Keys, Queries, Rule, Values, backends
from zoo.blocks.documents import View
from zoo.blocks.dropout import dropout


@backends.register("eager")
class Eager(Backend):
    """The formula, step by step."""

    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        return eager(queries, keys, values, view, rule, None)


def eager(
    queries: Queries, keys: Keys, values: Values, view: View, rule: Rule, record: list[Tensor | None] | None
) -> Heads:
    """The formula itself, whose weights can be shown."""
    shared = queries.shape[1] // keys.shape[1]
    keys, values = (t.repeat_interleave(shared, dim=1).to(queries.dtype) for t in (keys, values))
    scores = rule.score.compare(queries, keys)
    mask, blind = view.opened(rule.window), view.blind(rule.window)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    n_keys = scores.shape[-1]
    if rule.sinks is not None:
        logits = rule.sinks[None, :, None].expand(*scores.shape[:3], -1)
        scores = torch.cat([scores, logits.to(scores.dtype)], dim=-1)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))[..., :n_keys]
    if record is not None:
        record.append(weights if blind is None else weights.masked_fill(blind, 0.0))
    heads = dropout(weights.to(values.dtype), rule.dropout, True) @ values
    return heads if blind is None else heads.masked_fill(blind, 0.0)
