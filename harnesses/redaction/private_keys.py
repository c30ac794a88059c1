"""Finds private keys, which span several lines, or several `\\n` in JSON. Pure.

Invariant: everything between the first and the last line is redacted; of a truncated key, the part that looks like one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harnesses.redaction.secret_values import MARK, Span

_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PUTTY = re.compile(
    r"Private-Lines: ?\d{1,3}(?:\s|\\[nr]){1,4}"
    r"((?:[A-Za-z0-9+/=]{1,80}(?:(?:\s|\\[nr]){1,4}(?!Private-MAC)|(?=\s|\\|[\"']|$))){1,200})"
)
_KEY_LINE = re.compile(r"[\s>+|\"'-]*(?:[A-Za-z0-9+/=]{16,}|[A-Za-z0-9+/]+={0,2}|[\w-]+: .*|)[\s\"',]*(?:\\n)?[\s\"',]*")
_TORN = re.compile(r"(?:\s|\\[nr]|[A-Za-z0-9+/=])*")
_LINES = re.compile(r"(?:(?!\n|\\n).){0,4096}(?:\n|\\n)")
_BODY = re.compile(r"[\s>+|\"'-]{0,80}[A-Za-z0-9+/]{1,80}={0,2}\s{0,4}(?:\\r)?(?:\n|\\n)")
_LONGEST = 1 << 14
"""Maximum length of a key without its beginning, in characters."""


def begins_key(line: str) -> bool:
    """Return whether a private key begins in a line without ending in it."""
    if line.startswith("Private-Lines:"):
        return True
    return "PRIVATE KEY" in line and _BEGIN.search(line) is not None and _END.search(line) is None


def ends_key(line: str) -> bool:
    """Return whether a line is the last one of a private key."""
    return line.startswith("Private-MAC:") or _END.search(line) is not None


def key_line(line: str) -> bool:
    """Return whether a line may belong to a private key."""
    return _KEY_LINE.fullmatch(line) is not None


def private_keys(text: str) -> Iterator[Span]:
    yield from _without_beginning(text)
    if "Private-Lines:" in text:
        yield from (match.span(1) for match in _PUTTY.finditer(text))
    place = 0
    while begin := _BEGIN.search(text, place) if text.find("PRIVATE KEY", place) >= 0 else None:
        end = _END.search(text, begin.end())
        if end is None:
            torn = _TORN.match(text, begin.end())
            place = torn.end() if torn else begin.end()
            if text[begin.end() : place].replace("\\n", "").strip():
                yield begin.end(), place
            # Without a last line there is no second kind to search for.
            yield from _torn_keys(text, place)
            return
        place = end.end()
        inside = text[begin.end() : end.start()]
        if MARK not in inside and inside.strip():
            yield begin.end() + _blank(inside), end.start() - _blank(inside[::-1])


def _without_beginning(text: str) -> Iterator[Span]:
    """Yield the parts of truncated keys before their last line."""
    end = _END.search(text) if "PRIVATE KEY" in text else None
    if end is None or _BEGIN.search(text, 0, end.start()) is not None:
        return
    place = end.start()
    for line in reversed(_LINES.findall(text, max(0, place - _LONGEST), place)):
        if _BODY.fullmatch(line) is None:
            break
        place -= len(line)
    if place < end.start():
        yield place, end.start() - _blank(text[place : end.start()][::-1])


def _torn_keys(text: str, place: int) -> Iterator[Span]:
    for begin in _BEGIN.finditer(text, place):
        torn = _TORN.match(text, begin.end())
        if torn and torn.group().replace("\\n", "").strip():
            yield torn.span()


def _blank(text: str) -> int:
    """Return how many line feeds a text begins with, plain or written as `\\n` (`n\\` when read backwards)."""
    return 2 if text[:2] in ("\\n", "n\\") else int(text[:1] == "\n")
