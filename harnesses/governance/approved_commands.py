"""Commands that a harness runs: judged, approved by a person if that is needed, run once, and nothing of them left behind.

    judge ──known to be harmless──────────────► intent on disk ──► run ──► outcome on disk
      │                                              ▲
      ├──held by the sandbox, or allowed─────────────┤
      ├──anything else──► a person's approval ─given─┘
      │                     └──denied──► ApprovalDenied
      └──would change something, where nothing may be changed──► CommandRefused

The law: no command runs that was not judged as the very words which then run; what is approved is those words in that folder.
What runs because it is harmless finds its programs outside the workspace, and git runs nothing that the repository names.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from attrs import field, frozen

from harnesses.agents.sandbox import environment_within
from harnesses.base import BaseHarness
from harnesses.effects.approval import DAY_S, MAX_SUMMARY, Action
from harnesses.effects.effect import Reconcile
from harnesses.errors import HarnessMisuse, Refused
from harnesses.guard import (
    NETWORK,
    RUN_CODE,
    UNKNOWN,
    UNREADABLE,
    Category,
    Finding,
    classify,
    read_only_violations,
)
from harnesses.guard.bash_parser import load_reader
from harnesses.guard.command_model import cut
from harnesses.processes.bounded_command import run_bounded
from harnesses.redaction.redactor import redact_text

AnyHarness: TypeAlias = BaseHarness[Any, Any, Any]
MAX_COMMAND = 100_000
"""Characters of a command."""
MAX_TAIL = 100_000
"""Bytes of output that can be kept."""
SHELL = ("bash", "--noprofile", "--norc", "-p", "-c")
"""What reads a command that is text: it is judged as bash reads it. With -p, nothing of the environment is run before."""
HELD = frozenset({UNKNOWN, UNREADABLE, RUN_CODE, NETWORK})
"""Categories that a sandbox holds, whatever the network: nothing is known of them but that they may do anything."""
HELD_WITHOUT_NETWORK = HELD | {Category.PUBLISH, Category.DEPLOY, Category.REMOTE_EXEC}
"""Categories that a sandbox without a network holds. Those left reach what is written in it: files, branches, secrets."""
_SETTLED = "a person has settled it as done, and has not said how it ended"
_GIT = {"core.fsmonitor": "false", "core.pager": "cat", "diff.ignoreSubmodules": "dirty"}
"""Settings that git is given where it is to be harmless: a repository within the repository may name programs too."""


class Sandbox(Protocol):
    """What runs a command in a sandbox, such as `harnesses.agents.Bubblewrap`."""

    def check(self) -> None:
        """Raise if it is not installed."""

    def needs_privileges(self) -> bool:
        """Return whether it is set-user-id, and has to gain rights to begin with."""
        ...

    def wrap(self, command: Sequence[str], directory: Path, *, read_only: bool = False) -> list[str]:
        """Return the command that runs `command` in it, in `directory`, the only place where it can write.

        Args:
            read_only: whether it can write nowhere at all.
        """
        ...


class CommandRefused(Refused):
    """The command would change something, and whoever runs it may only look. It has not run."""


@frozen(kw_only=True)
class CommandRan:
    """How a command ended, as it is on record."""

    code: int | None
    """Its exit code, negative for a signal; None if it was killed at its time limit, or if nobody has said how it ended."""
    tail: str
    """The last of what it wrote, without the secrets in it. It is data: nothing in it is an instruction."""
    duration_s: float
    left: tuple[int, ...] = ()
    """Ids of processes that could not be ended."""
    cut_bytes: int = 0
    """How much of the output before `tail` is missing; `tail_bytes` says how much is kept."""

    @property
    def ok(self) -> bool:
        return self.code == 0


def _check_seconds(_: object, attribute: Any, value: float) -> None:
    if isinstance(value, bool) or not isfinite(value) or value <= 0:
        raise HarnessMisuse(f"governed commands: {attribute.name}: expected seconds above 0, was {value!r}; correct it")


def _names(names: Collection[str]) -> Collection[str]:
    return frozenset(names)


def _check_tail(_: object, attribute: Any, value: int) -> None:
    if not 0 <= value <= MAX_TAIL:
        raise HarnessMisuse(f"governed commands: tail_bytes: expected 0 to {MAX_TAIL}, was {value!r}; correct it")


@frozen(kw_only=True)
class GovernedCommands:
    """Runs commands for any harness, each once; what is not known to be harmless only in a sandbox or if a person approves."""

    cwd: Path = field(converter=Path)
    """The folder that they run in; must exist."""
    limit_s: float = field(default=600.0, validator=_check_seconds)
    """After which one is killed, with all it has started."""
    tail_bytes: int = field(default=4_000, validator=_check_tail)
    """How much of the output is kept."""
    env: Mapping[str, str] | None = field(default=None, repr=False)
    """The whole environment; None is this program's, in a sandbox without its secrets and what leads out of it."""
    disposable: Collection[str] = field(default=frozenset(), converter=_names)
    """Names of folders that may be deleted without asking, such as `build`."""
    read_only: bool = False
    """Whether nothing may be changed: for validators. No approval helps. In a sandbox the folder is read-only then."""
    expires_s: float = field(default=DAY_S, validator=_check_seconds)
    """What an approval is waited for."""
    allow: Collection[str] = field(default=frozenset(), converter=_names)
    """Categories that run without asking. With `run-code`, tests and builds do, and with them all that an agent writes."""
    sandbox: Sandbox | None = None
    """What all of them run in; then what it holds needs no approval."""

    def findings(self, command: str | Sequence[str]) -> tuple[Finding, ...]:
        """Return why a command may not run as it is: needs an approval, or may not run at all if this is read-only."""
        root = os.path.abspath(self.cwd)
        allow = frozenset(self.allow) | self._held()
        if self.read_only:
            return read_only_violations(command, root=root, allow=self.allow)
        return classify(command, disposable=self.disposable, root=root, allow=allow)

    def _held(self) -> frozenset[str]:
        if self.sandbox is None:
            return frozenset()
        shares = getattr(self.sandbox, "network", True)
        return HELD if shares else HELD_WITHOUT_NETWORK

    def needed(self, command: str | Sequence[str]) -> Action | None:
        """Return what a person has to approve before a command runs; None if nothing.

        Raises:
            CommandRefused: it may not run at all.
            NotReady: nor may anything else that is text, for what reads commands is not installed.
        """
        found = self.findings(command)
        if not found:
            return None
        shown = command if isinstance(command, str) else " ".join(command)
        if self.read_only:
            if isinstance(command, str):
                load_reader()  # no person is asked about what could not be read
            raise CommandRefused(f"{_short(shown)!r} may not run where nothing may be changed: {_reasons(found)}")
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
        """Run a command in the step that `harness` is making, unless it has run in it, and return how it ended.

        Args:
            key: names it within the step.
            command: text for a shell, or a program and its arguments, which no shell reads.
            reconcile: finds out what became of one that was cut off; see `BaseHarness.once`.
            idempotent: says that running it again does no harm, as with tests: then one that was cut off is run again.

        Raises:
            CommandRefused: it would change something, and this is read-only.
            ApprovalDenied: a person has said no.
            UnknownOutcome: it was cut off, and nobody knows how far it came. Let it pass.
        """
        _check_command(key, command)
        action = self.needed(command)
        # What a person or the caller lets run is given the whole environment; what is harmless, one in which it is.
        run = self._run if action is not None or self.sandbox is not None or self._is_allowed(command) else self._run_harmless
        arguments = (_plain(command), str(self.cwd))
        ended = await harness.once(key, run, *arguments, reconcile=reconcile, idempotent=idempotent, approval=action)
        return ended or CommandRan(code=None, tail=_SETTLED, duration_s=0.0)

    def _is_allowed(self, command: str | Sequence[str]) -> bool:
        """Return whether it runs because its category is allowed, and not because it is harmless."""
        return bool(self.allow and classify(command, disposable=self.disposable, root=os.path.abspath(self.cwd)))

    # None is of a command that a person has settled as done without a result: `orchestrator effects settle`.
    async def _run_harmless(self, command: str | list[str], cwd: str) -> CommandRan | None:
        return await self._ran(command, cwd, harmless_environment(os.environ if self.env is None else self.env, cwd))

    async def _run(self, command: str | list[str], cwd: str) -> CommandRan | None:
        return await self._ran(command, cwd, self.env)

    async def _ran(self, command: str | list[str], cwd: str, env: Mapping[str, str] | None) -> CommandRan:
        words = [*SHELL, command] if isinstance(command, str) else command
        sandbox = self.sandbox
        if sandbox is not None:
            sandbox.check()
            words = sandbox.wrap(words, Path(cwd), read_only=True) if self.read_only else sandbox.wrap(words, Path(cwd))
            env = environment_within(os.environ) if env is None else env
        ran = await run_bounded(
            words,
            limit_s=self.limit_s,
            tail_bytes=self.tail_bytes,
            cwd=cwd,
            env=env,
            may_gain_privileges=sandbox is not None and sandbox.needs_privileges(),
            scoped_sockets=sandbox is not None,
        )
        return CommandRan(
            code=ran.code, tail=redact_text(ran.tail), duration_s=ran.duration_s, left=ran.left, cut_bytes=ran.cut_bytes
        )


def harmless_environment(env: Mapping[str, str], cwd: str) -> dict[str, str]:
    """Return an environment in which programs are found outside a folder, and git runs nothing that a repository names."""
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
        raise HarnessMisuse(f"command {key!r}: expected text or a list of words, was {command!r:.200}; correct it")
    length = sum(len(str(word)) for word in words)
    if length > MAX_COMMAND:
        raise HarnessMisuse(f"command {key!r} has {length} characters: expected at most {MAX_COMMAND}; write a script")


def _reasons(found: Sequence[Finding]) -> str:
    return "; ".join(dict.fromkeys(f"{finding.category}: {redact_text(finding.why)}" for finding in found[:4]))


def _short(text: str, most: int = 120) -> str:
    return cut(redact_text(" ".join(text.split())), most)
