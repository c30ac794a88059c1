"""The supervisor script does what it says, when it is run by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_boiler_is_held_inspected_let_go_and_stopped():
    command = [sys.executable, ROOT / "examples" / "supervise.py"]

    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stdout) == (0, "")
    held, inspected, stopped = ran.stderr.splitlines()
    assert held.startswith("boiler held at step ")
    assert inspected == "inspection completed"
    assert stopped.startswith("boiler stopped after step ")
