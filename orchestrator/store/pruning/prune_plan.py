"""What pruning removes and what it keeps. Decisions first; the queries that they need are at the end.

kept    every step from a harness's *floor* on: the newest snapshot at or before the first wanted step. Wanted are the steps
        that the rule keeps, the last one, and, of a harness that can continue, its context: as many as its last start says,
        or more. Everything that belongs to these steps is kept too: effects, output, attachments, spending, and the messages
        that they consumed
kept    statements by people, forever: requests, answers and uses of approvals, kill switches; records on all harnesses
kept    records of started children, forever: they are needed when the program is started again
kept    a request whose sender is still making the step that asks: after a crash it asks again, and must not be heard twice
kept    waiting messages, open reservations, the last lifecycle event and the last start of each harness, the newest record;
        intents and outcomes of an effect of unknown outcome, since a person has to settle it
removed the rest: steps below the floor, and what belongs to them. By age also lifecycle events, wherever they are: a harness
        that has crashed for weeks has many of them, and no steps
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

import msgspec
from attrs import field, frozen

from harnesses.attachments import CHILD
from harnesses.effects.effect import OPEN
from harnesses.errors import one_of
from orchestrator.errors import UnknownHarness, UsageError
from orchestrator.events import EVENTS, Started, stored_kinds
from orchestrator.lifecycle import Status
from orchestrator.store.file.schema import IS_EVENT
from orchestrator.store.store_operations import APPROVAL_KINDS

LOOKED_BACK_AT = 100
"""Steps always kept of a harness that can continue: ten times the default of `max_context_steps`."""
LIFECYCLE = frozenset(stored_kinds(event.kind for event in EVENTS))
SAID = frozenset({*APPROVAL_KINDS, CHILD, "latch", "ordered", "pruned", "repaired", "forked"})
"""Kinds of statements by people, and of started children, which are kept forever."""


@frozen
class Rule:
    """What to keep: the last `keep` steps of each harness, or the steps since a moment."""

    keep: int | None = None
    since_us: int | None = None
    context: int = LOOKED_BACK_AT
    """Steps kept of a harness that can continue, unless its context is larger."""

    def __attrs_post_init__(self) -> None:
        if (self.keep is None) == (self.since_us is None):
            raise UsageError("prune: expected either a number of steps to keep or an age; give one of the two")
        if (self.keep is not None and self.keep < 1) or self.context < 0:
            raise UsageError(f"prune: expected 1 step or more to keep, was {self.keep!r} and {self.context!r}")


class Why(StrEnum):
    """Why steps of a harness are kept."""

    NOTHING = "nothing is removed"
    RULE = "as asked"
    SNAPSHOT = "the newest snapshot from which the kept steps can be derived"
    CONTEXT = "it can continue, and may use its last steps as context"
    LAST = "its last step defines its state"


@frozen
class Floor:
    """The first step of a harness that is kept."""

    number: int
    """The harness's number in the store."""
    harness: str
    status: str
    steps: int
    """Number of its last step."""
    oldest: int
    """The oldest existing step; 0 if there is none."""
    first: int
    """The first kept step; 0 if there is none."""
    why: Why

    @property
    def goes(self) -> bool:
        """Whether any of its steps are removed."""
        return self.first > self.oldest > 0


def floor_of(
    rule: Rule, *, status: str, last: int, young: int, snapshots: Sequence[int], looks_back: int = 0
) -> tuple[int, Why]:
    """Return the first step of a harness that is kept, and why.

    Args:
        last: its last step.
        young: the first step since the moment of the rule; `last + 1` if there is none.
        snapshots: steps with a snapshot, in order. The state before step 1 is always known.
        looks_back: number of its last steps that it uses as context.
    """
    context = max(rule.context, looks_back)
    wanted, why = (young, Why.RULE) if rule.keep is None else (last - rule.keep + 1, Why.RULE)
    if wanted > last:
        wanted, why = last, Why.LAST
    if status != Status.COMPLETED and last - context + 1 < wanted:
        wanted, why = last - context + 1, Why.CONTEXT
    first = max((step for step in snapshots if step <= wanted), default=1)
    return first, why if first == wanted else Why.SNAPSHOT


@frozen
class Found:
    """The fields of a record that matter for pruning."""

    seq: int
    harness: int
    step: int
    time_us: int
    kind: str


