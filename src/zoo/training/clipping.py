"""The norm of all gradients together, and a limit to it."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.linalg import vector_norm

from zoo.training.optimizers.sgd import Descent

BESIDE = 1e-6  # added to the norm that the limit is divided by, as in torch.nn.utils.clip_grad_norm_
DIVIDE = ("cpu", "cuda")  # the devices on which torch's fused kernels divide gradients as they read them


def norm_of(gradients: Sequence[Tensor]) -> Tensor:
    """The norm of tensors as if they were one vector.

    On a CPU it is computed row by row: torch adds all squares of a tensor up in a few sums in float32, which is 0.1 %
    too little for a table of 23 million numbers, and takes twice as long.
    """
    if not gradients or any(isinstance(one, DTensor) or one.device.type != "cpu" for one in gradients):
        return nn.utils.get_total_norm(gradients)
    norms = [vector_norm(one.flatten(1), dim=-1) if one.dim() > 1 else one for one in gradients]
    together: Tensor = vector_norm(torch.stack([vector_norm(one) for one in norms]))
    return together


def limit_norm(parameters: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer, norm: Tensor, most: float) -> None:
    """Scale gradients down to a limit of their norm; an optimizer whose kernel can does so in its next step."""
    if divides(optimizer):
        optimizer.grad_scale = ((norm + BESIDE) / most).clamp(min=1.0)  # type: ignore[attr-defined]
    else:
        nn.utils.clip_grads_with_norm_(parameters, most, norm)


def divides(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer's kernel divides gradients as it reads them, which torch made for its GradScaler.

    It divides by a number in float32, which is too coarse for weights in float64.
    """
    if not isinstance(optimizer, torch.optim.Adam | Descent):
        return False
    groups = optimizer.param_groups
    return all(group["fused"] for group in groups) and all(map(is_plain, (p for g in groups for p in g["params"])))


def is_plain(weight: Tensor) -> bool:
    """Whether it is a whole tensor in float32 on a device whose kernels divide."""
    return weight.dtype == torch.float32 and weight.device.type in DIVIDE and not isinstance(weight, DTensor)
