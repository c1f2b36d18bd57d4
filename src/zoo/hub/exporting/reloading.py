"""Load an exported folder with plain transformers and report what it computes.

`child.py` runs this program in a process where importing zoo fails: it sees what every user of the folder sees who has
transformers. So it uses nothing of zoo and repeats the few constants that both sides need.
"""

import base64
import inspect
import io
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

# without torchvision some versions do not export it from `transformers` itself
from transformers.models.auto.image_processing_auto import AutoImageProcessor

Request = dict[str, Any]
IGNORE_INDEX = -100  # the label of positions that do not count


class KeepFloat64(TorchFunctionMode):
    """Compute in float64 where a class casts to float32, as norms do; remaining differences are then not rounding."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is torch.Tensor.float:
            return args[0].double()
        if function is torch.Tensor.to and torch.float32 in (*args[1:], *kwargs.values()):
            return args[0].double()
        return function(*args, **kwargs)


def reload(folder: Path, request: Request) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a report, and logits by `<dtype>/<padding side>/<head>`, with the `pixels` if rows are images.

    The report holds the class, loading faults, losses by dtype, ids of texts, and ids generated greedily and with
    beams.

    Args:
        request: `auto` (an Auto class), `pad` (an id), `rows` (tokens, segments, source, image, labels by argument),
            `outputs` (head -> field, or several separated by spaces), `loss_by_row` (whether the loss is computed row
            by row, without padding), `left_heads` (those whose logits can agree with padding on the left),
            `relative_positions` (whether padding on the left needs no position_ids), `texts`, `pairs`, `segments`
            (whether token types are read), `prompts` (tokens and limits), `beams` (settings of a beam search),
            `choices` (rows per example; 0: each row is one), `last_positions` (the argument for the last position of
            each row).
    """
    request["pixels"] = pixels_of(folder, request["rows"])
    auto = getattr(transformers, request["auto"])
    model, faults = auto.from_pretrained(folder, output_loading_info=True, dtype=torch.float32, local_files_only=True)
    model.eval()
    logits: dict[str, Tensor] = {} if request["pixels"] is None else {"pixels": request["pixels"].contiguous()}
    losses = {}
    for name, rounding in (("float32", nullcontext()), ("float64", KeepFloat64())):
        model.to(getattr(torch, name))  # float64 is exact for all that is stored in float32
        with rounding:
            said, losses[name] = compute(model, request)
        logits |= {f"{name}/{key}": tensor for key, tensor in said.items()}
    with KeepFloat64():
        greedy = generate(model, request, {"num_beams": 1})
        beams = generate(model, request, request["beams"])
    report = {
        "class": type(model).__name__,
        "faults": {name: sorted(map(str, found)) for name, found in faults.items() if found},
        "losses": losses,
        "greedy": greedy,
        "beams": beams,
        **ids_of(folder, request),
    }
    return report, logits


def pixels_of(folder: Path, rows: list[dict[str, Any]]) -> Tensor | None:
    """The rows' images as the folder's own processor prepares them; None if rows are tokens."""
    if not rows[0]["image"]:
        return None
    processor = AutoImageProcessor.from_pretrained(folder, local_files_only=True)
    files = [Image.open(io.BytesIO(base64.b64decode(row["image"]))) for row in rows]
    pixels: Tensor = processor(files, return_tensors="pt")["pixel_values"]
    return pixels


def ids_of(folder: Path, request: Request) -> dict[str, Any]:
    """The ids of texts and of pairs of texts; empty if the request has none."""
    if not request["texts"]:
        return {"texts": {}, "pairs": {}}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    pairs = dict(tokenizer(*map(list, zip(*request["pairs"], strict=True)))) if request["pairs"] else {}
    return {"texts": dict(tokenizer(request["texts"])), "pairs": pairs}


@torch.no_grad()
def compute(model: Any, request: Request) -> tuple[dict[str, Tensor], float]:
    """Logits of all rows in one batch, padded on the right and, where that can agree, on the left; and the loss."""
    outputs, rows = request["outputs"], request["rows"]
    reset_dynamic_rope(model)
    if request["loss_by_row"]:
        output = model(**inputs(request, left=False))
        loss = sum(loss_of_row(model, request, row) for row in rows) / len(rows)
    else:
        output = model(**inputs(request, left=False), **labels(rows, model.dtype, request["choices"]))
        loss = sum(float(each) for name, each in output.items() if name.endswith("loss"))  # of each of its heads
    logits = {f"right/{head}": logits_of(output, name, request["choices"] > 0) for head, name in outputs.items()}
    takes_positions = "position_ids" in inspect.signature(model.forward).parameters
    if request["left_heads"] and (takes_positions or request["relative_positions"]):
        given = inputs(request, left=True)
        if takes_positions:
            given["position_ids"] = (given["attention_mask"].cumsum(1) - 1).clamp_min(0)
        reset_dynamic_rope(model)
        shifted = model(**given)
        lengths = [len(row["tokens"]) for row in rows]
        logits |= {
            f"left/{head}": move_padding_right(logits_of(shifted, outputs[head]), lengths)
            for head in request["left_heads"]
        }
    return logits, loss


