"""Compare zoo's model with the reloaded export: logits, losses, token ids, pixels and generated texts."""

import base64
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from zoo.data.columns.pictures import decode
from zoo.data.ids import Roles
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.hub.exporting.samples import SampleRow, fill_template
from zoo.hub.exporting.tokenizer_files import prefix_ids
from zoo.hub.targets.declare.target import NativeClass
from zoo.inference.loaded import refuse_not_finite
from zoo.models.generation.generate import generate
from zoo.models.generation.settings import GenerateSettings
from zoo.models.heads.head import heads
from zoo.models.heads.scores import Scores
from zoo.models.model import Model
from zoo.models.output import Output
from zoo.objectives.label_losses import LabelLoss, SeveralClasses

TOLERANCES = {"float32": 1e-4, "float64": 1e-10}  # times the largest score at the position, if that is above 1
IGNORE_INDEX = -100  # the label of positions that no loss counts
TIE = 1e-6  # times the larger score, if that is above 1: rounding of a sum of 10 log-probabilities in float32


@torch.no_grad()
def compute_logits(model: Model, rows: Sequence[SampleRow], pixels: Tensor | None = None) -> dict[str, Tensor]:
    """zoo's logits of all rows in one batch, by head, on the CPU."""
    if pixels is not None and model.decoder is None:
        return to_cpu(model(pixels.to(model.device)))
    tokens, documents = pad([row.tokens for row in rows])
    given: dict[str, Tensor] = {"documents": documents, **({} if pixels is None else {"source": pixels})}
    if model.settings.embeddings.segments > 1 and rows[0].segments:
        given["segments"] = pad([row.segments for row in rows])[0]
    if rows[0].source:
        given["source"], given["source_documents"] = pad([row.source for row in rows])
    return to_cpu(model(tokens.to(model.device), **{name: each.to(model.device) for name, each in given.items()}))


def to_cpu(output: Output) -> dict[str, Tensor]:
    """Logits by head on the CPU, where those of transformers are."""
    return {head: logits.cpu() for head, logits in output.heads.items()}


def pad(rows: Sequence[Sequence[int]], fill: int = 0) -> tuple[Tensor, Tensor]:
    """Pad rows on the right into one tensor; the second tensor holds their documents (1, and 0 for padding)."""
    longest = max(map(len, rows))
    filled = torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows])
    return filled, torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])


def check_logits(dtype: str, ours: Mapping[str, Tensor], rows: Sequence[SampleRow]) -> None:
    """Check that zoo's logits are finite everywhere but in padding; otherwise no comparison is possible.

    Raises:
        RuntimeError: they are not.
    """
    real = pad([row.tokens for row in rows])[1].bool()[..., None]
    for head, logits in ours.items():
        known = logits.where(real, 0) if logits.dim() == 3 else logits
        refuse_not_finite(map(float, known.aminmax()), f"logits of {head} in {dtype}")


def compare_logits(
    dtype: str, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], rows: Sequence[SampleRow]
) -> float:
    """The largest difference of logits, padding aside.

    Args:
        theirs: by padding side and head, as in `left/language`.

    Raises:
        RuntimeError: shapes differ, or a difference exceeds the tolerance.
    """
    real = pad([row.tokens for row in rows])[1].bool()[..., None]
    largest = 0.0
    for name, found in theirs.items():
        side, head = name.split("/")
        mine = ours[head]
        what = f"logits of {head}" if side == "right" else f"logits of {head}, padded on the left,"
        if mine.shape != found.shape:
            raise RuntimeError(f"{what}: ours are {tuple(mine.shape)}, theirs {tuple(found.shape)}")
        if mine.dim() == 3:
            mine, found = mine.where(real, 0), found.where(real, 0)
        largest = max(largest, compare(what, dtype, mine, found))
    return largest


