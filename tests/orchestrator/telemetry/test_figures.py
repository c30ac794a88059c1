"""Numbers for Prometheus: true, valid whatever things are called, and quick for thousands of harnesses."""

from __future__ import annotations

from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from harnesses.budgets.budget import Budget, Spend
from harnesses.budgets.pools import Account
from orchestrator import MemoryStore, Orchestrator, SqliteStore
from orchestrator.operating.effect_outcomes import settle
from orchestrator.recording.histogram import AMOUNTS, SECONDS, Histogram
from orchestrator.records import Record
from orchestrator.status import unknown_effects
from orchestrator.store import SqliteReader
from orchestrator.telemetry.metric_export import text_of
from orchestrator.telemetry.metric_figures import HarnessFigures, ProgramFigures, Snapshot, families
from orchestrator.telemetry.record_counts import Counts, Tally
from orchestrator.telemetry.stored_spans import stored_snapshot
from tests.orchestrator.operated import Lasting, Unsure
from tests.orchestrator.telemetry.recorded import record, run_busy

HOSTILE = 'a"} 1\norchestrator_steps_total{harness="b\\\x1b[31m\ud800\u202e'
NAMES = st.text(max_size=20) | st.sampled_from(["\x1b", "\\x1b", "\ud800", "\\ud800", HOSTILE, "sk-ant-api03-" + "A" * 80, ""])


def counted(*records: Record, run: str = "") -> Counts:
    counts = Counts(run)
    counts.take(records)
    return counts


def text(counts: Counts, **more: object) -> str:
    snapshot = Snapshot(store="run.db", counts=counts, harnesses=[HarnessFigures("a", "running", 3)], **more)  # type: ignore[arg-type]
    return text_of(families(snapshot)).decode()


def numbers(told: str) -> dict[tuple[str, ...], float]:
    found = text_string_to_metric_families(told)
    return {(one.name, *one.labels.values()): one.value for family in found for one in family.samples}


async def test_the_numbers_of_a_run_are_those_of_its_records(tmp_path: Path, autojump_clock: MockClock) -> None:
    store = SqliteStore(tmp_path / "run.db")
    await run_busy(store, "ab")

    told = numbers(text_of(families(stored_snapshot(store))).decode())

    assert (told["orchestrator_steps_total", "a"], told["orchestrator_harness_step", "a"]) == (3, 3)
    assert (told["orchestrator_failures_total", "a"], told["orchestrator_restarts_total", "b"]) == (1, 1)
    assert (told["orchestrator_effects_total", "confirmed"], told["orchestrator_effects_begun_total",]) == (6, 6)
    assert (told["orchestrator_status", "a", "finished"], told["orchestrator_harnesses", "finished"]) == (1, 2)
    assert (told["orchestrator_messages_waiting",], told["orchestrator_approvals_waiting",]) == (0, 0)
    store.close()


async def test_effects_of_unknown_outcome_are_a_number_until_they_are_settled(tmp_path: Path) -> None:
    path, name, live = tmp_path / "run.db", "orchestrator_effects_unknown", dict[str, int]()
    with suppress(ExceptionGroup):
        async with Orchestrator(SqliteStore(path), handle_signals=False) as orchestrator:
            orchestrator.start(Unsure(0), name="unsure")
            orchestrator.start(Lasting(0), name="lasting")
            await orchestrator.handles[0].wait()
            live = dict(unknown_effects(orchestrator.store))
            orchestrator.handles[1].stop(0)
    with closing(SqliteReader(path)) as reader:
        before = numbers(text_of(families(stored_snapshot(reader))).decode())
        settle(str(path), "unsure", "order/1", "not-done", reason="asked the venue")
        after = numbers(text_of(families(stored_snapshot(reader))).decode())

    assert (live, before[name, "unsure"]) == ({"unsure": 1}, 1)
    assert [key for key in before if key[0] == name] == [(name, "lasting"), (name, "unsure")]
    assert [key for key in after if key[0] == name] == [(name, "lasting")]


