"""A command that is ready to run in a sandbox: its command line and environment, and the proxy while it runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TypedDict

import trio
from attrs import field, frozen

from harnesses.agents.sandbox.control_group import join_group, make_group, remove_group
from harnesses.agents.sandbox.host_rules import HostRule
from harnesses.agents.sandbox.network_proxy import serve_proxy
from harnesses.agents.sandbox.sandbox_environment import environment_within
from harnesses.agents.sandbox.sandbox_level import Level
from harnesses.agents.sandbox.sandbox_settings import Sandbox


class Rights(TypedDict):
    """Arguments of `run_bounded` that belong to a sandbox."""

    may_gain_privileges: bool
    scoped_sockets: bool


@frozen(kw_only=True)
class Sandboxed:
    """A command line that runs in a sandbox."""

    command: list[str]
    """Program and arguments, with what sets up the sandbox."""
    environment: dict[str, str] = field(repr=False)
    """The whole environment to run it in."""
    level: Level
    """The level in force."""
    described: str
    """The level and the network in a few words, for records; empty without a sandbox."""
    rights: Rights
    """Further arguments for `run_bounded`."""


@asynccontextmanager
async def sandboxed(
    command: Sequence[str],
    directory: Path | str,
    sandbox: Sandbox | None,
    *,
    environment: Mapping[str, str] | None = None,
    added: Mapping[str, str] | None = None,
    keep: tuple[str, ...] = (),
    writable: Iterable[str] = (),
    readable: Iterable[str] = (),
    network: bool = False,
    read_only: bool = False,
    may_gain_privileges: bool = False,
    log: Callable[[str], object] | None = None,
) -> AsyncGenerator[Sandboxed, None]:
    """Prepare a command to run in a sandbox; run it before leaving the block, in `directory`.

    Args:
        sandbox: None for no sandbox: command and environment stay as they are.
        environment: of the command, None for this program's; secrets and what leads outside are removed in a sandbox.
        added: variables that are added as they are, also secrets.
        keep: prefixes of variables that are kept in any case; see `environment_within`.
        writable, readable, network, read_only: see `Sandbox.wrap`.
        may_gain_privileges: without a sandbox, see `run_bounded`.
        log: called with a line that describes the sandbox, and with one for each host that is refused.

    Raises:
        AgentMissing: this machine does not reach the demanded level.
        HarnessMisuse: the directory holds files of the run itself, such as its store.
    """
    around = os.environ if environment is None else environment
    if sandbox is None:
        rights = Rights(may_gain_privileges=may_gain_privileges, scoped_sockets=False)
        given = {**around, **(added or {})}
        yield Sandboxed(command=list(command), environment=given, level=Level.NONE, described="", rights=rights)
        return
    await trio.to_thread.run_sync(sandbox.check)
    level = sandbox.in_force()
    within = {**environment_within(around, keep), **(added or {})}
    hosts = () if level is Level.NONE else sandbox.hosts()
    async with (
        _private_folder(needed=level is Level.LANDLOCK or bool(hosts)) as folder,
        _proxy(hosts, folder, log) as proxy,
        _group(None if level is Level.NONE else sandbox.processes) as group,
    ):
        if level is Level.LANDLOCK:
            within["TMPDIR"] = os.path.join(folder, "tmp")
            os.mkdir(within["TMPDIR"])
            writable = (*writable, within["TMPDIR"])
        wrap = partial(sandbox.wrap, writable=writable, readable=readable, network=network, read_only=read_only, proxy=proxy)
        described = sandbox.describe(network=network)
        if log is not None:
            log(f"[sandbox: {described}]")
        words = await trio.to_thread.run_sync(wrap, command, Path(directory))
        yield Sandboxed(
            command=words if group is None else join_group(group, words),
            environment=within,
            level=level,
            described=described,
            rights=Rights(may_gain_privileges=sandbox.needs_privileges(), scoped_sockets=level is not Level.NONE),
        )


@asynccontextmanager
async def _proxy(hosts: tuple[HostRule, ...], folder: str, log: Callable[[str], object] | None) -> AsyncGenerator[str, None]:
    """Serve a proxy meanwhile, if there are hosts; give the path of its socket, else an empty one."""
    if not hosts:
        yield ""
        return
    path = os.path.join(folder, "proxy", "socket")
    os.mkdir(os.path.dirname(path))
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve_proxy, path, hosts, log=log))
        try:
            yield path
        except Exception as error:  # Raised behind the nursery, which would put it into a group.
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed


@asynccontextmanager
async def _group(processes: int | None) -> AsyncGenerator[Path | None, None]:
    """Make a control group meanwhile, where it is needed and this program may."""
    group = await trio.to_thread.run_sync(make_group, processes)
    try:
        yield group
    finally:
        if group is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(remove_group, group)


@asynccontextmanager
async def _private_folder(*, needed: bool) -> AsyncGenerator[str, None]:
    if not needed:
        yield ""
        return
    folder = await trio.to_thread.run_sync(partial(mkdtemp, prefix="sandbox-"))
    try:
        yield await trio.to_thread.run_sync(os.path.realpath, folder)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
