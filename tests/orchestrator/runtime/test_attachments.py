"""What is attached to a step is on disk if the step is, in the same commit, and only then."""

from __future__ import annotations

import json

import pytest

from harnesses import BaseHarness
from harnesses.attachments import MAX_ATTACHED
from harnesses.errors import HarnessMisuse, Unstorable
from harnesses.runtime import LocalRuntime
from orchestrator import MemoryStore, Orchestrator, SqliteStore, Store
from orchestrator.errors import StoreError
from orchestrator.testing import FaultyStore
from tests.orchestrator.scripted import STEADY, Scripted, Steps


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request, tmp_path):
    made = MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "run.db")
    yield made
    made.close()


async def proving(harness: Scripted) -> Steps:
    while harness.current_step < 2:
        number = harness.current_step + 1
        harness.attach("evidence", {"step": number})
        harness.attach("task", {"type": "task_validated"})
        yield number, None


def kinds_of(store: Store) -> list[tuple[str, int]]:
    return [(record.kind, record.step) for record in store.records() if record.kind in ("step", "evidence", "task")]


async def test_what_is_attached_follows_its_step(store, autojump_clock):
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(Scripted(proving), name="one")

    assert kinds_of(store) == [(kind, step) for step in (1, 2) for kind in ("step", "evidence", "task")]
    assert store.effects("one") == []


async def test_what_is_not_followed_by_a_step_did_not_happen(store, autojump_clock):
    async def crashes_once(harness: Scripted) -> Steps:
        harness.attach("evidence", {"attempt": len(harness.ran)})
        harness.ran.append("")
        if len(harness.ran) == 1:
            raise ValueError("boom")
        yield 1, None

    async with Orchestrator(store, backoff=STEADY) as orchestrator:
        orchestrator.start(Scripted(crashes_once), name="one")

    assert [json.loads(record.body) for record in store.records() if record.kind == "evidence"] == [{"attempt": 1}]


async def test_a_step_that_is_lost_takes_what_is_attached_with_it(autojump_clock):
    inner = MemoryStore()
    faulty = FaultyStore(inner, StoreError("disk full"), at=2, only_steps=True)

    with pytest.raises(ExceptionGroup):
        async with Orchestrator(faulty) as orchestrator:
            orchestrator.start(Scripted(proving), name="one")

    assert kinds_of(inner) == [(kind, 1) for kind in ("step", "evidence", "task")]


@pytest.mark.parametrize(
    ("kind", "value", "error", "says"),
    [
        ("step", {}, HarnessMisuse, "expected one of evidence, task, guardrail"),
        ("evidence", [1], Unstorable, "expected an object"),
        ("evidence", {"at": object()}, Unstorable, "at"),
        ("evidence", {"text": "x" * 200_000}, HarnessMisuse, "at most"),
    ],
)
async def test_what_can_not_be_attached_is_refused_at_once(kind, value, error, says):
    class Attaching(BaseHarness[int, int, int]):
        async def execute(self):
            with pytest.raises(error, match=says):
                self.attach(kind, value)
            yield 1, 1

    await Attaching(0).run()


async def test_a_harness_that_runs_alone_keeps_what_is_attached():
    runtime = LocalRuntime("one")

    await Scripted(proving).run(runtime)

    assert [(step, attached.kind) for step, attached in runtime.attached] == [
        (step, kind) for step in (1, 2) for kind in ("evidence", "task")
    ]


async def test_there_is_a_limit_to_what_is_attached_to_one_step(autojump_clock):
    async def flooding(harness: Scripted) -> Steps:
        for _ in range(MAX_ATTACHED):
            harness.attach("evidence", {})
        with pytest.raises(HarnessMisuse, match="yield in between"):
            harness.attach("evidence", {})
        yield 1, None

    async with Orchestrator() as orchestrator:
        outcome = await orchestrator.start(Scripted(flooding), name="one").wait()

    assert outcome.step == 1


async def test_what_is_attached_to_a_step_has_a_limit_together_and_nothing_huge_is_encoded(store, autojump_clock):
    refused: list[str] = []

    async def flood(harness: Scripted) -> Steps:
        for value in ({"text": "x" * 600}, {"text": "x" * 600}, {"texts": ["x" * 10**6] * 10**6}):
            try:
                harness.attach("evidence", value)
            except HarnessMisuse as error:
                refused.append(str(error))
        yield 1, None

    async with Orchestrator(store, max_record_bytes=1000) as orchestrator:
        orchestrator.start(Scripted(flood), name="one")

    assert [record.kind for record in store.records()].count("evidence") == 1
    assert ["to one step" in refused[0], "far more" in refused[1]] == [True, True]
