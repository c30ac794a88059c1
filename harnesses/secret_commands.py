"""Commands and files with no sign between name and value: `--password …`, `.netrc`, `curl -u`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harnesses.secret_named import QUOTE, bare, quoted, stands_in
from harnesses.secret_names import Strength, strength
from harnesses.secret_values import Span, is_placeholder

_OPTION = re.compile(r"(?<![\w-])--?([a-z][a-z0-9-]{1,40})[ \t]{1,4}(?!-)")
_NETRC = re.compile(r"login\s{1,8}(\S{1,200})\s{1,8}password\s{1,8}([^\s\"'\\]{1,400})")
_PLAIN = re.compile(r"requirepass[ \t]{1,4}([^\s\"'\\]{1,400})")
_SHELL = re.compile(
    r"\bcurl\b[^\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:([^\s\"']{1,200})"
    r"|\b(?:mysql|mysqldump|mysqladmin)\b[^\n]{0,300}?\s-p([^\s\"']{1,200})"
    r"|\bsshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?([^\s\"']{1,200})"
)


def commanded(text: str, low: str) -> Iterator[Span]:
    if "-" in low:
        yield from _options(text, low)
    if "login" in low and "password" in low:
        yield from _given(text, low, _NETRC, 2)
    if "requirepass" in low:
        yield from _given(text, low, _PLAIN, 1)
    if "curl" in low or "mysql" in low or "sshpass" in low:
        for match in _SHELL.finditer(low):
            start, end = match.span(match.lastindex or 0)
            if not is_placeholder(text[start:end]):
                yield start, end


def _options(text: str, low: str) -> Iterator[Span]:
    for match in _OPTION.finditer(low):
        named = strength(match[1])
        if named is Strength.NONE or named is Strength.HEADER:
            continue
        start = match.end()
        if quote := QUOTE.match(text, start):
            span = quoted(text, quote, named)
        elif stands_in(text, start):
            continue
        else:
            span = bare(text, start, "=", named, at_line=False)
        if span is not None:
            yield span


def _given(text: str, low: str, pattern: re.Pattern[str], group: int) -> Iterator[Span]:
    for match in pattern.finditer(low):
        start, end = match.span(group)
        if not is_placeholder(text[start:end]):
            yield start, end
