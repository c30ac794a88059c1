"""The verb `serve`: the page for operators, in a browser of this machine."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import trio
from cyclopts import Parameter

from harnesses.diagnostics.extras import install_command
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.run.companion import Until, end_of
from orchestrator.cli.verb_options import USUAL, Common, Words
from orchestrator.control.control_server import is_there
from orchestrator.control.run_services import Address, address_of
from orchestrator.errors import StoreError, UsageError
from orchestrator.store.places.store_location import keep_fresh

if TYPE_CHECKING:
    from orchestrator.web.store_folder import StoreFolder

TOKEN_VARIABLE = "ORCHESTRATOR_TOKEN"
"""Environment variable with the token, for programs that use the API."""
_LEAST_TOKEN = 16
_NICE = 5
"""The harnesses come first: of a core that both want, they get three quarters."""
_LOOK_S = 0.3
"""Seconds between two looks at the run that the page belongs to."""


def serve(
    place: Annotated[Words, Parameter(metavar="STORE|FOLDER")] = "",
    /,
    *,
    listen: Annotated[Words, Parameter(metavar="HOST:PORT")] = "127.0.0.1:0",
    open: bool = False,
    until: Until = None,
    common: Common = USUAL,
) -> int:
    """Show a page with everything that is recorded, and with buttons for orders.

    The page shows the store of a program that runs, or of one that has ended. It is served by this process, so it cannot
    disturb the run. The address that is printed has a token; without it nothing is answered. $ORCHESTRATOR_TOKEN sets the
    token, for programs that use the API below /api (GET /api/openapi.json describes it). Ctrl-C ends it; the run goes on.

    Args:
        place: a store, or a folder: then the page lists the stores in it and below, with their runs (default: --store)
        listen: where to listen; only this machine can reach 127.0.0.1, and port 0 is any free one (default: 127.0.0.1:0)
        open: open the page in a browser
    """
    if not is_there():
        raise UsageError(f"serve needs h11, which is not installed: run `{install_command('control')}`")
    at, token, has_ended = address_of(listen), _token(), end_of(until)
    stores = _stores(Path(place or common.location), has_ended, is_new=until is not None)
    keep_fresh(stores.place)
    with suppress(OSError):
        os.nice(_NICE)
    try:
        trio.run(_serve, stores, at, token, open, has_ended)
    finally:
        stores.close()
    return ExitCode.OK


def _stores(place: Path, has_ended: Callable[[], bool], *, is_new: bool) -> StoreFolder:
    """Return what is told of a folder, or of a store, which a run may just be making."""
    from orchestrator.web.store_folder import StoreFolder

    while True:
        try:
            return StoreFolder(place)
        except StoreError:
            if not is_new or has_ended():
                raise
        time.sleep(_LOOK_S)


def _token() -> str:
    given = os.environ.get(TOKEN_VARIABLE, "")
    if not given:
        return secrets.token_urlsafe(24)
    if len(given) < _LEAST_TOKEN or not given.replace("-", "").replace("_", "").isalnum() or not given.isascii():
        raise UsageError(f"{TOKEN_VARIABLE}: expected at least {_LEAST_TOKEN} letters, digits, - and _; make a longer one")
    return given


async def _serve(stores: StoreFolder, at: Address, token: str, is_opened: bool, has_ended: Callable[[], bool]) -> None:
    from orchestrator.web.page_server import PageServer, access_of

    try:
        listeners = await trio.open_tcp_listeners(at.port, host=at.host)
    except OSError as error:
        raise UsageError(f"serve: cannot listen on {at}: {error.strerror or error}; name another --listen") from error
    bound = Address(at.host, listeners[0].socket.getsockname()[1])
    page = PageServer(stores, access_of(bound, token))
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(page.serve, listeners)
            await _announce(bound, at, token, is_opened=is_opened)
            nursery.start_soon(_end_with, has_ended, nursery.cancel_scope)
            await anext(aiter(signals))
            nursery.cancel_scope.cancel()


async def _end_with(has_ended: Callable[[], bool], scope: trio.CancelScope) -> None:
    while True:
        if has_ended():
            return scope.cancel()
        await trio.sleep(_LOOK_S)


async def _announce(bound: Address, at: Address, token: str, *, is_opened: bool) -> None:
    sys.stdout.write(f"http://{bound}/?token={token}\n")
    sys.stdout.flush()
    if not at.is_local:
        streams.say(f"serve: everybody who reaches {bound} and has the token can read the store and give orders")
    if is_opened:
        await trio.to_thread.run_sync(webbrowser.open, f"http://{bound}/?token={token}")
