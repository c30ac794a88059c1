"""Runs `git` so that only the arguments decide what it does: no configuration, hook or variable of the machine applies.

Invariant: when a call ends, in whatever way, its process has ended. If this program is killed, the `held` descriptors stay
open until the last git process it started has ended, so that the next program can wait for that.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import trio
from attrs import evolve, field, frozen

from harnesses.features.errors import MemoryFailed, NotReady

LEAST_VERSION = (2, 32)
"""Minimum version of git: the first that supports GIT_CONFIG_GLOBAL."""
MOST_OUTPUT = 64 * 1024 * 1024
_TAIL = 2_000
_CONFIG = Path(__file__).with_name("git.config")
_LIMIT_S = 600.0

_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.excludesFile", "/dev/null"),
    ("core.attributesFile", "/dev/null"),
    ("core.quotePath", "false"),
    ("core.filesRefLockTimeout", "10000"),
    ("core.packedRefsTimeout", "10000"),
    # Otherwise git compresses a file of 100 MB for seconds.
    ("core.bigFileThreshold", "8m"),
    ("advice.detachedHead", "false"),
    ("commit.gpgSign", "false"),
    ("fetch.fsckObjects", "true"),
    ("fetch.writeCommitGraph", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.version", "2"),
    ("protocol.allow", "never"),
    ("protocol.file.allow", "always"),
    ("submodule.recurse", "false"),
)
_OF_USER = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_DURABLE = (("core.fsync", "committed"), ("core.fsyncMethod", "batch"))


class GitError(MemoryFailed):
    """A git command failed."""

    def __init__(self, message: str, *, command: tuple[str, ...] = (), code: int | None = None, tail: str = "") -> None:
        super().__init__(message)
        self.command = command
        self.code = code
        """The exit code; None if git was ended for too much output or for its time limit."""
        self.tail = tail
        """The end of its standard error."""


@frozen(kw_only=True)
class Identity:
    """Name and address of the committer."""

    name: str = "durable-harnesses"
    email: str = "durable-harnesses@localhost"


class How(TypedDict, total=False):
    """Options of a git command."""

    stdin: bytes
    tree: Path
    """The work tree; default none."""
    index: Path
    """The index file; default the repository's."""
    date: str
    """Date of author and committer; default now."""
    most: int
    """Maximum bytes of output."""
    limit_s: float


