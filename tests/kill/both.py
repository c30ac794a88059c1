"""Kill `orchestrator run` at random moments while it trades at a hostile venue and mends repositories with Claude Code.

python -m tests.kill.both             for 30 minutes
python -m tests.kill.both 5 --seed 7  for 5; the seed is printed

The venue is a process of its own that goes wrong on purpose, and is killed too; of the agent only the model is faked.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time

from tests.harnesses.agents.command.real_programs import home_for_test

from .both_lives import kill_both


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kill.both", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("minutes", type=float, nargs="?", default=30.0)
    parser.add_argument("--seed", type=int, default=None, help="default is by chance; it is printed")
    parser.add_argument("--features", type=int, default=8, help="of each repository; when all are proven the next one is made")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    folder, begin = home_for_test(), time.monotonic()
    print(f"seed {seed}, in {folder}", flush=True)
    try:
        tally = kill_both(folder, seconds=60 * options.minutes, seed=seed, features=options.features, say=True)
    except AssertionError:
        print(f"kept for inspection: {folder}", file=sys.stderr)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{tally} ({time.monotonic() - begin:.0f} s, seed {seed})")


if __name__ == "__main__":
    main()
