"""The status of every harness of a store as it is shown: current status, cause, and pending approvals.

Approval records are audited first: one that cannot be trusted is marked so, and cannot be answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec
from attrs import frozen

from harnesses.effects.approval import Standing, Word, stand
from harnesses.effects.effect import WAY_OUT
from harnesses.timing.clock import now_s, now_us, read_ticks
from orchestrator.errors import UsageError
from orchestrator.kill_switch import ALL, KillSwitch
from orchestrator.lifecycle import Status
from orchestrator.records import ApprovalRecord, HarnessRecord
from orchestrator.runtime.activity import LEAST_S, Doing, Facts, Live, activity, limit_of, span
from orchestrator.store.rules.signing_key import read_secret
from orchestrator.store.store_capabilities import Roster, Rostered, Timed, kill_switch_of, path_of, secret_of
from orchestrator.text.command_hints import command, for_store, run_command, way_to_resume

INTERRUPTED = "interrupted"
"""Shown instead of a status that only a living program can have."""
OVER = "over"
"""Shown instead of `pending` for a request whose step was recorded without using it; it can no longer be answered."""
_RECENT = 10
"""How many of the last steps are used to estimate the usual duration of a step."""
_NEEDS_OWNER = (Status.RUNNING, Status.BACKING_OFF)


def shown_status(record: HarnessRecord) -> str:
    """Return the current status: a harness whose program is gone is interrupted, whatever its last event was."""
    return INTERRUPTED if record.status in _NEEDS_OWNER and not record.owned else record.status.value


_REOPEN = "; `orchestrator approvals reopen "
"""Marks the remedy in the cause of a denial."""


def cause(
    record: HarnessRecord,
    location: str = "",
    *,
    reopened: Collection[str] = (),
    is_any_running: bool = True,
    is_settled: bool = False,
) -> str:
    """Return why a harness has its status; empty where the status is sufficient.

    Args:
        location: path of the store, for the commands in the text.
        reopened: ids of requests of its current step that were reopened.
        is_settled: whether it was blocked by effects of unknown outcome, and none of them is unknown any more.
        is_any_running: whether a program is running on the store, so that `orchestrator start` can work.
    """
    if shown_status(record) == INTERRUPTED:
        return f"its program is gone; to go on: `{run_command(location)}`"
    if record.status is Status.PAUSED:
        first = "" if record.owned else f"its program is gone; to go on: `{run_command(location)}`, then "
        return f"{first}{way_to_resume(record.name, location)}"
    said, start = str(record.event.get("cause") or ""), f"`orchestrator start {record.name}`"
    what, _, remedy = said.rpartition(_REOPEN)
    if remedy.partition("`")[0] in reopened:
        said = f"{what}; it is reopened: {start} makes it ask again"
    if is_settled:
        said = f"the outcome of its effect, which was unknown, is settled; to go on: {start}"
    return for_store(said if is_any_running else said.replace(start, f"`{run_command(location)}`"), location)


@frozen
class At:
    """The status of one harness as it is shown."""

    record: HarnessRecord
    activity: str
    """Current activity; see `orchestrator.runtime.activity`."""
    cause: str
    """Cause of the status; see `cause`."""
    live: Live | None = None
    age_s: float | None = None
    """Seconds since the last recorded step or the beginning of the attempt; None if the harness is not running."""
    until_us: int = 0
    """Time of its restart, microseconds since 1970; 0 unless it is backing off."""
    asks: Shown | None = None
    """The approval that it waits for."""
    asks_in_words: str = ""
    parent: str = ""
    """The harness that started it; empty if none did."""
    limit_s: float | None = None
    """Age in seconds from which its step is hung, by its last steps; None if that was not asked."""
    since_s: float | None = None
    """Wall time from which `age_s` counts."""
    last_us: int = 0
    """Time of the last thing that happened to it, a step or an event of its life, microseconds since 1970."""


def look(reader: Roster, lives: Mapping[str, Live]) -> list[At]:
    """Return the status of each harness.

    Args:
        lives: live data from the programs that run them, by name; without it only the age of a step is known.
    """
    records, approvals = reader.harnesses(), AllApprovals.of(reader)
    return look_at(reader, records, lives, approvals, is_any_running=any(one.owned for one in records))


def look_at(
    reader: Roster,
    records: Sequence[HarnessRecord],
    lives: Mapping[str, Live],
    approvals: AllApprovals,
    *,
    is_any_running: bool,
    parents: Mapping[str, str] | None = None,
) -> list[At]:
    """Return the status of some harnesses; see `look` and `cause`.

    Args:
        parents: what `parents_of` returns, if it is known.
    """
    parents = parents_of(reader) if parents is None else parents
    recent = _recent_steps(reader, [record for record in records if _is_timed(record, lives.get(record.name))])
    why = partial(cause, location=reader.location, reopened=approvals.reopened, is_any_running=is_any_running)
    return [
        _at(
            record,
            why(record, is_settled=awaits_settling(record) and not has_unknown_effect(reader, record.name)),
            live=lives.get(record.name),
            recent=recent.get(record.name),
            asks=approvals.pending.get(record.name),
            location=reader.location,
            parent=parents.get(record.name, ""),
        )
        for record in records
    ]


def parents_of(reader: Roster) -> dict[str, str]:
    """Return the harness that started each child, by the child's name."""
    return {child.name: child.harness for child in reader.children()}


