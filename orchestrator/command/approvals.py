"""The verbs `approvals`, `approve` and `deny`: what waits for a person's word, and that word.

What is shown was audited first: of a record that can not be trusted that is said, and nothing can be answered to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, cast

import msgspec
from attrs import frozen

from harnesses.approval import Standing, Word, stand
from orchestrator.command.lines import columns, json_line, stamp_us
from orchestrator.command.writing import commit, now_us, user_name
from orchestrator.errors import UsageError
from orchestrator.records import ApprovalRecord
from orchestrator.store.approvals import Respond
from orchestrator.store.secret import known_secret
from orchestrator.store.sqlite_reader import SqliteReader
from orchestrator.text import one_line

_HEAD = ("ID", "HARNESS", "STEP", "CATEGORY", "ACTION", "STANDING", "EXPIRES")
_MOST = 20_000
"""Characters of arguments that are shown to people; of more, how many there are."""
OVER = "over"
"""Instead of `pending`, of a request whose step has been recorded without it: nothing can be done with it any more."""


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
    secret, now = known_secret(reader.path), now_us()
    steps = {harness.name: harness.current_step for harness in reader.harnesses()}
    shown = [
        Shown(
            record,
            stand(record.case, secret, now_us=now),
            _fields_of(record),
            record.step_number == steps.get(record.harness, 0) + 1,
        )
        for record in records
    ]
    return [one for one in shown if every or one.is_pending]


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


def _fields_of(record: ApprovalRecord) -> dict[str, Any]:
    try:
        fields: object = msgspec.json.decode(record.case.request)
    except msgspec.DecodeError:
        return {}
    return cast(dict[str, Any], fields) if isinstance(fields, dict) else {}


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


def respond(store: str, id: str, verdict: str, *, by: str | None, reason: str) -> bool:
    """Put a person's answer on record; return False if the same was said before, and then do nothing.

    Raises:
        UsageError: there is no such request, or it can not be answered so any more.
    """
    who = user_name() if by is None else by
    if not who.strip():
        raise UsageError("--by: expected who answers, was nothing; whoever reads this later will want to know")
    with closing(SqliteReader(store)) as reader:
        if id not in (record.id for record in reader.approvals()):
            raise UsageError(f"no approval {id!r} was asked for in {store}: expected an id of `orchestrator approvals`")
        path = reader.path
    return bool(commit(store, Respond(id, verdict, who, reason, now_us(), known_secret(path))))
