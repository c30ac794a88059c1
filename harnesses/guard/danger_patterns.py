"""The table of patterns, read from `patterns.txt`: words for well-known dangers, kinds of paths, settings of repositories.

No command passes by the words for dangers, and none is blocked by them: they name what is blocked already, for the person who
is asked. They are looked for anywhere in its text, so that `sudo sh -c 'rm -rf src'` is told as what it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from harnesses.guard.command_model import NETWORK, RUN_CODE

_START = r"(?:^|[\s;&|({`'\"/\\])"
MAX_SEARCHED = 2_000
"""Characters of a command that are searched: the patterns go back and forth."""


@cache
def _table() -> tuple[tuple[str, str, str], ...]:
    """Return the rows: a kind, a pattern and a reason."""
    lines = Path(__file__).with_name("patterns.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return tuple((kind, pattern, why) for kind, pattern, why in rows)


@cache
def _kind(kind: str) -> re.Pattern[str]:
    return re.compile("|".join(pattern for one, pattern, _ in _table() if one == kind), re.IGNORECASE)


@cache
def _dangers() -> tuple[tuple[str, re.Pattern[str], str], ...]:
    named = (row for row in _table() if not row[0].startswith(("path-", "git-setting")))
    return tuple((kind, re.compile(f"{_START}(?:{pattern})", re.DOTALL), why) for kind, pattern, why in named)


def is_kind(kind: str, text: str) -> bool:
    """Return whether a path or a setting matches a pattern of a kind."""
    return _kind(kind).search(text) is not None


def dangers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the category and the reason of each well-known danger in a text; of `NETWORK`, `RUN_CODE` only if alone."""
    line = " ".join(text[:MAX_SEARCHED].split())
    found = [(category, why) for category, pattern, why in _dangers() if pattern.search(line)]
    certain = [one for one in found if one[0] not in (NETWORK, RUN_CODE)]
    yield from dict(certain or found[:1]).items()
