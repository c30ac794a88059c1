"""Spend one pool with many harnesses that crash and are killed: `python -m tests.budget --harnesses 1000`."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from .proof import Trial


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.budget", description=__doc__)
    parser.add_argument("--harnesses", type=int, default=1000)
    parser.add_argument("--limit", type=int, default=None, help="tokens in the pool; default is 10,000 for each harness")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--programs", type=int, default=1, help="over how many programs at the same time they are spread")
    parser.add_argument("--seed", type=int, default=None, help="default is by chance; it is printed")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    limit = 10_000 * options.harnesses if options.limit is None else options.limit
    print(f"seed {seed}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(
            Path(folder),
            harnesses=options.harnesses,
            limit=limit,
            kills=options.kills,
            programs=options.programs,
            seed=seed,
            say=True,
        )
        account = trial.run()
    print(f"{account}\n({time.monotonic() - begin:.0f} s, seed {seed})")
    if account.overshoot:
        raise SystemExit(1)


main()
