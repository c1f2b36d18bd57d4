"""One optimizer step. Nothing here reads what the device computes, so neither waits for the other.

A test runs it on a pretended device, on which a read raises.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from zoo.batches.collate import MicroBatch
from zoo.objectives.mixture import Mixture
from zoo.objectives.objective import Term
from zoo.training.learner import Learner, hold_gradients, reseed_dropout
from zoo.training.meter import Tally


def take_step(learner: Learner, goal: Mixture, parts: Sequence[MicroBatch], tally: Tally, flags: list[float]) -> None:
    """Gradients of all micro-batches, and one update of the weights, unless a number is not finite.

    Args:
        tally: of this step; it gets what is summed up.
        flags: the signals that this process received.
    """
    processes = learner.processes
    reseed_dropout(learner.settings.seed, tally.step - 1, processes.rank, processes.device)
    for number, part in enumerate((part.to(processes.device) for part in parts), start=1):
        with hold_gradients(learner, number < len(parts)):
            with learner.autocast():
                said = learner.wrapped(**part.inputs, **goal.asks)
                terms = goal.terms(said.scores, goal.settle(part.targets, said.read), said.weights)
                del said  # the backward pass needs the memory of what nobody reads any more
            learner.backward(weigh(terms, tally.counts))
            with torch.no_grad():
                tally.add(part, terms)
            del terms  # the next forward, and validation, need their memory
    tally.add_up(processes, learner.clip(), flags)
    tally.rate = learner.update(tally.step - 1, tally.bad)


def weigh(terms: Mapping[str, Term], counts: Mapping[str, Tensor]) -> Tensor:
    """The loss: each term's sum by its count over all processes, times its weight; a term without places adds 0."""
    divisors = {
        name: torch.where(counts[name] > 0, counts[name], 1) for name in terms
    }  # weighted counts may be below 1
    factors = {name: term.weight / divisors[name] for name, term in terms.items()}
    return torch.stack([term.sum * factors[name].to(term.sum.dtype) for name, term in terms.items()]).sum()
