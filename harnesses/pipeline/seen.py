"""Commands that are run to judge work: where nothing can be changed, or nothing that counts; noted as we saw them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import trio
from attrs import frozen

from harnesses.agents.sandbox import Bubblewrap
from harnesses.control_characters import inert
from harnesses.features.texts import last_part
from harnesses.pipeline.copies import Copy
from harnesses.pipeline.walls import has_walls, within_walls
from harnesses.process import run_bounded
from harnesses.secrets import redact_text
from harnesses.threads import aside

MAX_TAIL = 2_000
"""Characters of the output of a command that are kept, the last ones."""
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "VIRTUAL_ENV")


@frozen(kw_only=True)
class Seen:
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


async def run_seen(
    copy: Copy, command: Sequence[str], *, limit_s: float, name: str, stage: str = "", expects: str = ""
) -> Seen:
    """Run a command in walls in which the copy is read-only, or, where there are none, in a copy of it that is compared."""
    walled = await aside(has_walls)
    ground = copy if walled else await aside(copy.another, name)
    try:
        filled = within_walls(command, ground.root) if walled else list(command)
        ran = await run_bounded(
            filled,
            limit_s=limit_s,
            cwd=ground.root,
            env=_environment(ground.root),
            may_gain_privileges=walled and Bubblewrap().needs_privileges(),
            scoped_sockets=walled,
        )
        changed = await aside(ground.changed)
    finally:
        if not walled:
            with trio.CancelScope(shield=True):
                await aside(copy.forget, name)
    tail = last_part(inert(redact_text(ran.tail)), MAX_TAIL)
    words = tuple(redact_text(word) for word in command)
    missing = "" if re.search(expects, tail, re.MULTILINE) else expects
    return Seen(command=words, code=ran.code, tail=tail, changed=changed, stage=stage, missing=missing)


def _environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name in _KEPT if (value := os.environ.get(name)) is not None}
    # Caches would be changes; and a module of the work must not take the place of what judges it (`unittest.py`).
    own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "-p no:cacheprovider", "PYTHONSAFEPATH": "1"}
    return {**kept, "PWD": str(directory), **own}
