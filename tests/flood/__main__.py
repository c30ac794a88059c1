"""Send a million messages: `python -m tests.flood --count 1000000 --senders 200 --kills 20`."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from .lives import flood


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.flood", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--senders", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        path = Path(folder) / "run.db"
        every_s = max(1.0, options.count / 3_000 / (options.kills + 1))
        tally = flood(path, count=options.count, senders=options.senders, kills=options.kills, every_s=every_s)
    print(f"{tally} ({time.monotonic() - begin:.0f} s)")
    assert tally.messages == tally.sent == tally.delivered == options.count // options.senders * options.senders
    assert tally.in_order


main()
