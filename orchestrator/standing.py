"""Where every harness of a store stands, as it is shown: its status now, why, and what it waits for a person to say.

What is shown was audited first: of a record that can not be trusted that is said, and nothing can be answered to it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import msgspec
from attrs import frozen

from harnesses.approval import Standing, Word, stand
from harnesses.clock import read_ticks
from orchestrator.errors import UsageError
from orchestrator.latch import ALL, Latch
from orchestrator.lifecycle import Status
from orchestrator.records import ApprovalRecord, HarnessRecord
from orchestrator.shown import json_line, stamp_us
from orchestrator.store.secret import known_secret
from orchestrator.store.sqlite_reader import SqliteReader

INTERRUPTED = "interrupted"
"""Shown instead of a status that only a living program can keep."""
OVER = "over"
"""Instead of `pending`, of a request whose step has been recorded without it: nothing can be done with it any more."""
_NEEDS_OWNER = (Status.RUNNING, Status.BACKING_OFF)


def shown_status(record: HarnessRecord) -> str:
    """Return the status as it is now: a harness whose program is gone does not run, whatever the last event was."""
    return INTERRUPTED if record.status in _NEEDS_OWNER and not record.owned else record.status.value


def cause(record: HarnessRecord) -> str:
    """Return why a harness is where it is; empty where its status says it all."""
    if shown_status(record) == INTERRUPTED:
        return "its program is gone; run it again to go on"
    return str(record.event.get("cause") or "")


def json_status(reader: SqliteReader) -> Iterator[str]:
    """Yield what is known of each harness, a line of JSON each."""
    records, waiting = reader.harnesses(), waiting_for(reader)
    latched = latched_names(Latch(reader.path))
    yield from (json_line(_fields(record, latched, waiting)) for record in records)


def _fields(record: HarnessRecord, latched: Collection[str], waiting: Mapping[str, str]) -> dict[str, Any]:
    return {
        "harness": record.name,
        "status": shown_status(record),
        "attempt": record.attempt,
        "current_step": record.current_step,
        "timestamp": stamp_us(record.last_time_us),
        "cause": waiting.get(record.name) or cause(record),
        "waiting": record.name in waiting,
        "class": record.harness_class,
        "owned": record.owned,
        "latched": ALL in latched or record.name in latched,
        "last_event": record.event,
    }


@frozen
class Shown:
    """A request, and where it stands."""

    record: ApprovalRecord
    standing: Standing
    request: dict[str, Any]
    """Its fields; empty if they can not be read."""
    is_current: bool
    """Whether the step that it was asked in is still being made."""

    @property
    def word(self) -> str:
        idle = self.standing.word is Word.PENDING and not self.is_current
        return OVER if idle else "used" if self.standing.used else self.standing.word.value

    @property
    def is_pending(self) -> bool:
        """Whether a person is needed."""
        return self.word in (Word.PENDING, Word.INVALID) and self.is_current


def known_approvals(reader: SqliteReader, name: str | None, *, every: bool) -> list[Shown]:
    """Return what was asked, by one harness or by all: what waits for a person, or everything.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: the key that the records are signed with can not be read.
    """
    records = reader.approvals(name)
    if not records:
        return []
    secret, now = known_secret(reader.path), time.time_ns() // 1000
    steps = {harness.name: harness.current_step for harness in reader.harnesses()}
    shown = [
        Shown(
            record,
            stand(record.case, secret, now_us=now, ticks=read_ticks()),
            _request_of(record),
            record.step_number == steps.get(record.harness, 0) + 1,
        )
        for record in records
    ]
    return [one for one in shown if every or one.is_pending]


def pending_approvals(reader: SqliteReader) -> int:
    """Return how many requests wait for a person.

    Raises:
        UsageError: the key that the records are signed with can not be read.
    """
    return len(known_approvals(reader, None, every=False))


def waiting_for(reader: SqliteReader) -> dict[str, str]:
    """Return what harnesses wait for, in words, by name; for the verbs that show harnesses."""
    try:
        pending = known_approvals(reader, None, every=False)
    except UsageError:
        return {}
    return {one.record.harness: _asked(one) for one in pending}


def _asked(one: Shown) -> str:
    what = f"{one.request.get('category', '?')}: {one.request.get('summary', '?')}"
    return f"waits for an approval: {what}; `orchestrator approve {one.record.id}`"


def _request_of(record: ApprovalRecord) -> dict[str, Any]:
    try:
        fields: object = msgspec.json.decode(record.case.request)
    except msgspec.DecodeError:
        return {}
    return cast(dict[str, Any], fields) if isinstance(fields, dict) else {}


def which(latch: Latch) -> Mapping[str, Mapping[str, Any]]:
    """Return what is latched, and what was said of it.

    Raises:
        UsageError: the folder can not be looked at; then no effect may begin.
    """
    try:
        return latch.which()
    except OSError as error:
        raise UsageError(
            f"the latch {latch.folder} can not be looked at: {error.strerror}; so no effect may begin; check its permissions"
        ) from error


def latched_names(latch: Latch) -> Collection[str]:
    """Return whose effects may not begin, `@all` or names; all, if the latch can not be looked at."""
    try:
        return which(latch)
    except UsageError:
        return (ALL,)
