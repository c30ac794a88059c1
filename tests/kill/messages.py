"""Kill a program whose harnesses write to each other: `python -m tests.kill.messages --kills 200`, or `--each-call`."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from .message_lives import die_at_each_call, kill_at_random


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.messages", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="default is by chance; it is printed")
    parser.add_argument("--each-call", action="store_true", help="instead: kill at each commit, sync and write in turn")
    options = parser.parse_args()
    if options.each_call:
        with tempfile.TemporaryDirectory() as folder:
            for calls, deaths in die_at_each_call(Path(folder)):
                print(f"{calls}: {deaths} deaths; no message, answer or child lost or doubled", flush=True)
        return
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    chance, begin = random.Random(seed), time.monotonic()
    print(f"seed {seed}", flush=True)
    kills = stores = 0
    while kills < options.kills:
        with tempfile.TemporaryDirectory() as folder:
            kills += kill_at_random(Path(folder) / "run.db", chance, kills=min(10, options.kills - kills), steps=60)
        stores += 1
    print(
        f"{kills} kills over {stores} stores; no message, answer or child lost or doubled ({time.monotonic() - begin:.0f} s)"
    )


if __name__ == "__main__":
    main()
