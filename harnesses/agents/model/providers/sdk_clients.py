"""The vendors' SDK clients of this Trio run: one for each provider and account, shared by all harnesses.

An SDK takes seconds to import and a client 0.1 s to make, so both happen in a worker thread.

Invariant: clients are closed at the end of the run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import trio
from attrs import define, field

_MOST_IDLE = 16
"""Clients kept, although unused, for keys that may have been replaced."""
_CLOSE_S = 2.0


@define(eq=False)
class _Client:
    sdk: Any
    used: int = 0
    """Calls in progress."""


@define(eq=False)
class _Clients:
    lock: trio.Lock = field(factory=trio.Lock)
    by_account: dict[tuple[str, str], _Client] = field(factory=dict[tuple[str, str], _Client])

    async def close_idle(self) -> None:
        """Close the oldest unused clients, but for the last few."""
        idle = [account for account, client in self.by_account.items() if not client.used]
        for account in idle[: max(0, len(idle) - _MOST_IDLE)]:
            client = self.by_account.pop(account)
            with suppress(Exception):
                await client.sdk.close()

    async def close_at_end(self) -> None:
        """Close all clients when the Trio run ends."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_S):
                for client in self.by_account.values():
                    with suppress(Exception):
                        await client.sdk.close()


_run: trio.lowlevel.RunVar[_Clients] = trio.lowlevel.RunVar("harnesses_model_clients")


def _clients() -> _Clients:
    try:
        return _run.get()
    except LookupError:
        clients = _Clients()
        _run.set(clients)
        trio.lowlevel.spawn_system_task(clients.close_at_end, name="close model clients")
        return clients


@asynccontextmanager
async def sdk_client(provider: str, account: str, make: Callable[[], Any]) -> AsyncGenerator[Any, None]:
    """Yield the client of an account.

    Args:
        make: imports the SDK and makes the client; called once, in a worker thread.
    """
    clients = _clients()
    client = clients.by_account.get((provider, account))
    if client is None:
        async with clients.lock:
            client = clients.by_account.get((provider, account))
            if client is None:
                client = _Client(await trio.to_thread.run_sync(make))
                clients.by_account[provider, account] = client
                await clients.close_idle()
    client.used += 1
    try:
        yield client.sdk
    finally:
        client.used -= 1
