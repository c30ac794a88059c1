"""A hint for an extra is a command that works where it is read: with the package installed, and in a checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from harnesses.diagnostics import extras
from tests import ROOT


def test_the_command_names_the_installed_distribution() -> None:
    assert extras.install_command("control") == "pip install 'durable-harnesses[control]'"


def test_in_a_checkout_that_is_not_installed_the_command_names_the_checkout(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "harnesses", tmp_path / "harnesses", ignore=shutil.ignore_patterns("__pycache__"))
    program = (
        "from harnesses.diagnostics import extras; "
        "extras.DISTRIBUTION = 'no-such-distribution'; print(extras.install_command('control'))"
    )

    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert ran.stdout == f"pip install '{tmp_path}[control]'\n"
