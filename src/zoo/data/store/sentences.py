"""A document's sentences: by a rule for all scripts, or by a library that knows a language's abbreviations."""

import re
from collections.abc import Callable
from importlib.metadata import version

try:
    from sentencex import segment
except ImportError:  # the extra `sentences` is not installed: then there is one rule for all scripts
    segment = None

VERSION = 3  # raise it where the rule finds other sentences
# Unicode's Sentence_Terminal without ! and ?, which need a space behind them, and without Myanmar's ၊, a comma
FULL = (
    "։؝؞؟۔।॥။።፧፨។៕᠃᠉᱾᱿‼‽⁇⁈⁉。！？｡﹖﹗︒︕︖܀܁܂߹꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱ꫫ᙮᜵᜶᥄᥅᪨᪩᪪᪫᭚᭛᭞᭟᰻᰼"
    "\U00011047\U00011048\U000110be-\U000110c1\U00011141-\U00011143\U000111c5\U000111c6\U00011238-\U0001123c"
)
CLOSERS = r"\"'”’»›)\]}）］｝」』】〉》〗〙〛｣"
EITHER = "“‘«‹"  # close a quotation in some languages, which a space behind them tells
OPENERS = r"\"'“‘«‹»›„‚¿¡(\[{（［｛「『【〈《〖〘〚｢"
GREEK_QUESTION = ";\u037e"
# Each run is taken whole and from its first character alone, so that no text takes more than one pass.
# A group with a look ahead is not possessive: Python 3.11.2 then matches as if it were not optional.
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
    """A document's lines, split further where a sentence ends; blank ones are left out.

    A terminator of a script that writes no spaces, or that has one of its own, ends a sentence wherever it stands. `.`,
    `!`, `?` and `…` do before a space, unless a lower-case letter follows, or a digit a full stop. Quotes and brackets
    behind a terminator belong to its sentence.
    Source: Unicode Standard Annex 29, rules SB8 to SB11; `by_script` has what differs.
    """
    return [sentence for line in document.split("\n") for sentence in split_line(line)]


def split_line(line: str) -> list[str]:
    """The sentences of one line."""
    ascii_only = line.isascii()
    found: list[str] = []
    start = seen = 0
    has_letter = False
    for gap in (ASCII_GAP if ascii_only else GAP).finditer(line):
        has_letter = has_letter or any(map(str.isalpha, line[seen : gap.end()]))
        seen = gap.end()
        # "1." or "?!" alone is no sentence: the number of a list's entry belongs to the entry
        if has_letter and (ascii_only or by_script(line, gap)):
            found.append(line[start:seen].strip())
            start, has_letter = seen, False
    rest = line[start:].strip()
    return [*found, rest] if rest else found


def by_script(line: str, gap: re.Match[str]) -> bool:
    """Whether a sentence ends at a terminator, by the letters on both of its sides.

    Japanese goes on with と or って behind a quotation. Greek asks with `;`. Thai and Lao have no full stop: there it
    marks an abbreviation. Korean abbreviates nothing with a full stop, and ends a sentence with a word: whatever is
    behind a Hangul letter and a mark begins the next sentence, and a number with a full stop is part of a date.
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
    """Whether it is a syllable, or a letter of one that is written apart, as in files from macOS."""
    return "가" <= letter <= "힣" or "\u1100" <= letter <= "\u11ff"


def is_small(letter: str) -> bool:
    """Whether it may not begin a sentence; those of Georgian, which has capitals in headlines only, may."""
    return letter.islower() and not "\u10d0" <= letter <= "\u10ff"


def splitter(language: str | None) -> Splitter:
    """What splits documents: one rule for all scripts, or that of a language with its abbreviations, line by line.

    Raises:
        ValueError: a language is named, and sentencex is not installed.
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
    """What finds sentences and in which version: part of the name of a store that holds them."""
    return f"rule {VERSION}" if language is None else f"sentencex {version('sentencex')} {language}"
