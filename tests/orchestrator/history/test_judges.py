"""The ready-made judges come to what was recorded where the rules are the same, and to something else where they are not."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from harnesses.coding.validators import Command
from harnesses.features.feature import Feature, TurnResult, Verdict
from harnesses.features.feature_validators import accept_all, all_of
from harnesses.governance import EvidencePolicy, Grade, Guardrails, NoProgress
from harnesses.governance.approved_commands import GovernedCommands
from harnesses.governance.limits.guardrail_watch import terms
from harnesses.step import StateDelta
from orchestrator import Backoff, MemoryStore, Orchestrator, UsageError
from orchestrator.codec import encode
from orchestrator.history import Look, Rejudged, rejudge
from orchestrator.history.rejudging import Judge
from orchestrator.presets import ready_made_judges as judges
from orchestrator.records import Record, StepRecord
from tests.harnesses.features.worked import harness as feature_harness
from tests.harnesses.governance.limits.test_guardrail_watch import Trading, figures
from tests.harnesses.pipeline.scripted import Builders, honest, pipeline
from tests.orchestrator.scripted import Scripted


async def ran(harness: Any, deadline_s: float | None = 100, **options: Any) -> MemoryStore:
    """Run a harness until it ends, or until the deadline; return the store."""
    store = MemoryStore()
    try:
        async with Orchestrator(
            store, handle_signals=False, deadline_s=deadline_s, backoff=Backoff(base_s=1, jitter=0)
        ) as orchestrator:
            orchestrator.start(harness, name="one", **options)
    except* Exception:  # it is in the store
        pass
    return store


async def rejudged(store: MemoryStore, judge: Judge, **options: Any) -> list[Rejudged]:
    found = [one async for one in rejudge(store, "one", judge, **options)]
    assert [one.problem for one in found] == [""] * len(found)
    return found


# guardrails


NOW = datetime(2026, 5, 4, tzinfo=UTC)
LOSING = Guardrails(max_drawdown=Decimal("0.2"))
LOOPING = Guardrails(no_progress=NoProgress(steps=3, policy="tell", ignore=("count",)))


async def test_the_same_guardrails_find_the_same(autojump_clock: object) -> None:
    for rails, harness in ((LOSING, Trading(100, 95, 90, 85, 70)), (LOOPING, Trading(*"ABAAA", "crash", *"AAAA"))):
        store = await ran(harness, **terms(rails, figures))

        found = await rejudged(store, judges.guardrails(rails, figures, like=Trading))

        assert any(one.stored for one in found)
        assert [one for one in found if one.differs] == []


async def test_tighter_ones_find_more_and_looser_ones_nothing(autojump_clock: object) -> None:
    store = await ran(Trading(100, 95, 90, 85, 70), **terms(LOSING, figures))

    tighter, looser = [
        await rejudged(store, judges.guardrails(evolve(LOSING, max_drawdown=Decimal(most)), figures, like=Trading))
        for most in ("0.12", "0.5")
    ]

    assert [one.step for one in tighter if one.today] == [4, 5]
    assert [one.step for one in tighter if one.differs][:1] == [4]
    assert [one.step for one in looser if one.differs] == [5]
    assert looser[4].today == []
    assert looser[4].stored[0]["limit_name"] == "max_drawdown"


async def test_plain_states_do_where_no_type_is_needed(autojump_clock: object) -> None:
    store = await ran(Trading(100, 70), **terms(LOSING, figures))

    plain = judges.guardrails(LOSING, lambda state: {"equity": Decimal(state["equity"])})

    assert [bool(one.today) for one in await rejudged(store, plain)] == [False, True]


async def test_it_can_begin_in_the_middle_with_what_was_known_then(autojump_clock: object) -> None:
    store = await ran(Trading(100, 95, 90, 85, 70), **terms(LOSING, figures))

    found = await rejudged(store, judges.guardrails(LOSING, figures, like=Trading), after=3)

    assert [(one.step, bool(one.today), one.differs) for one in found] == [(4, False, False), (5, True, False)]


# features


class Reads:
    """Accepts what says so; it only looks."""

    proves = False

    def __init__(self, least: int) -> None:
        self.least = least

    async def validate(self, feature: Feature, work: TurnResult) -> Verdict:
        await trio.lowlevel.checkpoint()
        return Verdict(passed=int(work.artifact or 0) >= self.least, evidence=f"{feature.id}: {work.artifact}")


async def test_validators_of_today_judge_what_agents_have_handed_in(autojump_clock: object) -> None:
    store = await ran(feature_harness(validator=Reads(2)))

    same, stricter, kinder = [await rejudged(store, judges.features(Reads(least))) for least in (2, 3, 1)]

    tries = [one for one in same if one.today is not None]
    assert {one.stored.passed for one in tries} == {True, False}
    assert not any(one.differs for one in same)
    assert [one.today.passed for one in stricter if one.differs] == [False] * sum(one.stored.passed for one in tries)
    assert all(one.today.passed for one in kinder if one.differs)
    assert sum(one.differs for one in kinder) == sum(not one.stored.passed for one in tries)


async def test_a_validator_that_only_looks_may_be_several(autojump_clock: object) -> None:
    store = await ran(feature_harness(validator=Reads(1)))

    found = await rejudged(store, judges.features(all_of(accept_all(), Reads(1))))

    assert any(one.today is not None for one in found)
    assert not any(one.differs for one in found)


class Silent:
    """Does not say whether it runs something."""

    async def validate(self, feature: Feature, work: object) -> Verdict:
        raise AssertionError


def test_a_validator_that_runs_something_is_refused_before_it_is_asked() -> None:
    for validator in (Command(["pytest", "-q"]), Silent(), all_of(accept_all(), Silent())):
        with pytest.raises(UsageError, match="runs something"):
            judges.features(validator)


# evidence


async def test_a_pipeline_is_judged_by_the_evidence_policy_of_today(autojump_clock: object, tmp_path: Path) -> None:
    builders = Builders({"b": [lambda work: {"status": "PASS"}, honest]})
    store = await ran(pipeline(tmp_path / "w", "a", "b", agents=builders))

    same = await rejudged(store, judges.evidence(EvidencePolicy()))
    stricter = await rejudged(
        store, judges.evidence(EvidencePolicy(needed=Grade.OBSERVED, by_kind={"review": Grade.OBSERVED}))
    )

    judged = [one for one in same if one.stored is not None]
    assert {str(one.stored.status) for one in judged} == {"PASS", "FAIL"}
    assert not any(one.differs for one in same)
    assert [str(one.today.status) for one in stricter if one.differs] == ["FAIL", "FAIL"]


# actions


async def test_commands_on_record_are_classified_anew(tmp_path: Path) -> None:
    commands = GovernedCommands(cwd=tmp_path)

    async def script(harness: Scripted) -> Any:
        for command in ("echo harmless", ["echo", "two"]):
            yield None, (await commands.run(harness, "it", command)).code
        await harness.once("other", _act, "rm -rf /")
        yield None, None

    store = await ran(Scripted(script), None)

    found = await rejudged(store, judges.actions())
    by_hand = await rejudged(store, judges.actions(lambda body: "git push --force origin main"))

    assert [one.today for one in found] == [{"echo harmless": []}, {'["echo","two"]': []}, None]
    assert not any(one.differs for one in found)
    assert [one.differs for one in by_hand] == [True, True, True]
    assert "git-force" in by_hand[2].today["git push --force origin main"]


def test_a_command_that_was_asked_for_and_not_run_is_classified_too() -> None:
    asked = {"key": "it", "category": "publish", "arguments": {"command": "git push", "cwd": "/w", "categories": ["publish"]}}
    other = {"key": "b", "category": "order", "arguments": {"side": "buy"}}
    step = StepRecord("one", 1, 9, 1, NOW, None, None, StateDelta())
    records = [
        Record(number, "one", 1, 1, 0, "approval_requested", encode(body)) for number, body in enumerate((asked, other))
    ]
    look = Look(step, {}, {}, tuple(records))

    assert judges.actions().today(look) == {"git push": ["publish"]} == judges.actions().stored(look)


async def _act(word: str) -> None:
    await trio.lowlevel.checkpoint()
