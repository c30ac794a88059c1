"""How much a piece of evidence is worth, by who has seen it. Pure."""

from __future__ import annotations

from enum import IntEnum


class Grade(IntEnum):
    """Who stands for it. Higher ones count where lower ones are asked for."""

    REPORTED = 1
    """Said by the agent whose work it is about."""
    OBSERVED = 2
    """Seen by us: a file that we have read, an exit code that we have been given."""
    RERUN = 3
    """Done again by us, independently of who did the work."""

    @property
    def word(self) -> str:
        """As it is written."""
        return self.name.lower()


def grade_of(value: object) -> Grade | None:
    """Return the grade that a word, or a number, is; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Grade(value) if value in tuple(Grade) else None
    return next((grade for grade in Grade if grade.word == value), None)
