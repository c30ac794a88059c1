"""G8: harnesses are claimed as sets, each by one run, and only from a run whose lease is over for good."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Iterator
from itertools import pairwise

import psycopg
import pytest
import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator
from orchestrator.errors import OwnedElsewhere, StoreLost, StoreUnusable
from orchestrator.store.conformance import claim, do, step_row
from orchestrator.store.postgres.postgres_connection import Database
from orchestrator.store.postgres.postgres_store import PostgresStore
from orchestrator.store.store_protocol import Claim, Claimed
from tests.orchestrator.store.postgres.conftest import OpenStore
from tests.orchestrator.store.postgres.cut_off import Proxy
from tests.postgres_server import PostgresServer

SHORT_S = 2.0


def set_lease(server: PostgresServer, store: PostgresStore, seconds: float) -> None:
    """Have the lease of a run end so many seconds from now, by the server's clock."""
    with psycopg.connect(server.url) as db:
        statement = f"UPDATE {store.schema}.leases SET until = clock_timestamp() + %s * interval '1 s' WHERE run = %s"
        db.execute(statement.encode(), (seconds, store.run))


def claims(count: int) -> list[Claim]:
    return [Claim(f"h{number}", '{"total":0}') for number in range(count)]


def test_a_thousand_claims_are_a_handful_of_statements(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of harnesses that have steps without a snapshot, whose states are made of them."""
    first, other = open_store(), open_store()
    granted = first.commit([], claims(300)).results
    first.commit([step_row(one, 1) for one in granted])
    first.close()
    statements, execute = list[str](), Database.execute

    def note(db: Database, statement: str, values: object = ()) -> object:
        statements.append(statement)
        return execute(db, statement, values)  # type: ignore[arg-type]

    monkeypatch.setattr(Database, "execute", note)
    results = other.commit([], claims(301)).results

    assert len(statements) < 20
    assert [result.step for result in results] == [1] * 300 + [0]
    assert {result.state for result in results[:300]} == {other.state_at("h0", 1)} == {'{"total":1}'}
    other.commit([step_row(result, result.step + 1) for result in results])


def test_a_storm_of_claims_grants_each_harness_once(open_store: OpenStore) -> None:
    """Four nodes that all want all of a thousand harnesses at the same moment."""
    stores = [open_store() for _ in range(4)]
    granted: dict[str, list[str]] = {}
    ready = threading.Barrier(4)

    def storm(store: PostgresStore) -> None:
        ready.wait(30)
        for one, result in zip(claims(1_000), store.commit([], claims(1_000)).results, strict=True):
            if isinstance(result, Claimed):
                granted.setdefault(one.name, []).append(store.run)
            else:
                assert isinstance(result, OwnedElsewhere)

    threads = [threading.Thread(target=storm, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(granted) == 1_000
    assert {len(runs) for runs in granted.values()} == {1}


def test_a_renewal_that_comes_first_counts_and_the_claim_waits_for_it(open_store: OpenStore, server: PostgresServer) -> None:
    """A lease that is being renewed looks lapsed to others until that is committed."""
    owner, other = open_store(lease_s=30.0), open_store()
    claim(owner, "one")
    results = list[object]()
    set_lease(server, owner, 0.5)
    thread = threading.Thread(target=lambda: results.append(do(other, Claim("one", "{}"))))

    with psycopg.connect(server.url) as db:
        db.execute(
            f"UPDATE {owner.schema}.leases SET until = clock_timestamp() + interval '1 h' WHERE run = %s".encode(),
            (owner.run,),
        )
        time.sleep(0.7)
        thread.start()
        time.sleep(0.2)
        db.commit()
    thread.join(30)

    assert [type(result) for result in results] == [OwnedElsewhere]


def test_the_lease_of_a_run_whose_harness_was_taken_over_is_ended(open_store: OpenStore, server: PostgresServer) -> None:
    """Even if its clock is turned back on the server: an owner that has lapsed once does not come back."""
    owner, other = open_store(lease_s=30.0), open_store()
    claim(owner, "one")
    set_lease(server, owner, 0.0)
    claim(other, "one")
    set_lease(server, owner, 30.0)
    with psycopg.connect(server.url) as db:
        asked = f"SELECT {other.schema}.is_alive(%s)".encode()
        assert db.execute(f"SET search_path = {other.schema}".encode()) is not None
        assert db.execute(asked, (owner.run,)).fetchone() == (False,)


@pytest.fixture
def cut_off(server: PostgresServer) -> Iterator[tuple[Proxy, PostgresStore]]:
    proxy = Proxy(server.port)
    url = server.url.replace(str(server.port), str(proxy.port))
    store = PostgresStore(url, schema=server.new_schema(), lease_s=SHORT_S)
    yield proxy, store
    proxy.end()
    store.close()


def test_a_silent_network_does_not_hold_up_the_fence(cut_off: tuple[Proxy, PostgresStore]) -> None:
    """Whoever waits for an answer is woken when the run is over, although nobody has looked at the lease."""
    proxy, store = cut_off
    assert store.last_seq() == 0  # on a connection that is kept for the next read
    proxy.freeze()
    errors = list[Exception]()

    def read() -> None:
        try:
            store.last_seq()
        except StoreUnusable as error:
            errors.append(error)

    begin = time.monotonic()
    thread = threading.Thread(target=read)
    thread.start()
    thread.join(30)

    assert len(errors) == 1
    assert time.monotonic() - begin < SHORT_S


def test_harnesses_are_aborted_before_the_lease_lapses_while_everybody_waits_for_a_silent_server(
    cut_off: tuple[Proxy, PostgresStore],
) -> None:
    """G8: also where a connection is being made, which nothing can break off."""
    proxy, store = cut_off
    took = list[float]()

    class Waiting(BaseHarness[int, int, int]):
        async def execute(self) -> AsyncGenerator[tuple[int, int]]:
            yield 1, 1
            proxy.freeze()
            begin = time.monotonic()
            store.close_readers()
            try:
                await trio.sleep(60)
            finally:
                took.append(time.monotonic() - begin)

    async def main() -> None:
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(Waiting(0), name="one")

    with pytest.RaisesGroup(pytest.RaisesExc(StoreLost, match="lease of run")):
        trio.run(main)
    assert took[0] < SHORT_S


@pytest.mark.parametrize("waits", ["receive", "ask", "send"])
def test_a_harness_that_waits_for_a_silent_server_does_not_hold_up_its_siblings(
    cut_off: tuple[Proxy, PostgresStore], waits: str
) -> None:
    """G8: what a harness reads from the store does not stop the loop."""
    proxy, store = cut_off
    turns, begun = list[float](), trio.Event()

    class Waiting(BaseHarness[int, int, int]):
        async def execute(self) -> AsyncGenerator[tuple[int, int]]:
            yield 1, 1
            await begun.wait()
            proxy.freeze()
            match waits:
                case "receive":
                    await self.receive()
                case "ask":
                    await self.ask("other", 1, timeout_s=60)
                case _:
                    await self.send("other", 1)

    class Other(BaseHarness[int, int, int]):
        async def execute(self) -> AsyncGenerator[tuple[int, int]]:
            yield 1, 1
            begun.set()
            while True:
                turns.append(time.monotonic())
                await trio.sleep(0.001)

    async def main() -> None:
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(Other(0), name="other")
            orchestrator.start(Waiting(0), name="one")

    with pytest.RaisesGroup(pytest.RaisesExc(StoreLost, match="lease of run")):
        trio.run(main)
    longest = max(after - before for before, after in pairwise(turns))
    assert (len(turns) > 50, longest < SHORT_S / 2) == (True, True)


def test_the_wall_clock_of_a_machine_does_not_count(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may jump by years: leases are of the server's clock, and the fence of a clock that only goes forward."""
    store, other = open_store(lease_s=SHORT_S), open_store()
    claimed = claim(store, "one")
    for moment in (0.0, 4e9):
        monkeypatch.setattr(time, "time", lambda now=moment: now)
        monkeypatch.setattr(time, "time_ns", lambda now=moment: int(now * 1e9))
        threading.Event().wait(SHORT_S)
        store.check_in_place()
        assert isinstance(do(other, Claim("one", "{}")), OwnedElsewhere)
    store.commit([step_row(claimed, 1)])