def reset_dynamic_rope(model: Any) -> None:
    """Reset dynamic rotary scaling: transformers scales by the longest text so far, zoo by the current one."""
    for module in model.modules():
        if getattr(module, "rope_type", None) == "dynamic":
            module.max_seq_len_cached = module.original_max_seq_len
            module.inv_freq = module.original_inv_freq.clone()


def loss_of_row(model: Any, request: Request, row: dict[str, Any]) -> float:
    """The loss of one row, without padding."""
    reset_dynamic_rope(model)
    return float(model(**inputs({**request, "rows": [row]}, left=False), **labels([row], model.dtype)).loss)


def logits_of(output: Any, names: str, choices: bool = False) -> Tensor:
    """A head's logits, row by row: one output field, several fields stacked, or (`[]`) a field of single scores.

    Args:
        choices: whether fields have shape (examples, choices, …), where each choice is a row.
    """
    if names.endswith("[]"):
        single: Tensor = getattr(output, names[:-2])
        return single[..., None].contiguous()
    fields = [getattr(output, name) for name in names.split()]
    if choices:
        fields = [(field if field.dim() > 2 else field[..., None]).flatten(0, 1) for field in fields]
    return fields[0].contiguous() if len(fields) == 1 else torch.stack(fields, -1)


def inputs(request: Request, left: bool) -> dict[str, Tensor]:
    """The model's inputs: all rows as one batch."""
    rows, pad, pixels = request["rows"], request["pad"], request["pixels"]
    both = bool(rows[0]["source"])
    if pixels is None:
        tokens, mask = pad_rows([row["source" if both else "tokens"] for row in rows], pad, left)
        given = {"input_ids": tokens, "attention_mask": mask}
    else:
        given, both = {"pixel_values": pixels}, bool(request["prompts"])
    if request["segments"]:
        given["token_type_ids"] = pad_rows([row["segments"] for row in rows], 0, left)[0]
    if both:
        tokens, mask = pad_rows([row["tokens"] for row in rows], pad, left)
        given |= {"decoder_input_ids": tokens, "decoder_attention_mask": mask}
    if request["last_positions"]:
        # a decoder: it does not see padding on the right, and its class takes no mask of choices
        given.pop("attention_mask")
        given[request["last_positions"]] = torch.tensor([len(row["tokens"]) - 1 for row in rows])
    return {name: group_choices(each, request["choices"]) for name, each in given.items()}


def group_choices(rows: Tensor, choices: int) -> Tensor:
    """Rows grouped into examples of `choices` rows each; unchanged if `choices` is 0."""
    return rows.reshape(-1, choices, *rows.shape[1:]) if choices else rows


def labels(rows: list[dict[str, Any]], dtype: torch.dtype, choices: int = 0) -> dict[str, Tensor]:
    """Labels by argument: one per position or one per row; floats in the model's dtype, in which the loss is computed.

    Args:
        choices: rows per example; the label of the first row is the example's.
    """
    given = {name: [row["labels"][name] for row in rows] for name in rows[0]["labels"]}
    places = {name for name, found in given.items() if isinstance(found[0], list)}
    found = {
        name: pad_rows(ids, IGNORE_INDEX)[0] if name in places else torch.tensor(ids) for name, ids in given.items()
    }
    if choices:
        found = {n: group_choices(ids, choices) if n in places else ids[::choices] for n, ids in found.items()}
    return {name: ids.to(dtype) if ids.is_floating_point() else ids for name, ids in found.items()}


def pad_rows(rows: list[list[int]], fill: int, left: bool = False) -> tuple[Tensor, Tensor]:
    """Pad rows into one tensor; the second tensor is its mask, 1 for tokens."""
    gaps = [max(map(len, rows)) - len(row) for row in rows]

    def lay(row: list[int], gap: list[int]) -> list[int]:
        return gap + row if left else row + gap

    ids = [lay(row, [fill] * gap) for row, gap in zip(rows, gaps, strict=True)]
    there = [lay([1] * len(row), [0] * gap) for row, gap in zip(rows, gaps, strict=True)]
    return torch.tensor(ids), torch.tensor(there)


def move_padding_right(scores: Tensor, lengths: list[int]) -> Tensor:
    """Move padding in scores from the left to the right; scores of whole rows stay unchanged."""
    if scores.dim() == 2:
        return scores.contiguous()
    return torch.stack([row.roll(length, 0) for row, length in zip(scores, lengths, strict=True)])


@torch.no_grad()
def generate(model: Any, request: Request, settings: dict[str, Any]) -> list[list[int]]:
    """The continuation of each prompt, generated one by one, since some classes cannot pad on the left."""
    found = []
    for prompt in request["prompts"]:
        ids, pixels = torch.tensor([prompt["tokens"]]), request["pixels"]
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        given = given if pixels is None else {"pixel_values": pixels[prompt["row"], None]}
        limits = {"max_length": prompt["longest"], "max_new_tokens": None}
        reset_dynamic_rope(model)
        output = model.generate(**given, do_sample=False, **limits, **settings)
        found.append(output[0, prompt["skip"] :].tolist())
    return found


if __name__ == "__main__":
    exported, asked, place = map(Path, sys.argv[1:])
    transformers.logging.set_verbosity_error()
    report, logits = reload(exported, json.loads(asked.read_text("utf-8")))
    save_file(logits, place / "logits.safetensors")
    (place / "report.json").write_text(json.dumps(report), "utf-8")
