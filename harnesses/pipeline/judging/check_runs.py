"""Commands that are run to judge work: where nothing can be changed, or nothing that counts; noted as we saw them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import trio
from attrs import frozen

from harnesses.agents.sandbox import Bubblewrap, programs_below_tmp
from harnesses.diagnostics.control_characters import inert
from harnesses.features.agent_text import last_part
from harnesses.pipeline.judging.copies import Copy
from harnesses.processes.bounded_command import run_bounded
from harnesses.processes.threads import aside
from harnesses.redaction.redactor import redact_text

MAX_TAIL = 2_000
"""Characters of the output of a command that are kept, the last ones."""
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "VIRTUAL_ENV")


@frozen(kw_only=True)
class CheckRun:
    """A command that was run for a validator, as we saw it."""

    command: tuple[str, ...]
    code: int | None
    """None if it took too long."""
    tail: str
    changed: tuple[str, ...] = ()
    """Files that it has changed: then it proves nothing."""
    stage: str = ""
    """The stage whose description asks for it; empty if a validator has."""
    missing: str = ""
    """What its output was to match, and did not."""

    @property
    def good(self) -> bool:
        """Whether it ended with 0, changed nothing, and said what was expected."""
        return self.code == 0 and not self.changed and not self.missing

    def words(self) -> str:
        """Return what was seen, in a line."""
        how = "killed at its time limit" if self.code is None else f"exit code {self.code}"
        also = f", and changed {', '.join(self.changed[:3])}" if self.changed else ""
        said = f", and its output does not match {self.missing[:100]!r}" if self.missing else ""
        return f"{' '.join(self.command)[:300]}: {how}{also}{said}"


async def run_check(
    copy: Copy, command: Sequence[str], *, limit_s: float, name: str, stage: str = "", expects: str = ""
) -> CheckRun:
    """Run a command in a sandbox where the copy is read-only; without bubblewrap, in a copy that is compared afterwards."""
    sandboxed = await aside(has_sandbox)
    ground = copy if sandboxed else await aside(copy.another, name)
    try:
        ran = await run_bounded(
            _sandboxed(command, ground.root) if sandboxed else list(command),
            limit_s=limit_s,
            cwd=ground.root,
            env=_environment(ground.root),
            may_gain_privileges=sandboxed and Bubblewrap().needs_privileges(),
            scoped_sockets=sandboxed,
        )
        changed = await aside(ground.changed)
    finally:
        if not sandboxed:
            with trio.CancelScope(shield=True):
                await aside(copy.forget, name)
    tail = last_part(inert(redact_text(ran.tail)), MAX_TAIL)
    words = tuple(redact_text(word) for word in command)
    missing = "" if re.search(expects, tail, re.MULTILINE) else expects
    return CheckRun(command=words, code=ran.code, tail=tail, changed=changed, stage=stage, missing=missing)


def _environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name in _KEPT if (value := os.environ.get(name)) is not None}
    # Caches would be changes; and a module of the work must not take the place of what judges it (`unittest.py`).
    own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "-p no:cacheprovider", "PYTHONSAFEPATH": "1"}
    return {**kept, "PWD": str(directory), **own}


def has_sandbox() -> bool:
    """Return whether bubblewrap is installed, and works here."""
    return Bubblewrap().works()


def _sandboxed(command: Sequence[str], directory: Path) -> list[str]:
    """Return the command that runs another with the machine read-only, a private /tmp, no network, nothing of the run."""
    return Bubblewrap().wrap(command, directory, readable=programs_below_tmp(os.environ.get("PATH", "")), read_only=True)
