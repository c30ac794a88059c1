"""A sandbox for commands, as a value: the level that is demanded, what is visible and writable, the network, and limits.

Levels, highest first; the highest that holds on this machine is used, and a test of it is made before its first use:

    bubblewrap   namespaces for files, processes, users, IPC and the network
    landlock     files, TCP, signals and abstract sockets restricted by the kernel
    none         nothing but an environment without secrets

Invariant: a command never starts at a level below the demanded one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from attrs import evolve, field, frozen

from harnesses.agents.argument_checks import NAME, PATHS, TEXTS, Rule, check, listed, optional, validator, whole_from
from harnesses.agents.errors import AgentMissing
from harnesses.agents.sandbox.bubblewrap import bubblewrap_command, is_set_user_id, nesting_flags
from harnesses.agents.sandbox.host_rules import HostRule, read_host_rule
from harnesses.agents.sandbox.landlock import landlock_options, second_wall
from harnesses.agents.sandbox.sandbox_level import Level
from harnesses.agents.sandbox.sandbox_mounts import Places, check_places
from harnesses.agents.sandbox.sandbox_probe import launch, launcher_places, why_bubblewrap_fails, why_landlock_fails
from harnesses.errors import HarnessMisuse

_GIBIBYTE = 1 << 30
_SHOWN = 5
"""Hosts that a description names."""
LIMITS = {
    "DATA": "memory_bytes",
    "CPU": "cpu_s",
    "NPROC": "processes",
    "NOFILE": "open_files",
    "FSIZE": "file_bytes",
}
"""The fields of a sandbox by the limits of getrlimit(2)."""


def _paths(paths: Iterable[Path | str]) -> tuple[str, ...]:
    return tuple(os.path.realpath(os.path.expanduser(path)) for path in paths)


def _writable(paths: Iterable[Path | str]) -> tuple[str, ...]:
    return _paths(listed("sandbox", "writable", paths, PATHS))


def _hidden(paths: Iterable[Path | str]) -> tuple[str, ...]:
    return _paths(listed("sandbox", "hidden", paths, PATHS))


def _level(level: Level | str) -> Level:
    try:
        return Level(level)
    except ValueError:
        wanted = ", ".join(Level)
        raise HarnessMisuse(f"sandbox: level: expected one of {wanted}, got {level!r:.100}; correct it") from None


_NETWORK = Rule("True, False, None or a list of hosts", TEXTS.holds, "write ['pypi.org:443']")


def _network(network: bool | Iterable[str] | None) -> bool | tuple[str, ...] | None:
    if network is None or isinstance(network, bool):
        return network
    given = (network,) if isinstance(network, str) else network
    check("sandbox", "network", given, _NETWORK)
    rules = tuple(given)
    for rule in rules:
        read_host_rule(rule)
    return rules or False


@frozen(kw_only=True)
class Sandbox:
    """A sandbox for commands. `Bubblewrap` is another name for it."""

    level: Level = field(default=Level.BUBBLEWRAP, converter=_level)
    """The lowest level that is accepted; nothing starts below it."""
    writable: tuple[str, ...] = field(default=(), converter=_writable)
    """Additional writable paths, such as caches; missing ones are ignored."""
    hidden: tuple[str, ...] = field(default=(), converter=_hidden)
    """Files and directories that appear empty, such as `~/.ssh`."""
    network: bool | tuple[str, ...] | None = field(default=None, converter=_network)
    """False for none, True for the machine's network, or the hosts that are reached through a proxy, such as
    `["pypi.org:443", "*.pythonhosted.org:443"]`; None depends on its use: shared for an agent with a dialect, else none."""
    memory_bytes: int | None = 8 * _GIBIBYTE
    """Most bytes of private memory of one process, and of files in each of /tmp and /dev/shm; None for no limit."""
    cpu_s: int | None = 36_000
    """Most seconds of processor time of one process."""
    processes: int | None = 2_048
    """Most processes and threads at once."""
    open_files: int | None = 8_192
    """Most open files of one process."""
    file_bytes: int | None = 16 * _GIBIBYTE
    """Most bytes of one file."""
    program: str = field(default="bwrap", validator=validator("sandbox", NAME))
    """The program of bubblewrap."""

    def __attrs_post_init__(self) -> None:
        for name in LIMITS.values():
            most = getattr(self, name)
            check("sandbox", name, most, optional(whole_from(1)))

    def in_force(self) -> Level:
        """Return the highest level that holds on this machine, found by a test. The first call takes about 0.1 s."""
        if not why_bubblewrap_fails(self.program):
            return Level.BUBBLEWRAP
        return Level.NONE if why_landlock_fails() else Level.LANDLOCK

    def confines_fully(self) -> bool:
        """Return whether bubblewrap is in force, which holds everything that a command does outside."""
        return self.in_force() is Level.BUBBLEWRAP

    def check(self) -> None:
        """Raise `AgentMissing` if this machine does not reach the demanded level."""
        if self.level is not Level.NONE and (why := why_bubblewrap_fails(self.program)):
            if self.level is Level.BUBBLEWRAP:
                raise AgentMissing(why)
            if missing := why_landlock_fails():
                raise AgentMissing(f"{missing}. {why}")

    def works(self) -> bool:
        """Return whether this machine reaches the demanded level."""
        return self.in_force().reaches(self.level)

    def needs_privileges(self) -> bool:
        """Return whether bubblewrap is set-user-id, so that it must run without `no_new_privs`."""
        return self.in_force() is Level.BUBBLEWRAP and is_set_user_id(self.program)

    def hosts(self) -> tuple[HostRule, ...]:
        """Return the hosts that are reached through a proxy."""
        return tuple(map(read_host_rule, self.network)) if isinstance(self.network, tuple) else ()

    def describe(self, *, network: bool = False) -> str:
        """Return the level in force and the network in a few words, for records.

        Args:
            network: whether it shares the network, if `self.network` is None.
        """
        shares = network if self.network is None else self.network
        reach = "network" if shares is True else "no network"
        if isinstance(shares, tuple):
            more = f" and {len(shares) - _SHOWN} more" if len(shares) > _SHOWN else ""
            reach = f"network {', '.join(shares[:_SHOWN])}{more}"
        level = self.in_force()
        return "none" if level is Level.NONE else f"{level.value}, {reach}"

    def wrap(
        self,
        command: Sequence[str],
        directory: Path,
        *,
        writable: Iterable[str] = (),
        readable: Iterable[str] = (),
        network: bool = False,
        read_only: bool = False,
        proxy: str = "",
    ) -> list[str]:
        """Return the command that runs `command` in the sandbox, in `directory`. See `sandboxed`, which does more.

        Args:
            writable: additional writable paths, such as the `.git` of `directory`, which is read-only otherwise.
            readable: paths that stay readable although hidden by default, or stay read-only inside a writable one.
            network: whether it shares the network, if `self.network` is None.
            read_only: whether `directory` is read-only too.
            proxy: path of the Unix socket of a proxy, through which alone it reaches the network.

        Raises:
            AgentMissing: this machine does not reach the demanded level.
            HarnessMisuse: the directory holds files of the run itself, such as its store; or hosts are allowed, and no proxy.
        """
        self.check()
        level = self.in_force()
        if level is Level.NONE:
            return list(command)
        places = self._places(directory, _paths(writable), _paths(readable), network, read_only)
        if isinstance(self.network, tuple) and not proxy:
            raise HarnessMisuse(
                f"sandbox of {command[0]!r}: network: expected true or false without a proxy, got {self.network}; use "
                f"`sandboxed`, which has one"
            )
        check_places(places)
        options = [*self._limits(), *(["--proxy", proxy] if proxy else [])]
        if level is Level.LANDLOCK:
            return launch([*options, *landlock_options(places)], list(command))
        if proxy:
            places = evolve(places, readable=(*places.readable, os.path.dirname(proxy)), socket=proxy)
        shared = [] if nesting_flags(self.program) else ["--all-processes", "yes"]
        return bubblewrap_command(self.program, places, launch([*options, *shared, *second_wall(places)], list(command)))

    def _places(
        self, directory: Path, writable: tuple[str, ...], readable: tuple[str, ...], network: bool, read_only: bool
    ) -> Places:
        place = os.path.realpath(directory)
        open_to = (*self.writable, *writable)
        # Files in `.git` (hooks, filters, a monitor) are run by the next git outside the sandbox, as the user.
        seen = (*launcher_places(self.hidden), *readable, os.path.join(place, ".git"))
        shares = network if self.network is None else self.network
        return Places(
            directory=place,
            writable=open_to if read_only else (*open_to, place),
            readable=(*seen, place) if read_only else seen,
            hidden=self.hidden,
            network=shares is True,
            temporary_bytes=self.memory_bytes,
        )

    def _limits(self) -> list[str]:
        limits = {limit: getattr(self, name) for limit, name in LIMITS.items()}
        return [word for limit, most in limits.items() if most is not None for word in ("--limit", f"{limit}={most}")]


def as_sandbox(value: Sandbox | Literal["bwrap"] | None, subject: str) -> Sandbox | None:
    """Return the sandbox that an argument means: "bwrap" is `Sandbox()`.

    Args:
        subject: whose argument it is, for the message.

    Raises:
        HarnessMisuse: it means none.
    """
    if value is None or isinstance(value, Sandbox):
        return value
    if value != "bwrap":
        raise HarnessMisuse(f"{subject}: sandbox: expected 'bwrap', a Sandbox or None, got {value!r:.100}; correct it")
    return Sandbox()


Bubblewrap = Sandbox
"""The earlier name of `Sandbox`."""
