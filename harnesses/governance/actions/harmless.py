"""The table of harmless commands, read from `harmless.txt`: its head says what stands where.

The law: what is not written there does not pass. Options are compared whole: `--outp` is not `--output`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from attrs import frozen

_LETTER = re.compile(r"(\S)([:@?]?)")


@frozen
class Row:
    """What of one program, or verb, passes."""

    letters: Mapping[str, str]
    """Each short option to `:`, `@`, `?` or nothing."""
    names: Mapping[str, str]
    """Each long option to `=`, `@`, `?` or nothing."""
    operands: str
    wide: bool
    """Whether words that are known only when it runs may turn into options: none of them could do harm."""
    changes: str
    """The kind of change that it makes; nothing if it only looks."""


@cache
def table() -> Mapping[tuple[str, ...], Row]:
    """Return the table by program and verb."""
    rows: dict[tuple[str, ...], Row] = {}
    for line in Path(__file__).with_name("harmless.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        called, letters, names, operands, *changes = (part.strip() for part in line.split("|"))
        row = Row(
            letters={found[1]: found[2] for found in _LETTER.finditer(letters)},
            names={one.rstrip("=@?"): one[len(one.rstrip("=@?")) :] for one in names.split()},
            operands=operands.removesuffix("+"),
            wide=operands.endswith("+"),
            changes="".join(changes),
        )
        rows |= {tuple(name.split()): row for name in called.split(",")}
    return rows


def row_of(words: tuple[str, ...]) -> tuple[Row, int] | None:
    """Return the row of the longest program and verb that words begin with, and how many words those are; None if none."""
    for length in (3, 2, 1):
        if (row := table().get(words[:length])) is not None and len(words) >= length:
            return row, length
    return None
