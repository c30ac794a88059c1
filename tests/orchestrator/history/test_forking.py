"""A fork goes on from any step of another harness as that one would have; the other one never notices."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from harnesses import BaseHarness
from harnesses.governance import Guardrails, NoProgress
from harnesses.governance.limits.guardrail_watch import terms
from orchestrator import MemoryStore, Orchestrator, SqliteStore, Status, StoreUnusable, UnknownHarness, UsageError
from orchestrator.history import diff, state_at, state_hash
from orchestrator.history.forking import fork
from orchestrator.store import SqliteReader
from orchestrator.store.conformance import claim, step_row
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import prove
from orchestrator.store.rules import fork_rules as forking
from tests.orchestrator.buying import Account, Buying, run
from tests.tampering.proof import judge, tamper_often
from tests.tampering.stores import Base, settle
from tests.zygote import run_python


def proven(path: Path) -> list[str]:
    """Return what both verifiers find, and what contradicts something else."""
    deep = prove(path, head_path(path).read_text(), deep=True)
    return [*(finding.text for finding in deep.findings), *map(str, judge(path)[1])]


async def test_a_fork_goes_on_from_its_step_and_the_origin_stays(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await run(path, 10)

    made = fork(path, "buying", 4, to="other")
    await run(path, 6, name="other", times=100)

    assert (made.name, made.origin, made.step) == ("other", "buying", 4)
    assert [state_at(path, "other", step) for step in range(5)] == [state_at(path, "buying", step) for step in range(5)]
    assert state_at(path, "other", 6, like=Buying) == Account(-1010, (1, 2, 3, 4, 500, 600))
    assert state_at(path, "buying", 10)["cash"] == 45
    assert [change.line for change in diff(path, "other", 4, 5)] == ["cash: 90 -> -410", "fills[4]: + 500"]
    assert proven(path) == []


async def test_a_started_fork_has_the_state_the_number_and_the_history_of_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await run(path, 5)
    fork(path, "buying", 3, to="other")

    async with Orchestrator(path, handle_signals=False) as orchestrator:
        handle = orchestrator.start(Looking(), name="other")
        await handle.wait()

    assert Looking.seen == [(3, Account(94, (1, 2, 3)), [1, 2, 3])]
    assert (handle.current_step, handle.attempt) == (4, 2)


class Looking(Buying):
    """Tells what it finds when it begins."""

    seen: list[Any] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(4)

    async def execute(self) -> Any:
        self.seen.append((self.current_step, self.state, [step.input for step in self.step_history]))
        async for pair in super().execute():
            yield pair


class Ticking(BaseHarness[int, int, int]):
    """Makes a step of each tick of a clock that ticks every ten seconds."""

    def __init__(self, until: int) -> None:
        super().__init__(0)
        self.until = until

    async def execute(self) -> Any:
        async for tick in self.every(10):
            yield int(tick), 0
            if self.current_step >= self.until:
                return


async def test_tickers_go_on_where_they_were_at_that_step(autojump_clock: object) -> None:
    store = MemoryStore()
    await ticked(store, "one", 5)

    fork(store, "one", 3, to="two")
    await ticked(store, "two", 5)

    one, two = [[step.input for step in store.steps(name)] for name in ("one", "two")]
    assert two[:3] == one[:3]
    assert two[3] > two[2]


async def ticked(store: MemoryStore, name: str, until: int) -> None:
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        orchestrator.start(Ticking(until), name=name)


class Stuck(BaseHarness[int, str, str]):
    """Does the same, twice or for good."""

    def __init__(self, steps: int) -> None:
        super().__init__(0)
        self.steps = steps

    async def execute(self) -> Any:
        while self.current_step < self.steps:
            yield "the same", "as ever"


async def test_guardrails_know_what_the_origin_had_done_up_to_that_step() -> None:
    store, rails = MemoryStore(), Guardrails(no_progress=NoProgress(steps=3, policy="tell"))
    for name, steps in (("one", 2), ("two", 4)):
        async with Orchestrator(store, handle_signals=False) as orchestrator:
            orchestrator.start(Stuck(steps), name=name, **terms(rails))
        if name == "one":
            fork(store, "one", 2, to="two")

    assert [(record.harness, record.step) for record in store.records() if record.kind == "guardrail"] == [("two", 4)]


async def test_step_0_is_the_initial_state(tmp_path: Path) -> None:
    await run(tmp_path / "run.db", 3)

    fork(tmp_path / "run.db", "buying", 0, to="other")
    await run(tmp_path / "run.db", 2, name="other", times=7)

    assert state_at(tmp_path / "run.db", "other", 2, like=Buying) == Account(79, (7, 14))


async def test_a_fork_that_nobody_has_started_is_new_and_says_what_it_is(tmp_path: Path) -> None:
    await run(tmp_path / "run.db", 3)

    made = fork(tmp_path / "run.db", "buying", 2, to="other")

    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        known = reader.harnesses()[1]
        (record,) = [record for record in reader.records() if record.kind == "forked"]
    assert (known.status, known.owned, known.current_step, known.attempt) == (Status.NEW, False, 2, 1)
    assert known.event["cause"] == "forked from 'buying' at step 2; start it to continue from there"
    assert (record.seq, record.step) == (made.seq, 2)


@pytest.mark.parametrize("kind", ["a path", "a store"])
async def test_it_can_be_made_in_another_store(kind: str, tmp_path: Path) -> None:
    origin, other = tmp_path / "run.db", tmp_path / "other.db"
    await run(origin, 6)
    before = dump(origin)

    made = fork(origin, "buying", 5, to="same.name", into=other if kind == "a path" else MemoryStore())

    assert dump(origin) == before
    assert made.step == 5
    if kind == "a path":
        await run(other, 7, name="same.name", times=2)
        assert state_at(other, "same.name", 5) == state_at(origin, "buying", 5)
        assert state_at(other, "same.name", 7)["fills"] == [1, 2, 3, 4, 5, 12, 14]
        with closing(SqliteReader(other)) as reader:
            event = next(record for record in reader.records() if record.kind == "forked")
        assert f'"origin_store":"{origin}"' in event.body
        assert proven(other) == []


async def test_another_store_that_is_the_same_is_the_same(tmp_path: Path) -> None:
    await run(tmp_path / "run.db", 3)

    fork(tmp_path / "run.db", "buying", 2, to="other", into=f"{tmp_path}/../{tmp_path.name}/run.db")

    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        assert '"origin_store":""' in next(record.body for record in reader.records() if record.kind == "forked")


@pytest.mark.parametrize(
    ("name", "step", "to", "error", "words"),
    [
        ("selling", 1, "other", UnknownHarness, "'selling'"),
        ("buying", 4, "other", UsageError, "has no step 4 to fork from: expected a number from 0 to 3"),
        ("buying", -1, "other", UsageError, "has no step -1"),
        ("buying", 1, "buying", UsageError, "'buying' exists already"),
        ("buying", 1, "no/name", UsageError, "name 'no/name'"),
    ],
)
async def test_what_can_not_be_is_refused(name: str, step: int, to: str, error: Any, words: str, tmp_path: Path) -> None:
    await run(tmp_path / "run.db", 3)
    before = dump(tmp_path / "run.db")

    with pytest.raises(error, match=words):
        fork(tmp_path / "run.db", name, step, to=to)

    assert dump(tmp_path / "run.db") == before


@pytest.mark.parametrize(("name", "step", "words"), [("selling", 1, "'selling'"), ("buying", 4, "has no step 4")])
async def test_nothing_is_made_in_another_store_for_what_is_not_there(
    name: str, step: int, words: str, tmp_path: Path
) -> None:
    await run(tmp_path / "run.db", 3)

    with pytest.raises(UsageError, match=words):
        fork(tmp_path / "run.db", name, step, to="other", into=tmp_path / "other.db")

    assert not (tmp_path / "other.db").exists()


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="is not there"):
        fork(tmp_path / "run.db", "buying", 1, to="other")

    assert not (tmp_path / "run.db").exists()


async def test_the_origin_may_be_running(tmp_path: Path) -> None:
    async with Orchestrator(tmp_path / "run.db", handle_signals=False) as orchestrator:
        handle = orchestrator.start(Buying(500), name="buying")
        async for record in handle.steps():
            if record.step_number == 20:
                await trio.to_thread.run_sync(lambda: fork(orchestrator.store, "buying", 10, to="other"))
                orchestrator.start(Buying(30, times=2), name="other")

    hashes = {name: [step.output for step in read(tmp_path / "run.db", name)] for name in ("buying", "other")}
    assert [len(found) for found in hashes.values()] == [500, 30]
    assert hashes["other"][:10] == hashes["buying"][:10]
    assert state_hash(state_at(tmp_path / "run.db", "buying", 500)) == hashes["buying"][-1]
    assert proven(tmp_path / "run.db") == []


def test_another_process_forks_while_the_origin_runs_in_this_one(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, number) for number in range(1, 6)])

        code = f"from orchestrator.history.forking import fork; fork({str(path)!r}, 'one', 4, to='two')"
        run_python("-c", code, check=True)

        assert store.commit([step_row(claimed, 6)]).lost == frozenset()
        assert [(known.name, known.current_step, known.owned) for known in store.harnesses()] == [
            ("one", 6, True),
            ("two", 4, False),
        ]
    assert proven(path) == []


def test_a_long_fork_beside_another_process_belongs_into_another_store(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(forking, "MOST_BESIDE", 3)
    with closing(SqliteStore(tmp_path / "run.db")) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, number) for number in range(1, 6)])

        with pytest.raises(UsageError, match="expected at most 3 steps"):
            fork(tmp_path / "run.db", "one", 4, to="two")
        fork(tmp_path / "run.db", "one", 3, to="two")
        fork(tmp_path / "run.db", "one", 4, to="two", into=tmp_path / "other.db")
        with pytest.raises(UsageError, match="expected at most 3 steps"):
            fork(store, "one", 4, to="three")
        with closing(SqliteStore(tmp_path / "third.db")) as busy:
            claim(busy, "busy")
            with pytest.raises(UsageError, match="expected at most 3 steps"):
                fork(store, "one", 4, to="two", into=tmp_path / "third.db")
        assert [known.current_step for known in store.harnesses()] == [5, 3]

    assert fork(tmp_path / "run.db", "one", 4, to="three").step == 4


KILLED = """
import os, signal, sys
from orchestrator.history.forking import fork
from orchestrator.store.sqlite.sqlite_store import SqliteStore

