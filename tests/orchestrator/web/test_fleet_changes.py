"""Whatever is recorded, by whom and in what order: rows that are kept and rows that are read anew are those of one look."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio
from attrs import define, field

from harnesses.effects.effect import WAY_OUT
from orchestrator import Handle, Orchestrator, events
from orchestrator.errors import OrchestratorError
from orchestrator.history.forking import fork
from orchestrator.history.supervision_tree import SupervisionTree
from orchestrator.kill_switch import ALL, KillSwitch
from orchestrator.lifecycle import Status
from orchestrator.operating.effect_outcomes import settle
from orchestrator.runtime.activity import Doing
from orchestrator.store import SqliteReader, SqliteStore
from orchestrator.store.conformance import TIME_US, claim, event_row, intent_row
from orchestrator.store.conformance.conformance_tools import child_row, do
from orchestrator.store.pruning.prune_plan import Rule
from orchestrator.store.pruning.prune_store import prune
from orchestrator.store.rules.signing_key import secret_path
from orchestrator.store.store_operations import Respond
from orchestrator.web.fleet import Fleet, Row
from orchestrator.web.fleet_changes import FleetChanges
from orchestrator.web.live_programs import LivePrograms, LiveSince, LivesSince
from tests.orchestrator.scripted import Scripted, Steps
from tests.orchestrator.store.pruning_runs import SECRET, Life, go_on, move

SEEDS, MOVES = 4, 40


@define(eq=False)
class Programs(LivePrograms):
    """Programs that tell what a test says."""

    said: dict[str, LiveSince] = field(factory=dict[str, LiveSince])
    changed: set[str] = field(factory=set[str])

    def take(self) -> tuple[LivesSince, set[str]]:
        changed, self.changed = self.changed, set()
        return dict(self.said), changed

    def say(self, name: str, live: LiveSince | None) -> None:
        self.changed.add(name)
        if live is None:
            self.said.pop(name, None)
        else:
            self.said[name] = live


@define(eq=False)
class World:
    """A store with two programs on it at times, operators, and a clock."""

    path: Path
    chance: Random
    programs: Programs
    now_us: int = TIME_US + 1_000_000
    stores: list[SqliteStore | None] = field(factory=lambda: [None, None])
    lives: list[dict[str, Life]] = field(factory=lambda: [{}, {}])
    count: int = 0

    def go(self) -> None:
        """Do something by chance; what is refused changes nothing."""
        often = (self.work, self.tell, self.wait, self.end, self.block, self.begin, self.answer)
        seldom = (self.switch, self.bear, self.close, self.settle, self.prune, self.fork)
        act = self.chance.choices([*often, *seldom], [20, 10, 8, 4, 4, 4, 4, 3, 3, 3, 3, 2, 1])[0]
        with suppress(OrchestratorError):
            act()

    def one(self) -> tuple[SqliteStore, Life] | None:
        at = self.chance.randrange(2)
        store, lives = self.stores[at], self.lives[at]
        return None if store is None or not lives else (store, self.chance.choice([*lives.values()]))

    def begin(self) -> None:
        at = self.chance.randrange(2)
        if (store := self.stores[at]) is None:
            store = self.stores[at] = SqliteStore(self.path)
        if at == 0:
            self.lives[at] = go_on(store, self.chance, self.chance.randrange(4))
        else:
            self.count += self.chance.randrange(2)
            name = f"late-{self.count}"
            claimed = claim(store, name, take_over=True, reopen=True)
            self.lives[at][name] = Life(name, claimed, claimed.step)
            if self.chance.randrange(3):
                do(store, event_row(claimed, events.Started(claimed.step), Status.RUNNING, step=claimed.step))

    def work(self) -> None:
        for _ in range(self.chance.randrange(1, 5)):
            if (one := self.one()) is not None:
                move(*one, self.chance)

    def end(self) -> None:
        if (one := self.one()) is not None:
            store, life = one
            kind = self.chance.choice(["paused", "completed", "failed", "backing"])
            said: dict[str, tuple[events.Event, Status]] = {
                "paused": (events.Paused(), Status.PAUSED),
                "completed": (events.Completed(), Status.COMPLETED),
                "failed": (events.Failed("E", "password=hunter2hunter2 was refused"), Status.FAILED),
                "backing": (events.Restarting("on purpose", 5.0, 1.8e9, (1.8e9,)), Status.BACKING_OFF),
            }
            event, status = said[kind]
            release = kind in ("completed", "failed")
            do(store, event_row(life.claimed, event, status, step=life.step, release=release))
            if release:
                for lives in self.lives:
                    lives.pop(life.name, None)

    def block(self) -> None:
        if (one := self.one()) is not None:
            store, life = one
            store.commit([], effects=[intent_row(life.claimed, life.step + 1, "order", 1)])
            blocked = events.Blocked(f"UnknownOutcome: order: {WAY_OUT}")
            do(store, event_row(life.claimed, blocked, Status.BLOCKED, step=life.step, release=True))
            for lives in self.lives:
                lives.pop(life.name, None)

    def settle(self) -> None:
        for name in self.reader_names():
            with suppress(OrchestratorError):
                settle(str(self.path), name, "order", "done", reason="seen")

    def answer(self) -> None:
        with SqliteReading(self.path) as reader:
            ids = [one.id for one in reader.approvals()][-3:]
        store = next((store for store in self.stores if store is not None), None)
        if store is not None and ids:
            verdict = self.chance.choice(["approved", "denied", "reopened"])
            do(store, Respond(self.chance.choice(ids), verdict, "ann", "", self.now_us, SECRET))

    def bear(self) -> None:
        if (one := self.one()) is not None:
            store, life = one
            store.commit([], effects=[child_row(life.claimed, life.step, self.chance.choice(["late-1", "late-2", "one"]))])

    def switch(self) -> None:
        switch, name = KillSwitch(self.path), self.chance.choice([ALL, "one", "late-1"])
        if self.chance.randrange(2):
            switch.put_on(name, by="ann")
        else:
            switch.take_off(name)

    def close(self) -> None:
        at = self.chance.randrange(2)
        if (store := self.stores[at]) is not None:
            store.close()
            self.stores[at], self.lives[at] = None, {}

    def prune(self) -> None:
        prune(self.path, Rule(keep=self.chance.randrange(1, 4), context=0), by="ann")

    def fork(self) -> None:
        self.count += 1
        fork(self.path, "one", step=0, to=f"fork-{self.count}")

    def wait(self) -> None:
        self.now_us += self.chance.choice([1, 61, 400, 3000]) * 1_000_000

    def tell(self) -> None:
        for name in self.reader_names():
            if self.chance.randrange(2):
                since_s = round(self.now_us / 1e6 - self.chance.choice([0, 10, 100]), 3)
                timeout_s, halted = self.chance.choice([None, None, 30.0]), self.chance.choice(["", "", "", "drawdown"])
                live = LiveSince(self.chance.choice([*Doing]), since_s, timeout_s, halted)
                self.programs.say(name, live if self.chance.randrange(6) else None)

    def reader_names(self) -> list[str]:
        with SqliteReading(self.path) as reader:
            return [record.name for record in reader.harnesses()]


class SqliteReading(SqliteReader):
    """A reader for one block."""

    def __enter__(self) -> SqliteReading:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def fleet_of(path: Path, programs: LivePrograms) -> Fleet:
    reader = SqliteReader(path)
    return Fleet(FleetChanges(reader, programs).read, SupervisionTree(reader).above, fresh_s=-1.0)


def by_name(rows: list[Row]) -> dict[str, Row]:
    return {row["harness"]: row for row in rows}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_kept_and_what_is_read_anew_is_what_a_look_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    path, chance = tmp_path / "run.db", Random(seed)
    SqliteStore(path).close()
    secret_path(path).write_text(SECRET.hex())
    secret_path(path).chmod(0o600)
    programs = Programs(path)
    world = World(path, chance, programs)
    monkeypatch.setattr("harnesses.timing.clock.system_time_ns", lambda: world.now_us * 1000)
    kept, told, version = fleet_of(path, programs), dict[str, Row](), 0

    for at in range(MOVES):
        for _ in range(chance.randrange(1, 4)):
            world.go()
        answer: dict[str, Any] = msgspec.json.decode(kept.changed(version))
        version = answer["version"]
        told |= by_name(answer["rows"])
        anew = fleet_of(path, Programs(path, said=programs.said)).rows()
        assert kept.rows() == anew, f"after {at}"
        assert (told, answer["count"]) == (by_name(anew), len(anew))
        assert "hunter2" not in str(anew)
    for store in filter(None, world.stores):
        store.close()


async def until_step(handle: Handle[Any, Any, Any], step: int) -> None:
    with trio.fail_after(30):
        while handle.durable_step < step:  # noqa: ASYNC110
            await trio.sleep(0.01)


async def test_a_program_tells_once_what_its_harnesses_do_and_then_what_has_changed(tmp_path: Path) -> None:
    path, gates = tmp_path / "run.db", [trio.Event(), trio.Event()]
    told: list[tuple[LivesSince, set[str]]] = []

    async def stepping(harness: Scripted) -> Steps:
        for gate in gates:
            yield harness.current_step, None
            await gate.wait()

    async def silent(harness: Scripted) -> Steps:
        yield harness.current_step, None
        await trio.sleep_forever()

    programs = LivePrograms(path, kept_s=-1.0)

    async def ask() -> None:
        told.append(await trio.to_thread.run_sync(programs.take))

    async with Orchestrator(path, control=True, handle_signals=False) as orchestrator:
        await until_step(orchestrator.start(Scripted(silent), name="still"), 1)
        handle = orchestrator.start(Scripted(stepping), name="stepping")
        await until_step(handle, 1)
        await ask()
        await ask()
        gates[0].set()
        await until_step(handle, 2)
        await ask()
        gates[1].set()
        await handle.wait()
        await ask()
        orchestrator.stop(grace=0)
    await ask()

    assert [sorted(lives) for lives, _ in told] == [["stepping", "still"]] * 3 + [["still"], []]
    assert [sorted(moved) for _, moved in told] == [["stepping", "still"], [], ["stepping"], ["stepping"], ["still"]]
