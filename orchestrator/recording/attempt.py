"""One attempt of a harness: what the store calls it, and whether the code that runs now is part of it and is to stop."""

from __future__ import annotations

from contextvars import ContextVar

import trio
from attrs import frozen
from trio.lowlevel import Task

from harnesses.control import Control
from harnesses.errors import Stopping


@frozen
class AttemptId:
    """What every row that an attempt has recorded says of it."""

    name: str
    """Of the harness."""
    number: int
    """Of the harness in the store."""
    epoch: int
    """Of its ownership: a commit of an earlier one is refused."""
    attempt: int


_attempt: ContextVar[tuple[Task, Control] | None] = ContextVar("attempt", default=None)


def enter_attempt(control: Control) -> None:
    """Mark the current task, and all that are started below it, as those of one attempt."""
    _attempt.set((trio.lowlevel.current_task(), control))


def is_in_attempt() -> bool:
    """Return whether the code that runs now was started by an attempt, or is part of one."""
    return _attempt.get() is not None


async def unwind_if_stopping() -> None:
    """Return, unless the current task belongs to a harness that is to stop: then it does not go on.

    In the task of `execute()` it raises `Stopping`. A task that `execute()` has started waits to be cancelled with it: if it
    ended, `execute()` could take that for the end of its work.
    """
    found = _attempt.get()
    if found is None or not found[1].stopping:
        return
    task: Task | None = trio.lowlevel.current_task()
    if task is found[0]:
        raise Stopping
    # One that was started in a nursery of the program inherits the context of the harness, but is not part of it.
    while task is not None and task is not found[0]:
        task = None if task.parent_nursery is None else task.parent_nursery.parent_task
    if task is not None:
        await trio.sleep_forever()
