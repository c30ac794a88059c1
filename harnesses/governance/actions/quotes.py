"""The pieces that words are made of: quotes, escapes, braces. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from attrs import evolve, frozen

from harnesses.governance.actions.nouns import UNKNOWN, Command, Unreadable, Word

LITERAL_VARIABLES = {
    "HOME": "~",
    "PWD": ".",
    "TMPDIR": "/tmp",
    "VIRTUAL_ENV": "/venv",
    "CONDA_PREFIX": "/venv",
    "JAVA_HOME": "/java",
    "GOPATH": "~/go",
    "?": "0",
    "#": "0",
    "$": "0",
    "!": "0",
    "RANDOM": "0",
    "SECONDS": "0",
    "LINENO": "0",
    "EPOCHSECONDS": "0",
    "UID": "0",
}
"""What is as good as known of variables that a shell sets itself."""
_MAX_EXPANDED = 1_000
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL)


@frozen
class Piece:
    """A part of a word."""

    text: str
    quoted: bool = False
    disguised: bool = False
    list: bool = False
    """Whether it becomes several words even in double quotes: `"$@"`."""
    inner: tuple[Command, ...] = ()

    def as_quoted(self) -> Piece:
        return evolve(self, quoted=True)


def word_of(pieces: Sequence[Piece]) -> Word:
    """Return the word that the pieces make."""
    return Word(
        "".join(piece.text for piece in pieces),
        splits=any(piece.list or (UNKNOWN in piece.text and not piece.quoted) for piece in pieces),
        glob=any(not piece.quoted and piece.text in ("*", "?", "[") for piece in pieces),
        disguised=any(piece.disguised for piece in pieces),
        inner=tuple(command for piece in pieces for command in piece.inner),
    )


def ansi_c(text: str) -> str:
    """Return what stands in `$'…'` with its escapes resolved."""
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    hexadecimal, short, long, octal, control, plain = match.groups()
    code = hexadecimal or short or long
    if code:
        number = int(code, 16)
        return chr(number) if number < 0x110000 else ""
    if octal:
        return chr(int(octal, 8) & 0xFF)
    if control:
        return chr(ord(control) & 0x1F)
    return _ESCAPES.get(plain, plain if plain in "\\'\"?" else f"\\{plain}")


def closing_brace(text: str, at: int) -> int:
    """Return where the brace is that closes the one at `at`, of `${…}`."""
    level, place, quote = 0, at, ""
    while place < len(text):
        char = text[place]
        if char == "\\" and quote != "'":
            place += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "{":
            level += 1
        elif char == "}":
            level -= 1
            if level == 0:
                return place
        place += 1
    raise Unreadable("a '${' is not closed")


def braces_expanded(pieces: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    """Yield the words that `{a,b}` makes of one; `{1..9}` is left, it can name nothing but numbers and letters.

    Raises:
        Unreadable: there are too many.
    """
    if _first_braces(pieces) is not None and len(pieces) > _MAX_EXPANDED:
        raise Unreadable("its braces make too many words")
    done: list[Sequence[Piece]] = []
    waiting = [list(pieces)]
    while waiting:
        some = waiting.pop()
        found = _first_braces(some)
        if found is None:
            done.append(some)
        else:
            start, commas, end = found
            edges = [start, *commas, end]
            options = [some[left + 1 : right] for left, right in pairwise(edges)]
            waiting += [[*some[:start], *option, *some[end + 1 :]] for option in reversed(options)]
        if len(done) + len(waiting) > _MAX_EXPANDED:
            raise Unreadable("its braces make too many words")
    yield from done


def _first_braces(pieces: Sequence[Piece]) -> tuple[int, list[int], int] | None:
    opened: list[tuple[int, list[int]]] = []
    best: tuple[int, list[int], int] | None = None
    for place, piece in enumerate(pieces):
        if piece.quoted:
            continue
        if piece.text == "{":
            opened.append((place, []))
        elif piece.text == "," and opened:
            opened[-1][1].append(place)
        elif piece.text == "}" and opened:
            start, commas = opened.pop()
            if commas and (best is None or start < best[0]):
                best = (start, commas, place)
    return best
