"""A run file with alerts, run for real: what needs a person is told, and the end of a killed program, too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests import ROOT
from tests.orchestrator.alerts.alert_sink import open_sink

_PATIENCE_S = 60
RUN = """
store = "run.db"
[[alert]]
when = [
    "needs_you", "stale > 100000", "SELECT harnes FROM steps",
    "SELECT harness, count(*) FROM steps GROUP BY harness HAVING count(*) > 3",
]
to = "{address}"
[ping]
url = "http://127.0.0.1:{port}/ping"
every_s = 1
"""
HARNESS = """
[[harness]]
name = "{name}"
harness = "tests.orchestrator.web.fleet_program:{kind}"
initial_state = 0
"""


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_needs_a_person_is_told_and_that_the_program_was_killed(tmp_path: Path) -> None:
    names = ("Healthy", "Blocked", "Halted", "Asking")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with open_sink(refuses=1) as sink:
        tables = "".join(HARNESS.format(name=name.lower(), kind=name) for name in names)
        (tmp_path / "run.toml").write_text(RUN.format(address=sink.address, port=sink.port) + tables)
        command = [sys.executable, "-m", "orchestrator"]
        with (tmp_path / "printed").open("wb") as printed:
            run = subprocess.Popen([*command, "run", "run.toml", "--quiet"], cwd=tmp_path, env=environment, stderr=printed)
        try:
            wait_for(
                lambda: all(word in sink.text for word in ("blocked is blocked", "halted is halted", "asking asks: Move"))
            )
            assert "healthy is" not in sink.text
            wait_for(lambda: sink.pings > 0)
        finally:
            run.send_signal(signal.SIGKILL)
            run.wait()
        wait_for(lambda: "healthy is interrupted: its program is gone; to go on" in sink.text)
        # The process beside the killed program ends when everything is told.
        wait_for(lambda: not (tmp_path / "run.db-alerts-wal").exists())
        listed = subprocess.run([*command, "alerts", "--json"], cwd=tmp_path, env=environment, capture_output=True, check=True)
    lines = [line for line in (tmp_path / "printed").read_text().splitlines() if "SELECT harnes FROM" in line]
    assert "run.toml: [[alert]] when = 'SELECT harnes FROM steps': sql: Referenced column \"harnes\" not found" in lines[0]
    assert len(lines) == 2, lines  # at the start, and when it is asked of the store
    told = [json.loads(line) for line in listed.stdout.splitlines()]
    assert {one["kind"] for one in told} >= {"blocked", "halted", "approval", "interrupted", "query"}
    assert all(target["at"] for one in told for target in one["told"])
    for kind in ("blocked", "approval"):
        (one,) = (one for one in told if one["kind"] == kind)
        assert len(one["told"]) == 1
    assert sink.text.count("blocked is blocked") == 1
