"""The kill switch of a store on PostgreSQL counts from the commit that turns it on, in every program at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import closing

import psycopg
import pytest
import trio

from harnesses import Action, BaseHarness
from harnesses.effects.effect import EffectOutcome
from harnesses.errors import Latched
from orchestrator import Orchestrator, OutcomeKind
from orchestrator.errors import StoreUnusable
from orchestrator.kill_switch import ALL
from orchestrator.store import PostgresStore
from orchestrator.store.conformance import claim, intent_row, outcome_row, step_row
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_schema import AS_JSON, SCHEMA, VERSION
from orchestrator.store.postgres.postgres_switch import PostgresKillSwitch
from orchestrator.store.store_protocol import AwaitedIntent
from tests.docs.clock import until
from tests.orchestrator.store.postgres.conftest import OpenStore
from tests.postgres_server import PostgresServer


def switch_of(store: PostgresStore, server: PostgresServer) -> PostgresKillSwitch:
    """Return the kill switch as another machine has it."""
    return PostgresKillSwitch(Address(server.url, store.schema, 10.0))


@pytest.mark.parametrize("name", [ALL, "one"])
def test_an_intent_is_refused_from_the_next_commit_on(server: PostgresServer, open_store: OpenStore, name: str) -> None:
    """The program has not heard of it: what refuses is the commit."""
    store = open_store()
    one, two = claim(store, "one"), claim(store, "two")
    store.commit(
        [], effects=[AwaitedIntent(*intent_row(one, 1, "before")), outcome_row(one, 1, "before", EffectOutcome.CONFIRMED)]
    )
    other = switch_of(store, server)

    other.put_on(name, reason="flash crash", by="anna")
    committed = store.commit(
        [step_row(two, 1)],
        effects=[AwaitedIntent(*intent_row(one, 1, "order")), outcome_row(one, 1, "before", EffectOutcome.CONFIRMED)],
    )

    assert [bool(seq) for seq in committed.effects] == [False, True]
    assert all(committed.seqs)
    error = committed.refused[one.harness]
    assert isinstance(error, Latched)
    assert "flash crash" in str(error)
    assert {effect.key for effect in store.effects("one")} == {"before"}
    assert other.which() == {name: {"name": name, "reason": "flash crash", "by": "anna"}}
    with pytest.raises(Latched):
        store.kill_switch.check("one")

    assert [other.take_off(name), other.take_off(name)] == [True, False]
    assert all(store.commit([], effects=[AwaitedIntent(*intent_row(one, 1, "order"))]).effects)


class Buying(BaseHarness[int, int, int]):
    """Buys once, after an approval; counts how often it did."""

    def __init__(self, bought: list[int]) -> None:
        super().__init__(0)
        self.bought = bought

    async def execute(self) -> AsyncGenerator[tuple[int, int]]:
        if self.current_step == 0:
            await self.once("buy", self.buy, 3, approval=Action("trade", "buy 3"))
            yield 1, 1

    async def buy(self, count: int) -> int:
        self.bought.append(count)
        return count


def test_an_approved_effect_is_refused_and_done_once_after_the_switch_is_off(
    server: PostgresServer, open_store: OpenStore
) -> None:
    bought: list[int] = []
    store = open_store()

    async def run(*, stop_first: bool) -> OutcomeKind:
        async with Orchestrator(store) as orchestrator:
            orchestrator.tells_blocked = False
            handle = orchestrator.start(Buying(bought), name="desk")
            if stop_first:
                await until(lambda: bool(store.approvals()))
                asked = store.approvals()
                await trio.to_thread.run_sync(lambda: switch_of(store, server).put_on(reason="halt"))
                await orchestrator.approve(asked[0].id, by="anna")
            return (await handle.wait()).kind

    assert trio.run(lambda: run(stop_first=True)) is OutcomeKind.BLOCKED
    assert (bought, store.effects()) == ([], [])
    switch_of(store, server).take_off()
    assert trio.run(lambda: run(stop_first=False)) is OutcomeKind.FINISHED
    assert bought == [3]


def test_a_store_of_the_first_version_is_upgraded_once_no_program_runs_on_it(server: PostgresServer) -> None:
    """One of that version has no kill switch, and would go on without the new one."""
    database = server.new_database()
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("CREATE SCHEMA orchestrator")
        db.execute("SET search_path = orchestrator")
        db.execute((SCHEMA + AS_JSON).encode())
        db.execute("INSERT INTO leases VALUES ('earlier', clock_timestamp() + interval '1 hour')")
        with pytest.raises(StoreUnusable, match=r"leases of 1 programs of an earlier release, .* up to 3600 s more"):
            PostgresStore(database)
        assert db.execute("SELECT version FROM meta").fetchone() == (1,)
        db.execute("UPDATE leases SET until = clock_timestamp()")
    with closing(PostgresStore(database)) as store:
        claimed = claim(store, "one")
        assert all(store.commit([step_row(claimed, 1)]).seqs)
        store.kill_switch.put_on("one")
    with psycopg.connect(database, options="-csearch_path=orchestrator") as db:
        assert db.execute("SELECT version, length(store) FROM meta").fetchone() == (VERSION, 36)
