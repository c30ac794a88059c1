"""The verb `latch`: the kill switch for effects, put on and lifted from another process.

The law: the file first. It counts from the moment it is there, whatever the store and the program's loop are at; the record
in the store is for those who ask later, and a latch that could not be recorded is on all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import field, frozen

from orchestrator.codec import encode
from orchestrator.command.lines import columns, json_line, stamp
from orchestrator.command.writing import commit, is_there, now_us, user_name
from orchestrator.errors import OrchestratorError, UnknownHarness, UsageError
from orchestrator.latch import ALL, Latch
from orchestrator.standing import which
from orchestrator.store.protocol import Remark
from orchestrator.terms import check_name
from orchestrator.text import one_line

_BUSY_S = 2.0
"""What the record waits for a locked store: the latch is on already, and the operator has more to do."""


@frozen
class Done:
    """What became of a latch."""

    name: str
    """Of a harness, or `@all`."""
    on: bool
    said: Mapping[str, Any]
    changed: bool = False
    seq: int | None = None
    """Of the record; None if there is none."""
    warnings: tuple[str, ...] = field(default=())


def switch(store: str, name: str | None, *, on: bool, reason: str) -> Done:
    """Put a latch on or take it off, then record it; one that is as it is to be is left so.

    Args:
        name: of a harness; None for all.

    Raises:
        UsageError: the name can not be one, or the latch can not be put on or taken off.
    """
    if name is not None:
        check_name(name)
    latch, target = Latch(store), name or ALL
    before = which(latch).get(target)
    said = {"reason": reason, "by": user_name(), "at": stamp(datetime.now(UTC))}
    if not on:
        changed = latch.take_off(target)
    elif before is None or (reason and reason != before.get("reason")):
        _put_on(latch, target, said)
        changed = True
    else:
        return Done(target, on, before)
    if not changed:
        return Done(target, on, {})
    seq, warnings = _record(store, name or "", {"on": on, "reason": reason, "by": said["by"]})
    return Done(target, on, said if on else {}, changed, seq, (*warnings, *_still_on(latch, on, target)))


def _put_on(latch: Latch, target: str, said: Mapping[str, str]) -> None:
    """Put a latch on. On a full disk its file may be there with nothing in it, and that counts."""
    try:
        latch.put_on(target, **said)
    except UsageError:
        if target not in which(latch):
            raise


def _record(store: str, name: str, body: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...]]:
    """Return the `seq` of the record, or why there is none."""
    if not is_there(store):
        text = f"{store} is not there: the latch holds for a program that runs on that path; if it is another, check --store"
        return None, (text,)
    try:
        return commit(store, Remark(name, "latch", encode(body), now_us()), busy_s=_BUSY_S), ()
    except UnknownHarness:
        return None, (f"{store} knows no harness {name!r} yet, so this is not recorded; it counts when one is started",)
    except OrchestratorError as error:
        return None, (f"this is not recorded, but counts all the same: {error}",)


def _still_on(latch: Latch, on: bool, target: str) -> Iterator[str]:
    """Tell what an operator may overlook who has just lifted one of several latches."""
    if not on:
        for other in which(latch):
            way_out = "" if other == ALL else f" --harness {other}"
            yield f"the latch for {whom(other)} is still on; `orchestrator latch off{way_out}` lifts it"


def whom(name: str) -> str:
    """Return whom a latch is for, in words."""
    return "all harnesses" if name == ALL else one_line(name)


def in_words(latch: Latch) -> str:
    """Return which latches are on, and why, in a sentence; nothing if none is."""
    try:
        on = which(latch)
    except UsageError as error:
        return one_line(str(error))
    reasons = {name: one_line(str(said.get("reason") or ""), 100) for name, said in on.items()}
    named = [f"{whom(name)} ({reason})" if reason else whom(name) for name, reason in reasons.items()]
    return f"the latch is on for {', '.join(named)}: no effect begins" if named else ""


def latch_lines(store: str, *, as_json: bool) -> Iterator[str]:
    """Yield a line for each latch that is on."""
    on = which(Latch(store))
    if as_json:
        yield from (json_line(fields(Done(name, True, said))) for name, said in on.items())
    elif on:
        yield from columns(("LATCHED", "SINCE", "BY", "REASON"), [_cells(name, said) for name, said in on.items()])


def fields(done: Done) -> dict[str, Any]:
    """Return a latch as JSON has it."""
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


def _cells(name: str, said: Mapping[str, Any]) -> tuple[str, ...]:
    since = one_line(str(said.get("at") or "-"))[:19].replace("T", " ")
    return whom(name), since, one_line(str(said.get("by") or "-")), one_line(str(said.get("reason") or "-"))


def told(done: Done) -> str:
    """Return in a sentence how a latch is now."""
    word = "on" if done.on else "off"
    if not done.changed:
        return f"the latch was {word} for {whom(done.name)} already"
    effect = "no further effect begins" if done.on else "effects may begin"
    again = "" if done.on else "; `orchestrator start NAME` starts what is blocked; what only waits goes on by itself"
    return f"the latch is {word} for {whom(done.name)}: {effect}{again}"
