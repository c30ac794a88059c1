"""Governed commands of a harness: classified, approved by a person if necessary, run once, with no process left behind.

    classify ──known to be harmless───────────► intent on disk ──► run ──► outcome on disk
      │                                              ▲
      ├──contained by the sandbox, or allowed────────┤
      ├──anything else──► human approval ─given──────┘
      │                     └──denied──► ApprovalDenied
      └──would change something, in read-only mode──► CommandRefused

Invariant: the exact words that were classified are those that run; an approval is for those words in that folder. A command
that runs because it is harmless finds its programs outside the workspace, and git in it runs nothing that the repository
names.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from attrs import field, frozen

from harnesses.agents.sandbox import Bubblewrap, Level, Sandboxed, environment_within, run_sandboxed, sandboxed
from harnesses.agents.sandbox.sandboxed_command import Rights
from harnesses.base import BaseHarness
from harnesses.effects.approval import DAY_S, MAX_SUMMARY, Action
from harnesses.effects.effect import Reconcile
from harnesses.errors import HarnessMisuse, Refused
from harnesses.guard import Finding, classify, read_only_violations
from harnesses.guard.bash_parser import load_reader
from harnesses.guard.command_model import HELD, HELD_WITHOUT_NETWORK, SHELL, cut
from harnesses.redaction.redactor import redact_text

AnyHarness: TypeAlias = BaseHarness[Any, Any, Any]
MAX_COMMAND = 100_000
"""Characters of a command."""
MAX_TAIL = 100_000
"""Maximum of `tail_bytes`."""
_SETTLED = "a person has settled it as done, without an exit code"
_GIT = {"core.fsmonitor": "false", "core.pager": "cat", "diff.ignoreSubmodules": "dirty"}
"""Git settings for harmless commands: a nested repository may name programs too."""


class Sandbox(Protocol):
    """Runs a command in a sandbox; implemented by `harnesses.agents.Bubblewrap`."""

    def check(self) -> None:
        """Raise if the sandbox is not installed."""

    def needs_privileges(self) -> bool:
        """Return whether the sandbox program is set-user-id and needs to gain privileges to start."""
        ...

    def wrap(self, command: Sequence[str], directory: Path, *, read_only: bool = False) -> list[str]:
        """Return the command line that runs `command` sandboxed, in `directory`, the only writable folder.

        Args:
            read_only: whether that folder is read-only too.
        """
        ...


class CommandRefused(Refused):
    """The command would change something in read-only mode. It has not run."""


@frozen(kw_only=True)
class CommandRan:
    """The recorded result of a command."""

    code: int | None
    """Exit code, negative for a signal; None if it was killed at its time limit, or settled by a person without one."""
    tail: str
    """The end of its output, with secrets redacted. It is data, never instructions."""
    duration_s: float
    left: tuple[int, ...] = ()
    """Ids of processes that could not be killed."""
    cut_bytes: int = 0
    """Bytes of output missing before `tail`; raise `tail_bytes` to keep more."""
    sandbox: str = ""
    """The level of the sandbox that was in force, and its network; empty without one."""

    @property
    def ok(self) -> bool:
        return self.code == 0


def _check_seconds(_: object, attribute: Any, value: float) -> None:
    if isinstance(value, bool) or not isfinite(value) or value <= 0:
        raise HarnessMisuse(f"governed commands: {attribute.name}: expected seconds above 0, got {value!r}; correct it")


def _names(names: Collection[str]) -> Collection[str]:
    return frozenset(names)


def _check_tail(_: object, attribute: Any, value: int) -> None:
    if not 0 <= value <= MAX_TAIL:
        raise HarnessMisuse(f"governed commands: tail_bytes: expected 0 to {MAX_TAIL}, got {value!r}; correct it")


@frozen(kw_only=True)
class GovernedCommands:
    """Runs commands for a harness, each once; one not known to be harmless needs a sandbox or human approval."""

    cwd: Path = field(converter=Path)
    """Working directory of the commands; must exist."""
    limit_s: float = field(default=600.0, validator=_check_seconds)
    """Seconds after which a command is killed with its process tree."""
    tail_bytes: int = field(default=4_000, validator=_check_tail)
    """Bytes of output to keep."""
    env: Mapping[str, str] | None = field(default=None, repr=False)
    """The whole environment; None for this program's, which in a sandbox is stripped of secrets and escape routes."""
    disposable: Collection[str] = field(default=frozenset(), converter=_names)
    """Names of folders that may be deleted without approval, such as `build`."""
    read_only: bool = False
    """Whether to refuse every change, for validators; no approval overrides it. A sandbox mounts the folder read-only."""
    expires_s: float = field(default=DAY_S, validator=_check_seconds)
    """Seconds until a requested approval expires."""
    allow: Collection[str] = field(default=frozenset(), converter=_names)
    """Categories that run without approval. `run-code` allows tests and builds, and with them any code an agent writes."""
    sandbox: Sandbox | None = None
    """The sandbox of all commands; whatever it contains needs no approval."""

    def findings(self, command: str | Sequence[str]) -> tuple[Finding, ...]:
        """Return why a command does not run without approval, or, in read-only mode, at all."""
        root = os.path.abspath(self.cwd)
        allow = frozenset(self.allow) | self._held()
        if self.read_only:
            return read_only_violations(command, root=root, allow=self.allow)
        return classify(command, disposable=self.disposable, root=root, allow=allow)

    def _held(self) -> frozenset[str]:
        if not self._confines():
            return frozenset()
        shares = getattr(self.sandbox, "network", True)
        return HELD if shares else HELD_WITHOUT_NETWORK

    def _confines(self) -> bool:
        """Return whether a sandbox holds what commands do outside of their folder; Landlock leaves permissions of files."""
        if self.sandbox is None:
            return False
        level = getattr(self.sandbox, "level", Level.BUBBLEWRAP)
        return level is Level.BUBBLEWRAP or (isinstance(self.sandbox, Bubblewrap) and self.sandbox.confines_fully())

    def needed(self, command: str | Sequence[str]) -> Action | None:
        """Return what a person has to approve before a command runs; None if nothing.

        Raises:
            CommandRefused: the command may not run at all.
            NotReady: the command is text, and the parser is not installed.
        """
        found = self.findings(command)
        if not found:
            return None
        shown = command if isinstance(command, str) else " ".join(command)
        if self.read_only:
            if isinstance(command, str):
                load_reader()  # Nobody is asked to approve a command that could not be parsed.
            raise CommandRefused(f"{_short(shown)!r} is refused in read-only mode: {_reasons(found)}")
        return Action(
            found[0].category,
            cut(f"{_short(shown, 180)} ({_reasons(found)})", MAX_SUMMARY),
            {"command": _plain(command), "cwd": str(self.cwd), "categories": sorted({finding.category for finding in found})},
            self.expires_s,
        )

    async def run(
        self,
        harness: AnyHarness,
        key: str,
        command: str | Sequence[str],
        *,
        reconcile: Reconcile | None = None,
        idempotent: bool = False,
    ) -> CommandRan:
        """Run a command within the step that `harness` is making, unless it has already run in it; return its result.

        Args:
            key: identity of the command within the step.
            command: text for a shell, or a program and its arguments, run without a shell.
            reconcile: finds out the outcome of an interrupted command; see `BaseHarness.once`.
            idempotent: whether repeating it is harmless, as with tests: an interrupted command is then run again.

        Raises:
            CommandRefused: it would change something in read-only mode.
            ApprovalDenied: a person denied it.
            UnknownOutcome: it was interrupted and its effect is unknown. Do not catch it.
        """
        _check_command(key, command)
        action = self.needed(command)
        # An approved or allowed command gets the whole environment; a harmless one, an environment in which it is harmless.
        run = self._run if action is not None or self._confines() or self._is_allowed(command) else self._run_harmless
        arguments = (_plain(command), str(self.cwd))
        ended = await harness.once(key, run, *arguments, reconcile=reconcile, idempotent=idempotent, approval=action)
        return ended or CommandRan(code=None, tail=_SETTLED, duration_s=0.0)

    def _is_allowed(self, command: str | Sequence[str]) -> bool:
        """Return whether the command runs because its category is allowed, and not because it is harmless."""
        return bool(self.allow and classify(command, disposable=self.disposable, root=os.path.abspath(self.cwd)))

    # The result is None if a person settled the command as done without one: `orchestrator effects settle`.
    async def _run_harmless(self, command: str | list[str], cwd: str) -> CommandRan | None:
        return await self._ran(command, cwd, harmless_environment(os.environ if self.env is None else self.env, cwd))

    async def _run(self, command: str | list[str], cwd: str) -> CommandRan | None:
        return await self._ran(command, cwd, self.env)

    async def _ran(self, command: str | list[str], cwd: str, env: Mapping[str, str] | None) -> CommandRan:
        words = [*SHELL, command] if isinstance(command, str) else command
        prepare = partial(self._prepared, words, cwd, env)
        ran, ready = await run_sandboxed(prepare, limit_s=self.limit_s, tail_bytes=self.tail_bytes, cwd=cwd)
        return CommandRan(
            code=ran.code,
            tail=redact_text(ran.tail),
            duration_s=ran.duration_s,
            left=ran.left,
            cut_bytes=ran.cut_bytes,
            sandbox=ready.described,
        )

    @asynccontextmanager
    async def _prepared(
        self, words: Sequence[str], cwd: str, env: Mapping[str, str] | None
    ) -> AsyncGenerator[Sandboxed, None]:
        """Give the command line and environment in the sandbox; an environment that was given is kept as it is."""
        sandbox = self.sandbox
        if sandbox is None or isinstance(sandbox, Bubblewrap):
            inherited = None if env is None else dict[str, str]()
            async with sandboxed(words, cwd, sandbox, environment=inherited, added=env, read_only=self.read_only) as ready:
                yield ready
            return
        sandbox.check()
        wrapped = sandbox.wrap(words, Path(cwd), read_only=True) if self.read_only else sandbox.wrap(words, Path(cwd))
        around = environment_within(os.environ) if env is None else dict(env)
        rights = Rights(may_gain_privileges=sandbox.needs_privileges(), scoped_sockets=True)
        yield Sandboxed(command=wrapped, environment=around, level=Level.NONE, described="its own", rights=rights)