@frozen
class Plan:
    """What is kept."""

    floors: Sequence[Floor]
    last_events: frozenset[int]
    """Numbers of the last lifecycle event of each harness, and of its last start."""
    reserved: frozenset[int]
    """Numbers of the records of open reservations, of intents and outcomes of effects of unknown outcome, and of requests that
    may be made again.
    """
    newest: int
    """The last record, which determines the number of the next one."""
    until: int
    """The last record that may be removed."""
    since_us: int = 0
    """Lifecycle events before this time are removed."""
    by_number: Mapping[int, int] = field(init=False)
    """The floor of each harness that is pruned; 0 if none of its steps are removed."""

    def __attrs_post_init__(self) -> None:
        floors = {floor.number: floor.first if floor.goes else 0 for floor in self.floors}
        object.__setattr__(self, "by_number", floors)

    def goes(self, record: Found, used_up: Mapping[int, int]) -> bool:
        """Return whether a record is removed.

        Args:
            used_up: the step that consumed each message, by its number; waiting messages are not in it.
        """
        floor = self.by_number.get(record.harness)
        if floor is None or record.seq > self.until or record.kind in SAID or record.seq == self.newest:
            return False
        if record.kind == "message":
            return used_up.get(record.seq, floor) < floor and record.seq not in self.reserved
        if record.kind in LIFECYCLE:
            is_old = record.step + 1 < floor or record.time_us < self.since_us
            return is_old and record.seq not in self.last_events
        return 0 < record.step < floor and record.seq not in self.reserved


# queries


_UNSETTLED = tuple(outcome.value for outcome in OPEN)
_TAIL = """
SELECT harness, step, seq, time_us, state IS NOT NULL FROM records
WHERE seq > (SELECT indexed_seq FROM meta) AND kind = 'step' ORDER BY harness, step
"""
_AT = "SELECT time_us FROM records WHERE seq >= ? ORDER BY seq LIMIT 1"
_STAMP = "SELECT r.time_us FROM step_index i JOIN records r ON r.seq = i.seq WHERE i.harness = ? AND i.step = ?"
_YOUNG = """
SELECT min(i.step) FROM step_index i JOIN records r ON r.seq = i.seq
WHERE i.harness = ? AND i.step BETWEEN ? AND ? AND r.time_us >= ?
"""
_EVENTS = f"""
SELECT harness, max(seq), max(CASE WHEN kind = '{Started.kind}' THEN seq END) FROM records
WHERE {IS_EVENT} AND kind IN ({", ".join(map(repr, sorted(LIFECYCLE)))}) GROUP BY harness
"""
_OPEN = f"""
WITH marks AS (
    SELECT r.seq, r.step, r.kind, r.body FROM effect_index i JOIN records r ON r.seq = i.seq
    WHERE i.harness = :harness AND i.step < :first
    UNION ALL
    SELECT seq, step, kind, body FROM records
    WHERE seq > (SELECT indexed_seq FROM meta) AND harness = :harness AND step < :first AND kind IN ('intent', 'outcome')
), said AS (
    SELECT seq, step, body ->> '$.key' AS key, CASE kind WHEN 'intent' THEN coalesce(body ->> '$.keep', 0) = 0
        ELSE body ->> '$.outcome' IN ({", ".join(map(repr, _UNSETTLED))}) END AS is_open FROM marks WHERE json_valid(body)
)
SELECT group_concat(seq) FROM said GROUP BY step, key HAVING max(seq) = max(CASE WHEN is_open THEN seq END)
"""
_ASKED = """
WITH making AS MATERIALIZED (SELECT harness, harness || '/' || (current_step + 1) || '/' AS place FROM harness_status)
SELECT m.seq FROM mailbox m JOIN making p ON p.harness = m.sender
WHERE m.kind = 'request' AND m.consumed_step IS NOT NULL AND substr(m.id, 1, length(p.place)) = p.place
"""
"""Requests that were consumed while their sender's step is not recorded yet; their ids begin with that step."""


@frozen
class _Tail:
    """Steps of one harness that are not indexed yet."""

    step: int
    seq: int
    time_us: int
    saved: bool


