"""The status of all harnesses as lines of JSON: `orchestrator status --json`, and `/status` of a running program.

A program is asked often, and may have thousands of harnesses. Most of a line stays as it was from one question to the next:

    head                       now                               rest
    name, supervisor, status   activity, step, age, live data    attempt, cause, last event, …
    kept until the row changes   made for each question          kept until the row changes

Invariant: `StatusBoard.text` is `json_status`. Where more than the row and the live data tell the activity, it is made anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

import msgspec
from attrs import define, field, frozen

from orchestrator.history.supervision_tree import SupervisionReader, SupervisionTree
from orchestrator.kill_switch import ALL
from orchestrator.lifecycle import Status
from orchestrator.runtime.activity import Live, known_activity
from orchestrator.status import AllApprovals, At, awaits_settling, latched_beside, look, look_at, shown_status
from orchestrator.store.store_capabilities import HarnessRow, Roster, Rostered
from orchestrator.text.json_text import json_line, stamp_us

NO_LIVES: Mapping[str, Live] = {}
Lives: TypeAlias = Mapping[str, tuple[Live, int]]
"""Live data of the running harnesses, and the number of their last step, by name."""
_encode = msgspec.json.Encoder().encode


def json_status(reader: Roster, lives: Mapping[str, Live] = NO_LIVES) -> Iterator[str]:
    """Yield the status of each harness as a line of JSON; see `look`."""
    latched = latched_beside(reader)
    above = _Above(reader).now()
    yield from (json_line({**_head(at, above), **_now(at), **_rest(at, latched)}) for at in look(reader, lives))


def lives_in(lines: Iterable[str]) -> dict[str, Live]:
    """Parse live data from the `json_status` of a running program, by name; malformed lines are skipped."""
    found: dict[str, Live] = {}
    for text in lines:
        try:
            said = _SAID.decode(text)
        except msgspec.DecodeError:
            continue
        if said.live is not None:
            found[said.harness] = said.live
    return found


class _Said(msgspec.Struct):
    harness: str
    live: Live | None = None


_SAID = msgspec.json.Decoder(_Said)


class _Now(msgspec.Struct, gc=False):
    """The fields that differ from one moment to the next while a harness runs undisturbed."""

    activity: str
    current_step: int
    step_age_s: float | None
    live: Live | None


class _Above:
    """The path of the supervisor of each harness, of stores that record it."""

    def __init__(self, reader: Roster) -> None:
        self._tree = SupervisionTree(reader) if isinstance(reader, SupervisionReader) else None

    def now(self) -> Mapping[str, str]:
        return {} if self._tree is None else self._tree.above()


def _head(at: At, above: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields before those of `_now`."""
    name = at.record.name
    return {
        "harness": name,
        "parent": at.parent or None,
        "supervisor": above.get(name) or None,
        "status": shown_status(at.record),
    }


def _now(at: At) -> dict[str, Any]:
    """Return the fields of `_Now`."""
    age_s = None if at.age_s is None else round(at.age_s, 3)
    fields: dict[str, Any] = msgspec.to_builtins(_Now(at.activity, at.record.current_step, age_s, at.live))
    return fields


def _rest(at: At, latched: Collection[str]) -> dict[str, Any]:
    """Return the fields after those of `_now`."""
    record, asks = at.record, at.asks
    return {
        "attempt": record.attempt,
        "timestamp": stamp_us(record.last_time_us),
        "until": stamp_us(at.until_us),
        "approval": None if asks is None else {"id": asks.record.id, "left_s": round(asks.left_s, 3)},
        "cause": at.asks_in_words or at.cause,
        "waiting": asks is not None,
        "class": record.harness_class,
        "owned": record.owned,
        "latched": ALL in latched or record.name in latched,
        "last_event": record.event,
    }


class _Line(msgspec.Struct):
    """The line of one harness, as it was last made."""

    row: HarnessRow
    head: bytes
    now: bytes
    rest: bytes
    step: int
    limit_s: float | None
    """See `At.limit_s`; for this step."""
    is_running: bool
    is_settled: bool
    """Whether it is the same as long as the row is, while no attempt is running."""

    @property
    def whole(self) -> tuple[bytes, ...]:
        """The parts of the line as it was made."""
        return (self.head, self.now, self.rest)

    def text(self, row: HarnessRow, found: tuple[Live, int] | None) -> tuple[bytes, ...]:
        """Return the parts of the line as it is now; none if it has to be made anew."""
        if self.row is not row and self.row != row:
            return ()
        if found is None:
            return self.whole if self.is_settled else ()
        live, step = found
        if not self.is_running:
            return self.whole if step == self.step else ()
        word = known_activity(live, self.limit_s if step == self.step else None)
        return () if word is None else (self.head, _encode(_Now(word, step, round(live.age_s, 3), live))[1:-1], self.rest)


@frozen
class _Around:
    """What lines depend on beside their harness."""

    approvals: AllApprovals
    latched: Collection[str]
    is_any_running: bool

    @property
    def key(self) -> object:
        """Equal to another while the lines of harnesses without a pending request stay as they are."""
        return (set(self.approvals.reopened), set(self.latched), self.is_any_running)


@define(eq=False, repr=False)
class StatusBoard:
    """Answers `json_status` for one running program, and keeps the lines."""

    _reader: Roster
    _lines: dict[str, _Line] = field(factory=dict[str, _Line])
    _key: object = None
    _above: _Above = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._above = _Above(self._reader)

    def text(self, lives: Lives) -> bytes:
        """Return the status of each harness as a line of JSON. Not for two threads at once."""
        reader = self._reader
        if not isinstance(reader, Rostered):
            found = json_status(reader, {name: live for name, (live, _) in lives.items()})
            return "".join(f"{line}\n" for line in found).encode()
        rows = reader.roster()
        around = _Around(AllApprovals.of(reader), latched_beside(reader), any(row[4] for row in rows))
        if around.key != self._key:
            self._key = around.key
            self._lines.clear()
        asks, lines = around.approvals.pending, self._lines
        texts = [
            line.text(row, lives.get(row[0])) if (line := lines.get(row[0])) is not None and row[0] not in asks else ()
            for row in rows
        ]
        if late := {row[0]: row for row, text in zip(rows, texts, strict=True) if not text}:
            # A harness has another supervisor only from a start on, and that changes its row.
            records, above = reader.harnesses(late), self._above.now()
            live = {name: lives[name][0] for name in late if name in lives}
            for at in look_at(reader, records, live, around.approvals, is_any_running=around.is_any_running):
                lines[at.record.name] = _line_of(at, late[at.record.name], around.latched, above)
            texts = [text or lines[row[0]].whole for row, text in zip(rows, texts, strict=True)]
        for name in asks:
            lines.pop(name, None)
        return b"".join(chain.from_iterable(texts))


def _line_of(at: At, row: HarnessRow, latched: Collection[str], above: Mapping[str, str]) -> _Line:
    record = at.record
    return _Line(
        row=row,
        head=f"{json_line(_head(at, above))[:-1]},".encode(),
        now=json_line(_now(at))[1:-1].encode(),
        rest=f",{json_line(_rest(at, latched))[1:]}\n".encode(),
        step=record.current_step,
        limit_s=at.limit_s,
        is_running=shown_status(record) == Status.RUNNING,
        is_settled=(not record.owned or record.status is Status.BACKING_OFF) and not awaits_settling(record),
    )
