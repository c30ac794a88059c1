"""A hint for an extra is a command that works where it is read: with the package installed, and in a checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT


@pytest.mark.parametrize(
    ("installed_from", "named"),
    [
        (None, "'durable-harnesses[control]'"),
        ({"url": "file:///srv/a%20clone", "dir_info": {}}, "'/srv/a clone[control]'"),
        ({"url": "file:///srv/clone", "dir_info": {"editable": True}}, "-e '/srv/clone[control]'"),
    ],
)
def test_the_command_names_what_was_installed(tmp_path: Path, installed_from: object, named: str) -> None:
    info = tmp_path / "durable_harnesses-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: durable-harnesses\nVersion: 9\n")
    if installed_from is not None:
        (info / "direct_url.json").write_text(json.dumps(installed_from))
    program = "from harnesses.diagnostics import extras; print(extras.own_version(), extras.install_command('control'))"

    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)

    assert ran.stdout == f"9 python -m pip install {named}\n"


def test_in_a_checkout_that_is_not_installed_the_command_names_the_checkout(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "harnesses", tmp_path / "harnesses", ignore=shutil.ignore_patterns("__pycache__"))
    program = (
        "from harnesses.diagnostics import extras; "
        "extras.DISTRIBUTION = 'no-such-distribution'; print(extras.install_command('control'))"
    )

    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert ran.stdout == f"python -m pip install '{tmp_path}[control]'\n"
