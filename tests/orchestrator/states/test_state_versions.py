"""G3, G10: a state class that has changed shape is migrated once, on record, or refused; it never loses a value."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any, ClassVar

import attrs
import pytest
import trio
from attrs import evolve, frozen

from harnesses import BaseHarness, migrates
from orchestrator import Orchestrator, OutcomeKind, Status
from orchestrator.cli.doctor.doctor_verb import describe
from orchestrator.cli.doctor.doctor_work import standing
from orchestrator.cli.read.status_verbs import status_lines
from orchestrator.cli.run.live_display import event_line
from orchestrator.cli.run.run_report import summary
from orchestrator.codec import decode
from orchestrator.errors import StateChanged
from orchestrator.store import MemoryStore, SqliteReader, SqliteStore
from orchestrator.store.integrity.chain_head import head_path
from orchestrator.store.integrity.proof import prove


@frozen
class Count:
    total: int = 0


@frozen
class Sum:
    sum: int = 0


@frozen
class Migrated:
    schema_version: ClassVar[int] = 2
    sum: int = 0

    @staticmethod
    @migrates(from_version=1)
    def rename(stored: dict[str, Any]) -> dict[str, Any]:
        CALLS.append(stored)
        return {"sum": stored["total"]}


CALLS: list[Any] = []


class Adding(BaseHarness[Any, int, int]):
    """Adds one to the only field of its state, as often as it is told."""

    def __init__(self, state: Any, until: int) -> None:
        super().__init__(state)
        self.until = until

    async def execute(self):
        (name,) = (field.name for field in attrs.fields(type(self.state)))
        while self.current_step < self.until:
            self.update_state(lambda state: evolve(state, **{name: getattr(state, name) + 1}))
            yield self.current_step, 0


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    made = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "run.db")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _forget_calls():
    CALLS.clear()


async def run(store, state: Any, until: int, name: str = "one") -> Any:
    """Run it to its end; return its state."""
    return await end_of(store, Adding(state, until), name)


async def end_of(store, harness: BaseHarness[Any, Any, Any], name: str = "one") -> Any:
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(harness, name=name)
    return harness.state


def kinds(store, name: str = "one") -> list[str]:
    return [record.kind for record in store.records(limit=10_000) if record.harness == name]


async def refused(store, state: Any, until: int = 9) -> tuple[str, Any]:
    """Run it; return the error that it is refused with, and its handle."""
    with pytest.raises(ExceptionGroup) as caught:
        async with Orchestrator(store) as orchestrator:
            handle = orchestrator.start(Adding(state, until), name="one")
    (error,) = caught.value.exceptions
    assert isinstance(error, StateChanged)
    return str(error), handle


async def test_the_remedy_is_told_whole_wherever_the_cause_is_shown(tmp_path):
    with closing(SqliteStore(tmp_path / "run.db")) as opened:
        await run(opened, Count(), 3)
        _, handle = await refused(opened, Sum())
        (event,) = [event_line(record) for record in opened.records() if record.kind == "failed"]
    with closing(SqliteReader(tmp_path / "run.db")) as reader:
        status = "\n".join(status_lines(reader, as_json=False))
    (check,) = standing(tmp_path / "run.db")

    for said in (event, status, "\n".join(describe(check)), "\n".join(summary({"one": handle.outcome}))):
        assert "@migrates(Sum, from_version=1)" in said
        assert "or start under a new name" in said


async def test_a_renamed_field_is_refused_and_named_with_the_remedy(store):
    await run(store, Count(), 3)

    error, handle = await refused(store, Sum())

    for said in ("harness 'one'", "Sum", "total", "schema_version: ClassVar[int] = 2", "@migrates(Sum, from_version=1)"):
        assert said in error
    assert (handle.outcome.kind, handle.outcome.step, handle.current_step) == (OutcomeKind.FAILED, 3, 3)
    assert [record.step for record in store.records() if record.kind == "failed"] == [3]
    assert [record.current_step for record in store.harnesses()] == [3]
    assert kinds(store).count("failed") == 1
    assert "restarting" not in kinds(store)
    assert store.state_at("one", 3) == '{"total":3}'


async def test_one_that_was_refused_goes_on_with_the_class_it_had(store):
    await run(store, Count(), 3)
    await refused(store, Sum())

    assert await run(store, Count(), 5) == Count(5)


async def test_a_sibling_of_a_refused_one_runs(store):
    await run(store, Count(), 3)

    with suppress(ExceptionGroup):
        async with Orchestrator(store, strategy="one_for_all") as orchestrator:
            orchestrator.start(Adding(Sum(), 5), name="one")
            orchestrator.start(Adding(Sum(), 5), name="two")

    assert [record.status for record in store.harnesses()] == [Status.FAILED, Status.FINISHED]
    assert store.state_at("two", 5) == '{"sum":5}'


async def test_a_migration_runs_once_and_is_recorded(store):
    await run(store, Count(), 3)

    for until in (3, 3, 5):  # twice without a step
        state = await run(store, Migrated(), until)
    await run(store, Migrated(), 6)

    assert CALLS == [{"total": 3}]
    assert state == Migrated(5)
    assert kinds(store).count("migrated") == 1
    (record,) = [record for record in store.records(limit=1000) if record.kind == "migrated"]
    assert (record.body, record.step) == ('{"from_version":1,"to_version":2}', 3)


async def test_states_before_a_migration_show_the_old_shape_and_later_ones_the_new(store):
    await run(store, Count(), 3)
    await run(store, Migrated(), 5)

    shown = [store.state_at("one", step) for step in range(6)]

    assert shown == [*(f'{{"total":{step}}}' for step in range(4)), '{"sum":4}', '{"sum":5}']


async def test_a_stored_version_newer_than_the_class_is_refused(store):
    await run(store, Migrated(), 3)

    error, _ = await refused(store, Sum())

    assert "stored with version 2" in error
    assert CALLS == []


async def test_a_new_field_with_a_default_is_given_it_and_one_without_is_refused(store):
    @frozen
    class Defaulted:
        total: int = 0
        more: str = "new"

    @frozen
    class Demanding:
        total: int
        more: str

    class Watching(Adding):
        async def execute(self):
            self.update_state(lambda state: evolve(state, total=9))
            yield 0, 0

    await run(store, Count(), 3)
    error, _ = await refused(store, Demanding(0, ""))
    state = await end_of(store, Watching(Defaulted(), 4))

    assert "more" in error
    assert "without a default" in error
    assert state == Defaulted(9)
    assert decode(store.state_at("one", 4)) == {"total": 9, "more": "new"}


async def test_a_migration_that_raises_says_which_and_what_it_got(store):
    @frozen
    class Broken:
        schema_version: ClassVar[int] = 2
        sum: int = 0

        @migrates(from_version=1)
        def rename(stored):  # noqa: N805
            return {"sum": stored["count"]}

    await run(store, Count(), 3)

    error, _ = await refused(store, Broken())

    for said in ("harness 'one'", "Broken", "from version 1", "KeyError", '{"total":3}'):
        assert said in error
    assert await run(store, Migrated(), 5) == Migrated(5)


@pytest.mark.parametrize("result", [None, {"total": 1}, {"sum": "x"}, object()])
async def test_a_migration_that_returns_no_state_of_the_class_is_refused(store, result):
    @frozen
    class Broken:
        schema_version: ClassVar[int] = 2
        sum: int = 0

        @migrates(from_version=1)
        def rename(stored):  # noqa: N805
            return result

    await run(store, Count(), 3)

    error, _ = await refused(store, Broken())

    assert "migration" in error
    assert "migrated" not in kinds(store)


async def test_versions_are_passed_one_by_one_whatever_form_the_migrations_have(store):
    @frozen
    class Latest:
        schema_version: ClassVar[int] = 4
        sums: list[int]

        @classmethod
        @migrates(from_version=2)
        def second(cls, stored):
            return {"sums": stored["sum"], "by": cls.__name__}

    @migrates(Latest, from_version=1)
    def _first(stored):
        return {"sum": stored["total"]}

    @migrates(Latest, from_version=3)
    def _third(stored):
        assert stored["by"] == "Latest"
        return {"sums": [stored["sums"]]}

    await run(store, Count(), 3)

    assert await run(store, Latest([]), 3) == Latest([3])


async def test_a_version_without_a_migration_is_refused(store):
    @frozen
    class Later:
        schema_version: ClassVar[int] = 3
        total: int = 0

    await run(store, Count(), 3)

    error, _ = await refused(store, Later())

    assert "no migration from version 1" in error


async def test_a_new_harness_begins_with_the_version_of_its_class(store):
    await run(store, Migrated(), 0)
    await run(store, Migrated(7), 2)  # the initial state in the store counts

    assert CALLS == []
    assert store.state_at("one", 2) == '{"sum":2}'


async def test_an_initial_state_is_migrated_too(store):
    await run(store, Count(4), 0)

    assert await run(store, Migrated(), 2) == Migrated(6)
    assert store.state_at("one", 0) == '{"total":4}'


class Done(Adding):
    """Is completed when it has been added to as often as it is told."""

    def is_complete(self):
        return self.current_step >= self.until

    def reopens(self):
        return not self.is_complete()


async def test_a_completed_one_shows_its_migrated_state_and_records_it_when_it_reopens(store):
    await end_of(store, Done(Count(), 3))
    assert await end_of(store, Done(Migrated(), 3)) == Migrated(3)
    assert "migrated" not in kinds(store)
    CALLS.clear()

    assert await end_of(store, Done(Migrated(), 5)) == Migrated(5)
    assert kinds(store).count("migrated") == len(CALLS) == 1


@pytest.mark.parametrize("wrong", [0, -1, True, "2", 1.5])
async def test_a_version_that_cannot_be_is_refused_before_anything_is_claimed(store, wrong):
    @frozen
    class Wrong:
        schema_version: ClassVar[Any] = wrong
        sum: int = 0

    async with Orchestrator(store) as orchestrator:
        with pytest.raises(StateChanged, match=r"harness 'one': Wrong.schema_version: expected a whole number from 1 up"):
            orchestrator.start(Adding(Wrong(), 1), name="one")

    assert store.harnesses() == []


def test_a_sqlite_store_is_sealed_over_what_was_migrated(tmp_path):
    path = tmp_path / "run.db"
    for state, until in ((Count(), 40), (Migrated(), 80)):
        with closing(SqliteStore(path)) as opened:
            trio.run(run, opened, state, until)

    proof = prove(path, head_path(path).read_text(), deep=True)

    assert proof.findings == []
    with closing(SqliteReader(path)) as reader:
        assert reader.state_at("one", 40) == '{"total":40}'