@frozen
class Git:
    """A repository, and how to run git on it."""

    directory: Path
    """The repository itself: a bare one, or a `.git` directory."""
    program: str = field(default="git", kw_only=True)
    identity: Identity = field(factory=Identity, kw_only=True)
    held: tuple[int, ...] = field(default=(), kw_only=True)
    """File descriptors that every git process keeps open."""
    durable: bool = field(default=False, kw_only=True)
    """Whether everything written is flushed to disk when a command ends, so that it survives a power failure."""
    as_user: bool = field(default=False, kw_only=True)
    """Whether the user's own settings apply, and what he signs in with, as a remote needs it; not those of the repository."""

    def to(self, directory: Path) -> Git:
        """Return a copy for another repository."""
        return evolve(self, directory=directory)

    def holding(self, *descriptors: int) -> Git:
        """Return a copy whose processes keep the descriptors open."""
        return evolve(self, held=descriptors)

    async def run(self, *arguments: str | Path, **how: Unpack[How]) -> bytes:
        """Run a git command, and return its standard output.

        Raises:
            GitError: it failed, or exceeded its output or time limit.
        """
        code, out, tail = await self.ask(*arguments, **how)
        if code != 0:
            raise self._error(arguments, code, tail)
        return out

    async def line(self, *arguments: str | Path) -> str:
        """Run a git command, and return its output as text without the final newline."""
        return os.fsdecode(await self.run(*arguments)).removesuffix("\n")

    async def says(self, *arguments: str | Path) -> str | None:
        """Run a git command that answers by its exit code; return its output, or None for exit code 1."""
        code, out, tail = await self.ask(*arguments)
        if code not in (0, 1):
            raise self._error(arguments, code, tail)
        return os.fsdecode(out).removesuffix("\n") if code == 0 else None

    async def ask(self, *arguments: str | Path, **how: Unpack[How]) -> tuple[int, bytes, str]:
        """Run a git command; return its exit code, its output and the end of its standard error."""
        tree, most, limit_s = how.get("tree"), how.get("most", MOST_OUTPUT), how.get("limit_s", _LIMIT_S)
        command = [self.program, f"--git-dir={self.directory}"]
        if tree is not None:
            command += [f"--work-tree={tree}"]
        for key, value in (*_SETTINGS, *(_DURABLE if self.durable else ())):
            command += ["-c", f"{key}={value}"]
        command += [os.fspath(argument) for argument in arguments]
        env = self.environment(how.get("index"), how.get("date"))
        out, err, code = bytearray(), bytearray(), None
        with trio.move_on_after(limit_s):
            code = await self._communicate(command, env, how.get("stdin", b""), out, err, most, tree or self.directory)
        tail = err.decode(errors="replace").strip()
        if code is None:
            what = f"wrote more than {most} bytes" if len(out) > most else f"took longer than {limit_s} s"
            raise self._error(arguments, None, f"{what}\n{tail}")
        return code, bytes(out), tail

    async def _communicate(
        self,
        command: list[str],
        env: Mapping[str, str],
        stdin: bytes,
        out: bytearray,
        err: bytearray,
        most: int,
        cwd: Path,
    ) -> int | None:
        """Fill `out` and `err`; return the exit code, or None if the output limit was exceeded."""
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(
                partial(
                    trio.run_process,
                    command,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    check=False,
                    env=env,
                    cwd=cwd,
                    pass_fds=self.held,
                )
            )
            nursery.start_soon(_keep_tail, process.stderr, err)
            assert process.stdout is not None
            async for chunk in process.stdout:
                out += chunk
                if len(out) > most:
                    nursery.cancel_scope.cancel()
                    break
        return None if len(out) > most else process.returncode

    def environment(self, index: Path | None = None, date: str | None = None) -> dict[str, str]:
        """Return the complete environment of git."""
        if self.as_user:
            # Nobody is there to be asked for a password.
            alone = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "force", "LC_ALL": "C"}
            inherited = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in _OF_USER}
            return {"SSH_ASKPASS": "/bin/false", **inherited, **alone}
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/nonexistent",
            "XDG_CONFIG_HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": str(_CONFIG),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ADVICE": "0",
            "GIT_AUTHOR_NAME": self.identity.name,
            "GIT_AUTHOR_EMAIL": self.identity.email,
            "GIT_COMMITTER_NAME": self.identity.name,
            "GIT_COMMITTER_EMAIL": self.identity.email,
        }
        if "TZ" in os.environ:
            env["TZ"] = os.environ["TZ"]
        if index is not None:
            env["GIT_INDEX_FILE"] = os.fspath(index)
        if date is not None:
            env["GIT_AUTHOR_DATE"] = env["GIT_COMMITTER_DATE"] = date
        return env

    def _error(self, arguments: tuple[str | Path, ...], code: int | None, tail: str) -> GitError:
        command = ("git", *(os.fspath(argument) for argument in arguments))
        ended = "was ended" if code is None else f"ended with code {code}"
        words = " ".join(command)
        return GitError(
            f"repository {self.directory}: `{words:.300}` {ended}: expected 0; git wrote: {tail or 'nothing'}",
            command=command,
            code=code,
            tail=tail,
        )


async def _keep_tail(stream: trio.abc.ReceiveStream | None, tail: bytearray) -> None:
    assert stream is not None
    async for chunk in stream:
        tail += chunk
        del tail[: max(0, len(tail) - _TAIL)]


async def find_git(directory: Path, *, program: str = "git", identity: Identity | None = None) -> Git:
    """Return git for a repository.

    Raises:
        NotReady: git is missing or too old.
    """
    found = shutil.which(os.path.abspath(program) if os.sep in program else program)  # noqa: ASYNC240
    if found is None:
        raise NotReady(f"{program!r} was not found: expected git {_dotted(LEAST_VERSION)} or newer on PATH; install it")
    git = Git(directory, program=found, identity=identity or Identity())
    said = (await trio.run_process([git.program, "version"], capture_stdout=True, check=False)).stdout.decode(errors="replace")
    numbers = re.search(r"(\d+)\.(\d+)", said)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < LEAST_VERSION:
        raise NotReady(f"{found} is too old: expected git {_dotted(LEAST_VERSION)} or newer, was {said.strip()!r}; update it")
    return git


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