def awaits_settling(record: HarnessRecord) -> bool:
    """Return whether a harness has ended because the outcome of an effect was unknown."""
    return record.status is Status.BLOCKED and WAY_OUT in str(record.event.get("cause") or "")


def has_unknown_effect(reader: Roster, name: str) -> bool:
    """Return whether the outcome of an effect of the step in progress is unknown."""
    return any(effect.is_open for effect in reader.effects(name, current=True))


def _is_timed(record: HarnessRecord, live: Live | None) -> bool:
    """Return whether the times of a harness's last steps matter."""
    status = shown_status(record)
    if status == INTERRUPTED:
        return True  # when its program was last seen
    if status != Status.RUNNING:
        return False
    return live is None or (live.doing is Doing.WORKING and live.timeout_s is None and live.age_s > LEAST_S)


def _at(
    record: HarnessRecord,
    why: str,
    *,
    live: Live | None,
    recent: Sequence[float] | None,
    asks: Shown | None,
    location: str,
    parent: str,
) -> At:
    status = shown_status(record)
    said = str(record.event.get("cause") or "")
    until_us = int(record.event.get("due", 0) * 1e6) if status == Status.BACKING_OFF else 0
    words = "" if asks is None else _asked(asks, location)
    if status != Status.RUNNING:
        word, last_us = activity(Facts(status, said)), max([record.last_time_us, *(int(one * 1e6) for one in recent or ())])
        return At(record, word, why, until_us=until_us, asks=asks, asks_in_words=words, parent=parent, last_us=last_us)
    now = now_s()
    since_s = now - live.age_s if live else max([record.last_time_us / 1e6, *(recent or ())[-1:]])
    age_s = live.age_s if live else max(now - since_s, 0.0)
    limit_s = None if recent is None else limit_of(None, recent)
    known = live.timeout_s if live and live.timeout_s is not None else limit_s
    word = activity(Facts(status, said, asks is not None, live, LEAST_S if known is None else known))
    return At(
        record,
        word,
        why,
        live,
        age_s,
        asks=asks,
        asks_in_words=words,
        parent=parent,
        limit_s=limit_s,
        since_s=since_s,
        last_us=max(record.last_time_us, int(since_s * 1e6)),
    )


def _recent_steps(reader: Roster, records: Sequence[HarnessRecord]) -> Mapping[str, Sequence[float]]:
    """Return the times of the last steps of some harnesses, seconds since 1970, oldest first."""
    if isinstance(reader, Timed):
        if not records:
            return {}
        found = reader.recent_times([record.name for record in records], _RECENT)
        return {name: [us / 1e6 for us in times] for name, times in found.items()}
    return {
        record.name: [
            step.timestamp.timestamp() for step in reader.steps(record.name, after=max(record.current_step - _RECENT, 0))
        ]
        for record in records
    }


@frozen
class Shown:
    """An approval request, and its standing."""

    record: ApprovalRecord
    standing: Standing
    request: dict[str, Any]
    """Fields of the request; empty if they cannot be read."""
    is_current: bool
    """Whether the step that made the request is still in progress."""
    left_s: float = 0.0
    """Seconds until the request expires."""

    @property
    def word(self) -> str:
        idle = self.standing.word is Word.PENDING and not self.is_current
        return OVER if idle else "used" if self.standing.used else self.standing.word.value

    @property
    def is_pending(self) -> bool:
        """Whether it waits for an answer."""
        return self.word in (Word.PENDING, Word.INVALID) and self.is_current


def known_approvals(reader: Roster, name: str | None, *, every: bool) -> list[Shown]:
    """Return approval requests of one harness or of all: the pending ones, or every one.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: the signing key of the records cannot be read.
    """
    records = reader.approvals(name)
    steps = last_steps(reader, records)
    if every:
        return _shown(reader, records, steps)
    return [one for one in _shown(reader, current_requests(records, steps), steps) if one.is_pending]