store = SqliteStore(sys.argv[1])
left = int(sys.argv[2])

def look():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

store._db.set_progress_handler(look, 500)
fork(store, "one", 400, to="two")
print("forked")
"""


@pytest.mark.parametrize("left", [1, 5, 20, 50, 80, 10**9])
def test_a_kill_leaves_the_whole_fork_or_nothing_of_it(left: int, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with closing(SqliteStore(path)) as store:
        claimed = claim(store, "one")
        store.commit([step_row(claimed, number, state='{"total":300}' if number == 300 else None) for number in range(1, 401)])

    done = run_python("-c", KILLED, path, left, capture_output=True, text=True)

    with closing(SqliteStore(path)) as store:
        known = {record.name: record.current_step for record in store.harnesses()}
    assert known == ({"one": 400, "two": 400} if "forked" in done.stdout else {"one": 400})
    assert proven(path) == []


async def test_tampering_with_a_fork_is_found_as_with_any_harness(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await run(path, 12)
    fork(path, "buying", 9, to="other")
    await run(path, 14, name="other", times=2)
    settle(path)
    with closing(sqlite3.connect(path)) as db:
        (sealed,) = db.execute("SELECT max(last_seq) FROM seals").fetchone()

    tally = tamper_often([Base("forked", path, sealed)], tmp_path, 60, seed=7)

    assert (tally.missed, tally.apart) == ([], [])
    assert tally.found == 60


class OtherReader:
    """Reads a store, and is no class of ours."""

    def __init__(self, reader: SqliteReader, path: Path | None) -> None:
        self.reader, self.path = reader, path

    def __getattr__(self, name: str) -> Any:
        if name == "commit":
            raise AttributeError(name)
        return getattr(self.reader, name)


async def test_a_fork_within_the_store_of_any_reader_is_made_at_its_path(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await run(path, 3)

    with closing(SqliteReader(path)) as reader:
        made = fork(cast(Any, OtherReader(reader, path)), "buying", 2, to="other")
        with pytest.raises(UsageError, match="is read-only: expected a store, or a path"):
            fork(cast(Any, OtherReader(reader, None)), "buying", 2, to="third")

    assert (made.name, len(read(path, "other"))) == ("other", 2)


def read(path: Path, name: str) -> list[Any]:
    with closing(SqliteReader(path)) as reader:
        return reader.steps(name, limit=1_000)


def dump(path: Path) -> object:
    """Return all that a store says."""
    with closing(SqliteReader(path)) as reader:
        return reader.records(limit=10_000), reader.harnesses()
