"""G8 on PostgreSQL: a run owns its harnesses while it renews its lease, and writes nothing after that."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Iterator

import psycopg
import pytest
import trio

from harnesses import BaseHarness
from orchestrator import Orchestrator
from orchestrator.errors import OwnedElsewhere, StoreError, StoreLost, StoreUnusable
from orchestrator.store.conformance import claim, do, numbers, step_row
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_connection import limited
from orchestrator.store.postgres.postgres_store import PostgresStore
from orchestrator.store.store_protocol import Claim, Claimed, Post
from tests.orchestrator.store.postgres.conftest import OpenStore
from tests.orchestrator.store.postgres.cut_off import Proxy
from tests.postgres_server import PostgresServer

SHORT_S = 0.4


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.end()


def through(proxy: Proxy, server: PostgresServer, schema: str, lease_s: float) -> PostgresStore:
    return PostgresStore(server.url.replace(str(server.port), str(proxy.port)), schema=schema, lease_s=lease_s)


def lapse(server: PostgresServer, store: PostgresStore, schema: str) -> None:
    """Let the lease of a run end now, long before it is renewed again."""
    with psycopg.connect(server.url) as db:
        db.execute(f"UPDATE {schema}.leases SET until = clock_timestamp() WHERE run = %s".encode(), (store.run,))


def test_a_lapsed_lease_is_taken_over_and_its_run_cannot_write(open_store: OpenStore, server: PostgresServer) -> None:
    """G8: the epoch is checked in every commit, whatever the run believes of its lease."""
    zombie, other = open_store(), open_store()
    old = claim(zombie, "one")
    zombie.commit([step_row(old, 1)])
    assert isinstance(do(other, Claim("one", "{}")), OwnedElsewhere)

    lapse(server, zombie, zombie.schema)
    assert not other.harnesses()[0].owned
    new = claim(other, "one")
    late = zombie.commit([step_row(old, 2, state='{"total":-1}')], [Post("one", "", 1, "1")])

    assert (new.epoch, new.step) == (old.epoch + 1, 1)
    assert (list(late.seqs), set(late.lost)) == ([0], {old.harness})
    other.commit([step_row(new, 2)])
    assert (numbers(other, "one"), other.state_at("one", 2)) == ([1, 2], '{"total":2}')


def test_a_lapsed_lease_is_never_revived(open_store: OpenStore, server: PostgresServer) -> None:
    store = open_store(lease_s=SHORT_S)
    claimed = claim(store, "one")
    lapse(server, store, store.schema)

    wait_until_over(store)

    with pytest.raises(StoreUnusable, match="had lapsed"):
        store.commit([step_row(claimed, 1)])
    assert numbers(open_store(), "one") == []


def test_a_lease_is_renewed_while_its_run_waits_for_another(open_store: OpenStore, server: PostgresServer) -> None:
    store = open_store(lease_s=SHORT_S)
    claimed, results = claim(store, "one"), list[object]()
    writer = threading.Thread(target=lambda: results.append(store.commit([step_row(claimed, 1)])))

    with psycopg.connect(server.url) as db:
        db.execute(f"SELECT 1 FROM {store.schema}.meta FOR UPDATE".encode())
        writer.start()
        time.sleep(1.5 * SHORT_S)
        assert not results
    writer.join(10)

    store.check_in_place()
    assert (len(results), numbers(store, "one")) == (1, [1])


def test_a_run_that_cannot_reach_the_server_ends_with_its_lease(proxy: Proxy, server: PostgresServer) -> None:
    store = through(proxy, server, server.new_schema(), SHORT_S)
    claimed = claim(store, "one")
    proxy.end()

    begin = time.monotonic()
    with pytest.raises(StoreUnusable, match="lease of run"):
        store.commit([step_row(claimed, 1)])

    assert time.monotonic() - begin < 2 * SHORT_S
    store.close()


def test_harnesses_end_with_the_lease_of_their_run(proxy: Proxy, server: PostgresServer) -> None:
    """G4: the loss of the store stops the group, loudly; also while no harness wants to write."""

    class Waiting(BaseHarness[int, int, int]):
        async def execute(self) -> AsyncGenerator[tuple[int, int]]:
            yield 1, 1
            proxy.end()
            await trio.sleep(60)

    async def main() -> None:
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(Waiting(0), name="one")

    store = through(proxy, server, server.new_schema(), SHORT_S)
    with pytest.RaisesGroup(pytest.RaisesExc(StoreLost, match="lease of run")):
        trio.run(main)
    store.close()


def test_whoever_waits_for_a_silent_server_is_woken_at_the_end_of_the_lease(proxy: Proxy, server: PostgresServer) -> None:
    store = through(proxy, server, server.new_schema(), SHORT_S)
    claimed, errors = claim(store, "one"), list[Exception]()

    def write() -> None:
        try:
            store.commit([step_row(claimed, 1)])
        except StoreUnusable as error:
            errors.append(error)

    proxy.freeze()
    writer = threading.Thread(target=write)
    writer.start()
    wait_until_over(store)
    writer.join(10)

    assert [str(error).startswith(store.location) for error in errors] == [True]
    store.close()


@pytest.mark.parametrize("lost", ["request", "answer"])
@pytest.mark.parametrize("kind", ["rows", "operations"])
def test_a_commit_in_doubt_happens_once(
    lost: str, kind: str, proxy: Proxy, server: PostgresServer, open_store: OpenStore
) -> None:
    """G1: whether a commit whose answer was lost has happened is found out, and it is made if it has not."""
    other = open_store()
    claim(other, "beside")
    store = through(proxy, server, other.schema, 10.0)
    claimed = claim(store, "one")

    proxy.lose(b"commit_rows" if kind == "rows" else b"COMMIT", lost)  # type: ignore[arg-type]
    operations = [Claim("two", "{}"), Post("one", "", 1, "1")] if kind == "operations" else []
    committed = store.commit([step_row(claimed, number) for number in (1, 2)], operations)
    store.commit([step_row(claimed, 3)])

    assert proxy.has_lost
    records = other.records()
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert [record.step for record in records if record.kind == "step"] == [1, 2, 3]
    assert [records[seq - 1].step for seq in committed.seqs] == [1, 2]
    assert [isinstance(result, Claimed) for result in committed.results] == [True, False][: len(operations)]
    assert [harness.name for harness in other.harnesses()] == ["beside", "one", *["two"] * bool(operations)]
    store.close()


def test_a_reader_that_follows_several_writers_misses_nothing(open_store: OpenStore) -> None:
    """G2: `seq` is in the order of commits, without a gap, so what comes after a `seq` is never before it."""
    writers, reader = [open_store() for _ in range(3)], open_store()
    done = threading.Event()
    seen: list[int] = []

    def write(store: PostgresStore, name: str) -> None:
        claimed, step = claim(store, name), 0
        for count in range(1, 25):
            operations = [Post(name, "", 1, "1")] if count % 5 == 0 else []
            store.commit([step_row(claimed, step + number) for number in range(1, count % 4 + 2)], operations)
            step += count % 4 + 1

    def follow() -> None:
        while True:
            is_last = done.is_set()
            seen.extend(record.seq for record in reader.records(after=seen[-1] if seen else 0))
            if is_last:
                return

    threads = [threading.Thread(target=write, args=(store, f"h{at}")) for at, store in enumerate(writers)]
    follower = threading.Thread(target=follow)
    for thread in (follower, *threads):
        thread.start()
    for thread in threads:
        thread.join(30)
    done.set()
    follower.join(30)

    assert seen == list(range(1, reader.last_seq() + 1))
    assert len(seen) == 3 * (24 * 5 // 2 + 4)


def wait_until_over(store: PostgresStore) -> None:
    """Wait until a run has noticed that it is over."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            store.check_in_place()
        except StoreUnusable:
            return
        time.sleep(0.01)
    raise AssertionError("the run is not over")


def test_a_store_that_cannot_be_opened_leaves_no_lease(database: str) -> None:
    """Nobody could end it: its threads would renew it for as long as the process lives."""
    with psycopg.connect(database, autocommit=True) as db:
        PostgresStore(database).close()
        db.execute("ALTER TABLE orchestrator.kill_switches RENAME TO gone")
        with pytest.raises(StoreError, match="kill_switches"):
            PostgresStore(database)
        assert db.execute("SELECT count(*) FROM orchestrator.leases").fetchone() == (0,)


@pytest.mark.parametrize(("setting", "used"), [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")])
def test_everything_is_synchronous_whatever_the_database_sets(database: str, setting: str, used: str) -> None:
    """G1: a commit, but also a lease, a kill switch, and a seal that this machine notes; on every connection."""
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(f"ALTER DATABASE {database.rpartition('/')[2]} SET synchronous_commit = {setting}".encode())
    with limited(Address(database, "orchestrator", 10.0), 10.0) as connection:
        assert connection.row("SHOW synchronous_commit") == (used,)