def current_requests(records: Sequence[ApprovalRecord], steps: Mapping[str, int]) -> list[ApprovalRecord]:
    """Return the requests of steps that are still to be recorded: no other one can be pending, or become so.

    Args:
        steps: see `last_steps`.
    """
    return [one for one in records if one.step_number > steps.get(one.harness, 0)]


def last_steps(reader: Roster, records: Sequence[ApprovalRecord]) -> dict[str, int]:
    """Return the last step of every harness that has made one of the requests, by name."""
    names = {one.harness for one in records}
    if not names:
        return {}
    found = reader.harnesses(names) if isinstance(reader, Rostered) else reader.harnesses()
    return {harness.name: harness.current_step for harness in found}


def _shown(reader: Roster, records: Sequence[ApprovalRecord], steps: Mapping[str, int]) -> list[Shown]:
    if not records:
        return []
    secret, now = _secret_of(reader), now_us()
    return [
        Shown(
            record,
            stand(record.case, secret, now_us=now, ticks=read_ticks()),
            _request_of(record),
            record.step_number == steps.get(record.harness, 0) + 1,
            _left_s(record, now),
        )
        for record in records
    ]


def _secret_of(store: Roster) -> bytes:
    secret, path = secret_of(store), path_of(store)
    if secret is None and path is None:
        raise UsageError(
            "the store gives no signing key: expected `secret`, or the `path` that the key file is beside (store.capabilities)"
        )
    return read_secret(path) if secret is None and path is not None else secret or b""


def pending_approvals(reader: Roster) -> int:
    """Return how many requests are pending.

    Raises:
        UsageError: the signing key of the records cannot be read.
    """
    return len(known_approvals(reader, None, every=False))


def unknown_effects(reader: Roster) -> Mapping[str, int]:
    """Return how many effects of each harness have an unknown outcome; harnesses without one are left out.

    An effect of a harness that a living program runs may be in progress, and does not count.
    """
    idle = {record.name for record in reader.harnesses() if not record.owned}
    if not idle:
        return {}
    found = reader.effects(min(idle) if len(idle) == 1 else None, current=True)
    # Asked before and after: a harness that is started meanwhile leaves nothing unknown.
    idle -= {record.name for record in reader.harnesses() if record.owned}
    return Counter(effect.harness for effect in found if effect.is_open and effect.harness in idle)


@frozen
class AllApprovals:
    """The approval requests that show in the status of harnesses."""

    pending: Mapping[str, Shown]
    """Requests that wait for an answer, by harness."""
    reopened: Collection[str]
    """Ids of requests of current steps that were reopened."""

    @classmethod
    def of(cls, reader: Roster) -> AllApprovals:
        """Read the requests of a store; none if they cannot be read."""
        records = reader.approvals()
        return cls.among(reader, records, last_steps(reader, records))

    @classmethod
    def among(cls, reader: Roster, records: Sequence[ApprovalRecord], steps: Mapping[str, int]) -> AllApprovals:
        """Return those among some requests; none if they cannot be read.

        Args:
            steps: see `last_steps`.
        """
        try:
            known = _shown(reader, current_requests(records, steps), steps)
        except UsageError:
            known = []
        return cls(
            {one.record.harness: one for one in known if one.is_pending},
            {one.record.id for one in known if one.standing.word is Word.REOPENED and one.is_current},
        )


def _asked(one: Shown, location: str) -> str:
    what = f"{one.request.get('category', '?')}: {one.request.get('summary', '?')}"
    left = f", {span(one.left_s)} left" if one.left_s > 0 else ""
    return f"waits for an approval: {what}{left}; `{command(location, 'approve', one.record.id)}`"


def _left_s(record: ApprovalRecord, now_us: int) -> float:
    expires_us = _request_of(record).get("expires_us")
    return max((expires_us - now_us) / 1e6, 0.0) if isinstance(expires_us, int) else 0.0


def _request_of(record: ApprovalRecord) -> dict[str, Any]:
    try:
        fields: object = msgspec.json.decode(record.case.request)
    except msgspec.DecodeError:
        return {}
    return cast(dict[str, Any], fields) if isinstance(fields, dict) else {}


def which(switch: KillSwitch) -> Mapping[str, Mapping[str, Any]]:
    """Return which kill switches are on, with their recorded text.

    Raises:
        UsageError: the folder cannot be read; no effect may begin then.
    """
    try:
        return switch.which()
    except OSError as error:
        raise UsageError(
            f"the kill switch {switch.folder} cannot be read: {error.strerror}; so no effect may begin; check its permissions"
        ) from error


def latched_beside(store: Roster) -> Mapping[str, Mapping[str, Any]]:
    """Return whose effects may not begin by a store's kill switch, `@all` or names, and why; `@all` if it cannot be read."""
    try:
        return which(kill_switch_of(store))
    except UsageError as error:
        return {ALL: {"reason": str(error)}}
