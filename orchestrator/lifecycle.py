"""The lifecycle of a harness as a table of allowed events. Pure.

new ──Started──► running ◄──Resumed── paused            ends: completed
                  │   ▲ └───Paused────►                        finished    ─┐
               Failed └─Started─┐                              stopped      │ Started: a later
                  ▼             │                              failed       ├ start resumes it
                failed ─Restarting─► backing_off               gave_up      │
                  └────GaveUp──► gave_up                       blocked      │
                                                               budget_spent ─┘

Resuming a pause during a back-off returns to backing_off, since no attempt is running.
A completed harness is started again only if its `BaseHarness.reopens` returns true.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from orchestrator import events as e
from orchestrator.errors import IllegalTransition


class Status(StrEnum):
    """Lifecycle status of a harness."""

    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    BACKING_OFF = "backing_off"
    COMPLETED = "completed"
    FINISHED = "finished"
    EXHAUSTED = FINISHED
    """Earlier name of `FINISHED`."""
    STOPPED = "stopped"
    FAILED = "failed"
    GAVE_UP = "gave_up"
    BLOCKED = "blocked"
    BUDGET_SPENT = "budget_spent"

    @classmethod
    def _missing_(cls, value: object) -> Status | None:
        return cls.FINISHED if value == "exhausted" else None


S = Status
_ENDS: Mapping[type[e.Event], Status] = {
    e.Failed: S.FAILED,
    e.Completed: S.COMPLETED,
    e.Finished: S.FINISHED,
    e.Stopped: S.STOPPED,
    e.Blocked: S.BLOCKED,
    e.BudgetSpent: S.BUDGET_SPENT,
}

# What can end a harness between two attempts: an order, a recorded past that cannot be loaded, too many restarts.
_CUT: Mapping[type[e.Event], Status] = {e.Stopped: S.STOPPED, e.Failed: S.FAILED, e.GaveUp: S.GAVE_UP}

TRANSITIONS: Mapping[Status, Mapping[type[e.Event], Status]] = {
    # Forked: created with a copy of another harness's steps.
    S.NEW: {**_ENDS, e.Started: S.RUNNING, e.Paused: S.PAUSED, e.Forked: S.NEW},
    # Started while running: the program was killed, and this is the next attempt.
    S.RUNNING: {**_ENDS, e.Started: S.RUNNING, e.Paused: S.PAUSED, e.Restarting: S.BACKING_OFF},
    # A pause outlasts attempts and programs; only Resumed and the final events end it.
    S.PAUSED: {**_ENDS, e.Started: S.PAUSED, e.Resumed: S.RUNNING, e.Restarting: S.PAUSED},
    S.BACKING_OFF: {**_CUT, e.Started: S.RUNNING, e.Paused: S.PAUSED, e.Restarting: S.BACKING_OFF},
    S.FAILED: {**_CUT, e.Started: S.RUNNING, e.Restarting: S.BACKING_OFF},
    S.FINISHED: {**_CUT, e.Started: S.RUNNING, e.Restarting: S.BACKING_OFF},
    S.STOPPED: {**_CUT, e.Started: S.RUNNING, e.Restarting: S.BACKING_OFF},
    S.GAVE_UP: {**_CUT, e.Started: S.RUNNING},
    S.BLOCKED: {**_CUT, e.Started: S.RUNNING},
    S.BUDGET_SPENT: {**_CUT, e.Started: S.RUNNING},
    # Only if the harness's `reopens()` returns true.
    S.COMPLETED: {**_CUT, e.Started: S.RUNNING},
}

ENDED = frozenset({S.COMPLETED, S.FINISHED, S.STOPPED, S.FAILED, S.GAVE_UP, S.BLOCKED, S.BUDGET_SPENT})


def may_follow(status: Status, event: e.Event) -> bool:
    """Return whether `event` is allowed in `status`."""
    return type(event) in TRANSITIONS[status]


def after(status: Status, kind: type[e.Event], *, backing_off: bool = False) -> Status | None:
    """Return the status after an event of that class; None if the event is not allowed.

    Args:
        backing_off: whether a restart is recorded whose attempt has not begun; a resumed harness then returns to its back-off.
    """
    found = TRANSITIONS[status].get(kind)
    return S.BACKING_OFF if backing_off and found is not None and kind is e.Resumed else found


def follow(status: Status, event: e.Event, *, backing_off: bool = False) -> Status:
    """Return the status after `event`; see `after`.

    Raises:
        IllegalTransition: `event` is not allowed in `status`.
    """
    found = after(status, type(event), backing_off=backing_off)
    if found is None:
        allowed = ", ".join(sorted(kind.kind for kind in TRANSITIONS[status])) or "nothing"
        raise IllegalTransition(f"{event.kind!r} may not follow {status.value!r}: expected {allowed}")
    return found


_FORGET = (e.Completed, e.GaveUp, e.Blocked, e.BudgetSpent)


def remembers_restarts(event: e.Event) -> bool:
    """Return whether restarts before `event` still count after it. They do until the harness itself comes to an end."""
    if isinstance(event, e.Stopped):
        return event.program_ended
    return not isinstance(event, _FORGET)
