"""Kill a program whose harnesses start harnesses: `python -m tests.kill.children --kills 200 --seed 7`."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from .brood_lives import Brood, kill_at_random


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.children", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="default is by chance; it is printed")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    chance, begin = random.Random(seed), time.monotonic()
    print(f"seed {seed}", flush=True)
    kills = stores = unstarted = cut_off = 0
    while kills < options.kills:
        with tempfile.TemporaryDirectory() as folder:
            brood = Brood(Path(folder) / "run.db", children=6, steps=chance.randint(6, 20))
            kill_at_random(brood, chance, kills=options.kills - kills)
        kills, stores = kills + brood.kills, stores + 1
        unstarted, cut_off = unstarted + brood.unstarted, cut_off + brood.cut_off
        print(f"{kills} kills, {stores} stores", flush=True)
    print(
        f"{kills} kills, {stores} stores: none missing, none twice; {unstarted} times a child was recorded and not yet begun, "
        f"{cut_off} times one was cut off ({time.monotonic() - begin:.0f} s, seed {seed})"
    )


if __name__ == "__main__":
    main()
