"""Programs that try to leave a sandbox, and where they try: real processes, outside of /tmp, which is hidden anyhow."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from harnesses.agents import Bubblewrap, CommandAgent
from tests.harnesses.agents.turns import assigned, take_turn

PYTHON = os.path.realpath(sys.executable)
_TRIES = """
import json, os, sys
told = {}
def attempt(name, deed):
    try:
        told[name] = deed()
    except BaseException as error:
        told[name] = f"{type(error).__name__}: {error}"
"""


@frozen
class Ground:
    """A folder with what a run has in it, and a directory for an agent."""

    folder: Path
    work: Path

    async def attacked(self, deeds: str, sandbox: Bubblewrap | None = None, **changed: Any) -> dict[str, Any]:
        """Have an agent do what it can, and return what it says of it; what is true, the test looks for outside.

        Args:
            deeds: Python; it calls `attempt(name, deed)`.
            changed: of the assignment.
        """
        # In a file: of an agent's last message only so much is kept.
        file = self.work / "told.json"
        program = f"{_TRIES}{textwrap.dedent(deeds)}\nopen({str(file)!r}, 'w').write(json.dumps(told, default=repr))"
        agent = CommandAgent([PYTHON, "-I", "-c", program], sandbox=sandbox or Bubblewrap(), limit_s=30.0)
        await take_turn(agent, evolve(assigned(self.work), **changed))
        told: dict[str, Any] = json.loads(file.read_text())
        file.unlink()
        return told


@contextmanager
def ground() -> Iterator[Ground]:
    """Give a place for attacks, and remove it."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="attacked-", dir="/var/tmp")))
    try:
        (folder / "work").mkdir()
        yield Ground(folder, folder / "work")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
