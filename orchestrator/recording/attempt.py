"""Identity of one attempt, and whether the running code belongs to an attempt that has to stop."""

from __future__ import annotations

from contextvars import ContextVar

import trio
from attrs import frozen
from trio.lowlevel import Task

from harnesses.control import Control
from harnesses.errors import Stopping


@frozen
class AttemptId:
    """The fields that identify an attempt in every row that it records."""

    name: str
    """Name of the harness."""
    number: int
    """Number of the harness in the store."""
    epoch: int
    """Ownership epoch of the harness: commits with an earlier one are refused."""
    attempt: int


_attempt: ContextVar[tuple[Task, Control] | None] = ContextVar("attempt", default=None)


def enter_attempt(control: Control) -> None:
    """Mark the current task, and all tasks started below it, as belonging to one attempt."""
    _attempt.set((trio.lowlevel.current_task(), control))


def is_in_attempt() -> bool:
    """Return whether the running code belongs to an attempt, or was started by one."""
    return _attempt.get() is not None


async def unwind_if_stopping() -> None:
    """Raise, or wait to be cancelled, if the current task belongs to a harness that has to stop.

    In the task of `execute()` this raises `Stopping`. A task that `execute()` started waits to be cancelled instead: if it
    ended, `execute()` could take that for the end of its work.
    """
    found = _attempt.get()
    if found is None or not found[1].stopping:
        return
    task: Task | None = trio.lowlevel.current_task()
    if task is found[0]:
        raise Stopping
    # A task started in a nursery of the program inherits the harness's context, but does not belong to it.
    while task is not None and task is not found[0]:
        task = None if task.parent_nursery is None else task.parent_nursery.parent_task
    if task is not None:
        await trio.sleep_forever()
