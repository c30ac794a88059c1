"""The smallest example runs, and is as small as it says."""

from __future__ import annotations

import os
import subprocess
import sys

from tests import ROOT


def test_counting_prints_its_state_and_steps():
    command = [sys.executable, ROOT / "examples" / "counting.py"]

    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)

    ending, state, *steps = ran.stdout.splitlines()
    assert (ending, state, len(steps)) == ("finished", "Count(total=6)", 3)
    assert "step_number=3" in steps[2]


def test_a_working_harness_takes_fewer_than_25_lines():
    assert len((ROOT / "examples" / "counting.py").read_text().splitlines()) < 25
