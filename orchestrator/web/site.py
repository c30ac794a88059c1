"""`Site`: everything that is told of one store. It reads the file, and asks the program that runs on it; it writes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import define, field

from harnesses.timing.clock import now_s
from orchestrator.codec import decode
from orchestrator.errors import UsageError
from orchestrator.events import EVENTS, stored_kinds
from orchestrator.history.past_reader import find_harness
from orchestrator.history.state_differences import between
from orchestrator.history.supervision_tree import SupervisionTree
from orchestrator.history.turn_transcripts import transcripts
from orchestrator.lifecycle import Status
from orchestrator.operating.approval_answers import approval_fields
from orchestrator.operating.effect_outcomes import effect_fields, known_effects
from orchestrator.operating.pool_accounts import account_fields, read_accounts
from orchestrator.records import LIMITS_SET, ORDERED
from orchestrator.status import known_approvals, latched_beside
from orchestrator.store.rules.effect_rules import pruned
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.json_text import stamp_us
from orchestrator.text.step_lines import output_line
from orchestrator.text.value_lines import step_fields
from orchestrator.web.event_feed import EventFeed
from orchestrator.web.fleet import RANKS, Fleet
from orchestrator.web.fleet_changes import FleetChanges
from orchestrator.web.histories import Histories
from orchestrator.web.live_programs import LivePrograms
from orchestrator.web.needs import Need, needs
from orchestrator.web.ready_views import ReadyViews

_MOST = 500
"""Steps and records that one answer has at most."""
LIFECYCLE = (
    *stored_kinds(event.kind for event in EVENTS),
    "latch",
    LIMITS_SET,
    ORDERED,
    "migrated",
    "settled",
    "loop_blocked",
)
"""Kinds of records that tell how a harness came to where it is."""
_PERIOD = re.compile(r"([0-9.e+-]+) s(?: from |$)")
"""The period in the name that a ticker has by default."""
_RECENT = 200
"""Steps whose times tell the usual duration of a step."""


@define(eq=False)
class Site:
    """What is told of one store.

    Args:
        path: the file of the store.

    Raises:
        UsageError: there is no store.
    """

    path: Path
    reader: SqliteReader = field(init=False)
    fleet: Fleet = field(init=False)
    tree: SupervisionTree = field(init=False)
    views: ReadyViews = field(init=False)
    histories: Histories = field(init=False)
    _programs: LivePrograms = field(init=False)
    feed: EventFeed = field(init=False)
    _file: tuple[int, int] | None = None

    def __attrs_post_init__(self) -> None:
        self._file = _identity(self.path)
        self.reader = SqliteReader(self.path)
        self.reader.last_seq()  # refuses what is not there, and what is no store
        self._programs = LivePrograms(self.path)
        self.tree = SupervisionTree(self.reader)
        self.fleet = Fleet(FleetChanges(self.reader, self._programs).read, self.tree.above)
        self.views = ReadyViews(self.reader)
        self.histories = Histories(self.reader)
        self.feed = EventFeed(self.reader)

    def close(self) -> None:
        self.reader.close()

    @property
    def is_there(self) -> bool:
        """Whether its file is the one that was opened: a store may be deleted, and made anew."""
        return self._file == _identity(self.path)

    def run(self) -> dict[str, Any]:
        """Return what is known of the store as a whole."""
        return {"store": self.reader.location, "last_seq": self.reader.last_seq(), "is_live": self.is_live}

    @property
    def is_live(self) -> bool:
        """Whether a program runs on the store, and tells what its harnesses do."""
        return bool(self._programs.lives())

    def supervisors(self) -> list[dict[str, Any]]:
        """Return every supervisor that has harnesses, parents first, each with the worst activity directly below it."""
        worst: dict[str, tuple[int, str]] = {}
        for row in self.fleet.rows():
            if path := row["supervisor"]:
                worst[path] = min(worst.get(path, (len(RANKS) + 1, "")), (row["rank"], row["activity"]))
        return [
            {**one.fields, "activity": worst[one.path][1] if one.path in worst else None}
            for one in self.tree.supervisors(now_s())
        ]

    def needs(self) -> list[Need]:
        """Return what needs a person."""
        effects = [effect_fields(one) for one in known_effects(self.reader, None, every=False) if one.is_unknown]
        return needs(self.fleet.rows(), self.approvals(), effects, read_accounts(str(self.path)), latched_beside(self.reader))

    def approvals(self, *, every: bool = False, name: str | None = None) -> list[dict[str, Any]]:
        """Return approval requests: those that wait for an answer, or all."""
        shown = known_approvals(self.reader, name, every=every)
        return [{**approval_fields(one), "left_s": round(one.left_s, 1)} for one in shown]

    def effects(self, *, every: bool = False, name: str | None = None) -> list[dict[str, Any]]:
        """Return effects: those of unknown outcome, or all."""
        return [effect_fields(one) for one in known_effects(self.reader, name, every=every)]

    def budgets(self) -> list[dict[str, Any]]:
        """Return where every pool stands."""
        return [account_fields(pool, account) for pool, account in read_accounts(str(self.path)).items()]

    def harness(self, name: str) -> dict[str, Any]:
        """Return what is known of one harness.

        Raises:
            UnknownHarness: there is none of that name.
        """
        record = find_harness(self.reader, name)
        row = self.fleet.row(name) or {}
        times = self.reader.recent_times([name], _RECENT)[name]
        children = self.reader.children()
        return {
            **row,
            "is_live": self.is_live,
            "kind": self.views.kinds.of(name),
            "last_seq": self.reader.last_seq(),
            "last_event": record.event,
            "children": [child.name for child in children if child.harness == name],
            **_pace(times),
            "last": self._last(name, record.current_step),
        }

    def _last(self, name: str, step: int) -> str:
        found = self.reader.steps(name, after=step - 1, limit=1) if step else []
        return output_line(found[0], 200) if found else ""

    def check_known(self, names: Iterable[str]) -> None:
        """Refuse names of harnesses that are not in the store.

        Raises:
            UnknownHarness: there is none of such a name.
        """
        if new := set(names) - self.fleet.names():
            for name in sorted(new - {record.name for record in self.reader.harnesses()}):
                find_harness(self.reader, name)

    def steps_made(self) -> dict[str, int]:
        """Return the last step of every harness, by name."""
        return {row["harness"]: row["current_step"] for row in self.fleet.rows()}

    def paces(self, names: list[str]) -> dict[str, Any]:
        """Return pace and last step of some harnesses, by name."""
        current = self.steps_made()
        return {name: self._pace_of(name, current.get(name, 0)) for name in names}

    def _pace_of(self, name: str, step: int) -> dict[str, Any]:
        times = self.reader.recent_times([name], _RECENT)[name]
        return {**_pace(times), "last": self._last(name, step)}

    def steps(self, name: str, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Return steps of a harness, newest first.

        Args:
            before: only steps with smaller numbers.
        """
        last = find_harness(self.reader, name).current_step
        until = last if before is None else min(last, before - 1)
        after = max(0, until - min(limit, _MOST))
        found = self.reader.steps(name, after=after, limit=until - after) if until > after else []
        return [{**step_fields(record), "line": output_line(record, 200)} for record in reversed(found)]

    def step(self, name: str, number: int) -> dict[str, Any]:
        """Return everything about one step: what went in and out, the state after it, and what changed in the state.

        Raises:
            UsageError: there is no such step.
        """
        found = self.reader.steps(name, after=number - 1, limit=1) if number > 0 else []
        if not found:
            raise UsageError(f"harness {name!r} has no step {number}: expected one that has been recorded")
        if found[0].step_number != number:
            raise pruned(name, number, found[0].step_number)
        state = self.state(name, number)
        changes = between(self.state(name, number - 1), state) if number > 1 else ()
        return {**step_fields(found[0]), "state": state, "changes": [change.line for change in changes]}

    def state(self, name: str, number: int) -> Any:
        """Return the state of a harness after a step; 0 is before the first."""
        return decode(self.reader.state_at(name, number))

    def state_after(self, name: str, number: int | None) -> dict[str, Any]:
        """Return the state of a harness after a step, or after its last one, with its number.

        Raises:
            UnknownHarness: there is no such harness.
            UsageError: it has no such step.
        """
        last = find_harness(self.reader, name).current_step
        step = last if number is None else number
        if step > last:
            raise UsageError(f"harness {name!r} has no step {step}: expected one from 0 to {last}")
        return {"harness": name, "step_number": step, "state": self.state(name, step)}

    def transcripts(self, name: str, step: int | None) -> list[dict[str, Any]]:
        """Return the turns of a harness's agents, those of a step or the newest, with what was said."""
        return [
            {
                "step_number": turn.step_number,
                "timestamp": turn.timestamp,
                "is_recorded": turn.is_recorded,
                "transcript": turn.transcript,
            }
            for turn in transcripts(self.path, name, step, limit=20)
        ]

    def history(self, name: str) -> list[dict[str, Any]]:
        """Return the lifecycle events of a harness, newest first."""
        return [
            {
                "seq": record.seq,
                "timestamp": stamp_us(record.time_us),
                "attempt": record.attempt,
                "step": record.step,
                "kind": record.kind,
                **decode(record.body),
            }
            for record in self.reader.records_of(name, LIFECYCLE, limit=_MOST)
        ]

    def output(self, name: str) -> list[dict[str, Any]]:
        """Return the newest lines that a harness or its agents wrote, oldest first."""
        return [
            {"seq": record.seq, "timestamp": stamp_us(record.time_us), "step": record.step, **decode(record.body)}
            for record in reversed(self.reader.outputs(name, limit=_MOST))
        ]

    def messages(self, name: str) -> dict[str, Any]:
        """Return the messages to a harness: those that wait in its mailbox, and the newest ones of all, newest first."""
        waiting = self.reader.mailbox(name, limit=_MOST)
        received = self.reader.records_of(name, ("message",), limit=_MOST)
        return {
            "waiting": [one.seq for one in waiting],
            "messages": [
                {"seq": record.seq, "timestamp": stamp_us(record.time_us), **decode(record.body)} for record in received
            ],
        }

    def waits(self, name: str) -> list[dict[str, Any]]:
        """Return what a harness waits for, or will, with the seconds that are left: ticks, approvals, replies, a restart."""
        record, now = find_harness(self.reader, name), now_s()
        rows = self.reader.step_rows(name, after=record.current_step - 1, limit=1) if record.current_step else []
        ticks: dict[str, tuple[int, float]] = decode(rows[0].body).get("ticks", {}) if rows else {}
        found: list[dict[str, Any]] = [
            {"what": f"tick {number + 1} of {ticker}", "since": due, "left_s": _next_due(ticker, due, now)}
            for ticker, (number, due) in ticks.items()
        ]
        found += [
            {"what": f"an answer to {one['summary'] or one['key']}", "since": None, "left_s": one["left_s"] or None}
            for one in self.approvals(name=name)
        ]
        found += [
            {"what": f"a reply to the request of {one.sender}", "since": None, "left_s": one.deadline_us / 1e6 - now}
            for one in self.reader.mailbox(name, limit=_MOST)
            if one.deadline_us
        ]
        if record.status is Status.BACKING_OFF:
            found.append({"what": "its next attempt", "since": None, "left_s": float(record.event.get("due", 0)) - now})
        return found


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one of its name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _next_due(ticker: str, due: float, now: float) -> float | None:
    """Return the seconds until a ticker's next tick; None if its name does not tell its period."""
    period = _PERIOD.match(ticker)
    return None if period is None else round(due + float(period[1]) - now, 1)


def _pace(times: list[int]) -> dict[str, Any]:
    """Return how fast steps come, from their times: the 95th percentile of their durations, and the rate.

    Args:
        times: microseconds since 1970, oldest first.
    """
    gaps = sorted(after - before for before, after in pairwise(times))
    if not gaps:
        return {"p95_s": None, "per_minute": None, "sparkline": []}
    total_s = max((times[-1] - times[0]) / 1e6, 1e-6)
    return {
        "p95_s": round(gaps[min(len(gaps) - 1, int(len(gaps) * 0.95))] / 1e6, 3),
        "per_minute": round(60 * len(gaps) / total_s, 1),
        "sparkline": _counts(times, 24),
    }


def _counts(times: list[int], parts: int) -> list[int]:
    """Return how many of the times are in each of so many equal parts of their span; clocks may have been set back."""
    first, width = min(times), max(times) - min(times) + 1
    counts = [0] * parts
    for time_us in times:
        counts[(time_us - first) * parts // width] += 1
    return counts
