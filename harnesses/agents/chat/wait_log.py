"""`WaitLog`: logs that a model call waits for its provider, and that the wait has ended; once for each wait of a call.

Lines that begin with `! model ` are shown by `orchestrator run` while it goes on, others only in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import trio
from attrs import define, field

from harnesses.timing.clock import now_s

NOTICED_S = 1.0
"""A wait that is expected to last for so long is a notice."""


@define
class WaitLog:
    """The waits of one model call.

    Args:
        log: writes a line.
        most_s: how long the call waits at most, in seconds.
    """

    _log: Callable[[str], None]
    _most_s: float
    _since: float = field(factory=trio.current_time)
    _expected_s: float = 0.0
    _waits_for: str = ""

    def wait(self, reason: str, seconds: float) -> None:
        """Log the beginning of a wait, as `ModelClient.call` tells it."""
        if not self._expected_s:
            self._since = trio.current_time()
        self._expected_s += seconds
        if self._waits_for:
            return
        if self._expected_s < NOTICED_S:
            self._log(f"[waiting {seconds:.1f} s: {reason}]")
            return
        self._waits_for = reason
        until, at_most = (_time(now_s() + more) for more in (seconds, max(seconds, self._most_s)))
        self._log(f"! model {reason}: waiting until {until}, and then at most until {at_most}")

    def end(self, *, is_answered: bool) -> None:
        """Log the end of a wait that was noticed."""
        if self._waits_for:
            name, waited = self._waits_for.partition(": ")[0], trio.current_time() - self._since
            self._log(f"! model {name}: {'answered' if is_answered else 'given up'} after a wait of {waited:.0f} s")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
