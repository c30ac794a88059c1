"""What a validator gets to see: a private copy of the workspace, by an object that can read it and nothing else.

    workspace ──copied──► copy ──► ReadOnly: read, look, run ──► the verdict
                            │                  └── run: in a sandbox where the copy is read-only, else in a copy of the copy
                            └── hashed before and after: a verdict by who has changed something is void

The laws: nothing that a validator is handed leads to the workspace; what it runs is noted by us, with its exit code; and a
change of the copy, or of what a command ran in, is noted too.

An object of Python is no wall against Python. A validator that is not trusted is to be a program: a `CommandAgent` with a
sandbox works on a copy of its own, which is looked at in the same way.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

import trio
from attrs import frozen

from harnesses.agents.sandbox import Bubblewrap, programs_below_tmp
from harnesses.diagnostics.control_characters import inert
from harnesses.features.agent_text import last_part
from harnesses.pipeline.judging.copies import Copy, places
from harnesses.pipeline.plan.ids import PipelineInvalid
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
    argv = list(command)
    if sandboxed:
        # The machine is read-only, /tmp private, no network, nothing of the run.
        readable = programs_below_tmp(os.environ.get("PATH", ""))
        argv = Bubblewrap().wrap(command, ground.root, readable=readable, read_only=True)
    try:
        ran = await run_bounded(
            argv,
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


MAX_READ_BYTES = 1_000_000
MAX_COMMANDS = 50
"""Commands that one validator may run."""


class ReadOnly:
    """What a validator has in its hands: it can look, and run commands; it can change nothing."""

    __slots__ = ("_look", "_note", "_run")

    def __init__(self, copy: Copy, note: Callable[[CheckRun], None], *, limit_s: float) -> None:
        self._look = _looking(copy)
        self._run = _running(copy, limit_s)
        self._note = note

    def files(self, below: str = ".") -> tuple[str, ...]:
        """Return the paths of all files below a directory, sorted."""
        return self._look[0](below)

    def read_bytes(self, path: str) -> bytes:
        """Return the content of a file, at most a megabyte.

        Raises:
            OSError: it cannot be read: it is not there, or leads out.
        """
        return self._look[1](path)

    def read_text(self, path: str) -> str:
        """Return the content of a file as text; what is no UTF-8 is replaced."""
        return self.read_bytes(path).decode("utf-8", errors="replace")

    def sha256(self, path: str) -> str:
        """Return the hash of what `read_bytes` gives."""
        return hashlib.sha256(self.read_bytes(path)).hexdigest()

    async def run(self, command: Sequence[str], *, expects: str = "") -> CheckRun:
        """Run a command where nothing can be changed, or nothing that counts, and return how it ended. It is noted by us.

        Args:
            expects: a regular expression that has to be found in the last of its output, line by line.
        """
        seen = await self._run(tuple(command), expects)
        self._note(seen)
        return seen


def _looking(copy: Copy) -> tuple[Callable[[str], tuple[str, ...]], Callable[[str], bytes]]:
    root = copy.root

    def files(below: str) -> tuple[str, ...]:
        within = _inside(root, below)
        return tuple(sorted(path for path, _ in places(within, os.path.relpath(within, root))))

    def read(path: str) -> bytes:
        handle = os.open(_inside(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FileNotFoundError(f"{path!r:.200} is no regular file")
            content = file.read(MAX_READ_BYTES + 1)
        if len(content) > MAX_READ_BYTES:
            raise OSError(f"{path!r:.200} is too large: expected at most {MAX_READ_BYTES} bytes")
        return content

    return files, read


def _inside(root: Path, path: str) -> Path:
    place = Path(os.path.realpath(root / path))
    if "\0" in path or not place.is_relative_to(os.path.realpath(root)):
        raise FileNotFoundError(f"{path!r:.200} is not inside the copy: expected a path below it")
    return place


def _running(copy: Copy, limit_s: float) -> Callable[[tuple[str, ...], str], Awaitable[CheckRun]]:
    number = 0

    async def run(command: tuple[str, ...], expects: str) -> CheckRun:
        nonlocal number
        number += 1
        if number > MAX_COMMANDS:
            raise PipelineInvalid(f"a validator has run {MAX_COMMANDS} commands: expected fewer; look at less")
        if not command or not all(isinstance(cast(object, word), str) and "\0" not in word for word in command):
            raise PipelineInvalid(f"command: expected words, was {command!r:.200}")
        return await run_check(copy, command, limit_s=limit_s, name=f"run-{number}", expects=expects)

    return run
