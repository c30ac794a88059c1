"""systemd's protocol for services, by datagrams to $NOTIFY_SOCKET: ready, alive, stopping. Nothing where it is not set.

See sd_notify(3) and sd_watchdog_enabled(3).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

import trio


def tell_manager(words: str, environment: Mapping[str, str] = os.environ) -> None:
    """Send a state, such as `READY=1`, to the service manager, if there is one. It never waits and never fails."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address or address[0] not in "/@":
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sending:
        sending.connect(f"\0{address[1:]}" if address[0] == "@" else address)
        sending.send(words.encode())


def watchdog_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return within how many seconds the manager wants to hear that this process is alive; None if it does not."""
    micros, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    is_meant = process in ("", str(os.getpid()))
    return int(micros) / 1e6 if micros.isdecimal() and int(micros) and is_meant else None


async def stay_alive(environment: Mapping[str, str] = os.environ) -> None:
    """Tell the manager twice in each period that the loop turns; it kills and restarts a program whose loop is blocked."""
    period_s = watchdog_s(environment)
    while period_s is not None:
        tell_manager("WATCHDOG=1", environment)
        await trio.sleep(period_s / 2)