def test_the_times_of_steps_are_counted_by_part() -> None:
    steps = [record(n, "step", n, took_us={"work": 10**n, "agent": 500, "of old": 1}) for n in (3, 6)]

    told = numbers(text(counted(*steps, record(9, "step", 9))))

    assert told["orchestrator_step_seconds_count", "work"] == 2
    assert told["orchestrator_step_seconds_sum", "work"] == 1.001
    assert told["orchestrator_step_seconds_bucket", "0.001", "work"] == 1
    assert told["orchestrator_step_part_seconds_total", "a", "agent"] == 0.001
    assert ("orchestrator_step_part_seconds_total", "a", "of old") not in told
    assert told["orchestrator_last_step_timestamp_seconds", "a"] == 9


def test_a_program_counts_its_own_records_and_what_is_said_to_its_harnesses() -> None:
    answer = record(4, "approval_answered", attempt=0, run="", verdict="denied")
    said = record(5, "message", harness="b", run="")
    steps = [record(2, "step", 1), record(3, "step", 1, run="other")]
    records = [record(1, "message", run=""), record(2, "started"), *steps, answer, said]

    told = numbers(text(counted(*records, run="r")))

    assert told["orchestrator_steps_total", "a"] == 1
    assert told["orchestrator_approvals_total", "denied"] == 1
    assert told["orchestrator_messages_total",] == 0


def test_a_program_does_not_count_the_steps_that_a_fork_has_taken_over() -> None:
    copied = [record(n, "step", n, took_us={"work": 5}) for n in (1, 2)]
    made = [record(3, "forked", 2, origin_step=2), record(4, "started", 2), record(5, "step", 3, took_us={"work": 5})]

    told = numbers(text(counted(*copied, *made, run="r")))

    assert told["orchestrator_steps_total", "a"] == 1
    assert told["orchestrator_step_seconds_count", "work"] == 1


def test_budgets_are_told_with_what_may_be_spent() -> None:
    account = Account(Budget(steps=10, money=Decimal("2.5")), Spend(steps=4, tokens=7))

    told = numbers(text(Counts(), accounts={HOSTILE: account, "run": account}))

    assert told["orchestrator_budget_spent", "run", "tokens"] == 7
    assert told["orchestrator_budget_limit", "run", "money"] == 2.5
    assert ("orchestrator_budget_limit", "run", "tokens") not in told


@given(st.lists(NAMES, max_size=4, unique=True), NAMES, NAMES)
def test_the_text_is_valid_whatever_things_are_called(names: list[str], store: str, body: str) -> None:
    records = [
        Record(n, name, 1, 1, 1, kind, body, store) for n, name in enumerate(names) for kind in ("step", "outcome", body)
    ]
    harnesses = [HarnessFigures(name, body, 1) for name in names]
    accounts = {name: Account(Budget(steps=1)) for name in names}
    snapshot = Snapshot(store=store, counts=counted(*records), harnesses=harnesses, accounts=accounts)

    told = text_of(families(snapshot)).decode()

    samples = [(one.name, *one.labels.items()) for family in text_string_to_metric_families(told) for one in family.samples]
    assert len(set(samples)) == len(samples)
    assert all(str(name).startswith("orchestrator_") for name, *_ in samples)


def test_hostile_names_are_inert() -> None:
    snapshot = Snapshot(store=HOSTILE, counts=Counts(), harnesses=[], accounts={HOSTILE: Account(Budget(steps=1))})

    told = text_of(families(snapshot)).decode()

    assert not {"\x1b", "\u202e"} & set(told)
    assert ("orchestrator_steps_total", "b\\\x1b[31m") not in numbers(told)
    assert len([line for line in told.splitlines() if line.startswith("orchestrator_info")]) == 1


def test_ten_thousand_harnesses_are_told_in_nine_lines_each() -> None:
    counts = Counts()
    names = [f"harness-{number}" for number in range(10_000)]
    counts.harnesses = {name: Tally(5, 1, 1, 10**15, {"work": 10, "agent": 5, "commit": 3}) for name in names}
    program = ProgramFigures(1, Histogram(SECONDS), Histogram(AMOUNTS), 0)
    snapshot = Snapshot(
        store="run.db", counts=counts, harnesses=[HarnessFigures(name, "running", 5) for name in names], program=program
    )

    told = text_of(families(snapshot))

    assert 80_000 < told.count(b"\n") < 100_000


async def test_a_store_in_memory_tells_what_it_knows(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    await run_busy(store)

    told = numbers(text(counted(*store.records())))

    assert told["orchestrator_ends_total", "finished"] == 1