def compare(what: str, dtype: str, ours: Tensor, theirs: Tensor) -> float:
    """The largest difference of two tensors, whose axes are some of rows, positions and scores, in this order.

    Every score is a product with the same hidden state, so rounding scales with the largest score, even in one near 0.

    Raises:
        RuntimeError: a difference exceeds the tolerance.
    """
    difference = (ours - theirs).abs()
    sizes = ours.abs() if ours.dim() == 0 else ours.abs().amax(-1, keepdim=True)
    # negated, because every comparison with NaN is false
    wrong = (~(difference <= TOLERANCES[dtype] * sizes.clamp_min(1))).nonzero()
    if len(wrong):
        at = tuple(wrong[0].tolist())
        places = zip(("first at sequence", "position"), at[:-1], strict=False)  # the last axis holds scores
        where = "".join(f", {axis} {number}" for axis, number in places)
        raise RuntimeError(
            f"{what} differ by up to {difference.max():.3g} in {dtype}{where}: "
            f"ours {ours[at]:.6g}, transformers {theirs[at]:.6g}"
        )
    return float(difference.max())


def compare_losses(
    dtype: str,
    ours: Mapping[str, Tensor],
    rows: Sequence[SampleRow],
    native: NativeClass,
    answer: LabelLoss,
    theirs: float,
) -> float:
    """The difference of the losses, each the sum over heads of their mean loss.

    Args:
        answer: the kind of a document's label; the label of a position is always a class.

    Raises:
        RuntimeError: it exceeds the tolerance.
    """
    means = [mean_loss(head, ours[head], rows, native, answer).double() for head in native.heads]
    return compare("losses", dtype, torch.stack(means).sum(), torch.tensor(theirs, dtype=torch.float64))


def mean_loss(head: str, logits: Tensor, rows: Sequence[SampleRow], native: NativeClass, answer: LabelLoss) -> Tensor:
    """A head's mean loss, written independently of the losses in zoo's transformers classes, which it also checks."""
    if heads[head].softmax_over_positions:
        return mean_position_loss(logits, rows, native.label_of(head).split())
    labels = [row.labels[native.label_of(head)] for row in rows]
    if native.choices and heads[head].scores_documents:
        return F.cross_entropy(logits.view(-1, native.choices), torch.tensor(labels[:: native.choices]))
    if logits.dim() == 2:
        return mean_cost(answer, logits, torch.tensor(labels))
    targets = pad(labels, IGNORE_INDEX)[0]
    if native.shifts:
        logits, targets = logits[:, :-1], targets[:, 1:]
    if heads[head].detects:
        return mean_cost(SeveralClasses(), logits, targets[..., None])
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def mean_cost(answer: LabelLoss, logits: Tensor, labels: Tensor) -> Tensor:
    """The mean of the loss that belongs to a kind of label."""
    found = answer.cost(Scores.from_logits(logits), labels, label_smoothing=0.0)
    return found.sum / found.count


def mean_position_loss(logits: Tensor, rows: Sequence[SampleRow], names: Sequence[str]) -> Tensor:
    """The mean cross-entropy over rows and kinds of scores, where each label is a position in its row."""
    losses = [
        F.cross_entropy(logits[number, : len(row.tokens), kind], torch.tensor(row.labels[name]))
        for number, row in enumerate(rows)
        for kind, name in enumerate(names)
    ]
    return torch.stack(losses).double().mean()


def pixels_of(rows: Sequence[SampleRow], size: int | None) -> Tensor | None:
    """The images of all rows as zoo prepares them, as one tensor; None if the model reads tokens."""
    if size is None:
        return None
    found = [decode(base64.b64decode(row.image), f"image {i}", size) for i, row in enumerate(rows)]
    return torch.stack([torch.from_numpy(picture) for picture in found])


def compare_pixels(ours: Tensor | None, theirs: Tensor | None) -> None:
    """Check that AutoImageProcessor gives the same pixels as zoo.

    Raises:
        RuntimeError: it does not.
    """
    if ours is None:
        return
    if theirs is None or theirs.shape != ours.shape or theirs.dtype != ours.dtype:
        got = "none" if theirs is None else f"{theirs.dtype} {tuple(theirs.shape)}"
        raise RuntimeError(f"pixels: ours are {ours.dtype} {tuple(ours.shape)}, AutoImageProcessor gives {got}")
    wrong = (ours != theirs).flatten(1).any(1).nonzero().flatten().tolist()
    if wrong:
        raise RuntimeError(f"AutoImageProcessor gives other pixels than ours for image {wrong[0]}")


