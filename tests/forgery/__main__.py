"""Forge at random, judge, and say what was let pass: `python -m tests.forgery`."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from harnesses.governance import ValidatorStatus
from tests.forgery.forging import FORGERIES
from tests.forgery.work import honest, judged


def trial(folder: Path, seed: int) -> tuple[str, bool, bool]:
    """Return the name of the forgery that a seed draws, whether the honest work passes, and whether the forged does."""
    chance = random.Random(seed)
    forge = FORGERIES[seed % len(FORGERIES)]
    work = honest(folder, chance)
    before = judged(work)
    forge(work, chance)
    after = judged(work)
    return forge.__name__, _passes(before), _passes(after)


def _passes(verdict: object) -> bool:
    return getattr(verdict, "status", None) is ValidatorStatus.PASS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.forgery", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    options = parser.parse_args()
    began = time.monotonic()
    tried: Counter[str] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.count):
            name, before, after = trial(Path(folder) / "project", seed)
            tried[name] += 1
            if not before or after:
                wrong += 1
                print(f"seed {seed}: {name}: {'let pass' if after else 'honest work refused'}", flush=True)
    for name, count in sorted(tried.items()):
        print(f"{count:6}  {name.replace('_', ' ')}")
    print(f"{options.count} forgeries of {len(tried)} kinds, {wrong} judged wrong; {time.monotonic() - began:.0f} s")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
