"""A sentencepiece model of a stranger: its pieces and how it normalizes text.

protobuf reads the file, by the messages that `transformers` has. The converters beside them are not used: they take a
tokenizer's object and check nothing of the file (a score that is NaN, an unknown piece that is not there).

Source: Kudo and Richardson 2018, arXiv:1808.06226.
"""

import math
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from transformers.convert_slow_tokenizer import import_protobuf

UNIGRAM = 1  # of the trainer's kinds of models
CONTROL, USER_DEFINED = 3, 4  # of the kinds of pieces


class Pieces(NamedTuple):
    """A unigram model.

    Args:
        scored: spelling and log-probability, by id. unk: the id of what no piece spells.
        charsmap: how text is normalized, as `tokenizers` reads it; empty: not at all.
        special, user: pieces that stand for themselves wherever a text has them.
    """

    scored: list[tuple[str, float]]
    unk: int
    charsmap: bytes
    special: list[str]
    user: list[str]


def read_pieces(content: bytes, name: str) -> Pieces:
    """The model in a file.

    Raises:
        ValueError: it is none, or of another kind than unigram.
    """
    model: Any = import_protobuf().ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise ValueError(f"{name}: is no sentencepiece model ({error})") from None
    if model.trainer_spec.model_type != UNIGRAM or model.trainer_spec.byte_fallback:
        raise ValueError(f"{name}: is no unigram model without bytes as pieces; zoo reads those only")
    for number, piece in enumerate(model.pieces):
        if not isinstance(piece.piece, str):  # protobuf answers bytes where they are not UTF-8
            raise ValueError(f"{name}: piece {number} is damaged")
        if not math.isfinite(piece.score):
            raise ValueError(f"{name}: the score of piece {number} is no number")
    unk = model.trainer_spec.unk_id
    if not 0 <= unk < len(model.pieces):
        raise ValueError(f"{name}: has {len(model.pieces)} pieces, and none numbered {unk}, the unknown one")
    scored = [(piece.piece, piece.score) for piece in model.pieces]
    special, user = ([p.piece for p in model.pieces if p.type == kind] for kind in (CONTROL, USER_DEFINED))
    return Pieces(scored, unk, model.normalizer_spec.precompiled_charsmap, special, user)
