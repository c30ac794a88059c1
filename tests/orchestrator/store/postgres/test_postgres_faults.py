"""G1, G2 and G3 on PostgreSQL, whatever is killed: the program, or the server."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
import trio

from harnesses import Action, BaseHarness
from orchestrator import Orchestrator, Outcome, OutcomeKind
from orchestrator.errors import UsageError
from orchestrator.store import PostgresStore
from orchestrator.store.conformance import claim, step_row
from orchestrator.store.store_protocol import Committed, Operation, StepRow
from tests.docs.clock import until
from tests.orchestrator.store.postgres.conftest import OpenStore, child
from tests.orchestrator.store.postgres.counting_program import Counting, Program
from tests.postgres_server import PostgresServer

PROGRAM = Path(__file__).with_name("counting_program.py")
SHORT_S = 0.5


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def assert_whole(store: PostgresStore, harnesses: int, steps: int) -> None:
    """Assert that every harness has every step once, and that no `seq` is missing."""
    seqs = [record.seq for record in store.records(limit=1_000_000)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert {one.current_step for one in store.harnesses()} == {steps}
    for number in range(harnesses):
        assert [step.input for step in store.steps(f"h{number}")] == list(range(1, steps + 1))
        assert store.state_at(f"h{number}", steps) == f'{{"total":{steps * (steps + 1) // 2}}}'


def test_a_killed_program_is_resumed_without_gap_or_repeat(database: str) -> None:
    """G1, G2, G3: after `kill -9`, another run takes over when the lease has lapsed, and counts on."""
    with closing(PostgresStore(database)) as store:
        with child([sys.executable, PROGRAM, database, "10", "1000000", str(SHORT_S)]):
            wait_until(lambda: store.last_seq() > 500)
        reached = max(one.current_step for one in store.harnesses())
        wait_until(lambda: not any(one.owned for one in store.harnesses()))

        trio.run(Program(10, reached + 20).run, store)

        assert_whole(store, 10, reached + 20)
        assert {record.run for record in store.records(limit=1_000_000) if record.kind == "step"} > {store.run}


def test_a_killed_server_has_every_acknowledged_step(database: str, server: PostgresServer) -> None:
    """G1, G4: harnesses wait while the server is away, and go on where they were when it is back."""
    program = Program(20, 150)
    with closing(PostgresStore(database)) as store:

        def kill_and_restart() -> None:
            wait_until(lambda: sum(len(one.acknowledged) for one in program.started) > 400)
            server.kill()
            known.extend(list(one.acknowledged) for one in program.started)
            server.start()

        known: list[list[int]] = []
        killer = threading.Thread(target=kill_and_restart)
        killer.start()
        trio.run(program.run, store)
        killer.join()

        assert any(0 < len(numbers) < 150 for numbers in known)
        assert [one.acknowledged for one in program.started] == [list(range(1, 151))] * 20
        assert_whole(store, 20, 150)


class NotingStore(PostgresStore):
    """Notes in which threads it commits."""

    def commit(self, steps: Sequence[StepRow], operations: Sequence[Operation] = (), **rest: object) -> Committed:
        self.threads.add(threading.current_thread().name)
        return super().commit(steps, operations, **rest)  # type: ignore[arg-type]

    threads: set[str]


def test_no_commit_is_made_in_the_thread_of_the_loop(database: str) -> None:
    """However quick the commits of a harness that steps alone are, the next one may wait for the network."""
    with closing(NotingStore(database)) as store:
        store.threads = set()
        trio.run(Program(1, 40).run, store)

        assert store.threads == {"orchestrator-writer"}
        assert_whole(store, 1, 40)


def test_an_orchestrator_opens_an_address_and_closes_it(database: str) -> None:
    async def main() -> OutcomeKind:
        async with Orchestrator(database) as orchestrator:
            return (await orchestrator.start(Counting(3), name="h0").wait()).kind

    assert trio.run(main) is OutcomeKind.FINISHED
    with closing(PostgresStore(database)) as store:
        assert_whole(store, 1, 3)
        assert not store.harnesses()[0].owned


def test_what_postgres_cannot_read_as_json_is_stored_and_read_back(open_store: OpenStore) -> None:
    """A NUL in a body, or what looks like one, is nothing to PostgreSQL; it must not keep other fields from being read."""
    store = open_store()
    text = '\0\0 \\u0000 "took_us"\\'
    row = step_row(claim(store, "one"), 1, input=text)

    store.commit([row._replace(body=row.body.replace('{"input"', '{"took_us":5,"input"', 1))])

    assert [step.input for step in store.steps("one")] == [text]
    assert [record.body for record in store.outlines()] == ['{"took_us":5}']


def test_programs_that_begin_at_once_make_one_store(server: PostgresServer) -> None:
    schema, opened = server.new_schema(), list[PostgresStore]()
    threads = [threading.Thread(target=lambda: opened.append(PostgresStore(server.url, schema=schema))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    for number, store in enumerate(opened):
        claim(store, f"h{number}")
        store.close()
    assert len(opened) == 4


class Asking(BaseHarness[int, int, str]):
    """Asks for approval, and says who gave it."""

    async def execute(self) -> AsyncGenerator[tuple[int, str]]:
        grant = await self.approval("pay", Action("spend", "pay the bill"))
        yield 1, grant.by


def test_an_approval_is_given_from_another_program(open_store: OpenStore) -> None:
    """G12: whoever has the key may answer; the harness hears of it."""
    mine, theirs = open_store(), open_store()

    async def main() -> str:
        async with Orchestrator(mine) as one, Orchestrator(theirs) as other:
            handle = one.start(Asking(0), name="payer")
            await until(theirs.approvals, 0.01)
            await other.approve(theirs.approvals()[0].id, by="ann")
            await handle.wait()
        return str(mine.steps("payer")[0].output)

    assert trio.run(main) == "ann"


def test_without_a_key_a_harness_that_asks_for_approval_is_blocked(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key made here would be unknown to other machines, and to the next run."""
    monkeypatch.delenv("ORCHESTRATOR_APPROVAL_KEY_FILE", raising=False)

    async def main() -> Outcome:
        async with Orchestrator(database) as orchestrator:
            return await orchestrator.start(Asking(0), name="payer").wait()

    outcome = trio.run(main)

    assert outcome.kind is OutcomeKind.BLOCKED
    assert "ORCHESTRATOR_APPROVAL_KEY_FILE" in capsys.readouterr().err


def test_a_location_has_no_password(server: PostgresServer) -> None:
    url = server.url.replace("tester@", "tester:s3cret@")
    with closing(PostgresStore(url, schema=server.new_schema())) as store:
        assert store.location == server.url


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        ("http://localhost", {}, "begins with 'postgresql://'"),
        ("postgresql://localhost", {"schema": "a; drop"}, "lower-case letters"),
        ("postgresql://localhost", {"lease_s": 0}, "expected 0.2 to 3600 seconds"),
        ("postgresql://localhost", {"key": b"short"}, "expected 32 bytes"),
    ],
)
def test_a_wrong_argument_is_named(url: str, options: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        PostgresStore(url, **options)  # type: ignore[arg-type]


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match=r"needs psycopg.*install.*\[postgres\]"):
        PostgresStore("postgresql://localhost")
