"""The options of `Orchestrator`, validated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from attrs import frozen

from harnesses.budgets.budget import Budget
from harnesses.diagnostics.program_log import Processor
from orchestrator.child_spec import check_callable, check_kind, check_record_bytes, check_seconds
from orchestrator.control.run_services import Wanted
from orchestrator.errors import UsageError
from orchestrator.restart import Backoff


@frozen(kw_only=True)
class RunOptions:
    """The options of a run; see `Orchestrator` for their meaning.

    Raises:
        UsageError: an option is invalid.
    """

    backoff: Backoff
    grace_s: float
    drain_s: float
    deadline_s: float | None
    handle_signals: bool | None
    clock: Callable[[], float] | None
    budget: Budget | None
    redact: bool
    max_record_bytes: int
    wanted: Wanted
    """Monitoring services that the run is to have."""
    processors: Sequence[Processor]

    def __attrs_post_init__(self) -> None:
        if not isinstance(cast(object, self.redact), bool):
            raise UsageError(f"redact: expected True or False, was {self.redact!r:.100}")
        check_kind("backoff", self.backoff, Backoff, "a Backoff; pass Backoff(base_s=…)")
        check_kind("handle_signals", self.handle_signals, bool | None, "True, False or None")
        check_callable("clock", self.clock, "a function that returns seconds since 1970, or None")
        check_kind("grace_s", self.grace_s, int | float, "a number of seconds from 0 up")
        check_kind("drain_s", self.drain_s, int | float, "a number of seconds from 0 up")
        if not all(map(callable, self.processors)):
            raise UsageError(f"processors: expected functions, as structlog takes them, was {self.processors!r:.200}")
        check_record_bytes(self.max_record_bytes)
        check_seconds(grace_s=self.grace_s, drain_s=self.drain_s, deadline_s=self.deadline_s)
