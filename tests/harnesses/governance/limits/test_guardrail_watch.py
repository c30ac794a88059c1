"""Guardrails hold any harness, survive crashes and restarts, and what is found is on disk with the step it was found at."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses import BaseHarness
from harnesses.budgets.budget import Budget, Spend
from harnesses.data.delta import Baseline
from harnesses.governance import Guardrails, GuardrailTripped, NoProgress, NoProgressMade
from harnesses.governance.limits.guardrail_watch import Watch, telling, terms
from harnesses.runtime import LocalRuntime
from harnesses.step import StateDelta, Step
from orchestrator import Backoff, MemoryStore, Orchestrator, OutcomeKind, SqliteStore

SOON = Backoff(base_s=1, factor=1, jitter=0)


@frozen
class Account:
    equity: Decimal = Decimal(100)
    position: Decimal = Decimal(0)
    count: int = 0


class Trading(BaseHarness[Account, str, str]):
    """Its equity, or what else it does, is a script; a word of it is a step, the last one for ever."""

    def __init__(self, *script: Any) -> None:
        super().__init__(Account())
        self.script = script

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        while True:
            word = self.script[min(self.current_step, len(self.script) - 1)]
            if word == "crash":
                word = "A"
                yield "in", "A"
                raise ValueError("boom")
            if isinstance(word, int):
                self.update_state(lambda account, word=word: evolve(account, equity=Decimal(word)))
            self.update_state(lambda account: evolve(account, count=account.count + 1))
            yield "in", str(word)
            await self.sleep(1)


def figures(state: Account) -> dict[str, Decimal]:
    return {"equity": state.equity, "position": state.position}


def looping(policy: str, steps: int = 3) -> Watch:
    return Watch(Guardrails(no_progress=NoProgress(steps, policy, ("count",))))


def findings(store: Any) -> list[tuple[int, str, str]]:
    found = [(record.step, json.loads(record.body)) for record in store.records() if record.kind == "guardrail"]
    return [(step, body["limit_name"], body["policy"]) for step, body in found]


async def run(store: Any, harness: Trading, watch: Watch | None = None, *, seconds: float = 60, **more: Any) -> Any:
    async with Orchestrator(store, backoff=SOON, intensity=50) as orchestrator:
        handle = orchestrator.start(harness, name="one", **({"governor": watch} if watch else {}), **more)
        with trio.move_on_after(seconds):
            return await handle.wait()
        return await handle.stop()


async def test_a_harness_that_does_the_same_again_is_blocked_with_the_step_at_which_it_is_seen(autojump_clock: object) -> None:
    store = MemoryStore()

    outcome = await run(store, Trading("A", "B", "C"), looping("block"))

    assert (outcome.kind, outcome.step) == (OutcomeKind.BLOCKED, 6)
    assert findings(store) == [(6, "no_progress", "block")]
    assert "3 steps have repeated the same step" in outcome.cause


async def test_loops_of_two_and_three_steps_are_seen(autojump_clock: object) -> None:
    two, three = Trading(*"ABABABABA"), Trading(*"ABCABCABC")

    assert (await run(MemoryStore(), two, looping("block"))).step == 5
    assert (await run(MemoryStore(), three, looping("block"))).step == 6


async def test_a_harness_that_goes_on_is_let(autojump_clock: object) -> None:
    outcome = await run(MemoryStore(), Trading(*range(200)), looping("block"), seconds=100)

    assert outcome.kind is OutcomeKind.STOPPED


async def test_a_field_that_counts_is_progress_unless_it_is_ignored(autojump_clock: object) -> None:
    watch = Watch(Guardrails(no_progress=NoProgress(3, "block")))

    assert (await run(MemoryStore(), Trading("A"), watch, seconds=20)).kind is OutcomeKind.STOPPED


async def test_one_that_is_told_goes_on_and_is_told_again(autojump_clock: object) -> None:
    store = MemoryStore()

    await run(store, Trading("A"), looping("tell"), seconds=9.5)

    assert findings(store) == [(4, "no_progress", "tell"), (7, "no_progress", "tell"), (10, "no_progress", "tell")]


async def test_the_agents_of_one_that_is_told_know_of_it(autojump_clock: object) -> None:
    harness = Trading("A")
    rails = Guardrails(no_progress=NoProgress(3, "tell", ("count",)))

    await run(MemoryStore(), harness, seconds=4.5, **terms(rails, tell=telling(harness)))

    known = harness.load_context().relevant_knowledge["guardrail"]
    assert known == (
        "guardrail no_progress: 3 steps have repeated the same step: nothing new in state, input and output (limit 3, was 3)"
    )


async def test_one_that_is_restarted_in_vain_is_blocked_in_the_end(autojump_clock: object) -> None:
    store = MemoryStore()

    outcome = await run(store, Trading("A"), looping("restart"))

    assert outcome.kind is OutcomeKind.BLOCKED
    assert findings(store) == [
        (4, "no_progress", "restart"),
        (7, "no_progress", "restart"),
        (10, "no_progress", "restart"),
        (13, "no_progress", "block"),
    ]
    assert outcome.attempt == 4


async def test_one_that_is_restarted_and_gets_further_is_let(autojump_clock: object) -> None:
    store = MemoryStore()

    outcome = await run(
        store, Trading(*"AAAA", *"BBBB", *"CCCC", *"DDDD", *"EEEE", *range(50)), looping("restart"), seconds=40
    )

    assert outcome.kind is OutcomeKind.STOPPED
    assert [policy for _, _, policy in findings(store)] == ["restart"] * 5


async def test_a_crash_loop_is_seen_over_attempts_and_over_programs(tmp_path: Path, autojump_clock: object) -> None:
    outcomes = []
    for _ in range(2):
        store = SqliteStore(tmp_path / "run.db")
        outcomes.append(await run(store, Trading("crash"), looping("block", steps=5), seconds=3.5))
        told = findings(store)
        store.close()

    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.STOPPED, OutcomeKind.BLOCKED]
    assert (outcomes[1].step, told) == (6, [(6, "no_progress", "block")])


async def test_who_is_started_again_by_a_person_has_as_many_steps_again(tmp_path: Path, autojump_clock: object) -> None:
    steps = []
    for _ in range(2):
        store = SqliteStore(tmp_path / "run.db")
        steps.append((await run(store, Trading("A"), looping("block"))).step)
        store.close()

    assert steps == [4, 7]


DRAWDOWN = Guardrails(max_drawdown=Decimal("0.2"))


@pytest.mark.parametrize(
    ("rails", "script", "limit"),
    [
        (DRAWDOWN, (100, 200, 161, 159), "max_drawdown"),
        (Guardrails(max_daily_loss=Decimal("0.1")), (100, 95, 91, 89), "max_daily_loss"),
    ],
)
async def test_a_loss_beyond_its_limit_blocks_the_harness(
    rails: Guardrails, script: tuple[int, ...], limit: str, autojump_clock: object
) -> None:
    store = MemoryStore()

    outcome = await run(store, Trading(*script, 100), Watch(rails, figures))

    assert (outcome.kind, findings(store)) == (OutcomeKind.BLOCKED, [(4, limit, "block")])


async def test_no_restart_forgets_the_high_water_mark(tmp_path: Path, autojump_clock: object) -> None:
    outcomes = []
    for script in ([100, 200, "crash"], [100, 200, 200, 200, 170, 155]):
        store = SqliteStore(tmp_path / "run.db")
        outcomes.append(await run(store, Trading(*script), Watch(DRAWDOWN, figures), seconds=3.5))
        store.close()

    assert outcomes[1].kind is OutcomeKind.BLOCKED
    assert "below its highest, 200" in outcomes[1].cause


async def test_a_halt_holds_until_a_person_says_a_word(tmp_path: Path, autojump_clock: object) -> None:
    kinds = []
    for word in ("", "", "2026-01-31 ann", "2026-01-31 ann", ""):
        store = SqliteStore(tmp_path / "run.db")
        watch = Watch(evolve(DRAWDOWN, reset=word), figures)
        kinds.append((await run(store, Trading(100, 50), watch, seconds=5)).kind)
        store.close()

    assert kinds == [OutcomeKind.BLOCKED] * 2 + [OutcomeKind.STOPPED] * 3


@pytest.mark.parametrize(("word", "high"), [("", "200"), ("ann", "200"), ("bob", None)])
def test_a_word_that_was_said_or_is_left_out_does_not_begin_anew(word: str, high: str | None) -> None:
    watch = Watch(evolve(DRAWDOWN, reset=word), figures)

    watch.restore({"standing": {"high": "200"}, "reset": "ann"})

    assert watch.kept()["standing"].get("high") == high
    assert watch.kept()["reset"] == (word or "ann")


def broken(state: Account) -> dict[str, Decimal]:
    raise ZeroDivisionError(state.count)


@pytest.mark.parametrize("gives", [None, broken, lambda state: {"equity": "much"}, lambda state: None])
async def test_figures_that_can_not_be_had_block(gives: Any, autojump_clock: object) -> None:
    store = MemoryStore()

    outcome = await run(store, Trading(100), Watch(DRAWDOWN, gives))

    assert (outcome.kind, findings(store)) == (OutcomeKind.BLOCKED, [(1, "figures", "block")])


async def test_steps_money_and_time_are_held_by_the_budget_and_the_deadline(autojump_clock: object) -> None:
    outcome = await run(MemoryStore(), Trading("A"), **terms(Guardrails(max_steps=3)))

    assert (outcome.kind, outcome.step) == (OutcomeKind.BUDGET_SPENT, 3)


def test_of_two_limits_the_tighter_one_holds() -> None:
    rails = Guardrails(max_steps=3, max_cost=Decimal(5), deadline_s=60.0)

    made = terms(rails, budget=Budget(steps=10, money=Decimal(2), turns=4), deadline_s=30.0)

    assert made == {"budget": Budget(steps=3, money=Decimal(2), turns=4), "deadline_s": 30.0}
    assert not Spend(money=Decimal(3)).fits(made["budget"])


def test_guardrails_that_watch_nothing_have_no_governor() -> None:
    assert terms(Guardrails()) == {}
    assert isinstance(terms(DRAWDOWN)["governor"], Watch)


async def test_a_harness_that_runs_alone_is_held_as_well(autojump_clock: object) -> None:
    runtime = LocalRuntime("one", governor=looping("block"))

    with pytest.raises(GuardrailTripped, match="guardrail no_progress: 3 steps"):
        await Trading("A").run(runtime)

    assert [(step, attached.kind) for step, attached in runtime.attached] == [(4, "guardrail")]


async def test_who_runs_it_alone_again_gives_it_as_many_steps_again(autojump_clock: object) -> None:
    harness, runtime = Trading("A"), LocalRuntime("one", governor=looping("block"))

    for _ in range(2):
        with pytest.raises(GuardrailTripped):
            await harness.run(runtime)

    assert [step for step, _ in runtime.attached] == [4, 7]


def test_what_was_acted_on_is_not_acted_on_again_but_a_halt_holds() -> None:
    watch = Watch(Guardrails(max_drawdown=Decimal("0.2"), max_position=Decimal(1)), figures)
    for number, account in enumerate([Account(), Account(Decimal(50), Decimal(2))], 1):
        watch.look(Step(number, datetime.now(UTC), "in", "out", StateDelta()), {}, lambda account=account: account)

    with pytest.raises(GuardrailTripped, match=r"max_drawdown.*max_position"):
        watch.check()
    with pytest.raises(GuardrailTripped) as again:
        watch.check()

    assert "max_position" not in str(again.value)


async def test_without_supervision_a_fresh_attempt_is_an_error(autojump_clock: object) -> None:
    with pytest.raises(NoProgressMade):
        await Trading("A").run(LocalRuntime("one", governor=looping("restart")))


async def test_what_is_kept_with_each_step_is_bounded(autojump_clock: object) -> None:
    watch = Watch(Guardrails(no_progress=NoProgress(3, "tell"), max_drawdown=Decimal("0.9")), figures)

    await run(MemoryStore(), Trading(*range(1000, 1300)), watch, seconds=290)

    assert len(json.dumps(watch.kept())) < 400


def test_what_was_not_kept_by_us_is_in_nobodys_favour() -> None:
    watch = Watch(DRAWDOWN, figures)

    watch.restore({"standing": {"high": "x"}})

    assert watch.kept()["standing"] == {"fallen": True}


def test_a_halt_holds_before_the_first_step_of_the_next_attempt() -> None:
    watch = Watch(DRAWDOWN, figures)
    watch.restore({"standing": {"high": "200", "last": "150", "fallen": True}})

    with pytest.raises(GuardrailTripped, match="guardrail max_drawdown: equity 150"):
        watch.check()

    watch.restore({})
    watch.check()


EVERYTHING = Guardrails(
    no_progress=NoProgress(3, "restart", ("count",)), max_drawdown=Decimal("0.2"), max_daily_loss=Decimal("0.1")
)


def watched(equities: list[int], days: list[int], killed: set[int]) -> list[Any]:
    """Return what is found at each step by a watch that is made anew after some of them, from what was kept."""
    watch, baseline, found = Watch(EVERYTHING, figures), Baseline(Account()), []
    time = datetime(2026, 1, 31, tzinfo=UTC)
    for number, (equity, day) in enumerate(zip(equities, days, strict=False), 1):
        time += timedelta(days=day)
        state = Account(Decimal(equity), count=number)
        delta = baseline.advance(state)
        found.append(watch.look(Step(number, time, "in", equity, StateDelta()), delta, lambda state=state: state))
        if number in killed:
            kept = json.loads(json.dumps(watch.kept()))
            watch = Watch(EVERYTHING, figures)
            watch.restore(kept)
    return found


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from([100, 95, 85, 75]), max_size=30),
    st.lists(st.integers(0, 1), min_size=30, max_size=30),
    st.sets(st.integers(1, 30)),
)
def test_what_is_found_does_not_depend_on_when_it_was_killed(equities: list[int], days: list[int], killed: set[int]) -> None:
    assert watched(equities, days, killed) == watched(equities, days, set())


@pytest.mark.parametrize("limit", ["max_drawdown", "max_daily_loss"])
async def test_a_loss_in_the_very_first_step_counts_from_the_state_it_began_with(limit: str, autojump_clock: object) -> None:
    store = MemoryStore()

    outcome = await run(store, Trading(50), Watch(Guardrails(**{limit: Decimal("0.2")}), figures))

    assert (outcome.kind, outcome.step) == (OutcomeKind.BLOCKED, 1)
