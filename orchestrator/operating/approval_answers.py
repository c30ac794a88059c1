"""Approval requests as plain values, and a person's answers to them.

What is shown was audited first: a record that cannot be trusted is marked so, and cannot be answered.
"""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any

from harnesses.effects.approval import Answer, read
from harnesses.timing.clock import now_us, read_ticks
from orchestrator.errors import UsageError
from orchestrator.operating.store_writing import commit, user_name
from orchestrator.status import Shown, known_approvals
from orchestrator.store.file.server_copy import shown_place
from orchestrator.store.rules.signing_key import read_secret
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_operations import Respond
from orchestrator.text.command_hints import command
from orchestrator.text.json_text import stamp_us


def approval_fields(one: Shown) -> dict[str, Any]:
    """Return a request as the command and the API show it."""
    record, request = one.record, one.request
    return {
        "id": record.id,
        "harness": record.harness,
        "step_number": record.step_number,
        **{name: request.get(name) for name in ("key", "category", "summary", "arguments", "digest")},
        "standing": one.word,
        "by": one.standing.by,
        "reason": one.standing.reason,
        "timestamp": stamp_us(record.time_us),
        "expires": stamp_or_none(request.get("expires_us")),
        "seq": record.seq,
    }


def stamp_or_none(time_us: object) -> str | None:
    """Return a time in microseconds since 1970 as text; None if it is none."""
    return stamp_us(time_us) if isinstance(time_us, int) and 0 <= time_us < 1 << 58 else None


def asker_of(store: str, id: str) -> str:
    """Return the name of the harness that has asked.

    Raises:
        UsageError: there is no such request.
    """
    with closing(SqliteReader(store)) as reader:
        asker = next((record.harness for record in reader.approvals() if record.id == id), None)
    if asker is None:
        raise UsageError(
            f"no approval {id!r} was asked for in {shown_place(store)}: expected an id of "
            f"`{command(store, 'approvals', '--all')}`"
        )
    return asker


def asker_to_reopen(store: str, id: str) -> str:
    """Return the name of the harness that may ask anew.

    Raises:
        UsageError: there is no such request, or its step has been recorded without it.
    """
    name = asker_of(store, id)
    with closing(SqliteReader(store)) as reader:
        shown = next(one for one in known_approvals(reader, name, every=True) if one.record.id == id)
    if not shown.is_current and not shown.standing.used:
        raise UsageError(
            f"approval {id!r} cannot be reopened: step {shown.record.step_number} of {name!r} is recorded without it; "
            "expected one of the step being made"
        )
    return name


def said_before(store: str, id: str, verdict: str) -> tuple[str, str]:
    """Return who has said the same of a request before, and when; nothing where that cannot be read."""
    with closing(SqliteReader(store)) as reader:
        secret = read_secret(reader.path)
        bodies = [body for record in reader.approvals() if record.id == id for body in record.case.answers]
    for body in bodies:
        with suppress(ValueError):
            answer = read(Answer, body, secret)
            if answer.verdict == verdict:
                return answer.by, stamp_or_none(answer.answered_us) or ""
    return "", ""


def respond(store: str, id: str, verdict: str, *, by: str | None, reason: str) -> bool:
    """Put a person's answer on record; return False if the same was said before, and then do nothing.

    Raises:
        UsageError: there is no such request, or it cannot be answered so any more.
    """
    who = user_name() if by is None else by
    if not who.strip():
        raise UsageError("--by: expected who answers, got nothing; whoever reads this later will want to know")
    asker_of(store, id)
    with closing(SqliteReader(store)) as reader:
        path = reader.path
    return bool(commit(store, Respond(id, verdict, who, reason, now_us(), read_secret(path), read_ticks())))