def compare_texts(
    tokenizer: Tokenizer,
    segments: bool,
    native: NativeClass,
    texts: Sequence[tuple[str, ...]],
    theirs: dict[str, Any],
) -> None:
    """Check that AutoTokenizer gives the same ids and token types as zoo.

    Raises:
        RuntimeError: it does not.
    """
    extra = theirs.keys() - {"input_ids", "attention_mask", *(["token_type_ids"] if segments else [])}
    if extra:
        raise RuntimeError(f"AutoTokenizer gives {', '.join(sorted(extra))}, which the model does not read")
    ahead = prefix_ids(tokenizer, native)
    for number, text in enumerate(texts):
        template = native.text if len(text) == 1 else native.pair
        encoded = map(tokenizer.encode_with_roles, text) if native.reads_special_tokens else tokenizer.encode(text)
        written = [ids.tolist() for ids in encoded]
        row = fill_template(tokenizer.roles, template, written, sys.maxsize)
        tokens = row.tokens if ahead is None else [*ahead, *written[0]]
        expected = {"input_ids": tokens, **({"token_type_ids": row.segments} if segments else {})}
        for name, ids in expected.items():
            found = theirs[name][number] if name in theirs else None
            if found != ids:
                raise RuntimeError(f"{name} of {text}: ours are {ids}, AutoTokenizer gives {found}")


def compare_generated(
    model: Model,
    roles: Roles,
    prompts: list[dict[str, Any]],
    theirs: list[list[int]],
    settings: GenerateSettings,
    pixels: Tensor | None,
) -> None:
    """Check that both generate the same texts; `model` is in float64, so that rounding decides nothing.

    Both add up beam scores in float32. Which of two texts wins is chance if their scores are equal up to that rounding,
    so such texts may differ.

    Raises:
        RuntimeError: other texts differ.
    """
    for number, (prompt, found) in enumerate(zip(prompts, theirs, strict=True)):
        limited = replace(settings, max_new_tokens=prompt["longest"] - prompt["skip"])
        source, beginning = None, prompt["tokens"]
        if model.encoder is not None:
            source = torch.tensor([prompt["tokens"]]) if pixels is None else pixels[prompt["row"], None]
            beginning = [roles.id("start")]
        given = None if source is None else source.to(model.device)
        ours = generate(model, [beginning], limited, roles.end, given)[0].tokens
        text = found[: found.index(roles.end)] if roles.end in found else found
        if ours == text or (settings.beams > 1 and is_tie(model, beginning, [ours, text], limited, roles.end, given)):
            continue
        how = "greedily" if settings.beams == 1 else f"with {settings.beams} beams"
        raise RuntimeError(f"text {number} generated {how} differs: ours is {ours}, transformers generates {text}")


@torch.no_grad()
def is_tie(
    model: Model,
    beginning: list[int],
    texts: Sequence[list[int]],
    settings: GenerateSettings,
    end: int | None,
    source: Tensor | None,
) -> bool:
    """Return whether beam search scores two texts equally, up to float32 rounding; never so for an invalid text."""
    assert model.decoder is not None and model.decoder.embeddings is not None
    known = len(model.decoder.embeddings.tokens.weight)
    if any(len(text) > settings.max_new_tokens or max(text, default=0) >= known for text in texts):
        return False
    scores: list[float] = []
    for text in texts:
        written = text if end is None or len(text) == settings.max_new_tokens else [*text, end]
        read = torch.tensor([[*beginning, *written[:-1]]], device=model.device)
        output: Output = model(read, **({} if source is None else {"source": source}))
        chances = output.heads["language"][0, len(beginning) - 1 :].log_softmax(-1)
        chosen = chances.gather(1, torch.tensor(written, device=model.device)[:, None])
        scores.append(float(chosen.sum() / len(written) ** settings.length_penalty))
    return abs(scores[0] - scores[1]) <= TIE * max(1.0, *map(abs, scores))
