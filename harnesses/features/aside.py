"""Calls functions of others on a thread of its own, so that they can neither break nor delay a run.

The law: `tell` never waits and never raises. What they raise is logged; when `limit` calls wait, further ones are dropped.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Full, Queue
from typing import Any, TypeAlias

from attrs import frozen

MAX_WAITING = 10_000
"""Calls that may wait for their turn."""
_LAST_WORDS_S = 1.0
"""What is still waiting when the program ends gets so long."""

_log = logging.getLogger(__name__)
_Call: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


@frozen(kw_only=True)
class Told:
    """What has become of calls."""

    failed: int
    """Those that raised."""
    dropped: int
    """Those that were not made because too many were waiting."""


class Aside:
    """Makes calls one after the other, in order, on a daemon thread that begins with the first of them."""

    def __init__(self, limit: int = MAX_WAITING) -> None:
        self._waiting: Queue[_Call | None] = Queue(limit)
        self._thread: threading.Thread | None = None
        self._failed = self._dropped = 0

    @property
    def told(self) -> Told:
        """What has become of the calls so far."""
        return Told(failed=self._failed, dropped=self._dropped)

    def tell(self, function: Callable[..., object], *args: Any) -> None:
        """Have `function(*args)` called soon."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="harness observers", daemon=True)
            self._thread.start()
            atexit.register(self._finish)
        try:
            self._waiting.put_nowait((function, args))
        except Full:
            self._dropped += 1

    def close(self) -> None:
        """Let the thread end when it has made the calls that wait. Does not wait for it."""
        if self._thread is not None:
            # A full queue has no room for the end either; then the daemon thread stays until the program ends.
            with suppress(Full):
                self._waiting.put_nowait(None)

    def _work(self) -> None:
        while (call := self._waiting.get()) is not None:
            function, args = call
            try:
                function(*args)
            except BaseException:  # the `SystemExit` of an observer is no more the end of the run than its errors are
                self._failed += 1
                _log.warning("%r raised and was ignored", function, exc_info=True)
        atexit.unregister(self._finish)

    def _finish(self) -> None:
        self.close()
        if self._thread is not None:
            self._thread.join(_LAST_WORDS_S)
