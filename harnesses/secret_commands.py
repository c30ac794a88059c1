"""Commands and files with another sign between name and value, or none: `--password …`, `.netrc`, `define(…)`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harnesses.secret_named import QUOTE, bare, quoted, stands_in
from harnesses.secret_names import Strength, strength
from harnesses.secret_values import Span, is_placeholder, is_secret

_OPTION = re.compile(r"(?<![\w-])--?([a-z][a-z0-9-]{1,40})[ \t]{1,4}(?!-)")
_NETRC = re.compile(r"login\s{1,8}(\S{1,200})\s{1,8}password\s{1,8}([^\s\"'\\]{1,400})")
_PLAIN = re.compile(r"requirepass[ \t]{1,4}([^\s\"'\\]{1,400})")
_SHELL = re.compile(
    r"\bcurl\b[^\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:([^\s\"']{1,200})"
    r"|\b(?:mysql|mysqldump|mysqladmin)\b[^\n]{0,300}?\s-p([^\s\"']{1,200})"
    r"|\bsshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?([^\s\"']{1,200})"
    r"|\bredis-cli\b[^\n;|&]{0,300}?\s-a[ \t]{1,4}[\"']?([^\s\"'-][^\s\"'\\]{0,200})"
    r"|\bmongo(?:sh|dump|restore|export|import)?\b[^\n;|&]{0,300}?\s-p[ \t]{1,4}[\"']?([^\s\"'-][^\s\"'\\]{0,200})"
    r"|\b(?:docker|podman|helm registry|az)[ \t]{1,4}login\b[^\n;|&]{0,300}?\s-p[ \t]{1,4}[\"']?([^\s\"'-][^\s\"'\\]{0,200})"
    r"|\bhtpasswd[ \t]{1,4}-[a-z]{0,4}b[a-z]{0,4}[ \t]{1,4}[^\s-]\S{0,200}[ \t]{1,4}[^\s-]\S{0,100}"
    r"[ \t]{1,4}[\"']?([^\s\"'\\]{1,200})"
    r"|\bconvertto-securestring[ \t]{1,4}(?:-string[ \t]{1,4})?\\{0,8}[\"']([^\"'\\\n]{1,200})"
)
_SHELLS = ("curl", "mysql", "sshpass", "redis-cli", "mongo", "login", "htpasswd", "securestring")
_PAIRS = re.compile(
    r"define\(\s{0,4}\\{0,8}[\"']([\w.-]{2,60})\\{0,8}[\"']\s{0,4},\s{0,4}\\{0,8}[\"']([^\"'\\\n]{1,400})"
    r"|\b(?:key|name)=\\{0,8}[\"']([\w.:-]{2,60})\\{0,8}[\"']\s{1,4}value=\\{0,8}[\"']([^\"'\\\n]{1,400})"
    r"|\|[ \t]{0,20}([\w.-]{2,40})[ \t]{0,20}\|[ \t]{0,20}"
    r"((?=[^|\s]{0,60}\d)(?=[^|\s]{0,60}[a-z])[^|\s()\\\[]{8,200})[ \t]{0,20}\|"
)
_WORDS = re.compile(
    r"(?:seed|recovery|mnemonic|secret)[ _-]?(?:phrase|words)?[\"']?\s{0,4}[:=]\s{0,4}"
    r"((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})\b"
)
_WALLET = re.compile(
    r"\b(?:wif|priv(?:ate)?[ _-]?key)[\"'\\]{0,4}[ \t]{0,4}[:= ][ \t]{0,4}[\"'\\]{0,4}"
    r"([5klc9][1-9a-hj-np-z]{50,51})(?![a-z0-9])"
)


def commanded(text: str, low: str) -> Iterator[Span]:
    if "-" in low:
        yield from _options(text, low)
    if "login" in low and "password" in low:
        yield from _given(text, low, _NETRC, 2)
    if "requirepass" in low:
        yield from _given(text, low, _PLAIN, 1)
    if "define(" in low or "value=" in low or "|" in low:
        yield from _paired(text, low)
    if "phrase" in low or "mnemonic" in low or "secret" in low:
        yield from _given(text, low, _WORDS, 1)
    if "wif" in low or "key" in low:
        yield from _given(text, low, _WALLET, 1)
    if any(shell in low for shell in _SHELLS):
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


def _paired(text: str, low: str) -> Iterator[Span]:
    for match in _PAIRS.finditer(low):
        start, end = match.span(match.lastindex or 0)
        if is_secret(text[start:end], strength(match[(match.lastindex or 0) - 1])):
            yield start, end
