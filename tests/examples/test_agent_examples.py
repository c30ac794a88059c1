"""The examples of model agents: offline, from their recordings, and the same each time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import ROOT

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY_FILE", "OPENAI_API_KEY", "OPENAI_API_KEY_FILE")


def run_example(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in KEYS} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / name)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=True)


def test_a_recorded_model_mends_a_repository_with_its_tools(tmp_path: Path) -> None:
    done = run_example(tmp_path, "agent_coding.py")

    subjects = [line.strip() for line in done.stdout.splitlines()[1:] if line.strip()]
    assert subjects[-1] == "A beginning"
    assert [subject.partition(":")[0] for subject in subjects[:2]] == ["slug", "roman"]
    assert "I run its tests." in done.stderr
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", tmp_path / "agent_coding" / "repository.git", clone], check=True)
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert subprocess.run(tests, cwd=clone, env=env, check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_a_recorded_model_trades_within_limits(tmp_path: Path) -> None:
    first, again = run_example(tmp_path, "agent_trading.py"), run_example(tmp_path, "agent_trading.py")

    lines = first.stdout.splitlines()
    # It wanted 40 units each time; the limit of a position allows fewer.
    assert lines[0] == "2000-03-08: buy 24 AAPL: RSI 29.5: it has fallen fast"
    assert lines[-1] == "equity 10,492.00 USD after 25 steps"
    assert again.stdout.splitlines()[-1] == lines[-1]
