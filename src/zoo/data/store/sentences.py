"""Sentence splitting: one rule for all scripts, or the sentencex library with the abbreviations of a language."""

import re
from collections.abc import Callable
from importlib.metadata import version

try:
    from sentencex import segment
except ImportError:  # the extra `sentences` is not installed: only the rule for all scripts is available
    segment = None

VERSION = 3  # increase it when the rule splits differently
# Unicode's Sentence_Terminal without ! and ?, which need a space after them, and without Myanmar's ၊, a comma
FULL = (
    "։؝؞؟۔।॥။።፧፨។៕᠃᠉᱾᱿‼‽⁇⁈⁉。！？｡﹖﹗︒︕︖܀܁܂߹꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱ꫫ᙮᜵᜶᥄᥅᪨᪩᪪᪫᭚᭛᭞᭟᰻᰼"
    "\U00011047\U00011048\U000110be-\U000110c1\U00011141-\U00011143\U000111c5\U000111c6\U00011238-\U0001123c"
)
CLOSERS = r"\"'”’»›)\]}）］｝」』】〉》〗〙〛｣"
EITHER = "“‘«‹"  # these open or close a quotation, depending on the language; before a space they close it
OPENERS = r"\"'“‘«‹»›„‚¿¡(\[{（［｛「『【〈《〖〘〚｢"
GREEK_QUESTION = ";\u037e"
# Each run of characters is matched whole, from its first character only, so the time is linear in the text's length.
# The optional group with a lookahead is not possessive: Python 3.11.2 would treat it as mandatory.
ASCII_GAP = re.compile(
    r"""(?:\.["')\]}]*+\s++(?=(?:["'(\[{]\s*+)*+[^\sa-z0-9])|[!?]["')\]}]*+\s++(?=(?:["'(\[{]\s*+)*+[^\sa-z]))"""
)
GAP = re.compile(
    rf"(?:(?<![{FULL}])[{FULL}][{FULL}!?]*+|．(?!\d))[{CLOSERS}]*+\s*+"
    rf"|(?P<mark>(?<![.!?…])[.!?…]++|[{GREEK_QUESTION}])[{CLOSERS}{EITHER}]*+(?:[ \u00a0\u202f]»(?=\s))?\s++"
    rf"(?=(?:[{OPENERS}]\s*+)*+(?P<next>\S))"
)
Splitter = Callable[[str], list[str]]


def split_sentences(document: str) -> list[str]:
    """Split each line of a document into sentences; blank ones are dropped.

    A terminator of a script that writes no spaces, or that has its own terminators, ends a sentence anywhere. `.`, `!`,
    `?` and `…` end one only before a space, and not if a lowercase letter follows; `.` also not if a digit follows.
    Quotes and brackets after a terminator belong to its sentence.
    Source: Unicode Standard Annex 29, rules SB8 to SB11; `ends_sentence` has the exceptions.
    """
    return [sentence for line in document.split("\n") for sentence in split_line(line)]


def split_line(line: str) -> list[str]:
    """Split one line into sentences."""
    ascii_only = line.isascii()
    found: list[str] = []
    start = seen = 0
    has_letter = False
    for gap in (ASCII_GAP if ascii_only else GAP).finditer(line):
        has_letter = has_letter or any(map(str.isalpha, line[seen : gap.end()]))
        seen = gap.end()
        # "1." or "?!" alone is not a sentence: the number of a list entry belongs to the entry
        if has_letter and (ascii_only or ends_sentence(line, gap)):
            found.append(line[start:seen].strip())
            start, has_letter = seen, False
    rest = line[start:].strip()
    return [*found, rest] if rest else found


def ends_sentence(line: str, gap: re.Match[str]) -> bool:
    """Whether a terminator ends a sentence, judged by the letters on both of its sides.

    A Japanese sentence continues with と or って after a quotation. Greek asks with `;`. Thai and Lao have no full
    stop: there it marks an abbreviation. Korean does not abbreviate with full stops: after a Hangul letter, a mark
    always ends the sentence, and a full stop between a digit and Hangul is part of a date.
    """
    marks, after = gap["mark"], gap["next"]
    if marks is None:
        return not (line[gap.end() - 1] in "」』" and line.startswith(("と", "って"), gap.end()))
    before = line[gap.start() - 1 : gap.start()]
    if marks in GREEK_QUESTION:
        return ("\u0370" <= before <= "\u03ff" or "\u1f00" <= before <= "\u1fff") and not is_small(after)
    if is_hangul(before) or marks[-1] != ".":
        return not is_small(after) or is_hangul(before)
    is_short = "\u0e00" <= before <= "\u0eff" or (is_hangul(after) and before.isdigit())
    return not (is_short or is_small(after) or after.isdigit())


def is_hangul(letter: str) -> bool:
    """Whether a letter is a Hangul syllable, or a letter of a decomposed one, as in files from macOS."""
    return "가" <= letter <= "힣" or "\u1100" <= letter <= "\u11ff"


def is_small(letter: str) -> bool:
    """Whether a letter cannot begin a sentence: a lowercase one, except in Georgian, which has no sentence capitals."""
    return letter.islower() and not "\u10d0" <= letter <= "\u10ff"


def splitter(language: str | None) -> Splitter:
    """The function that splits documents into sentences: by one rule for all scripts, or by sentencex, line by line.

    Raises:
        ValueError: a language is given, and sentencex is not installed.
    """
    if language is None:
        return split_sentences
    if segment is None:
        raise ValueError(
            f"source.language: {language}: the abbreviations of a language need sentencex, which is not installed: "
            "pip install 'zoo[sentences]'; without 'language' one rule splits all scripts"
        )

    def split(document: str) -> list[str]:
        pieces = (piece.strip() for line in document.split("\n") for piece in segment(language, line))
        return [piece for piece in pieces if piece]

    return split


def rule(language: str | None) -> str:
    """The name and version of the sentence splitter: part of the name of a shard whose texts are split."""
    return f"rule {VERSION}" if language is None else f"sentencex {version('sentencex')} {language}"
