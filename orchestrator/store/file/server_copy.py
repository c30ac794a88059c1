"""The local copy of a store on a server, and what this machine keeps beside it: the same files as beside a store in a file.

    ~/.cache/orchestrator/servers/1f3a…/    for each address, readable by its user only
        server-copy.db                      what every verb, page and analysis reads; nobody runs harnesses on it
        server-copy.db-living               the runs that were alive when the copy was made, by their leases
        server-copy.db-fleets               the fleets whose nodes have run its harnesses
        server-copy.db-latch/               the kill switches that were on
        server.json                         which store it is a copy of

Invariant: a path alone tells whether it is such a copy, so it may be passed on wherever the path of a store goes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec

from harnesses.files.safe_files import draft_of
from orchestrator.errors import StoreUnusable
from orchestrator.text.command_hints import show_as, show_fleets

COPY = "server-copy.db"
_NOTE = "server.json"
_LIVING = "-living"
_FLEETS = "-fleets"


class Server(msgspec.Struct, frozen=True):
    """Which store a local copy is of."""

    address: str
    """As a verb takes it: without a password, with the schema if it is not the usual one."""
    url: str
    """As the server's library takes it."""
    schema: str
    location: str
    """For messages."""


def copy_path(server: Server) -> Path:
    """Return the path of the local copy of a store; make its folder.

    Raises:
        StoreUnusable: the folder cannot be made, or belongs to somebody else.
    """
    name = blake2b(f"{server.url}\n{server.schema}".encode(), digest_size=8).hexdigest()
    folder = Path("~/.cache")
    try:
        folder = _cache() / "orchestrator" / "servers" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.geteuid():
            raise PermissionError("it belongs to another user")
        folder.chmod(0o700)
        if server_of(folder / COPY) != server:
            with draft_of(folder / _NOTE, mode=0o600) as file:
                file.write(msgspec.json.encode(server))
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows the user's home
        raise StoreUnusable(
            f"{server.location} cannot be copied to {folder}: {error}; have XDG_CACHE_HOME name a folder of yours"
        ) from error
    show_as(folder / COPY, server.address)
    _show_fleets(folder / COPY, server)
    return folder / COPY


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path("~/.cache").expanduser()).resolve()


def server_of(path: object) -> Server | None:
    """Return which store a path is the local copy of; None if it is a store of its own."""
    text = str(path)
    if os.path.basename(text) != COPY:
        return None
    try:
        return msgspec.json.decode(Path(text).with_name(_NOTE).read_bytes(), type=Server)
    except (OSError, msgspec.DecodeError):
        return None


def shown_place(path: object) -> str:
    """Return what messages call a store: its path, or the address of the store that it is a copy of."""
    server = server_of(path)
    return str(path) if server is None else server.location


def note_living(path: Path, runs: str) -> None:
    """Keep the names of the living runs, a JSON list, beside a copy."""
    with draft_of(Path(f"{path}{_LIVING}"), mode=0o600) as file:
        file.write(runs.encode())


def note_fleets(path: Path, server: Server, fleets: Sequence[str]) -> None:
    """Keep the names of the fleets of a store beside its copy, unless there are none now: their nodes may all have ended."""
    if fleets:
        with draft_of(Path(f"{path}{_FLEETS}"), mode=0o600) as file:
            file.write(msgspec.json.encode(fleets))
        _show_fleets(path, server)


def _show_fleets(path: Path, server: Server) -> None:
    with suppress(OSError, msgspec.DecodeError):
        fleets = msgspec.json.decode(Path(f"{path}{_FLEETS}").read_bytes(), type=list[str])
        for place in (path, server.address, server.location):
            show_fleets(place, fleets)


def living_runs(path: Path) -> frozenset[str]:
    """Return the runs that own harnesses by a lease, as of when the copy was made; none of a store in a file."""
    if path.name != COPY:
        return frozenset()
    try:
        return frozenset(msgspec.json.decode(Path(f"{path}{_LIVING}").read_bytes(), type=list[str]))
    except (OSError, msgspec.DecodeError):
        return frozenset()
