"""Kill a program whose effects are denied, reopened and approved, and those commands: `python -m tests.kill.approvals`."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from .approved_lives import Office, kill_at_random


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.approvals", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="default is by chance; it is printed")
    parser.add_argument("--steps", type=int, default=4, help="how many steps the harness makes before the next store")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    chance, begin = random.Random(seed), time.monotonic()
    print(f"seed {seed}", flush=True)
    kills = commands = stores = 0
    while kills + commands < options.kills:
        with tempfile.TemporaryDirectory() as folder:
            office = Office(Path(folder), steps=options.steps)
            kill_at_random(office, chance, kills=options.kills - kills - commands)
        kills, commands, stores = kills + office.kills, commands + office.commands_killed, stores + 1
    print(
        f"{kills} kills of the program and {commands} of commands over {stores} stores; each act was denied, reopened "
        f"and approved, and done once ({time.monotonic() - begin:.0f} s, seed {seed})"
    )


if __name__ == "__main__":
    main()
