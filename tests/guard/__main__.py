"""Runs what the guard lets pass: `python -m tests.guard --count N [--seed S]`.

Commands are made from dangerous and everyday ones, cut and joined at random; those that pass run in a sandbox with a workspace
full of traps. Nothing outside the workspace may change, no secret may be shown, and no program may run but those of the
machine that the command names.
"""

from __future__ import annotations

import argparse
import sys

from tests.guard.proof import prove


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.guard")
    parser.add_argument("--count", type=int, default=20_000, help="commands that are made")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    figures = prove(options.count, options.seed, traced=True)
    print(f"{figures.made} commands made, {figures.passed} passed and were run, {len(figures.harmed)} did harm")
    for text, harm in figures.harmed:
        print(f"{harm}: {text!r}")
    return 1 if figures.harmed else 0


if __name__ == "__main__":
    sys.exit(main())
