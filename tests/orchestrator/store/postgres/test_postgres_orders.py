"""Orders through the store are taken once, in time, by the run that has the harness; and whoever waits is woken."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest
import trio
from attrs import evolve

from harnesses.timing.clock import now_us
from orchestrator import Orchestrator
from orchestrator.codec import decode
from orchestrator.errors import StoreUnusable
from orchestrator.store.conformance import claim, do
from orchestrator.store.encryption import cipher_of
from orchestrator.store.postgres import postgres_order_table
from orchestrator.store.postgres.postgres_address import Address
from orchestrator.store.postgres.postgres_order_table import give_order
from orchestrator.store.postgres.postgres_schema import VERSION
from orchestrator.store.postgres.postgres_store import PostgresStore
from orchestrator.store.run_orders import Answer, GivenOrder, OrderNotTaken, TakenOrder
from orchestrator.store.store_protocol import Post
from tests.docs.clock import until
from tests.orchestrator.commanded import Ticking
from tests.orchestrator.store.postgres.conftest import OpenStore
from tests.orchestrator.store.postgres.test_postgres_faults import wait_until
from tests.postgres_server import PostgresServer

PAUSE = GivenOrder("one", "pause", "", "", "ann")
_LONG_S = 15.0
"""A wait that somebody has to end."""


def address_of(store: PostgresStore, server: PostgresServer) -> Address:
    return Address(server.url, store.schema, 10.0)


@contextmanager
def given(
    store: PostgresStore, server: PostgresServer, order: GivenOrder = PAUSE, begun: threading.Event | None = None
) -> Generator[list[Answer | Exception | None]]:
    """Give an order in a thread, when something has begun; its answer is in the list at the end of the block."""
    answers: list[Answer | Exception | None] = []

    def give() -> None:
        try:
            assert begun is None or begun.wait(20)
            answers.append(give_order(address_of(store, server), order, wait_s=5, answer_s=5))
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=give, daemon=True)
    thread.start()
    yield answers
    thread.join(20)
    assert not thread.is_alive(), "the order has no answer within 20 s"


def take(store: PostgresStore) -> list[TakenOrder]:
    """Take orders as soon as there are any."""
    taken: list[TakenOrder] = []
    wait_until(lambda: taken.extend(store.take_orders()) or bool(taken))
    return taken


def take_at_once(store: PostgresStore) -> list[TakenOrder]:
    return store.take_orders(["one"])


def test_an_order_is_taken_once_by_the_owner_and_its_answer_reaches_whoever_gave_it(
    open_store: OpenStore, server: PostgresServer
) -> None:
    owner, other = open_store(), open_store()
    claim(owner, "one")
    claim(other, "two")
    with given(owner, server, GivenOrder("one", "ask", "?timeout_s=3", '"x\\u0000"', "ann")) as answers:
        (order,) = take(owner)
        with ThreadPoolExecutor(4) as pool:
            seen = [*pool.map(take_at_once, [owner, other] * 4)]
        assert [order] in seen
        assert all(orders in ([], [order]) for orders in seen)
        assert not any(seen[1::2])
        owner.answer_order(order.id, 200, '{"reply":1}')
    assert (order.harness, order.verb, order.options, order.body) == ("one", "ask", "?timeout_s=3", '"x\\u0000"')
    assert answers == [Answer(200, '{"reply":1}', owner.run)]
    assert owner.take_orders() == []
    kept = owner.rows("SELECT given_by, verb, run, body, answer FROM orders")
    assert kept == [("ann", "ask", owner.run, "", "")]


def test_an_order_whose_giver_is_gone_is_not_taken_after_its_time(open_store: OpenStore, server: PostgresServer) -> None:
    store = open_store()
    claim(store, "one")
    give = (
        "INSERT INTO orders (id, harness, verb, options, body, given_by, until) "
        "VALUES (%s, 'one', 'pause', '', '', 'ann', clock_timestamp() + %s * interval '1 minute')"
    )
    with psycopg.connect(server.url, autocommit=True, options=f"-csearch_path={store.schema}") as db:
        for id, minutes in (("late", 0), ("in-time", 1)):
            db.execute(give, (id, minutes))
    assert [order.id for order in store.take_orders()] == ["in-time"]


def test_an_order_that_was_taken_at_the_last_moment_is_not_withdrawn(open_store: OpenStore, server: PostgresServer) -> None:
    store = open_store()
    claim(store, "one")
    with (
        given(store, server) as answers,
        psycopg.connect(server.url, options=f"-csearch_path={store.schema}", autocommit=True) as db,
    ):
        (order,) = take(store)
        withdrawn = db.execute(postgres_order_table._WITHDRAW.encode(), (order.id,)).fetchone()  # pyright: ignore[reportPrivateUsage]
        store.answer_order(order.id, 200, "{}")

    assert withdrawn is None
    assert isinstance(answers[0], Answer)


def test_an_order_that_was_encrypted_with_another_key_is_refused_and_those_after_it_are_taken(
    open_store: OpenStore, server: PostgresServer
) -> None:
    store = open_store()
    claim(store, "one")
    address = evolve(address_of(store, server), cipher=cipher_of(os.urandom(32), store.location))
    with ThreadPoolExecutor(1) as pool:
        refused = pool.submit(give_order, address, PAUSE, wait_s=5, answer_s=5)
        wait_until(lambda: bool(store.rows("SELECT 1 FROM orders")))
        assert store.take_orders() == []
        answer = refused.result(20)
    assert answer is not None
    assert answer.status == 400
    assert "is encrypted: expected its key" in answer.text
    with given(store, server) as answers:
        (order,) = take(store)
        store.answer_order(order.id, 200, "{}")
    assert answers == [Answer(200, "{}", store.run)]


def test_who_has_no_key_is_told_that_the_order_was_carried_out(open_store: OpenStore, server: PostgresServer) -> None:
    store = open_store(encryption_key=os.urandom(32))
    claim(store, "one")
    with given(store, server) as answers:
        (order,) = take(store)
        store.answer_order(order.id, 200, "{}")
    (said,) = answers
    assert isinstance(said, StoreUnusable)
    assert "harness 'one': the order to pause was answered with 200, which cannot be read: " in str(said)
    assert "is encrypted: expected its key" in str(said)


def test_an_order_that_is_not_taken_or_not_answered_says_who_has_the_harness(
    open_store: OpenStore, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_order_table, "_TAKE_S", 0.3)
    store = open_store()
    assert give_order(address_of(store, server), PAUSE, wait_s=5, answer_s=5) is None
    claim(store, "one")
    with pytest.raises(OrderNotTaken, match=rf"withdrawn: expected its owner, run {store.run}, whose lease was renewed \d"):
        give_order(address_of(store, server), PAUSE, wait_s=5, answer_s=5)
    assert store.take_orders() == []

    monkeypatch.setattr(postgres_order_table, "_TAKE_S", 20.0)
    with given(store, server) as answers:
        take(store)
        store.close()
    (said,) = answers
    assert isinstance(said, OrderNotTaken)
    assert "to pause before it ended; it has taken it, so perhaps it is carried out" in str(said)


def test_a_run_that_has_just_handed_the_harness_over_is_not_the_last_word(
    open_store: OpenStore, server: PostgresServer
) -> None:
    before, after = open_store(), open_store()
    claim(before, "one")
    with given(before, server) as answers:
        (order,) = take(before)
        claim(after, "one", take_over=True)
        before.answer_order(order.id, 404, "{}")
        (again,) = take(after)
        after.answer_order(again.id, 200, "{}")
    assert answers == [Answer(200, "{}", after.run)]


def test_a_program_that_an_order_ends_answers_it_first(open_store: OpenStore, server: PostgresServer) -> None:
    store = open_store()

    async def run() -> None:
        with trio.fail_after(20):
            async with Orchestrator(store) as orchestrator:
                orchestrator.start(Ticking(0), name="one")
                await until(lambda: bool(store.harnesses()))
                begun.set()

    begun = threading.Event()
    with given(store, server, GivenOrder("one", "stop", "", "", "ann"), begun) as answers:
        trio.run(run)
    (answer,) = answers
    assert isinstance(answer, Answer), answer
    assert (answer.status, decode(answer.text)["status"]) == (200, "stopped")


def test_a_program_without_control_takes_no_orders(
    open_store: OpenStore, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_order_table, "_TAKE_S", 0.5)
    store = open_store()

    async def run() -> None:
        with trio.fail_after(20):
            async with Orchestrator(store, control=False) as orchestrator:
                handle = orchestrator.start(Ticking(0), name="one")
                await until(lambda: bool(store.harnesses()))
                give = partial(give_order, address_of(store, server), PAUSE, wait_s=5, answer_s=5)
                with pytest.raises(OrderNotTaken, match="or takes no orders"):
                    await trio.to_thread.run_sync(give)
                await handle.stop()

    trio.run(run)


def test_what_others_write_for_a_run_ends_its_wait_and_a_lost_connection_is_made_anew(
    open_store: OpenStore, server: PostgresServer
) -> None:
    store, other = open_store(), open_store()
    claim(store, "one")
    claim(other, "two")
    store.wait_news(5.0)  # connects
    for written in (Post("one", "two", now_us(), "1"), Post("one", "two", now_us(), "2")):
        waited = _wait_in_thread(store)
        assert not isinstance(do(other, written), Exception)
        assert waited() < _LONG_S

    waited = _wait_in_thread(store, 0.3)
    do(store, Post("two", "one", now_us(), "1"))  # for others, not for itself
    do(other, Post("two", "two", now_us(), "1"))
    assert waited() >= 0.3

    for end in (partial(_end_listeners, server), store.wake):
        waited = _wait_in_thread(store)
        end()
        assert waited() < _LONG_S
        store.wait_news(5.0)  # connects again, and has its caller look at once
    waited = _wait_in_thread(store)
    do(other, Post("one", "two", now_us(), "3"))
    assert waited() < _LONG_S


def _wait_in_thread(store: PostgresStore, seconds: float = _LONG_S) -> Callable[[], float]:
    took: list[float] = []

    def wait() -> None:
        begin = time.monotonic()
        store.wait_news(seconds)
        took.append(time.monotonic() - begin)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    time.sleep(0.05)

    def waited() -> float:
        thread.join(20)
        assert took, "the wait has not ended within 20 s"
        return took[0]

    return waited


def _end_listeners(server: PostgresServer) -> None:
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ILIKE 'listen%'")


def test_a_store_of_the_version_before_orders_is_upgraded(open_store: OpenStore, server: PostgresServer) -> None:
    store = open_store()
    claim(store, "one")
    store.close()
    with psycopg.connect(server.url, autocommit=True, options=f"-csearch_path={store.schema}") as db:
        db.execute("DROP TABLE orders; ALTER TABLE leases DROP COLUMN renewed; UPDATE meta SET version = 3")
        with pytest.raises(StoreUnusable, match=f"schema version 3: expected {VERSION}"):
            give_order(address_of(store, server), PAUSE, wait_s=5, answer_s=5)
    again = open_store()
    claim(again, "one")
    with given(again, server) as answers:
        (order,) = take(again)
        again.answer_order(order.id, 200, "{}")
    assert answers == [Answer(200, "{}", again.run)]
    assert [record.kind for record in again.records()] == [record.kind for record in store.records()]
