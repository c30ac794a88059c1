"""Messages of errors with what differs from one to the next folded, so that the same error is one. Pure."""

from __future__ import annotations

import re

from orchestrator.text.terminal_text import one_line

_LONGEST = 300
_FOLDS = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"), "<time>"),
    (re.compile(r"\bhttps?://\S+"), "<url>"),
    (re.compile(r"(?<![\w<])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[\w.@+~-]+(?:[/\\][\w.@+~-]+)*/?"), "<path>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<id>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{7,}\b"), "<id>"),
    (re.compile(r"(?<![\w<])[+-]?\d+(?:[.,:_]\d+)*(?:[eE][+-]?\d+)?"), "<n>"),
)
"""In this order: what is longer and means one thing comes before the numbers in it."""
_FRAME = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<name>.+)')


def folded(message: str) -> str:
    """Return a message with times, addresses, paths, ids and numbers replaced by what they are."""
    text = one_line(message, 2000)
    for pattern, word in _FOLDS:
        text = pattern.sub(word, text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def innermost(traceback: str) -> str:
    """Return where an error was raised, as `file:line in name`; nothing if the text is no traceback."""
    frames = [match for match in map(_FRAME.fullmatch, traceback.splitlines()) if match]
    if not frames:
        return ""
    return one_line("{file}:{line} in {name}".format(**frames[-1].groupdict()), _LONGEST)


def without_class(message: str, error: str) -> str:
    """Return a message without the class of its error before it."""
    return message.removeprefix(f"{error}: ")
