"""Shows the part of a text that is most like what was looked for in it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from harnesses.redaction.redactor import MARK

_MOST_LINES = 20_000
"""Lines of a text that are compared."""
_MOST_TEXT = 2_000_000
"""Characters of it."""
_WIDTH = 300
"""Characters of a line that are compared."""
_MOST_COMPARED = 40
"""Lines that are compared in full, about 2 ms each at most."""
_MOST_SHOWN = 30
_LEAST_ALIKE = 0.5


def numbered(lines: Sequence[str], first: int, *, width: int = 2_000) -> str:
    """Return lines with their numbers, from `first`; the end of a long one is cut."""
    return "\n".join(
        f"{number:>6}\t{line if len(line) <= width else f'{line[:width]} […]'}" for number, line in enumerate(lines, first)
    )


def show_nearest(wanted: str, text: str) -> str:
    """Return a sentence with the lines of a text that are most like the wanted ones.

    Where the wanted ones have the mark of a removed secret, it says so first.

    Lines that share the most words and characters with the longest wanted one are compared in full: the work is bounded.
    """
    lines = text[:_MOST_TEXT].split("\n")[:_MOST_LINES]
    row = max((line.strip() for line in wanted.split("\n")), key=len, default="")[:_WIDTH]
    words, letters = set(row.split()), set(row)

    def shared(number: int) -> tuple[int, int]:
        line = lines[number][:_WIDTH]
        return len(words.intersection(line.split())), len(letters.intersection(line)) - abs(len(line) - len(row))

    best, place = _LEAST_ALIKE, None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(row)
    for number in sorted(sorted(range(len(lines)), key=shared, reverse=True)[:_MOST_COMPARED]):
        matcher.set_seq1(lines[number].strip()[:_WIDTH])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, place = ratio, number
            if ratio == 1:
                break
    mark = f"`{MARK}` stands for a secret that you are not shown: leave out the lines with it. " if MARK in wanted else ""
    if place is None:
        return f"{mark}Nothing in the file is like it; read the file again."
    before = next((at for at, line in enumerate(wanted.split("\n")) if line.strip()[:_WIDTH] == row), 0)
    first = max(0, place - before - 1)
    shown = lines[first : first + min(wanted.count("\n") + 3, _MOST_SHOWN)]
    return f"{mark}Most like it are these lines:\n{numbered(shown, first + 1, width=500)}"
