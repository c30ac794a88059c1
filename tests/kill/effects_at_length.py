"""Kill a program in mid-effect thousands of times: `python -m tests.kill.effects_at_length --kills 2000 --seed 7`."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .effects import WAYS
from .effects_lives import Case, die_at_each_call, kill_at_random


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.effects_at_length", description=__doc__)
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=None, help="default is by chance; it is printed")
    parser.add_argument("--steps", type=int, default=300, help="how many steps each harness makes before the next store")
    parser.add_argument("--way", choices=WAYS, default="once", help="`retry` and `remember` double what `once` does not")
    parser.add_argument("--each-call", action="store_true", help="instead: kill at each commit, act, write and sync in turn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.each_call:
            for calls, deaths in die_at_each_call(Path(folder), say=True).items():
                print(f"{calls}: killed at each of {deaths}; nothing done twice, nothing confirmed that was not done")
        else:
            at_random(Path(folder), options)


def at_random(folder: Path, options: argparse.Namespace) -> None:
    """Kill programs over one store after the other, and print what it came to."""
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    chance, tally, begin = random.Random(seed), Counter[str](), time.monotonic()
    while tally["kills"] < options.kills:
        case = Case(folder / f"{tally['stores']}", options.steps, options.way)
        case.folder.mkdir()
        kill_at_random(case, chance, kills=min(20, options.kills - tally["kills"]))
        for name in ("kills", "lives", "acts", "cut_off", "happened", "halts", "doubled"):
            value = getattr(case, name)
            tally[name] += value() if callable(value) else value
        tally["stores"] += 1
        print(_said(tally), file=sys.stderr, flush=True)
    print(f"{options.way}: {_said(tally)} ({time.monotonic() - begin:.0f} s, seed {seed})")


def _said(tally: Counter[str]) -> str:
    return (
        f"{tally['kills']} kills in {tally['lives']} lives over {tally['stores']} stores: {tally['acts']} acts, "
        f"{tally['doubled']} of them a second time; {tally['cut_off']} effects cut off, of which {tally['happened']} had "
        f"happened; {tally['halts']} settled by a person"
    )


main()
