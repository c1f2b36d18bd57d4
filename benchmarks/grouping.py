"""Text to rows of tokens as transformers' example `run_clm.py` does it: tokenize with two processes, then group.

    python benchmarks/grouping.py FOLDER LENGTH

FOLDER holds `corpus/*.jsonl` and `tokenizer.json`; `corpora.py speed` calls it.
"""

import sys
from itertools import chain
from typing import Any

from datasets import load_dataset
from transformers import PreTrainedTokenizerFast

FOLDER, LENGTH = sys.argv[1], int(sys.argv[2])
TOKENIZER = PreTrainedTokenizerFast(tokenizer_file=f"{FOLDER}/tokenizer.json")


def tokenize(examples: dict[str, list[str]]) -> Any:
    return TOKENIZER(examples["text"])


def group(examples: Any) -> dict[str, list[Any]]:
    """Source: huggingface/transformers, examples/pytorch/language-modeling/run_clm.py, `group_texts`."""
    joined = {key: list(chain(*examples[key])) for key in examples.keys()}
    total = len(joined[next(iter(examples.keys()))]) // LENGTH * LENGTH
    rows = {key: [values[i : i + LENGTH] for i in range(0, total, LENGTH)] for key, values in joined.items()}
    return {**rows, "labels": rows["input_ids"].copy()}


if __name__ == "__main__":
    data = load_dataset("json", data_files=f"{FOLDER}/corpus/*.jsonl", split="train")
    tokens = data.map(tokenize, batched=True, num_proc=2, remove_columns=data.column_names)
    print(f"{len(tokens.map(group, batched=True, num_proc=2)):,} rows of {LENGTH}")
