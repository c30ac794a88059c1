"""The supervisor script does what it says, when it is run by itself."""

from __future__ import annotations

from tests import ROOT
from tests.zygote import run_python


def test_the_boiler_is_paused_inspected_resumed_and_stopped():
    ran = run_python(ROOT / "examples" / "supervise.py", capture_output=True, text=True, timeout=60)

    assert (ran.returncode, ran.stdout) == (0, "")
    paused, inspected, stopped = ran.stderr.splitlines()
    assert paused.startswith("boiler paused at step ")
    assert inspected == "inspection completed"
    assert stopped.startswith("boiler stopped after step ")


def test_the_command_runs_the_script_and_can_go_on_with_it(tmp_path):
    command = ["-m", "orchestrator", "run", ROOT / "examples" / "supervise.py", "--store", tmp_path / "run.db"]

    for _ in range(2):
        ran = run_python(*command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

        assert ran.returncode == 3, ran.stderr  # stopped, and can be resumed
        assert "inspection completed" in ran.stderr
