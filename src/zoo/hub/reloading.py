"""Load an exported folder with plain transformers and say what it gives: a program in which zoo cannot be imported.

Imports nothing of zoo, so that what it sees is what anyone sees who has the folder and transformers.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

Request = dict[str, Any]


class Unrounded(TorchFunctionMode):
    """Float64 stays float64 where a class's code goes to float32, as norms do: what still differs is no rounding."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asked = (*args[1:], *(kwargs or {}).values())
        rounds = function is torch.Tensor.float or (function is torch.Tensor.to and torch.float32 in asked)
        if rounds and args[0].dtype == torch.float64:
            return args[0]
        return function(*args, **(kwargs or {}))


def reload(folder: Path, request: Request) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Logits by `<dtype>/<head>`, and a report: class, loading faults, ids of texts, generated ids.

    Args:
        request: `auto` (an Auto class), `pad` (an id), `rows` (tokens, segments, source), `outputs` (head -> field),
            `texts` (one or two each), `segments` (whether token types are read), `generate` (prompts and limits).
    """
    auto = getattr(transformers, request["auto"])
    model, faults = auto.from_pretrained(folder, output_loading_info=True, dtype=torch.float32, local_files_only=True)
    model.eval()
    logits: dict[str, Tensor] = {}
    for dtype in (torch.float32, torch.float64):  # the second is exact for all that is stored in the first
        said = run(model.to(dtype), request)
        logits |= {f"{str(dtype).removeprefix('torch.')}/{head}": tensor for head, tensor in said.items()}
    report = {
        "class": type(model).__name__,
        "faults": {name: sorted(map(str, found)) for name, found in faults.items() if found},
        "texts": tokenize(folder, request),
        "generated": generate(model, request),
    }
    return report, logits


@torch.no_grad()
def run(model: Any, request: Request) -> dict[str, Tensor]:
    """Logits of all rows in one batch, padded on the right."""
    rows = request["rows"]
    both = bool(rows[0]["source"])
    inputs = batch([row["source" if both else "tokens"] for row in rows], request["pad"])
    given = {"input_ids": inputs[0], "attention_mask": inputs[1]}
    if request["segments"]:
        given["token_type_ids"] = batch([row["segments"] for row in rows], 0)[0]
    if both:
        target = batch([row["tokens"] for row in rows], request["pad"])
        given |= {"decoder_input_ids": target[0], "decoder_attention_mask": target[1]}
    with Unrounded():
        output = model(**given)
    return {head: getattr(output, name).contiguous() for head, name in request["outputs"].items()}


def batch(rows: list[list[int]], fill: int) -> tuple[Tensor, Tensor]:
    """Rows as one tensor filled up on the right, and where there is something."""
    longest = max(map(len, rows))
    ids = torch.tensor([row + [fill] * (longest - len(row)) for row in rows])
    return ids, torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])


def tokenize(folder: Path, request: Request) -> list[dict[str, list[int]]]:
    """What AutoTokenizer makes of each text or pair."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return [dict(tokenizer(*texts)) for texts in request["texts"]]


@torch.no_grad()
def generate(model: Any, request: Request) -> list[list[int]]:
    """What follows each prompt, greedily; prompts one by one, since some classes cannot pad on the left."""
    found = []
    for prompt in request["generate"]:
        ids = torch.tensor([prompt["tokens"]])
        mask, longest = torch.ones_like(ids), prompt["longest"]
        with Unrounded():
            output = model.generate(ids, attention_mask=mask, do_sample=False, num_beams=1, max_length=longest)
        found.append(output[0, prompt["skip"] :].tolist())
    return found


def main(folder: str, request: str, answer: str) -> None:
    """Answer a request file with `report.json` and `logits.safetensors` in a folder."""
    sys.modules["zoo"] = None  # type: ignore[assignment]  # importing it fails from here on, installed or not
    transformers.logging.set_verbosity_error()
    report, logits = reload(Path(folder), json.loads(Path(request).read_text("utf-8")))
    save_file(logits, Path(answer) / "logits.safetensors")
    (Path(answer) / "report.json").write_text(json.dumps(report), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
