"""The work in a store: who runs it, what was cut off, what waits for a person, what is sealed, what should not be in it.

It takes locks of nobody and removes no file, not even those that dead programs have left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from attrs import frozen

from harnesses.effects.approval import Word, stand
from harnesses.effects.effect import WAY_OUT
from harnesses.redaction.redactor import may_hold_secret, redact_text
from harnesses.timing.clock import now_us, read_ticks
from orchestrator.cli.doctor.doctor_model import Check, Level, fail, few, warn, well
from orchestrator.kill_switch import KillSwitch
from orchestrator.lifecycle import Status
from orchestrator.operating.kill_switch_orders import in_words
from orchestrator.records import EffectRecord
from orchestrator.store.file.run_lock import is_alive, is_suspended, pid_of
from orchestrator.store.rules.signing_key import read_secret
from orchestrator.store.sqlite.sqlite_file import open_reader, translated
from orchestrator.store.sqlite.sqlite_reader import SqliteReader
from orchestrator.text.command_hints import command, for_store, run_command, ways_to_start
from orchestrator.text.json_text import object_of
from orchestrator.text.terminal_text import CAUSE_WIDTH, one_line

LOOK_S = 5.0
"""What looking for secrets may take."""
LOOK_MOST = 20_000
"""Records that are looked at for secrets, the newest."""
_UNDER_WAY = (Status.RUNNING, Status.PAUSED, Status.BACKING_OFF)


@frozen
class Known:
    """A harness, and the program that owns it."""

    name: str
    status: str
    owner: str | None
    alive: bool
    pid: int | None
    event: dict[str, Any]


def harnesses_of(store: Path) -> list[Known]:
    """Return every harness of a store."""
    with closing(open_reader(store)) as db, translated(str(store)):
        rows = db.execute("SELECT name, status, owner, event FROM harnesses ORDER BY id").fetchall()
    runs = {owner for _, _, owner, _ in rows if owner is not None}
    alive = {owner: is_alive(store.resolve(), owner, sweep=False) for owner in runs}
    return [
        Known(
            name, status, owner, alive.get(owner, False), pid_of(store.resolve(), owner) if owner else None, object_of(event)
        )
        for name, status, owner, event in rows
    ]


def ownership(store: Path) -> Iterator[Check]:
    """Report which program runs what, and whether it is suspended."""
    owned: dict[tuple[str, int | None], list[str]] = {}
    for known in harnesses_of(store):
        if known.alive and known.owner is not None:
            owned.setdefault((known.owner, known.pid), []).append(known.name)
    for (run, pid), names in owned.items():
        what = f"process {pid or f'of run {run}'} runs {_list_names(names)}"
        if pid is not None and is_suspended(pid):
            yield warn("ownership", f"{what}, but is suspended", f"kill -CONT {pid}, or end it: kill {pid}")
        else:
            yield well("ownership", what)
    if not owned:
        yield well("ownership", "no program runs a harness of this store")


def attempts(store: Path) -> Iterator[Check]:
    """Report attempts whose program died mid-run."""
    cut = [known.name for known in harnesses_of(store) if not known.alive and known.status in _UNDER_WAY]
    fix = f"`{run_command(store)}` with its run file: it goes on from its last step"
    found = [warn("attempts", f"{one_line(name)}: its process died mid-run", fix) for name in cut]
    yield from few(found, well("attempts", "no attempt was cut off"))


def standing(store: Path) -> Iterator[Check]:
    """Report blocked and failed harnesses."""
    found: list[Check] = []
    unknown = {effect.harness for effect in _unknown_effects(store)}
    for known in harnesses_of(store):
        cause = str(known.event.get("cause") or known.event.get("error") or "no reason is on record")
        why = one_line(for_store(cause, store), CAUSE_WIDTH)
        name = one_line(known.name)
        if known.status == Status.BLOCKED and WAY_OUT in cause and known.name not in unknown:
            said = f"{name} is blocked, though the outcome of its effect is settled now"
            found.append(warn("harnesses", said, ways_to_start(store, known.name)))
        elif known.status == Status.BLOCKED:
            fix = f"settle what it waits for, then {ways_to_start(store, known.name)}"
            found.append(warn("harnesses", f"{name} is blocked: {why}", fix))
        elif known.status in (Status.FAILED, Status.GAVE_UP):
            fix = f"{command(store, 'steps', known.name)}; fix what failed, then {ways_to_start(store, known.name)}"
            found.append(warn("harnesses", f"{name} has failed: {why}", fix))
    yield from few(found, well("harnesses", "no harness is blocked or has failed"))


def effects(store: Path) -> Iterator[Check]:
    """Report effects of unknown outcome."""
    found = [_warn_unknown(store, one_line(effect.harness), one_line(effect.key)) for effect in _unknown_effects(store)]
    yield from few(found, well("effects", "no effect has an unknown outcome"))


def _unknown_effects(store: Path) -> list[EffectRecord]:
    alive = {known.name for known in harnesses_of(store) if known.alive}
    with closing(SqliteReader(store)) as reader:
        return [effect for effect in reader.effects(current=True) if effect.is_open and effect.harness not in alive]


def _warn_unknown(store: Path, name: str, key: str) -> Check:
    settle = f"{command(store, 'effects', 'settle', name, key)} --as done|not-done --reason TEXT"
    return warn("effects", f"the outcome of {key!r} of {name} is unknown", f"find out, then: {settle}")


def approvals(store: Path) -> Iterator[Check]:
    """Report what waits for human approval."""
    with closing(SqliteReader(store)) as reader:
        records = reader.approvals()
    if not records:
        yield well("approvals", "no approval was ever requested")
        return
    secret, now = read_secret(store), now_us()
    with closing(open_reader(store)) as db, translated(str(store)):
        heads = dict(db.execute("SELECT harness, current_step FROM harness_status").fetchall())
    found: list[Check] = []
    for record in records:
        word = stand(record.case, secret, now_us=now, ticks=read_ticks()).word
        name = one_line(record.harness)
        if word is Word.INVALID:
            fix = "find out who has changed the store, and restore it from a copy"
            found.append(fail("approvals", f"the record of request {record.id} of {name} cannot be trusted", fix))
        elif word is Word.PENDING and record.step_number == heads.get(record.harness, 0) + 1:
            approve = command(store, "approve", record.id)
            fix = f"{command(store, 'approvals')}; then: {approve} --by NAME --reason TEXT, or deny"
            found.append(warn("approvals", f"{name} waits for human approval of request {record.id}", fix))
    yield from few(sorted(found, key=lambda check: check.level is not Level.FAIL), well("approvals", "no request is waiting"))


def kill_switch(store: Path) -> Iterator[Check]:
    if said := in_words(KillSwitch(store)):
        off = command(store, "kill-switch", "off")
        yield warn("latch", said, f"{off}, when effects may begin again; --harness NAME for that of one")
    else:
        yield well("latch", "the kill switch is off")


def secrets(store: Path) -> Iterator[Check]:
    """Look for secrets in what is recorded, the newest first, for a while. What is found is not shown."""
    until = time.monotonic() + LOOK_S
    found: list[Check] = []
    fix = "renew that secret; keep it in the environment rather than in a state, an input or an output"
    count = 0
    rows = (
        "SELECT coalesce(h.name, ''), r.step, r.kind, r.body, coalesce(r.state, '') FROM records r "
        "LEFT JOIN harnesses h ON h.id = r.harness ORDER BY r.seq DESC LIMIT ?"
    )
    with closing(open_reader(store)) as db, translated(str(store)):
        begun = db.execute("SELECT name, initial_state FROM harnesses").fetchall()
        states = [(name, 0, "initial state", text, "") for name, text in begun]
        for name, step, kind, body, state in (*states, *db.execute(rows, (LOOK_MOST,))):
            if time.monotonic() > until:
                break
            count += 1
            if any(may_hold_secret(text) and redact_text(text) != text for text in (body, state)):
                where = f"step {step} of {one_line(name)}" if step else f"the {kind} of {one_line(name) or 'the run'}"
                what = f"what looks like a secret is stored with {where} ({kind})"
                found.append(warn("secrets", what, fix))
    yield from few(found, well("secrets", f"no secret was found in the newest {count} records and states"))


def _list_names(names: list[str]) -> str:
    shown = ", ".join(one_line(name) for name in names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
