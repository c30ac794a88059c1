"""A repository whose tests fail ends with all of them passing on main, though the program is killed twice on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import ROOT


def run_example(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "coding_repository.py"), "--directory", str(folder / "place")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=900, check=True)


def every_test_passes(folder: Path) -> bool:
    subprocess.run(["git", "clone", "--quiet", folder / "place" / "repository.git", folder / "clone"], check=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder / "clone", env=env, check=False).returncode == 0


def test_it_is_killed_twice_and_ends_with_every_test_passing_on_main(tmp_path: Path) -> None:
    first = run_example(tmp_path)
    again = run_example(tmp_path)

    assert first.stderr.splitlines() == ["ended with code -9 during 'work '", "ended with code -9 during 'judge '"]
    assert first.stdout.count("| passed | 2 |") == 2
    assert again.stdout == first.stdout
    assert again.stderr == ""
    assert every_test_passes(tmp_path)
