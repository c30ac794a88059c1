"""Kill the program thousands of times: `python -m tests.kill --kills 2000 --seed 7`, or `--each-call`."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from .calls import die_at_each_call
from .lives import kill_at_random
from .versions_lives import kill_between_versions


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=None, help="default is by chance; it is printed")
    parser.add_argument("--steps", type=int, default=1500, help="how many steps each harness makes before the next store")
    parser.add_argument("--beside", action="store_true", help="meanwhile verify, prune, fork, export, ask and order")
    parser.add_argument("--group", action="store_true", help="the steps are stored in groups, after the harness has gone on")
    parser.add_argument("--each-call", action="store_true", help="instead: kill at each write and each sync in turn")
    parser.add_argument("--versions", action="store_true", help="instead: the class of the state changes between the lives")
    options = parser.parse_args()
    if options.each_call:
        with tempfile.TemporaryDirectory() as folder:
            for calls, deaths in die_at_each_call(Path(folder)).items():
                print(f"{calls}: killed at each of {deaths} calls; no acknowledged step missing, repeated or changed")
        return
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    begin = time.monotonic()
    print(f"seed {seed}", flush=True)
    if options.versions:
        with tempfile.TemporaryDirectory() as folder:
            end = kill_between_versions(Path(folder), kills=options.kills, seed=seed)
        print(f"{end.kills} kills, {end.migrations} migrations, each on record once ({time.monotonic() - begin:.0f} s)")
        return
    with tempfile.TemporaryDirectory() as folder:
        tally = kill_at_random(
            Path(folder),
            kills=options.kills,
            seed=seed,
            steps=options.steps,
            say=True,
            beside=options.beside,
            group=options.group,
        )
    print(f"{tally} ({time.monotonic() - begin:.0f} s, seed {seed})")


main()
