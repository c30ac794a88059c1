"""G8 over machines, with several nodes in one loop: each has a lease and connections of its own, as if on its own machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Literal

import psycopg
import pytest
import trio
from attrs import define, field

from harnesses import BaseHarness
from orchestrator import Member, Orchestrator, PostgresStore, UsageError, run_node
from orchestrator.errors import OwnedElsewhere
from orchestrator.handle import Handle
from orchestrator.lifecycle import Status
from orchestrator.store.store_protocol import Claim
from tests.orchestrator.nodes.fleet_harnesses import Ticking
from tests.orchestrator.nodes.node_processes import LEASE_S, Nodes
from tests.orchestrator.store.postgres.cut_off import Proxy
from tests.postgres_server import PostgresServer

LIMIT_S = 60.0


class Noting(BaseHarness[int, int, str]):
    """Counts, and notes on which node it goes on after each step."""

    def __init__(self, desk: Desk, node: str, name: str) -> None:
        super().__init__(0)
        self.desk, self.node, self.own = desk, node, name

    async def execute(self) -> AsyncGenerator[tuple[int, str]]:
        self.desk.overlaps += [(name, node, self.node) for name, node in self.desk.active if name == self.own]
        self.desk.active.add((self.own, self.node))
        try:
            while True:
                self.update_state(lambda count: count + 1)
                yield self.state, self.node
                self.desk.noted.append((self.own, self.node, self.state))
                await trio.sleep(0.02)
        finally:
            self.desk.active.discard((self.own, self.node))


class Parent(BaseHarness[int, int, str]):
    """Starts a child, and counts."""

    async def execute(self) -> AsyncGenerator[tuple[int, str]]:
        self.start_child(Ticking, 0, name=f"{self.name}.child")
        while True:
            self.update_state(lambda count: count + 1)
            yield self.state, ""
            await trio.sleep(0.02)


@define
class Desk:
    """A fleet of `Noting` harnesses."""

    nodes: Nodes
    names: Sequence[str] = tuple(f"h{number}" for number in range(4))
    noted: list[tuple[str, str, int]] = field(factory=list[tuple[str, str, int]])
    """Name, node and step of each step after which a harness has gone on."""
    active: set[tuple[str, str]] = field(factory=set[tuple[str, str]])
    """Name and node of each harness whose `execute` is running."""
    overlaps: list[tuple[str, str, str]] = field(factory=list[tuple[str, str, str]])
    """Harnesses that began on a node while they were still active on another."""
    drains: dict[str, trio.Event] = field(factory=dict[str, trio.Event])

    def members(self, node: str) -> list[Member]:
        return [Member(name, partial(self._start, node, name)) for name in self.names]

    def _start(self, node: str, name: str, orchestrator: Orchestrator) -> Handle:
        return orchestrator.start(Noting(self, node, name), name=name)

    def run(self, nursery: trio.Nursery, node: str, url: str | None = None, members: Any = None) -> None:
        """Start a node in a nursery."""
        self.drains[node] = trio.Event()
        options: Any = {
            "store": url or self.nodes.url,
            "name": node,
            "drain": self.drains[node],
            "lease_s": LEASE_S,
            "cpus": 1,
        }
        nursery.start_soon(partial(run_node, members or self.members(node), fleet="desk", **options))

    async def wait_for(self, owned: dict[str, int]) -> None:
        await self.until(lambda: self.nodes.owned_or_none() == owned, f"expected {owned}")

    async def until(self, holds: Callable[[], object], what: str) -> None:
        with trio.move_on_after(LIMIT_S):
            while not await trio.to_thread.run_sync(holds):  # noqa: ASYNC110
                await trio.sleep(0.02)
            return
        pytest.fail(f"{what}: not within {LIMIT_S:g} s; now {self.nodes.owned_or_none()}")

    async def go_on(self) -> None:
        """Wait until every harness has gone on after another step."""
        seen = len(self.noted)
        await self.until(lambda: {name for name, _, _ in self.noted[seen:]} >= set(self.names), "all go on")

    def assert_one_at_a_time(self) -> None:
        """Assert that no harness was on two nodes at once, and that none went on after a step twice, or left one out."""
        assert self.overlaps == []
        for name in self.names:
            steps = [step for other, _, step in self.noted if other == name]
            assert steps == sorted(set(steps))
            stored = {step.step_number: step.output for step in self.nodes.store.steps(name, limit=100_000)}
            assert all(stored[step] == node for other, node, step in self.noted if other == name)
        self.nodes.assert_whole()


@pytest.fixture
def desk(nodes: Nodes) -> Desk:
    return Desk(nodes)


def play(main: Callable[[trio.Nursery], Any]) -> None:
    """Run the nodes that `main` starts, until it returns; for two minutes at most."""

    async def run() -> None:
        with trio.fail_after(2 * LIMIT_S):
            async with trio.open_nursery() as nursery:
                await main(nursery)
                nursery.cancel_scope.cancel()

    trio.run(run)


@contextmanager
def proxied(server: PostgresServer, url: str) -> Generator[tuple[Proxy, str]]:
    proxy = Proxy(server.port)
    try:
        yield proxy, url.replace(str(server.port), str(proxy.port))
    finally:
        proxy.end()


def test_harnesses_move_to_a_node_that_joins_and_away_from_one_that_drains(desk: Desk) -> None:
    """G2: at step boundaries, without a gap; and a node that has drained has left."""

    async def main(nursery: trio.Nursery) -> None:
        desk.run(nursery, "a")
        await desk.wait_for({"a": 4})
        desk.run(nursery, "b")
        await desk.wait_for({"a": 2, "b": 2})
        await desk.go_on()
        desk.drains["a"].set()
        await desk.wait_for({"b": 4})
        await desk.go_on()
        desk.drains["b"].set()
        await desk.wait_for({})

    play(main)
    desk.assert_one_at_a_time()
    events = [record.body for record in desk.nodes.store.records(limit=100_000) if record.kind == "stopped"]
    assert all("handed over" in body for body in events)
    assert sum("handed over to node b" in body for body in events) == 4
    assert not any(record.kind == "failed" for record in desk.nodes.store.records(limit=100_000))


@pytest.mark.parametrize("what", ["both", "requests", "answers"])
def test_a_node_that_is_cut_off_fences_itself_before_others_take_over_and_comes_back(
    what: Literal["both", "requests", "answers"], desk: Desk, server: PostgresServer
) -> None:
    """G8: also if the network is silent, and no call ever returns."""

    async def main(nursery: trio.Nursery) -> None:
        with proxied(server, desk.nodes.url) as (proxy, url):
            desk.run(nursery, "a", url)
            desk.run(nursery, "b")
            await desk.wait_for({"a": 2, "b": 2})
            await desk.go_on()
            proxy.freeze(what)
            await desk.wait_for({"b": 4})
            await desk.go_on()
            proxy.thaw()
            await desk.wait_for({"a": 2, "b": 2})
            await desk.go_on()
            nursery.cancel_scope.cancel()

    play(main)
    desk.assert_one_at_a_time()


def test_no_acknowledged_step_is_lost_when_the_server_is_killed_under_load(desk: Desk, server: PostgresServer) -> None:
    """G1: nodes wait for the server, or join again if it was away for longer than their leases."""

    async def main(nursery: trio.Nursery) -> None:
        desk.run(nursery, "a")
        desk.run(nursery, "b")
        await desk.wait_for({"a": 2, "b": 2})
        await desk.go_on()
        await trio.to_thread.run_sync(server.kill)
        await trio.to_thread.run_sync(server.start)
        desk.nodes.store.close_readers()
        await desk.go_on()
        await desk.wait_for({"a": 2, "b": 2})

    play(main)
    desk.assert_one_at_a_time()


def test_a_node_that_asks_for_a_harness_that_another_program_was_first_with_ends_as_usual(desk: Desk) -> None:
    asked = trio.Event()

    async def main(nursery: trio.Nursery) -> None:
        with closing(PostgresStore(desk.nodes.url)) as store:

            def start(orchestrator: Orchestrator) -> Handle:
                store.commit([], [Claim("h0", "0")])
                handle = orchestrator.start(Ticking(0), name="h0")
                nursery.start_soon(note, handle)
                return handle

            async def note(handle: Handle) -> None:
                outcome = await handle.wait()
                assert isinstance(outcome.error, OwnedElsewhere)
                asked.set()

            async with trio.open_nursery() as running:
                desk.run(running, "a", members=[Member("h0", start)])
                await asked.wait()
                desk.drains["a"].set()

    play(main)


def test_children_go_with_the_harness_that_started_them(desk: Desk) -> None:
    """G15: also when they come back to a node on which they were before."""

    def members() -> list[Member]:
        return [Member("p", lambda orchestrator: orchestrator.start(Parent(0), name="p"))]

    async def main(nursery: trio.Nursery) -> None:
        desk.run(nursery, "a", members=members())
        await desk.wait_for({"a": 2})
        for here, there in ("ab", "ba"):
            if there not in desk.drains or desk.drains[there].is_set():
                desk.run(nursery, there, members=members())
            await desk.until(lambda to=there: to in (desk.nodes.owned_or_none() or {}), f"{there} is there")  # type: ignore[misc]
            desk.drains[here].set()
            await desk.wait_for({there: 2})
            before = desk.nodes.steps()
            await desk.until(lambda then=before: all(step > then[name] for name, step in desk.nodes.steps().items()), "steps")  # type: ignore[misc]

    play(main)
    assert not any(record.kind == "failed" for record in desk.nodes.store.records(limit=100_000))
    desk.nodes.assert_whole()


def test_what_an_operator_stopped_stays_so_when_its_node_is_gone(desk: Desk) -> None:
    async def main(nursery: trio.Nursery) -> None:
        def start(orchestrator: Orchestrator) -> Handle:
            handle = orchestrator.start(Noting(desk, "a", "h0"), name="h0")
            nursery.start_soon(stop, handle)
            return handle

        async def stop(handle: Handle) -> None:
            await handle.stop(0)

        desk.run(nursery, "a", members=[Member("h0", start), *desk.members("a")[1:]])
        await desk.wait_for({"a": 3})
        desk.drains["a"].set()
        await desk.wait_for({})
        desk.run(nursery, "b")
        # Another file: but nobody runs with the one of `a` any more.
        await desk.wait_for({"b": 3})

    play(main)
    status = {one.name: one.status for one in desk.nodes.store.harnesses()}
    assert status["h0"] is Status.STOPPED


def test_a_name_is_refused_while_it_is_kept_and_waited_for_while_it_is_not(desk: Desk, nodes: Nodes) -> None:
    async def main(nursery: trio.Nursery) -> None:
        desk.run(nursery, "a")
        await desk.wait_for({"a": 4})
        with pytest.raises(OwnedElsewhere, match="node 'a' of fleet 'desk' runs already"):
            await run_node(desk.members("a"), store=nodes.url, fleet="desk", name="a", lease_s=LEASE_S)
        desk.drains["a"].set()
        await desk.wait_for({})
        leave_a_name(nodes.url, "b", 1.5)
        desk.run(nursery, "b")
        await desk.until(lambda: (nodes.owned_or_none() or {}).get("b") == 4, "b has its name")

    play(main)


def leave_a_name(url: str, name: str, seconds: float) -> None:
    """Leave a node in the table as a process does that was killed: with a lease that nobody renews."""
    with psycopg.connect(url) as db:
        db.execute("INSERT INTO orchestrator.nodes VALUES ('desk', %s, 'gone', '[]', 1, '', false, '{}', 0)", (name,))
        db.execute("INSERT INTO orchestrator.leases VALUES ('gone', clock_timestamp() + %s * interval '1 second')", (seconds,))


def test_a_harness_that_cannot_be_started_is_shown_with_the_reason(desk: Desk, nodes: Nodes) -> None:
    def broken(orchestrator: Orchestrator) -> Handle:
        raise ValueError("no such market")

    async def main(nursery: trio.Nursery) -> None:
        desk.run(nursery, "a", members=[*desk.members("a")[:1], Member("odd", broken), Member("far", broken, needs=["gpu"])])
        await desk.until(lambda: len(told()) == 2, "both are told")
        said.update(told())

    def told() -> dict[str, str]:
        table = nodes.table.nodes("desk") if nodes.owned_or_none() else []
        return {name: why for node in table for name, why in node.unplaced.items()}

    said: dict[str, str] = {}
    play(main)
    assert "cannot be started on a: ValueError: no such market" in said["odd"]
    assert "expected a node with gpu" in said["far"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fleet": ""}, "fleet: expected a word"),
        ({"labels": ["a b"]}, "label: expected a word"),
        ({"cpus": 0}, "cpus: expected a number above 0"),
        ({"members": []}, "expected at least one harness"),
        ({"members": "nowhere"}, "factory: expected module:function"),
        ({"members": "tests.orchestrator.nodes.fleet_harnesses:none"}, "factory: expected a function 'none'"),
        ({"members": [Member("h", lambda one: one.start(None, name="h"))] * 2}, "is there twice"),  # type: ignore[arg-type]
    ],
)
async def test_a_wrong_argument_is_named(options: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"members": "tests.orchestrator.nodes.fleet_harnesses:ticking", "fleet": "desk", **options}
    with pytest.raises(UsageError, match=words):
        await run_node(given.pop("members"), store="postgresql://nowhere", **given)


def test_a_node_waits_for_a_server_that_is_not_there_until_it_is_told_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(nursery: trio.Nursery) -> None:
        drain = trio.Event()
        members = "tests.orchestrator.nodes.fleet_harnesses:ticking"
        with trio.fail_after(LIMIT_S):
            nursery.start_soon(partial(run_node, members, store="postgresql://127.0.0.1:1/x", fleet="desk", drain=drain))
            await trio.sleep(0.3)
            drain.set()

    play(main)
    assert "it waits for the server" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["drain", "cancel"])
def test_a_node_that_is_opening_its_store_ends_when_it_is_told_to(desk: Desk, server: PostgresServer, how: str) -> None:
    """It asks a server that is silent; and a store that opens after that is closed, so that no lease is renewed for ever."""

    async def main(nursery: trio.Nursery) -> None:
        with proxied(server, desk.nodes.url) as (proxy, url):
            proxy.freeze()
            with trio.fail_after(10):
                async with trio.open_nursery() as opening:
                    desk.run(opening, "a", url)
                    await trio.sleep(0.3)
                    opening.cancel_scope.cancel() if how == "cancel" else desk.drains["a"].set()
            proxy.thaw()
            await desk.until(closed, "the late store is closed")

    def closed() -> bool:
        with psycopg.connect(desk.nodes.url, options="-csearch_path=orchestrator") as db:
            if db.execute("SELECT to_regclass('runs')").fetchone() == (None,):
                return False
            asked = "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM leases)"
            return db.execute(asked).fetchone() == (1, 0)

    play(main)


def test_a_store_of_several_programs_opens_as_one(desk: Desk) -> None:
    """The table of nodes is part of the store: a plain program on it is no node, and its harnesses are left alone."""

    async def main(nursery: trio.Nursery) -> None:
        store = await trio.to_thread.run_sync(partial(PostgresStore, desk.nodes.url, lease_s=30))
        async with Orchestrator(store) as orchestrator:
            orchestrator.start(Noting(desk, "plain", "h0"), name="h0")
            desk.run(nursery, "a")
            await desk.wait_for({"a": 3})
            await desk.go_on()
            orchestrator.stop()
        await desk.wait_for({"a": 4})
        await trio.to_thread.run_sync(store.close)

    play(main)
    desk.assert_one_at_a_time()
