"""Where in a text the secrets are. Pure.

Each rule gives places in the text; `cut` puts them together, so that secrets which overlap are one. Columns of a table and
entries of a manifest are known by a line far above them: each line is read once, and cut only if the table has as many columns
there as its first line.

The law: the time is that of reading the text once, whatever is in it. A text is searched in windows of bounded size that
overlap by more than a secret is long, and no rule looks out of its window; only private keys, which go over many lines, are
looked for in the whole, by what they begin and end with. Between two windows other threads get their turn.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from harnesses.redaction.assignments import find_assigned
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
"""A line between the names and the rows."""
_QUOTED = re.compile(r"""(?:^|": ")(?:\\{0,8}"[\w .-]{1,60}\\{0,8}"(?:[,;\t]|\\t|\r?$)){2,100}$""")
_NAME = re.compile(r"[\w .-]{1,60}")


def in_columns(text: str) -> Iterator[Span]:
    """Return the fields of tables with signs between the columns, whose first line says that they are secret."""
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
    """Return the sign between the columns of a line, how many there are, and which of them hold secrets."""
    is_quoted = '"' in line and _QUOTED.search(line) is not None
    for sign in _SIGNS:
        cells = line.split(sign)
        # The first line may stand behind the quote that begins the text.
        first = (cells[0].rstrip("\"'\\") if is_quoted else cells[0]).rpartition('"')[2]
        names = [cell.strip(" \t\"'\\\r") for cell in (first, *cells[1:])]
        if len(cells) > 1 and all(_NAME.fullmatch(name) is not None for name in names if name or sign != "|"):
            named = [(place, strength(name)) for place, name in enumerate(names)]
            # Names between quotes may also be those of a list in a program.
            columns = [(place, Strength.MIXED if is_quoted else said) for place, said in named if said >= Strength.STRONG]
            return sign, len(cells), columns
    return "", 0, []


def in_manifests(text: str) -> Iterator[Span]:
    """Return the entries of manifests of Kubernetes of the kind Secret, in YAML."""
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
"""Characters that are searched at once."""
OVERLAP = 4_096
"""Characters that two windows have in common; nothing but a key is longer."""


_UNSEEN = re.compile(r"(?:[\x1b\x9b]|\\{1,4}(?:u001b|x1b|033|e))\[[0-9;:?]{0,20}[A-Za-z]")
"""Escapes of a terminal, plain or written out."""


def cut(text: str, found: Iterable[Span]) -> str:
    """Return `text` with the mark in place of what was found."""
    parts: list[str] = []
    done = 0
    for start, end in _merge(found):
        parts += (text[done:start], MARK)
        done = end
    return "".join((*parts, text[done:])) if parts else text


def _merge(found: Iterable[Span]) -> Iterator[Span]:
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
    """Return where the secrets are; the places may overlap."""
    found = _spans(text)
    if _UNSEEN.search(text) is not None:
        plain, places = _without_escapes(text)
        found += ((places(start), places(end - 1) + 1) for start, end in _spans(plain))
    return found


def _without_escapes(text: str) -> tuple[str, Callable[[int], int]]:
    """Return a text as a terminal shows it, and what says where a place of it is in the text."""
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
    """Return the windows of a text, each with where it begins."""
    for begin in range(0, max(1, len(text) - OVERLAP), WINDOW - OVERLAP):
        yield begin, text[begin : begin + WINDOW]


def _in_window(text: str) -> Iterator[Span]:
    low = _lower(text)
    yield from _find_issued(text, low)
    yield from _find_shaped(text, low)
    yield from find_assigned(text, low)


def _lower(text: str) -> str:
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(small if len(small := char.lower()) == 1 else char for char in text)


def _find_issued(text: str, low: str) -> Iterator[Span]:
    for rule in rules().issued.worth_trying(low):
        for match in rule.finder.finditer(text):
            start, end = match.span(match.lastindex or 0)
            if rule.is_varied(text[start:end]) and (rule.id in rules().anywhere or not _is_joined(text, start, rule.id)):
                yield start, end


def _find_shaped(text: str, low: str) -> Iterator[Span]:
    for rule in rules().shapes.worth_trying(low):
        for match in rule.finder.finditer(low if rule.low else text):
            start, end = match.span(match.lastindex or 0)
            if _is_meant(rule, match, text[start:end]):
                yield start, end


def _is_meant(rule: Rule, match: re.Match[str], value: str) -> bool:
    """Return whether what a pattern has found is secret, as its rule asks."""
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
    """Return whether what begins here is the middle of a word. The end of an escape before it, `\\n` or `%3D`, is none."""
    before = text[start - 1 : start]
    if before in ("_", "-"):
        return id in rules().often_words
    if not (before.isascii() and before.isalnum()):
        return False
    place = max(0, start - _LONGEST_ESCAPE)
    return not any(_ESCAPE_END.fullmatch(text, begin, start) for begin in range(place, start - 1))
