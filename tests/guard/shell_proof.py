"""Compares with bash what is read in scripts: `python -m tests.guard.shell_proof [SCRIPTS] [SEED]`.

No mark that bash runs may be missing among the commands that were read, unless the script was found unreadable.
"""

from __future__ import annotations

import random
import sys

from attrs import frozen

from tests.guard.shell_scripts import Maker, read_by_us, run_by_bash


@frozen
class Figures:
    """What came of it."""

    scripts: int
    unread: int
    """Scripts that were found unreadable, or whose words are known only when they run."""
    ran: int
    """Marks that bash has run in the others."""
    missed: tuple[str, ...]
    """Scripts of which bash has run more than was read."""


def prove(scripts: int, seed: int) -> Figures:
    """Have bash run scripts, and return what was missed."""
    maker = Maker(random.Random(seed))
    unread = ran = 0
    missed: list[str] = []
    for _ in range(scripts):
        text = maker.spoilt(maker.script())[:1_500]
        read = read_by_us(text)
        if read is None:
            unread += 1
        elif "mark" in text:
            run = run_by_bash(text)
            ran += len(run)
            if run - read:
                missed.append(text)
    return Figures(scripts, unread, ran, tuple(missed))


def main(scripts: int = 5_000, seed: int = 1) -> int:
    figures = prove(scripts, seed)
    told = f"{figures.unread} not read, {figures.ran} commands run by bash, {len(figures.missed)} missed"
    print(f"{figures.scripts} scripts, {told}")
    for text in figures.missed:
        print(repr(text))
    return 1 if figures.missed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
