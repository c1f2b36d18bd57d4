"""Real tokens per second of a BERT's training step: zoo's packed rows against transformers' padded batches.

    python benchmarks/training_step.py --model bert-mini --texts 64
    python benchmarks/training_step.py --model bert-base --texts 512 --row 1024 --attention-dropout 0 \\
        --backend sdpa flex varlen --device cuda

Both sides get the same texts of random lengths (up to 128 tokens), sizes, dropout, precision and optimizer, and
alternate in one process. Peer: transformers' BertForPreTraining, each batch padded to its longest text, as its data
collator does. With several backends of attention each is a side of its own; `flex` and `varlen` need a GPU, and know no
dropout of attention weights. Printed: the median of each side, the ratio to the peer, and the machine.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import BertConfig, BertForPreTraining

from zoo.batches.collate import lay_rows
from zoo.blocks.backends.backend import backends
from zoo.blocks.documents import positions_of
from zoo.config import Layer
from zoo.devices.memory import keep_large_blocks
from zoo.experiments.resolve import resolve_training
from zoo.models.create import create_model
from zoo.models.model import Model
from zoo.training.devices.attention_backend import use_backends

LENGTH, VOCABULARY, SHARE = 128, 8000, 0.15


def draw_texts(count: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Texts of 8 to 128 random tokens, most of them short."""
    lengths = np.clip(generator.gamma(2.0, 30.0, count).astype(int), 8, LENGTH)
    return [generator.integers(7, VOCABULARY, n) for n in lengths]


def pack(texts: list[np.ndarray], length: int) -> list[list[np.ndarray]]:
    """First-fit decreasing into rows."""
    rows: list[list[np.ndarray]] = []
    for text in sorted(texts, key=len, reverse=True):
        fitting = next((row for row in rows if sum(map(len, row)) + len(text) <= length), None)
        if fitting is None:
            rows.append([text])
        else:
            fitting.append(text)
    return rows


def ours(model: Model, texts: list[np.ndarray], dtype: torch.dtype, length: int) -> Callable[[], None]:
    rows, device = pack(texts, length), model.device
    tokens, documents = (torch.from_numpy(a).to(device) for a in lay_rows(rows, (len(rows), length), 0))
    scored = documents.flatten().nonzero().squeeze(1)[:: round(1 / SHARE)]
    first = ((documents > 0) & (positions_of(documents) == 0)).flatten().nonzero().squeeze(1)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        with torch.autocast(device.type, dtype, enabled=dtype is not torch.float32):
            places = {"masked_lm": scored, "next_sentence": first}
            scores = model(tokens, documents=documents, segments=torch.zeros_like(tokens), places=places).scores
            loss = scores["masked_lm"].cross_entropy(tokens.flatten()[scored]).sum / len(scored)
            follows = torch.zeros(len(first), dtype=torch.long, device=device)
            loss = loss + scores["next_sentence"].cross_entropy(follows).sum / len(first)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def peer(model: BertForPreTraining, texts: list[np.ndarray], dtype: torch.dtype) -> Callable[[], None]:
    longest, device = max(map(len, texts)), model.device
    laid = lay_rows([[t] for t in texts], (len(texts), longest), 0)
    tokens, documents = (torch.from_numpy(a).to(device) for a in laid)
    labels = torch.full_like(tokens, -100)
    scored = documents.flatten().nonzero().squeeze(1)[:: round(1 / SHARE)]
    labels.view(-1)[scored] = tokens.flatten()[scored]
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    follows = torch.zeros(len(texts), dtype=torch.long, device=device)

    def step() -> None:
        with torch.autocast(device.type, dtype, enabled=dtype is not torch.float32):
            out = model(input_ids=tokens, attention_mask=documents, labels=labels, next_sentence_label=follows)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def build_peer(model: Model, attention_dropout: float) -> BertForPreTraining:
    """transformers' model of the same sizes."""
    assert model.settings.encoder is not None
    stack = model.settings.encoder.settings
    return BertForPreTraining(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=stack.d_model,
            num_hidden_layers=stack.n_layers,
            num_attention_heads=stack.n_heads,
            intermediate_size=stack.d_ff,
            max_position_embeddings=LENGTH,
            attention_probs_dropout_prob=attention_dropout,
        )
    )


def build_side(options: argparse.Namespace, backend: str) -> Model:
    """zoo's model with a backend of attention.

    Raises:
        ValueError: the backend does not know the model, or the device.
    """
    changes = {"max_length": LENGTH, "dropout": 0.1, "attention.dropout": options.attention_dropout}
    model = create_model(options.model, vocab_size=VOCABULARY, **changes)
    settings = resolve_training([Layer("side", {"attention_backend": backend, "precision": options.precision})])[0]
    use_backends(model, settings, torch.device(options.device))
    return model.to(options.device).train()


def alternate(sides: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median seconds of each side; the first step of each warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(repeats + 1):
        for name, step in sides.items():
            start = time.perf_counter()
            step()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-mini")
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--row", type=int, default=LENGTH, help="tokens of a packed row")
    parser.add_argument("--attention-dropout", type=float, default=0.1)
    parser.add_argument("--backend", nargs="+", choices=["auto", *backends.names()], default=["auto"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    dtype = getattr(torch, options.precision)
    keep_large_blocks()  # for both sides: the allocator is the process's
    texts = draw_texts(options.texts, np.random.default_rng(0))
    try:
        models = {f"zoo {backend}": build_side(options, backend) for backend in options.backend}
    except ValueError as refusal:
        parser.error(str(refusal))
    sides = {name: ours(model, texts, dtype, options.row) for name, model in models.items()}
    theirs = build_peer(next(iter(models.values())), options.attention_dropout)
    sides["transformers"] = peer(theirs.to(options.device).train(), texts, dtype)
    real = sum(map(len, texts))
    speeds = {name: real / seconds for name, seconds in alternate(sides, options.repeats).items()}
    threads, machine = torch.get_num_threads(), platform.processor() or platform.machine()
    machine = torch.cuda.get_device_name() if options.device.startswith("cuda") else f"{threads} threads, {machine}"
    print(f"{options.model}, {len(texts)} texts, {real} tokens, {options.precision}")
    print(f"{machine}, torch {torch.__version__}")
    for name, speed in speeds.items():
        print(f"{name:>14}: {speed:8.0f} real tokens/s, ratio {speed / speeds['transformers']:.2f}")


if __name__ == "__main__":
    main()
