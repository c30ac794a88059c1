"""Secrets known by a line far above them: columns of a table, entries of a manifest. Pure.

The law: each line is read once, and cut only if the table has as many columns there as its first line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harnesses.redaction.secret_names import Strength, strength
from harnesses.redaction.secret_values import Span, is_secret

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