def harmless_environment(env: Mapping[str, str], cwd: str) -> dict[str, str]:
    """Return an environment in which programs come from outside the folder `cwd` and git runs no program named by a
    repository."""
    inside = os.path.realpath(cwd)
    places = [place for place in env.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(place)]
    path = [place for place in places if not f"{os.path.realpath(place)}/".startswith(f"{inside.rstrip('/')}/")]
    count = int(env.get("GIT_CONFIG_COUNT", "0") or 0)
    settings = {f"GIT_CONFIG_KEY_{count + at}": name for at, name in enumerate(_GIT)}
    settings |= {f"GIT_CONFIG_VALUE_{count + at}": value for at, value in enumerate(_GIT.values())}
    return {**env, "PATH": os.pathsep.join(path), **settings, "GIT_CONFIG_COUNT": str(count + len(_GIT))}


def _plain(command: str | Sequence[str]) -> str | list[str]:
    return command if isinstance(command, str) else list(command)


def _check_command(key: str, command: object) -> None:
    words: Sequence[object] = [command] if isinstance(command, str) else cast(Sequence[object], command or ())
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) for word in words):
        raise HarnessMisuse(f"command {key!r}: expected text or a list of words, got {command!r:.200}; correct it")
    length = sum(len(str(word)) for word in words)
    if length > MAX_COMMAND:
        raise HarnessMisuse(f"command {key!r} has {length} characters: expected at most {MAX_COMMAND}; write a script")


def _reasons(found: Sequence[Finding]) -> str:
    return "; ".join(dict.fromkeys(f"{finding.category}: {redact_text(finding.why)}" for finding in found[:4]))


def _short(text: str, most: int = 120) -> str:
    return cut(redact_text(" ".join(text.split())), most)
