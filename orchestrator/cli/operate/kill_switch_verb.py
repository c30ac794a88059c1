"""The verb `kill-switch`, also called `latch`: stops all effects from another process, and lets them begin again.

Invariant: the file is written first, and takes effect as soon as it exists, whatever state the store and the program's loop
are in. The record in the store is only for later reference: a kill switch that could not be recorded is still on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from attrs import field, frozen
from cyclopts import Parameter

from harnesses.timing.clock import now_us, utc_now
from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Words, print_all
from orchestrator.codec import encode
from orchestrator.errors import OrchestratorError, UnknownHarness, UsageError
from orchestrator.kill_switch import ALL, KillSwitch
from orchestrator.operating.store_writing import commit, user_name
from orchestrator.status import which
from orchestrator.store.store_protocol import Remark
from orchestrator.text.command_hints import for_store
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import columns, json_line, stamp

_BUSY_S = 2.0
"""Seconds that recording waits for a locked store: short, because the kill switch is on already."""


def kill_switch(
    what: Literal["on", "off"] | None = None,
    /,
    *,
    harness: Annotated[str | None, Parameter(metavar="NAME")] = None,
    reason: Words = "",
    common: Common = USUAL,
) -> int:
    """Stop all effects, let them begin again, or show both.

    While a kill switch is on, no effect begins, not even in a program whose loop is blocked or whose store is locked. An
    effect that had already begun may still finish. A harness that comes to an effect is blocked (exit code 4); after
    `kill-switch off` it continues with `orchestrator start NAME`, or with `orchestrator run FILE` where no program runs.

    Each store has a kill switch for all harnesses, and one for each harness: files in PATH-latch. If the change cannot be
    recorded in the store, that is reported, and the switch counts all the same (exit code 0).

    Args:
        what: turn it on or off (default: show which are on)
        harness: only this harness (default: all)
        reason: why; shown to whoever is stopped by it
    """
    store = common.store_path
    if what is None:
        return _show_kill_switches(store, has_options=bool(reason or harness), as_json=common.json)
    done = turn(store, harness, on=what == "on", reason=reason)
    if common.json:
        print_all([json_line(fields(done))])
    for text in (sentence(done), *done.warnings):
        streams.say(one_line(for_store(text, store), 2000))
    return ExitCode.OK


def _show_kill_switches(store: str, *, has_options: bool, as_json: bool) -> int:
    if has_options:
        problem = "expected on or off with --reason and --harness, got neither; say which, or leave them out"
        raise UsageError(f"kill-switch: {problem}")
    if not print_all(kill_switch_lines(store, as_json=as_json)):
        streams.say(f"no kill switch is on beside {store}")
    return ExitCode.OK


@frozen
class Done:
    """What became of a kill switch."""

    name: str
    """Of a harness, or `@all`."""
    on: bool
    said: Mapping[str, Any]
    changed: bool = False
    seq: int | None = None
    """Of the record; None if there is none."""
    warnings: tuple[str, ...] = field(default=())


def turn(store: str, name: str | None, *, on: bool, reason: str) -> Done:
    """Put a kill switch on or take it off, then record it; one that is as it is to be is left so.

    Args:
        name: of a harness; None for all.

    Raises:
        UsageError: the name cannot be one, or the kill switch cannot be put on or taken off.
    """
    from orchestrator.child_spec import check_name

    if name is not None:
        check_name(name)
    switch, target = KillSwitch(store), name or ALL
    before = which(switch).get(target)
    said = {"reason": reason, "by": user_name(), "at": stamp(utc_now())}
    if not on:
        changed = switch.take_off(target)
    elif before is None or (reason and reason != before.get("reason")):
        _put_on(switch, target, said)
        changed = True
    else:
        return Done(target, on, before)
    if not changed:
        return Done(target, on, {})
    seq, warnings = _record(store, name or "", {"on": on, "reason": reason, "by": said["by"]})
    return Done(target, on, said if on else {}, changed, seq, (*warnings, *_still_on(switch, on, target)))


def _put_on(switch: KillSwitch, target: str, said: Mapping[str, str]) -> None:
    """Put a kill switch on. On a full disk its file may be there with nothing in it, and that counts."""
    try:
        switch.put_on(target, **said)
    except UsageError:
        if target not in which(switch):
            raise


def _record(store: str, name: str, body: Mapping[str, Any]) -> tuple[int | None, tuple[str, ...]]:
    """Return the `seq` of the record, or why there is none."""
    if not Path(store).exists():
        text = "is not there: the kill switch holds for a program that runs on that path; if it is another, check --store"
        return None, (f"{store} {text}",)
    try:
        return commit(store, Remark(name, "latch", encode(body), now_us()), busy_s=_BUSY_S), ()
    except UnknownHarness:
        return None, (f"{store} knows no harness {name!r} yet, so this is not recorded; it counts when one is started",)
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


def kill_switch_lines(store: str, *, as_json: bool) -> Iterator[str]:
    """Yield a line for each kill switch that is on."""
    on = which(KillSwitch(store))
    if as_json:
        yield from (json_line(fields(Done(name, True, said))) for name, said in on.items())
    elif on:
        yield from columns(("LATCHED", "SINCE", "BY", "REASON"), [_cells(name, said) for name, said in on.items()])


def fields(done: Done) -> dict[str, Any]:
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


def _cells(name: str, said: Mapping[str, Any]) -> tuple[str, ...]:
    since = one_line(str(said.get("at") or "-"))[:19].replace("T", " ")
    return whom(name), since, one_line(str(said.get("by") or "-")), one_line(str(said.get("reason") or "-"))


def sentence(done: Done) -> str:
    """Return in a sentence how a kill switch is now."""
    word = "on" if done.on else "off"
    if not done.changed:
        return f"the kill switch was {word} for {whom(done.name)} already"
    effect = "no further effect begins" if done.on else "effects may begin"
    again = "" if done.on else "; `orchestrator start NAME` starts what is blocked; what only waits continues by itself"
    return f"the kill switch is {word} for {whom(done.name)}: {effect}{again}"
