"""SQuAD's own counting, as evaluate-v2.0.py has it (Rajpurkar et al. 2018): the judge of the metrics of answers."""

import collections
import re
import string


def normalize_answer(s: str) -> str:
    regex = re.compile(r"\b(a|an|the)\b", re.UNICODE)
    exclude = set(string.punctuation)
    return " ".join(re.sub(regex, " ", "".join(ch for ch in s.lower() if ch not in exclude)).split())


def get_tokens(s: str) -> list[str]:
    return normalize_answer(s).split() if s else []


def compute_exact(a_gold: str, a_pred: str) -> int:
    return int(normalize_answer(a_gold) == normalize_answer(a_pred))


def compute_f1(a_gold: str, a_pred: str) -> float:
    gold_toks, pred_toks = get_tokens(a_gold), get_tokens(a_pred)
    num_same = sum((collections.Counter(gold_toks) & collections.Counter(pred_toks)).values())
    if len(gold_toks) == 0 or len(pred_toks) == 0:
        return int(gold_toks == pred_toks)
    if num_same == 0:
        return 0
    precision, recall = 1.0 * num_same / len(pred_toks), 1.0 * num_same / len(gold_toks)
    return (2 * precision * recall) / (precision + recall)