def read_plan(db: sqlite3.Connection, rule: Rule, names: Collection[str] = ()) -> Plan:
    """Return what is kept of a store.

    Args:
        db: within a transaction.
        names: the harnesses to prune; empty for all.

    Raises:
        UnknownHarness: there is no such harness.
    """
    rows = db.execute("SELECT id, name, status FROM harnesses ORDER BY id").fetchall()
    if unknown := set(names) - {name for _, name, _ in rows}:
        known = one_of((name for _, name, _ in rows[:10]), "there is none yet")
        raise UnknownHarness(f"no harness {min(unknown)!r}: {known}; see `orchestrator status`")
    tails: dict[int, list[_Tail]] = {}
    for number, *step in db.execute(_TAIL):
        tails.setdefault(number, []).append(_Tail(*step))
    wanted = [row for row in rows if not names or row[1] in names]
    floors = [_read_floor(db, rule, row, tails.get(row[0], [])) for row in wanted]
    (newest,) = db.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
    old = 0 if rule.since_us is None else _last_before(db, rule.since_us, newest)
    if not old and not any(floor.goes for floor in floors):
        return Plan(floors, frozenset(), frozenset(), newest, 0, rule.since_us or 0)
    # This scans all records, so it is skipped where nothing is removed.
    events = {number: seqs for number, *seqs in db.execute(_EVENTS)}
    backs = [_looks_back(db, events.get(number, [None])[-1]) for number, *_ in wanted]
    floors = [_read_floor(db, rule, row, tails.get(row[0], []), back) for row, back in zip(wanted, backs, strict=True)]
    going = [floor for floor in floors if floor.goes]
    until = max([old, *(_seq_of(db, floor.number, floor.first, tails.get(floor.number, [])) - 1 for floor in going)])
    last = frozenset(seq for seqs in events.values() for seq in seqs if seq is not None)
    reserved = {id for (id,) in db.execute("SELECT id FROM open_reservations")}
    opened = {int(seq) for floor in going for seqs in _open_marks(db, floor) for seq in seqs.split(",")}
    asked = {seq for (seq,) in db.execute(_ASKED)}
    return Plan(floors, last, frozenset(reserved | opened | asked), newest, until, rule.since_us or 0)


def _looks_back(db: sqlite3.Connection, start: int | None) -> int:
    """Return how many of its last steps a harness uses as context, from its last start; 0 if it was never started."""
    if start is None:
        return 0
    (body,) = db.execute("SELECT body FROM records WHERE seq = ?", (start,)).fetchone()
    return msgspec.json.decode(body, type=Started).max_context_steps


def _open_marks(db: sqlite3.Connection, floor: Floor) -> list[str]:
    """Return the numbers of intents and outcomes of each effect of unknown outcome below a floor."""
    return [seqs for (seqs,) in db.execute(_OPEN, {"harness": floor.number, "first": floor.first})]


def _last_before(db: sqlite3.Connection, since_us: int, newest: int) -> int:
    """Return the last record before a moment, by binary search over the times."""
    return bisect_left(range(1, newest + 1), since_us, key=lambda seq: db.execute(_AT, (seq,)).fetchone()[0])


def _read_floor(
    db: sqlite3.Connection, rule: Rule, harness: tuple[int, str, str], tail: Sequence[_Tail], looks_back: int = 0
) -> Floor:
    number, name, status = harness
    oldest, last = db.execute("SELECT min(step), max(step) FROM step_index WHERE harness = ?", (number,)).fetchone()
    oldest = oldest or (tail[0].step if tail else 0)
    last = tail[-1].step if tail else last or 0
    if not last:
        return Floor(number, name, status, 0, 0, 0, Why.NOTHING)
    indexed = last - len(tail)
    young = 0 if rule.since_us is None else _young(db, number, rule.since_us, (oldest, indexed), tail)
    snapshots = [step for (step,) in db.execute("SELECT step FROM snapshots WHERE harness = ? ORDER BY step", (number,))]
    snapshots += [one.step for one in tail if one.saved]
    first, why = floor_of(rule, status=status, last=last, young=young, snapshots=snapshots, looks_back=looks_back)
    if first <= oldest:
        first, why = oldest, Why.NOTHING
    return Floor(number, name, status, last, oldest, first, why)


def _young(db: sqlite3.Connection, number: int, since_us: int, indexed: tuple[int, int], tail: Sequence[_Tail]) -> int:
    """Return the first step since a moment, so that all before it are older.

    Found by binary search over the times, then checked one by one backwards, since a clock may have been set back.
    """
    first, last = indexed

    def stamp(step: int) -> int:
        row = db.execute(_STAMP, (number, step)).fetchone()
        return since_us if row is None else int(row[0])

    low = first + bisect_left(range(first, last + 1), since_us, key=stamp)
    (early,) = db.execute(_YOUNG, (number, first, low - 1, since_us)).fetchone()
    if early is not None or low <= last:
        return low if early is None else int(early)
    return next((one.step for one in tail if one.time_us >= since_us), (tail[-1].step if tail else last) + 1)


def _seq_of(db: sqlite3.Connection, number: int, step: int, tail: Sequence[_Tail]) -> int:
    row = db.execute("SELECT seq FROM step_index WHERE harness = ? AND step = ?", (number, step)).fetchone()
    return int(row[0]) if row else next(one.seq for one in tail if one.step == step)
