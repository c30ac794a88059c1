"""Finds the secrets in a text. Pure.

Each rule yields spans of the text; `cut` merges overlapping ones. Table columns and manifest entries are recognised by a
header line far above them: each line is read once, and redacted only if it has as many columns as the header.

Invariant: the time is linear in the length of the text, whatever its content. A text is searched in overlapping windows of
bounded size, and the overlap is longer than any secret. No rule looks beyond its window, except that multi-line private keys
are searched in the whole text by their first and last lines. Other threads may run between two windows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from harnesses.redaction.assignments import find_assigned
from harnesses.redaction.known_secrets import find_known_secrets
from harnesses.redaction.private_keys import private_keys
from harnesses.redaction.secret_rules import Rule, rules
from harnesses.redaction.secret_values import (
    MARK,
    Span,
    Strength,
    is_placeholder,
    is_secret,
    is_varied,
    looks_random,
    strength,
)

_LINE = re.compile(r"(?:\n|\\n)?((?:(?!\\n)[^\n]){1,4096})")
_SIGNS = (",", ";", "\t", "\\t", "|")
_ENTRY = re.compile(r"(?:[ \t]{0,40})[\w.-]{1,100}:[ \t]{1,8}[\"']?([^\s\"'|>{}\[\]][^\n\"'\\]{2,4000})")
_RULE = re.compile(r"[-+=|:\s]{3,4096}")
"""A line between the header and the rows."""
_QUOTED = re.compile(r"""(?:^|": ")(?:\\{0,8}"[\w .-]{1,60}\\{0,8}"(?:[,;\t]|\\t|\r?$)){2,100}$""")
_NAME = re.compile(r"[\w .-]{1,60}")


def in_columns(text: str) -> Iterator[Span]:
    """Yield the fields in secret columns of tables, whose header line names the columns."""
    if "\n" not in text and "\\n" not in text:
        return
    columns: list[tuple[int, Strength]] = []
    sign, width = "", 0
    for match in _LINE.finditer(text):
        line = match[1]
        if columns and _RULE.fullmatch(line) is not None:
            continue
        cells = line.split(sign) if columns else []
        if columns and len(cells) == width:
            yield from _cells(cells, sign, columns, match.start(1))
            continue
        sign, width, columns = _header(line)


def _cells(cells: list[str], sign: str, columns: list[tuple[int, Strength]], place: int) -> Iterator[Span]:
    starts = [place]
    for cell in cells:
        starts.append(starts[-1] + len(cell) + len(sign))
    for column, named in columns:
        cell = cells[column]
        value = cell.strip(" \t\"'\\\r")
        if value and " " not in value and is_secret(value, named):
            begin = starts[column] + cell.index(value)
            yield begin, begin + len(value)


def _header(line: str) -> tuple[str, int, list[tuple[int, Strength]]]:
    """Return the column separator of a header line, the number of columns, and those that hold secrets."""
    is_quoted = '"' in line and _QUOTED.search(line) is not None
    for sign in _SIGNS:
        cells = line.split(sign)
        # The header may follow the quote that begins the text.
        first = (cells[0].rstrip("\"'\\") if is_quoted else cells[0]).rpartition('"')[2]
        names = [cell.strip(" \t\"'\\\r") for cell in (first, *cells[1:])]
        if len(cells) > 1 and all(_NAME.fullmatch(name) is not None for name in names if name or sign != "|"):
            named = [(place, strength(name)) for place, name in enumerate(names)]
            # Quoted names may also be a list in source code.
            columns = [(place, Strength.MIXED if is_quoted else said) for place, said in named if said >= Strength.STRONG]
            return sign, len(cells), columns
    return "", 0, []


def in_manifests(text: str) -> Iterator[Span]:
    """Yield the entries of Kubernetes manifests of kind Secret, in YAML."""
    if "Secret" not in text or "ind:" not in text:
        return
    is_secret_kind = False
    block = ""
    waiting: list[Span] = []
    for match in _LINE.finditer(text):
        line = match[1]
        if line.startswith("---"):
            is_secret_kind, block, waiting = False, "", []
        elif not line[:1].isspace() and ":" in line:
            name, _, value = line.rpartition('"')[2].partition(":") if '": "' in line else line.partition(":")
            block = name.strip("\"' ") if not value.strip() else ""
            if name.strip("\"' ") == "kind":
                is_secret_kind = value.strip(" \"'\r\\") == "Secret"
        elif block in ("data", "stringData") and (entry := _ENTRY.match(line)):
            waiting.append((match.start(1) + entry.start(1), match.start(1) + entry.end(1)))
        if is_secret_kind and waiting:
            yield from waiting
            waiting = []


WINDOW = 16_384
"""Characters searched at once."""
OVERLAP = 4_096
"""Characters shared by two adjacent windows; only private keys are longer."""


_UNSEEN = re.compile(r"(?:[\x1b\x9b]|\\{1,4}(?:u001b|x1b|033|e))\[[0-9;:?]{0,20}[A-Za-z]")
"""Terminal escape sequences, raw or escaped."""


def cut(text: str, found: Iterable[Span]) -> str:
    """Return `text` with the found spans replaced by the mark."""
    parts: list[str] = []
    done = 0
    for start, end in merge(found):
        parts += (text[done:start], MARK)
        done = end
    return "".join((*parts, text[done:])) if parts else text


def merge(found: Iterable[Span]) -> Iterator[Span]:
    """Yield the spans in order, overlapping ones as one."""
    begin = end = -1
    for start, stop in sorted(found):
        if start > end:
            if end > begin:
                yield begin, end
            begin, end = start, stop
        else:
            end = max(end, stop)
    if end > begin:
        yield begin, end


def spans(text: str) -> list[Span]:
    """Return the spans of secrets; they may overlap."""
    found = [*_spans(text), *find_known_secrets(text)]
    if _UNSEEN.search(text) is not None:
        plain, places = _without_escapes(text)
        found += ((places(start), places(end - 1) + 1) for start, end in _spans(plain))
    return found


def _without_escapes(text: str) -> tuple[str, Callable[[int], int]]:
    """Return a text without terminal escapes, and a function that maps its positions back to the original text."""
    parts: list[str] = []
    starts: list[int] = []
    hidden: list[int] = []
    done = size = 0
    for begin, end in (*(match.span() for match in _UNSEEN.finditer(text)), (len(text), len(text))):
        parts.append(text[done:begin])
        starts.append(size)
        hidden.append(done - size)
        size += begin - done
        done = end
    return "".join(parts), lambda place: place + hidden[bisect_right(starts, place) - 1]


def _spans(text: str) -> list[Span]:
    found = [*private_keys(text), *in_columns(text), *in_manifests(text)]
    for begin, window in windows(text):
        found += ((begin + start, begin + end) for start, end in _in_window(window))
    return found


def windows(text: str) -> Iterator[tuple[int, str]]:
    """Yield the windows of a text, each with its start position."""
    for begin in range(0, max(1, len(text) - OVERLAP), WINDOW - OVERLAP):
        yield begin, text[begin : begin + WINDOW]


def _in_window(text: str) -> Iterator[Span]:
    low = _lower(text)
    words = rules().index.found_in(low)
    yield from _find_issued(text, words)
    yield from _find_shaped(text, low, words)
    yield from find_assigned(text, low, words)


def _lower(text: str) -> str:
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(small if len(small := char.lower()) == 1 else char for char in text)


def _find_issued(text: str, words: Sequence[str]) -> Iterator[Span]:
    for rule in rules().issued.worth_trying(words):
        for match in rule.finder.finditer(text):
            start, end = match.span(match.lastindex or 0)
            if rule.is_varied(text[start:end]) and (rule.id in rules().anywhere or not _is_joined(text, start, rule.id)):
                yield start, end


def _find_shaped(text: str, low: str, words: Sequence[str]) -> Iterator[Span]:
    for rule in rules().shapes.worth_trying(words):
        for match in rule.finder.finditer(low if rule.low else text):
            start, end = match.span(match.lastindex or 0)
            if _is_meant(rule, match, text[start:end]):
                yield start, end


def _is_meant(rule: Rule, match: re.Match[str], value: str) -> bool:
    """Return whether a match of a pattern is a secret by the other conditions of its rule."""
    if rule.judge == "named":
        return is_secret(value, strength(match[(match.lastindex or 0) - 1]))
    if rule.judge == "varied":
        return is_varied(value) and not is_placeholder(value)
    if rule.judge == "random":
        return looks_random(value) and not is_placeholder(value)
    if rule.judge == "pair":
        return not is_placeholder(value.partition("=")[2])
    return not is_placeholder(value) and (rule.judge != "digit" or any(map(str.isdigit, value)))


_ESCAPE_END = re.compile(
    r"""(?:(?:[\x1b\x9b]|\\e|\\0?33|\\x1b|u001b|\^\[)\[[0-9;:?]{0,20}|\[[0-9][0-9;:]{0,19})[A-Za-z]  # of a terminal
      | \x1b[()][A-Z0-9] | %[0-9A-Fa-f]{2} | =[0-9A-F]{2} | \\u[0-9A-Fa-f]{4} | \\x[0-9A-Fa-f]{2}
      | \\[abefnrtv] | \\[0-7]{1,3}
    """,
    re.VERBOSE,
)
_LONGEST_ESCAPE = 26


def _is_joined(text: str, start: int, id: str) -> bool:
    """Return whether `start` is in the middle of a word. The end of an escape before it, `\\n` or `%3D`, does not count."""
    before = text[start - 1 : start]
    if before in ("_", "-"):
        return id in rules().often_words
    if not (before.isascii() and before.isalnum()):
        return False
    place = max(0, start - _LONGEST_ESCAPE)
    return not any(_ESCAPE_END.fullmatch(text, begin, start) for begin in range(place, start - 1))
