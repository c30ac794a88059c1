"""The supervisor script does what it says, when it is run by itself."""

from __future__ import annotations

import os
import subprocess
import sys

from tests import ROOT


def test_the_boiler_is_held_inspected_let_go_and_stopped():
    command = [sys.executable, ROOT / "examples" / "supervise.py"]

    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stdout) == (0, "")
    held, inspected, stopped = ran.stderr.splitlines()
    assert held.startswith("boiler held at step ")
    assert inspected == "inspection completed"
    assert stopped.startswith("boiler stopped after step ")


def test_the_command_runs_the_script_and_can_go_on_with_it(tmp_path):
    main = "import sys; from orchestrator.cli import main; sys.exit(main())"
    script = ["run", ROOT / "examples" / "supervise.py", "--store", tmp_path / "run.db"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}

    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", main, *script], env=env, capture_output=True, text=True, timeout=60)

        assert ran.returncode == 3, ran.stderr  # stopped, and can be resumed
        assert "inspection completed" in ran.stderr
