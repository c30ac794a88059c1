"""The verbs `approvals`, `approve`, `deny` and `approvals reopen`: what waits for a person's word, and that word.

What is shown was audited first: of a record that cannot be trusted that is said, and nothing can be answered to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import Any

from harnesses.effects.approval import Answer, read
from harnesses.timing.clock import now_us, read_ticks
from orchestrator.cli.store_writing import commit, user_name
from orchestrator.cli.value_lines import columns, json_line, stamp_us
from orchestrator.errors import UsageError
from orchestrator.status import Shown
from orchestrator.status import known_approvals as known_approvals
from orchestrator.store.rules.signing_key import read_secret
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_operations import Respond
from orchestrator.text.command_hints import command
from orchestrator.text.terminal_text import one_line

_HEAD = ("ID", "HARNESS", "STEP", "CATEGORY", "ACTION", "STANDING", "EXPIRES")
_MOST = 20_000
"""Characters of arguments that are shown to people; of more, how many there are."""


def approvals_lines(shown: Sequence[Shown], *, as_json: bool) -> Iterator[str]:
    """Yield a line for each request."""
    if as_json:
        yield from (json_line(_fields(one)) for one in shown)
    elif shown:
        head, *lines = columns(_HEAD, map(_cells, shown))
        yield head
        for line, one in zip(lines, shown, strict=True):
            yield line
            yield f"    with {_exactly(one)}"


def _fields(one: Shown) -> dict[str, Any]:
    record, request = one.record, one.request
    return {
        "id": record.id,
        "harness": record.harness,
        "step_number": record.step_number,
        "key": request.get("key"),
        "category": request.get("category"),
        "summary": request.get("summary"),
        "arguments": request.get("arguments"),
        "digest": request.get("digest"),
        "standing": one.word,
        "by": one.standing.by,
        "reason": one.standing.reason,
        "timestamp": stamp_us(record.time_us),
        "expires": _stamp(request.get("expires_us")),
        "seq": record.seq,
    }


def _stamp(time_us: object) -> str | None:
    return stamp_us(time_us) if isinstance(time_us, int) and 0 <= time_us < 1 << 58 else None


def _cells(one: Shown) -> tuple[str, ...]:
    request, standing = one.request, one.standing
    said = f"{one.word} by {standing.by}" if standing.by else one.word
    because = f" ({standing.reason})" if standing.reason else ""
    return (
        one.record.id,
        one.record.harness,
        str(one.record.step_number),
        one_line(str(request.get("category", "?")), 40),
        one_line(str(request.get("summary", "?")), 80),
        one_line(said + because, 80),
        (_stamp(request.get("expires_us")) or "-")[:19].replace("T", " "),
    )


def _exactly(one: Shown) -> str:
    """Return what is to be done, whole: a person approves what is at its end, too."""
    text = json_line(one.request.get("arguments"))
    more = len(text) - _MOST
    return text if more <= 0 else f"{text[:_MOST]} … and {more} characters more: see all with --json before you answer"


def asker_of(store: str, id: str) -> str:
    """Return the name of the harness that has asked.

    Raises:
        UsageError: there is no such request.
    """
    with closing(SqliteReader(store)) as reader:
        asker = next((record.harness for record in reader.approvals() if record.id == id), None)
    if asker is None:
        raise UsageError(
            f"no approval {id!r} was asked for in {store}: expected an id of `{command(store, 'approvals', '--all')}`"
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
                return answer.by, _stamp(answer.answered_us) or ""
    return "", ""


def respond(store: str, id: str, verdict: str, *, by: str | None, reason: str) -> bool:
    """Put a person's answer on record; return False if the same was said before, and then do nothing.

    Raises:
        UsageError: there is no such request, or it cannot be answered so any more.
    """
    who = user_name() if by is None else by
    if not who.strip():
        raise UsageError("--by: expected who answers, was nothing; whoever reads this later will want to know")
    asker_of(store, id)
    with closing(SqliteReader(store)) as reader:
        path = reader.path
    return bool(commit(store, Respond(id, verdict, who, reason, now_us(), read_secret(path), read_ticks())))
