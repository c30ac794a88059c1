"""Stores to tamper with, made by real runs: one that ended in order, one that was killed, one that an old release began."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import trio
from attrs import frozen

from harnesses import BaseHarness
from harnesses.budgets.budget import Budget
from orchestrator import Backoff, Orchestrator, SqliteStore
from orchestrator.store.conformance import claim, intent_row, step_row
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune

OLD = Path(__file__).parents[1] / "orchestrator" / "store" / "version-2.db.gz"


@frozen
class Base:
    """A store that nobody has tampered with."""

    name: str
    path: Path
    sealed: int
    """Number of the last record under a seal: what comes later is proven by nothing."""


class Working(BaseHarness[dict[str, Any], int, str]):
    """Does in its steps whatever leaves a record: effects, proof, output, messages, spends, a crash."""

    crashed = False

    def __init__(self, steps: int, sends_to: str = "") -> None:
        super().__init__({"done": 0, "seen": [], "text": ""})
        self.steps = steps
        self.sends_to = sends_to

    async def execute(self) -> Any:
        while (step := self.current_step + 1) <= self.steps:
            if step % 4 == 0:
                await self.once(f"act-{step}", _act, step)
            if step % 5 == 0:
                self.attach("evidence", {"kind": "tests", "status": "PASS", "step": step})
            if step % 6 == 0:
                self.log(f"at step {step}")
            if step % 7 == 0 and self.sends_to:
                await self.send(self.sends_to, {"step": step})
            if step % 8 == 0:
                async with self.spending(money=Decimal("0.10")) as spending:
                    spending.settle(money=Decimal("0.05"))
            if step == self.steps // 2 and not self.crashed:
                self.crashed = True
                raise ConnectionError("on purpose")
            self.update_state(lambda state: {**state, "done": step, "text": "ü" * (step % 9), "seen": [*state["seen"], step]})
            yield step, f"step {step}"


class Reading(BaseHarness[int, Any, None]):
    """Makes a step of each message it is sent."""

    def __init__(self, messages: int) -> None:
        super().__init__(0)
        self.messages = messages

    async def execute(self) -> Any:
        while self.current_step < self.messages:
            message = await self.receive()
            self.update_state(lambda count: count + 1)
            yield message, None


async def _act(step: int) -> int:
    return step * step


def make_bases(folder: Path) -> Sequence[Base]:
    """Make the stores."""
    untouched = [_ended(folder / "ended.db"), _killed(folder / "killed.db"), _old(folder / "old.db")]
    return [*untouched, _pruned(folder / "pruned.db"), _pruned_again(folder / "pruned-again.db")]


def _ended(path: Path) -> Base:
    trio.run(_run, path)
    return _base("ended", path)


def _pruned(path: Path) -> Base:
    """Make a store of which the older half was taken away, and on which somebody worked afterwards."""
    trio.run(_run, path, 90)
    prune(path, Rule(keep=20, context=0), by="tests")
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, claimed.step + 1, {"set": {"done": 91}})])
    return _base("pruned", path)


def _pruned_again(path: Path) -> Base:
    """Make one of which more was taken away later, of two harnesses only, and again of one."""
    trio.run(_run, path, 130)
    for keep, names in ((70, ["one", "two"]), (40, ["one"]), (3, ["two"])):
        prune(path, Rule(keep=keep, context=0), names, by="tests")
    return _base("pruned again", path)


async def _run(path: Path, most: int = 30) -> None:
    budget = Budget(money=Decimal(100))
    async with Orchestrator(
        path, backoff=Backoff(base_s=0.001, cap_s=0.01), budget=budget, handle_signals=False
    ) as orchestrator:
        orchestrator.start(Reading(8), name="reading")
        for name, steps, to in (("one", most, "reading"), ("two", most, "reading"), ("three", 12, "")):
            orchestrator.start(Working(steps, to), name=name)


def _killed(path: Path) -> Base:
    """Make the store of a run that was killed: its last records have no seal."""
    live = path.with_name("live.db")
    with closing(SqliteStore(live, seal_every_s=1e9)) as store:
        for name in ("one", "two"):
            claimed = claim(store, name)
            store.commit([step_row(claimed, 1)])
        for number in range(1, 41):
            store.commit([], effects=[intent_row(claimed, number + 1, f"act-{number}")])
            store.commit([step_row(claimed, number + 1, state=f'{{"total":{number}}}' if number % 16 == 0 else None)])
            if number == 30:
                claim(store, "late")
        for suffix in ("", "-wal", "-head"):
            shutil.copy(f"{live}{suffix}", f"{path}{suffix}")
    settle(path)
    return _base("killed", path)


def _old(path: Path) -> Base:
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "trading", take_over=True)
        store.commit([step_row(claimed, claimed.step + 1)])
    return _base("old", path)


def settle(path: Path) -> None:
    """Fold the write-ahead log into the file, so that a copy of it is all there is."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")


def _base(name: str, path: Path) -> Base:
    settle(path)
    with closing(sqlite3.connect(path)) as db:
        (sealed,) = db.execute("SELECT max(last_seq) FROM seals").fetchone()
    return Base(name, path, sealed)


def copy(base: Base, to: Path) -> Path:
    """Copy a store and its head."""
    for source, target in ((base.path, to), (head_path(base.path), head_path(to))):
        target.unlink(missing_ok=True)
        shutil.copyfile(source, target)
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{to}{suffix}").unlink(missing_ok=True)
    return to


def dump(path: Path, base: Base) -> object:
    """Return everything that a store and its head say, but for records without a seal; an error if it cannot be read."""
    head = head_path(path)
    said: list[object] = [head.read_bytes() if head.exists() else None]
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            db.text_factory = bytes
            said += [db.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")]
            schema = db.execute("SELECT type, name, tbl_name, sql, rootpage FROM sqlite_master ORDER BY rowid").fetchall()
            said.append(schema)
            for kind, name, *_ in schema:
                if kind == b"table":
                    rows = db.execute(f"SELECT * FROM {name.decode()} ORDER BY 1, 2").fetchall()
                    proven = len(rows) if name != b"records" else sum(row[0] <= base.sealed for row in rows)
                    said.append([len(rows), [(*map(repr, row),) for row in rows[:proven]]])
            said.append(db.execute("PRAGMA integrity_check(1)").fetchall())
    except (sqlite3.Error, UnicodeError) as error:
        said.append(str(error))
    return said
