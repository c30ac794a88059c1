"""How a run ends before its harnesses have ended: by a signal, its deadline, a cancellation, or loss of the store."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import cast

import trio
from attrs import define, field

from orchestrator.errors import StoreLost, SystemTaskFailed
from orchestrator.runtime.child import Child
from orchestrator.runtime.started_children import ENDED
from orchestrator.runtime.system_faults import raised_so_far, system_fault
from orchestrator.text.terminal_text import say


@define(eq=False, repr=False)
class RunShutdown:
    """Stops every harness, and keeps the cause.

    Args:
        children: the program's current children.
        drain_s: seconds until the end after a first signal.
    """

    _children: Mapping[str, Child]
    drain_s: float
    tells_signals: bool = True
    """Whether signals are told on standard error."""
    cause: str | None = None
    """Why everything has to end; harnesses started from then on do not run."""
    lost: StoreLost | None = None
    fault: SystemTaskFailed | None = None
    signalled: int | None = None
    """The number of the signal that ended the run, if one did."""
    body: trio.CancelScope = field(factory=trio.CancelScope)
    """Scope around the user's block, cancelled when the run has to end."""

    def stop(self, grace_s: float | None, cause: str) -> None:
        """Stop every harness at its next step boundary, or when its grace period is over."""
        self.cause = self.cause or cause
        for child in self._children.values():
            child.orders.stop(grace_s, cause, program_ends=True)

    def abort(self, cause: str) -> None:
        """Cancel every harness at once."""
        self.cause = self.cause or cause
        for child in self._children.values():
            child.orders.abort(cause)

    def lose_store(self, error: StoreLost) -> None:
        """Abort, since nothing can be recorded any more."""
        self.lost = error
        self.abort("the store is lost")
        self.body.cancel()

    def heed_signal(self, number: int) -> None:
        """Drain at the first signal, cancel at the second."""
        name = signal.Signals(number).name
        if self.signalled is None:
            self.signalled = number
            self._say(f"{name}: stopping within {self.drain_s:g} s; a second signal cancels at once")
            self.stop(self.drain_s, name)
        else:
            self._say(f"{name} again: cancelling")
            self.abort(f"{name} again")
        self.body.cancel()

    def _say(self, text: str) -> None:
        if self.tells_signals:
            say(text)

    async def stop_after(self, deadline_s: float, grace_s: float) -> None:
        """Stop everything when the run's deadline has passed."""
        await trio.sleep(deadline_s)
        self.stop(grace_s, f"the run's deadline of {deadline_s:g} s has passed")
        self.body.cancel()

    async def abort_when_cancelled(self) -> None:
        """Abort the harnesses when the program is cancelled: paused ones wait for events only, and would not notice."""
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            self.abort(self.why_cancelled())
            raise

    def why_cancelled(self) -> str:
        """Return why everything is cancelled from outside: an error in code that Trio itself runs, or "cancelled"."""
        running = {name: child.harness for name, child in self._children.items() if child.harness is not ENDED}
        if self.fault is None and (fault := system_fault(raised_so_far(), running)) is not None:
            self.fault = fault
            with suppress(Exception):
                # Trio's own error at the end prints this error with its notes.
                BaseException.add_note(cast(BaseException, fault.__cause__), str(fault))
        return "cancelled" if self.fault is None else self.fault.told


async def heed_signals(heed: Callable[[int], None], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Call `heed` with the number of each SIGINT and SIGTERM, until cancelled."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            heed(number)


async def heed_hangups(
    obey: Callable[[], Awaitable[object]],
    heed: Callable[[int], None],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Await `obey()` at each SIGHUP, or call `heed` if that means that the terminal is gone; until cancelled."""
    has_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            if has_terminal and not _has_terminal():
                heed(number)
            else:
                await obey()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
