"""Runs by chance, for the tests of pruning: steps, effects, messages, approvals, spends and crashes of three harnesses."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from attrs import define, field

from harnesses.budgets.budget import Budget, Spend
from harnesses.effects.approval import Action, request_of
from harnesses.effects.effect import EffectOutcome
from orchestrator import events
from orchestrator.lifecycle import Status
from orchestrator.store import PostgresStore, SqliteReader, SqliteStore
from orchestrator.store.conformance import TIME_US, claim, event_row, intent_row, step_row
from orchestrator.store.conformance.conformance_tools import attached_row, do, outcome_row, output_row
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.store_operations import Ask, Fund, Reserve, Respond, SettleSpend, TakeUp
from orchestrator.store.store_protocol import Claimed, ConsumedRow, Post, Remark

SECRET = b"s" * 32
NAMES = ("one", "two", "three")


@define
class Life:
    """One harness of a run."""

    name: str
    claimed: Claimed
    step: int = 0
    inbox: list[int] = field(factory=list[int])
    asked: int = 0


def make_run(path: Path, chance: Random, moves: int, *, closed: bool = True) -> None:
    """Make a store by so many moves; one that is not closed is a copy of what a killed program has left."""
    live = path if closed else path.with_name(f"live-{path.name}")
    with closing(SqliteStore(live, seal_every_s=chance.choice([0, 1e9]))) as store:
        do(store, Fund("all", Budget(tokens=10**9, money=Decimal(10**6)), TIME_US))
        lives = go_on(store, chance, moves)
        if chance.randrange(2):
            life = lives["three"]
            do(store, event_row(life.claimed, events.Completed(), Status.COMPLETED, step=life.step, release=True))
        if not closed:
            copy_store(live, path)


def go_on(store: SqliteStore | PostgresStore, chance: Random, moves: int, *names: str) -> dict[str, Life]:
    """Take the three harnesses up, and others by name, and make so many moves with them."""
    lives: dict[str, Life] = {}
    for name in (*NAMES, *names):
        claimed = claim(store, name, take_over=True, reopen=True)
        lives[name] = Life(name, claimed, claimed.step, [message.seq for message in store.mailbox(name, limit=1_000_000)])
        do(store, event_row(claimed, events.Started(claimed.step), Status.RUNNING, step=claimed.step))
    for _ in range(moves):
        move(store, chance.choice([*lives.values()]), chance)
    return lives


def move(store: SqliteStore | PostgresStore, life: Life, chance: Random) -> None:
    """Make one move by chance."""
    claimed, making, now = life.claimed, life.step + 1, TIME_US + life.step + 1
    match chance.choices(range(8), [20, 4, 3, 2, 2, 1, 1, 1])[0]:
        case 0:
            _step(store, life, chance)
        case 1:
            _effect(store, life, chance)
        case 2:
            life.inbox.append(do(store, Post(life.name, "x", now, '{"n":1}')))
        case 3:
            store.commit([], effects=[output_row(claimed, making, f"line {making}")])
        case 4:
            _approval(store, life, chance)
        case 5:
            amounts = Spend(tokens=10)
            id = do(store, Reserve(("all",), claimed.harness, claimed.epoch, 1, making, now, amounts))
            if chance.randrange(4):
                do(store, SettleSpend(id, now, Spend(tokens=4)))
        case 6:
            do(store, Remark(chance.choice(["", life.name]), "latch", '{"on":true}', now))
        case _:
            do(store, event_row(claimed, events.Failed("E", "on purpose"), Status.FAILED, step=life.step))
            restarting = events.Restarting("on purpose", 0.1, 1.0, (1.0,))
            do(store, event_row(claimed, restarting, Status.BACKING_OFF, step=life.step))
            do(store, event_row(claimed, events.Started(life.step), Status.RUNNING, step=life.step))


def _step(store: SqliteStore | PostgresStore, life: Life, chance: Random) -> None:
    life.step += 1
    saved = f'{{"total":{life.step}}}' if chance.randrange(5) == 0 else None
    used = [ConsumedRow(life.inbox.pop(0), life.claimed.harness, life.step)] if life.inbox and chance.randrange(2) else []
    notes = [attached_row(life.claimed, life.step, "evidence")] if chance.randrange(6) == 0 else []
    store.commit([step_row(life.claimed, life.step, state=saved)], effects=notes, consumed=used)


def _effect(store: SqliteStore | PostgresStore, life: Life, chance: Random) -> None:
    key = f"act-{chance.randrange(3)}"
    rows = [intent_row(life.claimed, life.step + 1, key, 1)]
    if chance.randrange(3):
        rows.append(outcome_row(life.claimed, life.step + 1, key, EffectOutcome.CONFIRMED, result=1))
    store.commit([], effects=rows)


def _approval(store: SqliteStore | PostgresStore, life: Life, chance: Random) -> None:
    claimed, making, life.asked = life.claimed, life.step + 1, life.asked + 1
    action = Action("publish", "push it", {"to": life.asked}, expires_s=3600)
    id = f"{claimed.harness}-{claimed.epoch}-{life.asked}"
    wanted = request_of(id, life.name, making, "push", action, now_us=TIME_US)
    do(store, Ask(claimed.harness, claimed.epoch, 1, wanted, SECRET))
    if verdict := chance.choice(["", "approved", "denied"]):
        do(store, Respond(id, verdict, "ann", "", TIME_US + 5, SECRET))
        do(store, TakeUp(claimed.harness, claimed.epoch, 1, making, id, TIME_US + 9, SECRET))


def copy_store(source: Path, target: Path) -> Path:
    """Copy a store with all that lies beside it, as it is at this moment."""
    for suffix in ("", "-wal"):
        if Path(f"{source}{suffix}").exists():
            shutil.copy(f"{source}{suffix}", f"{target}{suffix}")
    shutil.copy(head_path(source), head_path(target))
    return target


def told(path: Path) -> dict[str, Any]:
    """Return what a run that goes on is told of each harness, and what else has to stay whatever goes."""
    with closing(SqliteReader(path)) as reader:
        said = {"approvals": reader.approvals(), "accounts": reader.accounts(), "open": reader.effects(current=True)}
        said["status"] = [(one.name, one.status, one.attempt, one.current_step, one.event) for one in reader.harnesses()]
    with closing(SqliteStore(path)) as store:
        claims = {name: claim(store, name, take_over=True, reopen=True) for name in NAMES}
    return {**said, "claims": claims}


def states(path: Path, floors: Mapping[str, int] = MappingProxyType({})) -> Iterator[tuple[str, int, str, Any]]:
    """Yield the state at each step that is there, and the step; of some harnesses those from a number on."""
    with closing(SqliteReader(path)) as reader:
        for name in NAMES:
            for record in reader.steps(name, after=floors.get(name, 1) - 1, limit=10**6):
                yield name, record.step_number, reader.state_at(name, record.step_number), record
