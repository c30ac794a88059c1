"""Kill a program that places, cancels and replaces orders and brackets, at each commit and each call of the venue.

python -m tests.kill.orders
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from .order_lives import MOMENTS, killed_once, uninterrupted


def main() -> None:
    begin, kills = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as name:
        wanted, counts = uninterrupted(Path(name) / "whole")
        for moment in MOMENTS:
            for number in range(1, counts[moment] + 1):
                kills += killed_once(Path(name) / f"{moment}-{number}", wanted, f"{moment}:{number}")
            print(f"at each of {counts[moment]} moments: {moment}", flush=True)
    print(f"{kills} kills; the venue has each of {wanted.accepted} orders once ({time.monotonic() - begin:.0f} s)")


if __name__ == "__main__":
    main()
