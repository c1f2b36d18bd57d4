"""A program: one training step of each nano model on a pretended CUDA device; prints what each did, a JSON map."""

from pretending import load

load()

import json  # noqa: E402

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from zoo.models.create import list_models  # noqa: E402
from zoo.models.kinds.part import CHANNELS  # noqa: E402
from zoo.models.model import Model  # noqa: E402
from zoo.models.settings import load_settings  # noqa: E402
from zoo.training.optimizers import optimizers  # noqa: E402

ROWS, LENGTH, SCORED = 3, 16, 4


def ones(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.long, device="cuda")


def batch(model: Model) -> dict[str, Tensor | dict[str, Tensor]]:
    """The arguments of a forward pass, packed as training packs them."""
    given: dict[str, Tensor | dict[str, Tensor]] = {"tokens": ones(ROWS, LENGTH), "documents": ones(ROWS, LENGTH)}
    size = None if model.encoder is None else model.encoder.image_size
    pictures = None if size is None else torch.zeros(ROWS, CHANNELS, size, size, dtype=torch.uint8, device="cuda")
    if model.encoder is not None and model.decoder is not None:
        given["source"] = ones(ROWS, LENGTH) if pictures is None else pictures
        given["source_documents"] = ones(ROWS, LENGTH if pictures is None else 1)
    elif pictures is not None:
        given |= {"tokens": pictures, "documents": ones(ROWS, 1)}
    given["places"] = {name: ones(SCORED) for name in model.heads if name != "language"}
    return given


def step(name: str) -> str:
    """Forward, backward and update; "done", or what went wrong."""
    with torch.device("cuda"):
        model = Model(load_settings(name)).train()  # not initialized: some ways to draw weights look at them
    optimizer = optimizers.build({"name": "adamw"}, model, 1e-3)
    try:
        with torch.autocast("cuda", torch.bfloat16):
            scores = model(**batch(model)).scores
            losses = [one.cross_entropy(ones(*one.states.shape[:-1]), 0.1, guess=True).sum for one in scores.values()]
        torch.stack(losses).sum().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.found_inf = (~norm.isfinite()).float()  # type: ignore[attr-defined]
        optimizer.step()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    left = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    on = {tensor.device.type for tensor in [*model.parameters(), *losses, norm]}
    return "done" if on == {"cuda"} and not left else f"on {on}, without gradients: {left}"


def reads() -> list[str]:
    """The ways to read a tensor that do not raise; there must be none, or nothing else here says anything."""
    tensor = torch.ones(2, device="cuda")
    ways = {"item": lambda: tensor[0].item(), "bool": lambda: bool(tensor[0]), "tolist": tensor.tolist}
    silent = []
    for name, way in ways.items():
        try:
            way()
            silent.append(name)
        except Exception:
            pass
    return silent


with FakeTensorMode(allow_non_fake_inputs=True):
    print(json.dumps({"reads": reads(), **{name: step(name) for name in list_models("*-nano")}}))
