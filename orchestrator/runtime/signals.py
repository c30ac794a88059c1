"""SIGINT and SIGTERM, and the word to the operator."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import trio


async def heed_signals(heed: Callable[[int], None], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Call `heed` with the number of each SIGINT and SIGTERM, for ever."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            heed(number)


def say(text: str) -> None:
    """Tell the operator, on stderr."""
    print(text, file=sys.stderr, flush=True)
