"""Backend `eager`: attention written out in torch operations; the only backend that can return its weights."""

import torch

from zoo.blocks.backends.backend import Backend, Heads, Keys, Queries, Rule, Values, backends
from zoo.blocks.dropout import dropout
from zoo.blocks.rows.view import View


@backends.register("eager")
class Eager(Backend):
    """softmax(scores) V in plain torch operations; the only backend that can return attention weights.

    It writes them to the view's recorder, if there is one.
    """

    def attend(self, queries: Queries, keys: Keys, values: Values, view: View, rule: Rule) -> Heads:
        shared = queries.shape[1] // keys.shape[1]
        keys, values = (t.repeat_interleave(shared, dim=1).to(queries.dtype) for t in (keys, values))
        scores = rule.score.compare(queries, keys)
        mask, blind = view.nan_free_mask_and_bias(rule.window), view.visibility.sees_no_key(rule.window)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        n_keys = scores.shape[-1]
        if rule.sinks is not None:
            logits = rule.sinks[None, :, None].expand(*scores.shape[:3], -1)
            scores = torch.cat([scores, logits.to(scores.dtype)], dim=-1)
        # at least float32: in bfloat16 the sum over many keys would stop growing
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))[..., :n_keys]
        if view.recorder is not None:
            view.recorder.write(weights if blind is None else weights.masked_fill(blind, 0.0))
        heads = dropout(weights.to(values.dtype), rule.dropout, True, rule.byte_dropout) @ values
        return heads if blind is None else heads.masked_fill(blind, 0.0)

    def prepare(self, view: View, rule: Rule, dtype: torch.dtype) -> None:
        view.nan_free_mask_and_bias(rule.window)


EAGER = Eager()  # stateless, so all layers share one
