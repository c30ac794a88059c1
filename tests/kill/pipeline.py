"""Kill the program that works a small pipeline before and after every commit of the store.

python -m tests.kill.pipeline
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from .pipeline_lives import killed_once, uninterrupted


def main() -> None:
    begin, kills = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted, commits = uninterrupted(folder / "whole")
        print(f"uninterrupted: {commits} commits", flush=True)
        for moment in ("before", "after"):
            for number in range(1, commits + 1):
                case = folder / f"{moment}-{number}"
                world = killed_once(case, f"--fault={moment}:{number}")
                if world != wanted:
                    shutil.copytree(case, Path(tempfile.mkdtemp(prefix="kill-pipeline-")), dirs_exist_ok=True)
                    sys.exit(f"killed {moment} {number}: expected\n{wanted}\nwas\n{world}")
                kills += 1
                shutil.rmtree(case)
    print(f"killed at each commit: {kills} kills; all as uninterrupted ({time.monotonic() - begin:.0f} s)")


if __name__ == "__main__":
    main()
