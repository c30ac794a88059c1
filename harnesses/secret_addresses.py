"""Addresses with a password or a token in them, and what the headers of a request carry. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harnesses.secret_values import Span, is_placeholder, looks_random

_USER = re.compile(r"://([^\s/:@?#'\"<>`\\]{0,100}):(?!\d{1,5}[?#])([^\s/'\"<>`\\]{1,256})@")
_BROKEN = re.compile(
    r"://(?!localhost:)([^\s/:@.?#'\"<>`\\{}$]{1,100}):(?!\d{1,5}[/?#])((?:[^\s@'\"<>`\\{}$/]|/(?!/)){1,128})@(?=[\w.-]{1,200}[:/?\s\"']|[\w.-]{1,200}$)"
)
"""With a password that has a `/` in it, which should have been `%2F`."""
_ONLY = re.compile(r"://([A-Za-z0-9_.~%-]{16,256})@")
_SIGNED = re.compile(r"[?&;](?:sig|X-Amz-Signature|X-Goog-Signature|Signature)=([^\s&'\"<>\\]{16,512})")
_HOOK = re.compile(
    r"://(?:hooks\.slack\.com/(?:services|workflows)|(?:\w+\.)?discord(?:app)?\.com/api/webhooks)/([\w/-]{16,200})"
)


def in_addresses(text: str) -> Iterator[Span]:
    for match in _USER.finditer(text):
        if not is_placeholder(match[2]):
            yield match.span(2)
    for match in _BROKEN.finditer(text):
        if any(map(str.isdigit, match[2])) and not is_placeholder(match[2]):
            yield match.span(2)
    for match in _ONLY.finditer(text):
        if looks_random(match[1]):
            yield match.span(1)
    for pattern in (_SIGNED, _HOOK):
        for match in pattern.finditer(text):
            if not is_placeholder(match[1]):
                yield match.span(1)


_AUTHORIZATION = re.compile(
    r"authorization[\"'\\]{0,4}\s{0,4}[:=,]\s{0,4}[\"'\\`]{0,4}"
    r"(?:(bearer|basic|token|digest|negotiate|apikey|aws4-hmac-sha256|hawk)\s{1,4})?([^\s\"'`\\,<>]{4,})"
)
_REST = re.compile(r"[^\n\"'`\\]{0,2000}")
_BEARER = re.compile(r"bearer[ \t]{1,4}[\"'`]?([a-z0-9._~+/=-]{8,})")
_COOKIE = re.compile(r"cookie[\"'\\]{0,4}:[ \t]{0,4}[\"'\\]{0,4}([^\s=\"';,\\]{1,100}=[^\n\"'\\]{1,4096})")
_LONG_SCHEMES = ("digest", "aws4-hmac-sha256", "hawk")


def in_headers(text: str, low: str) -> Iterator[Span]:
    if "authorization" in low:
        for match in _AUTHORIZATION.finditer(low):
            start, end = match.span(2)
            value = text[start:end]
            if is_placeholder(value):
                continue
            if match[1] in _LONG_SCHEMES and (rest := _REST.match(low, end)):
                yield start, rest.end()
            elif match[1] or looks_random(value):
                yield start, end
    if "bearer" in low:
        for match in _BEARER.finditer(low):
            value = text[slice(*match.span(1))].rstrip(".")
            if any(map(str.isdigit, value)) and not is_placeholder(value):
                yield match.start(1), match.start(1) + len(value)
    if "cookie" in low:
        for match in _COOKIE.finditer(low):
            if not is_placeholder(text[slice(*match.span(1))].partition("=")[2]):
                yield match.span(1)
