"""torch.compile, with room for the graphs that models need."""

import torch


def make_room(graphs: int) -> None:
    """Let a function be compiled for so many kinds of arguments.

    torch's own limit is 8: every further kind runs uncompiled, with no more than a line in the log, or fails where the
    function must be one graph.
    """
    limits = torch._dynamo.config  # which imports the compiler when it is asked for
    limits.recompile_limit = max(limits.recompile_limit, graphs)
    limits.accumulated_recompile_limit = max(limits.accumulated_recompile_limit, graphs)
