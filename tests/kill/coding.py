"""Kill the program that works ten features at every commit of the store, and around every git process.

python -m tests.kill.coding                 at each commit, before and after
python -m tests.kill.coding --git           before, during and after each git process
python -m tests.kill.coding --part 1/2      one half of them
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from .coding_child import FEATURES
from .coding_lives import killed_once, uninterrupted, wait_until_gone


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.coding", description=__doc__)
    parser.add_argument("--git", action="store_true", help="around git processes instead of at commits")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="every Mth moment, from the Nth")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    begin, kills = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted, commits, gits = uninterrupted(folder / "whole", len(FEATURES))
        print(f"uninterrupted: {commits} commits, {gits} git processes, tree {wanted.tree}", flush=True)
        numbers = range(part, (gits if options.git else commits) + 1, parts)
        for moment in ("before", "during", "after") if options.git else ("before", "after"):
            for number in numbers:
                case = folder / f"{moment}-{number}"
                if options.git:
                    world = killed_once(case, len(FEATURES), git=(moment, number))
                    wait_until_gone(case)
                else:
                    world = killed_once(case, len(FEATURES), f"--fault={moment}:{number}")
                if world != wanted:
                    shutil.copytree(case, Path(tempfile.mkdtemp(prefix="kill-coding-")), dirs_exist_ok=True)
                    sys.exit(f"killed {moment} {number}: expected\n{wanted}\nwas\n{world}")
                kills += 1
                shutil.rmtree(case)
                if kills % 10 == 0:
                    print(f"{moment} {number}: {kills} kills, {time.monotonic() - begin:.0f} s", flush=True)
    what = "git process" if options.git else "commit"
    print(f"killed at each {what}: {kills} kills; features and tree as uninterrupted ({time.monotonic() - begin:.0f} s)")


if __name__ == "__main__":
    main()
