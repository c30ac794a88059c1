"""Words for well-known dangers, from `dangers.txt`: what a command that does not pass is called when a person is asked.

Nothing passes by that table, and nothing is blocked by it: it names what is blocked already. Its patterns are looked for
anywhere in the text of a command, so that `sudo sh -c 'rm -rf src'` is told as what it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from harnesses.governance.actions.nouns import NETWORK, RUN_CODE

_START = r"(?:^|[\s;&|({`'\"/\\])"
MAX_SEARCHED = 2_000
"""Characters of a command that are searched: the patterns go back and forth."""


@cache
def _table() -> tuple[tuple[str, re.Pattern[str], str], ...]:
    lines = Path(__file__).with_name("dangers.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return tuple((category, re.compile(_START + f"(?:{pattern})", re.DOTALL), why) for category, pattern, why in rows)


def dangers(text: str) -> Iterator[tuple[str, str]]:
    """Yield the category and the reason of each well-known danger in a text; of `NETWORK`, `RUN_CODE` only if alone."""
    line = " ".join(text[:MAX_SEARCHED].split())
    found = [(category, why) for category, pattern, why in _table() if pattern.search(line)]
    certain = [one for one in found if one[0] not in (NETWORK, RUN_CODE)]
    yield from dict(certain or found[:1]).items()
