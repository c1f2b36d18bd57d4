"""A sentencepiece model of a stranger: its pieces and how it normalizes text, read without the library.

Source: Kudo and Richardson 2018, arXiv:1808.06226; sentencepiece_model.proto, whose numbers of fields these are.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

PIECES, TRAINER, NORMALIZER = 1, 2, 3
SPELLED, SCORE, KIND = 1, 2, 3  # of a piece
MODEL_TYPE, BYTE_FALLBACK, UNK_ID = 3, 35, 40  # of the trainer
CHARSMAP = 2  # of the normalizer
UNIGRAM, CONTROL, USER_DEFINED = 1, 3, 4
Value = int | bytes


@dataclass
class Pieces:
    """A unigram model.

    Args:
        scored: spelling and log-probability, by id. unk: the id of what no piece spells.
        charsmap: how text is normalized, as `tokenizers` reads it; empty: not at all.
        special, user: pieces that stand for themselves wherever a text has them.
    """

    scored: list[tuple[str, float]] = field(default_factory=list)
    unk: int = 0
    charsmap: bytes = b""
    special: list[str] = field(default_factory=list)
    user: list[str] = field(default_factory=list)


def read_pieces(content: bytes, name: str) -> Pieces:
    """The model in a file.

    Raises:
        ValueError: it is none, or of another kind than unigram.
    """
    found = Pieces()
    for number, value in fields(content, name):
        if number == PIECES and isinstance(value, bytes):
            take_piece(found, dict(fields(value, name)), name)
        elif number == TRAINER and isinstance(value, bytes):
            said = dict(fields(value, name))
            if said.get(MODEL_TYPE, UNIGRAM) != UNIGRAM or said.get(BYTE_FALLBACK, 0):
                raise ValueError(f"{name}: is no unigram model without bytes as pieces; zoo reads those only")
            found.unk = int(said.get(UNK_ID, 0))
        elif number == NORMALIZER and isinstance(value, bytes):
            found.charsmap = bytes(dict(fields(value, name)).get(CHARSMAP, b""))
    if not 0 <= found.unk < len(found.scored):
        raise ValueError(f"{name}: has {len(found.scored)} pieces, and none numbered {found.unk}, the unknown one")
    return found


def take_piece(found: Pieces, said: dict[int, Value], name: str) -> None:
    """Add a piece."""
    spelled, score, kind = said.get(SPELLED, b""), said.get(SCORE, bytes(4)), said.get(KIND, 1)
    if not isinstance(spelled, bytes) or not isinstance(score, bytes) or len(score) != 4:
        raise ValueError(f"{name}: piece {len(found.scored)} is damaged")
    word, (number,) = spelled.decode("utf-8"), struct.unpack("<f", score)
    if not math.isfinite(number):
        raise ValueError(f"{name}: the score of piece {len(found.scored)} is no number")
    found.scored.append((word, number))
    listed = {CONTROL: found.special, USER_DEFINED: found.user}.get(int(kind))
    if listed is not None:
        listed.append(word)


def fields(content: bytes, name: str) -> Iterator[tuple[int, Value]]:
    """The numbered values of a message; those of a fixed size as bytes.

    Source: protobuf's wire format, https://protobuf.dev/programming-guides/encoding.

    Raises:
        ValueError: it is none.
    """
    at = 0
    while at < len(content):
        tag, at = varint(content, at, name)
        kind, value = tag & 7, 0
        if kind == 0:
            value, at = varint(content, at, name)
            yield tag >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, at = varint(content, at, name)
        if size is None or at + size > len(content):
            raise ValueError(f"{name}: is no sentencepiece model (byte {at})")
        yield tag >> 3, content[at : at + size]
        at += size


def varint(content: bytes, at: int, name: str) -> tuple[int, int]:
    """A whole number of up to ten bytes of seven bits, and where it ends."""
    value = 0
    for place, byte in enumerate(content[at : at + 10]):
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise ValueError(f"{name}: is no sentencepiece model (byte {at})")
