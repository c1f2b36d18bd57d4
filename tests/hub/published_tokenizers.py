"""Small tokenizers, trained here, in the files that families publish."""

import argparse
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from zoo.hub.importing.tokenizer_differences import option_differences, rebuilt_backend
from zoo.hub.sources.folder import CheckpointFolder
from zoo.hub.targets.declare.target import Target

ODD = [
    "",
    " two  spaces ",
    "naïve Café Ünï",
    "아이가 공을 찬다",
    "Zwei Männer 漢字",
    "a\tb",
    "x" * 150,
    "e\u0301 \u200d",
]
LINES = [*ODD, *Path(argparse.__file__).read_text("utf-8").splitlines()[:1000]]
ENDING = "<|endoftext|>"


def backend(kind: str) -> Backend:
    """A tokenizer as a family publishes it, trained on the lines."""
    if kind == "bert":
        made = Backend(models.WordPiece(unk_token="[UNK]"))
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        trainer: Any = trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    elif kind == "gpt2":
        made = Backend(models.BPE())
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        made.post_processor = processors.ByteLevel(trim_offsets=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        special = [ENDING]
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
    else:
        made = Backend(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
        )
    made.train_from_iterator(LINES, trainer)
    return made


def publish(folder: Path, kind: str, only_vocabulary: bool = False, **options: Any) -> Path:
    """A folder with vocabulary files only, and a config.json unless it has one."""
    folder.mkdir(exist_ok=True)
    made = json.loads(backend(kind).to_str())["model"]
    if not only_vocabulary:
        (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    if kind == "bert":
        words = sorted(made["vocab"], key=made["vocab"].get)
        (folder / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
        return folder
    (folder / "vocab.json").write_text(json.dumps(made["vocab"]), "utf-8")
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in made["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", "utf-8")
    return folder


def said_of_options(folder: CheckpointFolder, target: Target) -> tuple[str, ...]:
    """What an import says of tokenizer options that tokenizer.json contradicts."""
    return option_differences(folder, target, rebuilt_backend(folder, target))
