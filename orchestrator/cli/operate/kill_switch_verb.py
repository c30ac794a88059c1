"""The verb `kill-switch`, also called `latch`: stops all effects from another process, and lets them begin again.

Invariant: the file is written first, and takes effect as soon as it exists, whatever state the store and the program's loop
are in. The record in the store is only for later reference: a kill switch that could not be recorded is still on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from orchestrator.cli import std_streams as streams
from orchestrator.cli.exit_codes import ExitCode
from orchestrator.cli.verb_options import USUAL, Common, Words, print_all
from orchestrator.errors import UsageError
from orchestrator.kill_switch import KillSwitch
from orchestrator.operating.kill_switch_orders import SwitchTurned, switch_fields, turn, whom
from orchestrator.status import which
from orchestrator.store.file.server_copy import shown_place
from orchestrator.text.command_hints import for_store
from orchestrator.text.terminal_text import one_line
from orchestrator.text.value_lines import columns, json_line


def kill_switch(
    what: Literal["on", "off"] | None = None,
    /,
    *,
    harness: Annotated[str | None, Parameter(metavar="NAME")] = None,
    reason: Words = "",
    ahead: bool = False,
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
        ahead: also for a harness that the store does not know yet, so that it is on when that is started
    """
    store = common.store_path
    if what is None:
        return _show_kill_switches(store, has_options=bool(reason or harness or ahead), as_json=common.json)
    done = turn(store, harness, on=what == "on", reason=reason, is_ahead=ahead)
    if common.json:
        print_all([json_line(switch_fields(done))])
    for text in (sentence(done), *done.warnings):
        streams.say(one_line(for_store(text, store), 2000))
    return ExitCode.OK


def _show_kill_switches(store: str, *, has_options: bool, as_json: bool) -> int:
    if has_options:
        problem = "expected on or off with --reason and --harness, got neither; say which, or leave them out"
        raise UsageError(f"kill-switch: {problem}")
    if not print_all(kill_switch_lines(store, as_json=as_json)):
        streams.say(f"no kill switch is on beside {shown_place(store)}")
    return ExitCode.OK


def kill_switch_lines(store: str, *, as_json: bool) -> Iterator[str]:
    """Yield a line for each kill switch that is on."""
    on = which(KillSwitch(store))
    if as_json:
        yield from (json_line(switch_fields(SwitchTurned(name, True, said))) for name, said in on.items())
    elif on:
        yield from columns(("LATCHED", "SINCE", "BY", "REASON"), [_cells(name, said) for name, said in on.items()])


def _cells(name: str, said: Mapping[str, Any]) -> tuple[str, ...]:
    since = one_line(str(said.get("at") or "-"))[:19].replace("T", " ")
    return whom(name), since, one_line(str(said.get("by") or "-")), one_line(str(said.get("reason") or "-"))


def sentence(done: SwitchTurned) -> str:
    """Return in a sentence how a kill switch is now."""
    word = "on" if done.on else "off"
    if not done.changed:
        return f"the kill switch was {word} for {whom(done.name)} already"
    effect = "no further effect begins" if done.on else "effects may begin"
    again = "" if done.on else "; `orchestrator start NAME` starts what is blocked; what only waits continues by itself"
    return f"the kill switch is {word} for {whom(done.name)}: {effect}{again}"
