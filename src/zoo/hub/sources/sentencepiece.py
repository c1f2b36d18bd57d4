"""Read an untrusted sentencepiece model: its pieces and its text normalization.

protobuf parses the file by a schema of only the fields that zoo needs. transformers has the full schema, but importing
it takes seconds, and its converters need a tokenizer object and do not check the file (NaN scores, a missing unknown
piece).

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
UNIGRAM = 1  # value of the trainer's `model_type`
CONTROL, USER_DEFINED = 3, 4  # values of a piece's `type`


class Pieces(NamedTuple):
    """A unigram model.

    Args:
        scored: (piece, log-probability) by id. unk: the id of the unknown piece.
        charsmap: the precompiled normalization table that `tokenizers` reads; empty: text is not normalized.
        special, user: control pieces and user-defined pieces, which are matched as a whole wherever a text spells them.
    """

    scored: list[tuple[str, float]]
    unk: int
    charsmap: bytes
    special: list[str]
    user: list[str]


def message(name: str) -> Any:
    """The protobuf class of one of the messages in `FILE`."""
    pool = descriptor_pool.DescriptorPool()  # a private one: the default pool may hold sentencepiece's messages
    pool.AddSerializedFile(ParseDict(FILE, FileDescriptorProto()).SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


Model = message("Model")


def read_pieces(content: bytes, name: str) -> Pieces:
    """Read a unigram model from the content of a file.

    Raises:
        ValueError: it is damaged, or not a unigram model, or has byte fallback.
    """
    model: Any = Model()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise ValueError(f"{name}: is not a sentencepiece model ({error})") from None
    if model.trainer.model_type != UNIGRAM or model.trainer.byte_fallback:
        raise ValueError(f"{name}: is not a unigram model without byte pieces; zoo reads only those")
    for number, piece in enumerate(model.pieces):
        if not isinstance(piece.piece, str):  # protobuf returns bytes that are not UTF-8 as bytes
            raise ValueError(f"{name}: piece {number} is damaged")
        if not math.isfinite(piece.score):
            raise ValueError(f"{name}: the score of piece {number} is not a number")
    unk = model.trainer.unk_id
    if not 0 <= unk < len(model.pieces):
        raise ValueError(f"{name}: has {len(model.pieces)} pieces, so the unknown piece cannot be number {unk}")
    scored = [(piece.piece, piece.score) for piece in model.pieces]
    special, user = ([p.piece for p in model.pieces if p.type == kind] for kind in (CONTROL, USER_DEFINED))
    return Pieces(scored, unk, model.normalizer.charsmap, special, user)
