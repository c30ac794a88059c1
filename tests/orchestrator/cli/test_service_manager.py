"""systemd's protocol, spoken to a real socket by a real run: ready, alive as long as the loop turns, and stopping."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.run.service_manager import watchdog_s
from tests import ROOT

RUN = """
store = "run.db"
[[harness]]
name = "healthy"
harness = "tests.orchestrator.web.fleet_program:Healthy"
initial_state = 0
"""


@pytest.mark.parametrize("is_abstract", [False, True], ids=["path", "abstract"])
def test_a_run_says_that_it_is_ready_alive_and_stopping(tmp_path: Path, is_abstract: bool) -> None:
    (tmp_path / "run.toml").write_text(RUN)
    name = f"@orchestrator-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name[1:]}" if is_abstract else name)
        manager.settimeout(60)
        environment = {**os.environ, "NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000", "PYTHONPATH": str(ROOT)}
        words = [sys.executable, "-m", "orchestrator", "run", "run.toml", "--quiet"]
        run = subprocess.Popen(words, cwd=tmp_path, env=environment)
        try:
            heard = {manager.recv(100) for _ in range(4)}
            assert heard == {b"READY=1", b"WATCHDOG=1"}
            run.send_signal(signal.SIGTERM)
            while (word := manager.recv(100)) != b"STOPPING=1":
                assert word == b"WATCHDOG=1"
        finally:
            run.kill()
            run.wait()


def test_the_watchdog_is_heeded_by_the_process_that_is_meant() -> None:
    assert watchdog_s({"WATCHDOG_USEC": "30000000"}) == 30
    assert watchdog_s({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}) == 30
    assert watchdog_s({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}) is None
    assert watchdog_s({}) is None
