"""Turning a kill switch on and off, on record.

Invariant: the file is written first, and takes effect as soon as it exists, whatever state the store and the program's loop
are in. The record in the store is only for later reference: a kill switch that could not be recorded is still on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import field, frozen

from harnesses.timing.clock import now_us, utc_now
from orchestrator.child_spec import check_name
from orchestrator.codec import encode
from orchestrator.errors import OrchestratorError, UnknownHarness, UsageError
from orchestrator.kill_switch import ALL, KillSwitch
from orchestrator.operating.store_writing import commit, user_name
from orchestrator.status import which
from orchestrator.store.file.server_copy import shown_place
from orchestrator.store.places.store_location import switch_at
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.store.store_protocol import Remark
from orchestrator.text.json_text import stamp
from orchestrator.text.terminal_text import one_line

_BUSY_S = 2.0
"""Seconds that recording waits for a locked store: short, because the kill switch is on already."""
_UNKNOWN = "knows no harness {name!r} yet, so this is not recorded"


@frozen
class SwitchTurned:
    """What became of a kill switch."""

    name: str
    """Of a harness, or `@all`."""
    on: bool
    said: Mapping[str, Any]
    """Who has turned it, why and when; empty for one that was off already."""
    changed: bool = False
    seq: int | None = None
    """Of the record; None if there is none."""
    warnings: tuple[str, ...] = field(default=())


def turn(
    store: str, name: str | None, *, on: bool, reason: str, by: str | None = None, is_ahead: bool = False
) -> SwitchTurned:
    """Put a kill switch on or take it off, then record it; one that is as it is to be is left so.

    Args:
        name: of a harness; None for all.
        by: who does; None for the user of this process.
        is_ahead: whether it may be put on for a harness that the store does not know yet.

    Raises:
        UsageError: the name cannot be one, or the kill switch cannot be put on or taken off.
        UnknownHarness: the store has other harnesses, none of that name; the kill switch is as before.
    """
    if name is not None:
        check_name(name)
    switch, target = switch_at(store), name or ALL
    before = which(switch).get(target)
    said = {"reason": reason, "by": by or user_name(), "at": stamp(utc_now())}
    if not on:
        changed = switch.take_off(target)
    elif before is None or (reason and reason != before.get("reason")):
        _put_on(switch, target, said)
        changed = True
    else:
        return SwitchTurned(target, on, before)
    if not changed:
        if name is not None:
            _check_known(store, name)
        return SwitchTurned(target, on, {}, warnings=tuple(_still_on(switch, on, target)))
    try:
        seq, warnings = _record(store, name or "", {"on": on, "reason": reason, "by": said["by"]})
    except UnknownHarness as error:
        later = "; it counts when one is started" if on else ""
        seq, warnings = None, (f"{shown_place(store)} {_UNKNOWN.format(name=name)}{later}",)
        if on and before is None and not is_ahead:
            switch.take_off(target)
            raise UnknownHarness(f"{error}; with --ahead the kill switch counts once it is started") from error
    return SwitchTurned(target, on, said, changed, seq, (*warnings, *_still_on(switch, on, target)))


def _put_on(switch: KillSwitch, target: str, said: Mapping[str, str]) -> None:
    """Put a kill switch on. On a full disk its file may be there with nothing in it, and that counts."""
    try:
        switch.put_on(target, **said)
    except UsageError:
        if target not in which(switch):
            raise


def _check_known(store: str, name: str) -> None:
    """Raise `UnknownHarness` for a name that a readable store does not have: another switch is meant."""
    if Path(store).exists():
        try:
            with closing(SqliteReader(store)) as reader:
                reader.steps(name, limit=1)
        except UnknownHarness:
            raise
        except OrchestratorError:
            return


def _record(store: str, name: str, body: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...]]:
    """Return the `seq` of the record, or why there is none.

    Raises:
        UnknownHarness: the store has no harness of that name.
    """
    if not Path(store).exists():
        text = "is not there: the kill switch holds for a program that runs on that path; if it is another, check --store"
        return None, (f"{shown_place(store)} {text}",)
    try:
        return commit(store, Remark(name, "latch", encode(body), now_us()), busy_s=_BUSY_S), ()
    except UnknownHarness:
        raise
    except OrchestratorError as error:
        return None, (f"this is not recorded, but counts all the same: {error}",)


def _still_on(switch: KillSwitch, on: bool, target: str) -> Iterator[str]:
    """Tell what an operator may overlook who has just lifted one of several kill switches."""
    if not on:
        for other in which(switch):
            way_out = "" if other == ALL else f" --harness {other}"
            yield f"the kill switch for {whom(other)} is still on; `orchestrator kill-switch off{way_out}` lifts it"


def whom(name: str) -> str:
    """Return whom a kill switch is for, in words."""
    return "all harnesses" if name == ALL else one_line(name)


def in_words(switch: KillSwitch) -> str:
    """Return which kill switches are on, and why, in a sentence; nothing if none is."""
    try:
        on = which(switch)
    except UsageError as error:
        return one_line(str(error))
    reasons = {name: one_line(str(said.get("reason") or ""), 100) for name, said in on.items()}
    named = [f"{whom(name)} ({reason})" if reason else whom(name) for name, reason in reasons.items()]
    return f"the kill switch is on for {', '.join(named)}: no effect begins" if named else ""


def switch_fields(done: SwitchTurned) -> dict[str, Any]:
    """Return a kill switch as JSON has it."""
    said = done.said
    return {
        "harness": None if done.name == ALL else done.name,
        "on": done.on,
        "reason": str(said.get("reason", "")),
        "by": str(said.get("by", "")),
        "timestamp": said.get("at"),
        "changed": done.changed,
        "seq": done.seq,
    }
