"""The access of a validator: an object that reads a private copy of the workspace and can do nothing else.

    workspace ──copied──► copy ──► ReadOnly: read, inspect, run ──► the verdict
                            │                  └── run: in a sandbox where the copy is read-only, else in a copy of the copy
                            └── hashed before and after: the verdict of a validator that has changed it does not count

Invariants: nothing given to a validator leads to the workspace; the pipeline records the commands that it runs, with their
exit codes; a change of the copy, or of the directory in which a command ran, is recorded too.

A Python object cannot confine Python code. An untrusted validator should be a program: a `CommandAgent` with a sandbox works
on its own copy, which is checked in the same way.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import trio
from attrs import frozen

from harnesses.agents.sandbox import Sandbox, programs_below_tmp, run_sandboxed, sandboxed
from harnesses.diagnostics.control_characters import inert
from harnesses.features.agent_text import last_part
from harnesses.pipeline.judging.copies import Copy, places
from harnesses.pipeline.plan.ids import PipelineInvalid
from harnesses.processes.threads import aside
from harnesses.redaction.redactor import redact_text

MAX_TAIL = 2_000
"""Maximum characters kept of a command's output, the last ones."""
_SANDBOX = Sandbox(memory_bytes=None)  # Tests that are built with a sanitizer reserve terabytes.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONPATH", "VIRTUAL_ENV")


@frozen(kw_only=True)
class CheckRun:
    """A command that was run for a validator, as the pipeline observed it."""

    command: tuple[str, ...]
    code: int | None
    """The exit code; None if it exceeded its time limit."""
    tail: str
    changed: tuple[str, ...] = ()
    """Files that it has changed; then it proves nothing."""
    stage: str = ""
    """The stage whose description contains the command; empty if a validator requested it."""
    missing: str = ""
    """The expected pattern that its output does not match."""
    sandbox: str = ""
    """The level of the sandbox that was in force, and its network."""

    @property
    def good(self) -> bool:
        """Whether it exited with 0, changed nothing, and its output matched."""
        return self.code == 0 and not self.changed and not self.missing

    def words(self) -> str:
        """Return the result in one line."""
        how = "killed at its time limit" if self.code is None else f"exit code {self.code}"
        also = f", and changed {', '.join(self.changed[:3])}" if self.changed else ""
        said = f", and its output does not match {self.missing[:100]!r}" if self.missing else ""
        within = f" [sandbox: {self.sandbox}]" if self.sandbox else ""
        return f"{' '.join(self.command)[:300]}: {how}{also}{said}{within}"


async def run_check(
    copy: Copy, command: Sequence[str], *, limit_s: float, name: str, stage: str = "", expects: str = ""
) -> CheckRun:
    """Run a command in a sandbox with a read-only copy; without one, in a second copy that is compared afterwards."""
    confined = await aside(has_sandbox)
    ground = copy if confined else await aside(copy.another, name)
    try:
        # The sandbox makes the machine read-only, /tmp private, and hides the network and the run's files.
        prepare = partial(
            sandboxed,
            command,
            ground.root,
            _SANDBOX if confined else None,
            environment={},
            added=_environment(ground.root),
            readable=programs_below_tmp(os.environ.get("PATH", "")),
            read_only=True,
        )
        ran, ready = await run_sandboxed(prepare, limit_s=limit_s, cwd=ground.root)
        changed = await aside(ground.changed)
    finally:
        if not confined:
            with trio.CancelScope(shield=True):
                await aside(copy.forget, name)
    tail = last_part(inert(redact_text(ran.tail)), MAX_TAIL)
    words = tuple(redact_text(word) for word in command)
    missing = "" if re.search(expects, tail, re.MULTILINE) else expects
    return CheckRun(
        command=words, code=ran.code, tail=tail, changed=changed, stage=stage, missing=missing, sandbox=ready.described
    )


def _environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name in _KEPT if (value := os.environ.get(name)) is not None}
    # Caches would count as changes, and a module of the work must not shadow the tools that judge it (`unittest.py`).
    own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "-p no:cacheprovider", "PYTHONSAFEPATH": "1"}
    return {**kept, "PWD": str(directory), **own}


def has_sandbox() -> bool:
    """Return whether bubblewrap is installed and works on this machine."""
    return _SANDBOX.works()


MAX_READ_BYTES = 1_000_000
MAX_COMMANDS = 50
"""Maximum commands that one validator may run."""


class ReadOnly:
    """Read-only access for a validator: it reads files and runs commands, and can change nothing."""

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
            OSError: it does not exist, leads out of the copy, or cannot be read.
        """
        return self._look[1](path)

    def read_text(self, path: str) -> str:
        """Return the content of a file as text; invalid UTF-8 is replaced."""
        return self.read_bytes(path).decode("utf-8", errors="replace")

    def sha256(self, path: str) -> str:
        """Return the hash of the content that `read_bytes` returns."""
        return hashlib.sha256(self.read_bytes(path)).hexdigest()

    async def run(self, command: Sequence[str], *, expects: str = "") -> CheckRun:
        """Run a command where it cannot change the copy, and return its result, which is also recorded.

        Args:
            expects: a regular expression that must match a line at the end of its output.
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
                raise FileNotFoundError(f"{path!r:.200} is not a regular file")
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
            raise PipelineInvalid(f"a validator has run {MAX_COMMANDS} commands: expected fewer; run fewer commands")
        if not command or not all(isinstance(cast(object, word), str) and "\0" not in word for word in command):
            raise PipelineInvalid(f"command: expected words, was {command!r:.200}")
        return await run_check(copy, command, limit_s=limit_s, name=f"run-{number}", expects=expects)

    return run
