"""A sentencepiece model of a stranger: its pieces and how it normalizes text.

protobuf reads the file, by those fields of its messages that are asked for here. `transformers` has all of them, but
importing it takes seconds, and its converters take a tokenizer's object and check nothing of the file (a score that is
NaN, an unknown piece that is not there).

Source: Kudo and Richardson 2018, arXiv:1808.06226; google/sentencepiece, src/sentencepiece_model.proto.
"""

import math
from typing import Any, NamedTuple

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError

FILE = {
    "name": "pieces.proto",
    "message_type": [
        {
            "name": "Piece",
            "field": [
                {"name": "piece", "number": 1, "type": "TYPE_STRING"},
                {"name": "score", "number": 2, "type": "TYPE_FLOAT"},
                {"name": "type", "number": 3, "type": "TYPE_INT32", "default_value": "1"},
            ],
        },
        {
            "name": "Trainer",
            "field": [
                {"name": "model_type", "number": 3, "type": "TYPE_INT32", "default_value": "1"},
                {"name": "byte_fallback", "number": 35, "type": "TYPE_BOOL"},
                {"name": "unk_id", "number": 40, "type": "TYPE_INT32"},
            ],
        },
        {"name": "Normalizer", "field": [{"name": "charsmap", "number": 2, "type": "TYPE_BYTES"}]},
        {
            "name": "Model",
            "field": [
                {"name": "pieces", "number": 1, "label": "LABEL_REPEATED", "type_name": "Piece"},
                {"name": "trainer", "number": 2, "type_name": "Trainer"},
                {"name": "normalizer", "number": 3, "type_name": "Normalizer"},
            ],
        },
    ],
}
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


def message(name: str) -> Any:
    """The class of one of the messages."""
    pool = descriptor_pool.DescriptorPool()  # of its own: the common one may have sentencepiece's messages
    pool.AddSerializedFile(ParseDict(FILE, FileDescriptorProto()).SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


Model = message("Model")


def read_pieces(content: bytes, name: str) -> Pieces:
    """The model in a file.

    Raises:
        ValueError: it is none, or of another kind than unigram.
    """
    model: Any = Model()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise ValueError(f"{name}: is not a sentencepiece model ({error})") from None
    if model.trainer.model_type != UNIGRAM or model.trainer.byte_fallback:
        raise ValueError(f"{name}: is not a unigram model without byte pieces; zoo reads only those")
    for number, piece in enumerate(model.pieces):
        if not isinstance(piece.piece, str):  # protobuf answers bytes where they are not UTF-8
            raise ValueError(f"{name}: piece {number} is damaged")
        if not math.isfinite(piece.score):
            raise ValueError(f"{name}: the score of piece {number} is not a number")
    unk = model.trainer.unk_id
    if not 0 <= unk < len(model.pieces):
        raise ValueError(f"{name}: has {len(model.pieces)} pieces, so the unknown piece cannot be number {unk}")
    scored = [(piece.piece, piece.score) for piece in model.pieces]
    special, user = ([p.piece for p in model.pieces if p.type == kind] for kind in (CONTROL, USER_DEFINED))
    return Pieces(scored, unk, model.normalizer.charsmap, special, user)
