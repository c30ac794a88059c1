"""A retraction reaches everything that has used what was retracted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import Agent, BaseHarness
from harnesses.errors import HarnessMisuse
from harnesses.memory import Fact, Query, Skipped, recall_into, refresh
from orchestrator import Orchestrator
from tests.memory_corpus import episodes, queries
from tests.remembering import NOW, Clock, episode, memory

ASKED = "prices are rounded wrongly to ticks"
POISON = "Round prices to ticks and prices to ticks rounded: prices, ticks"


def test_what_was_retracted_is_never_recalled_again(tmp_path: Path) -> None:
    clock = Clock()
    kept = memory(tmp_path, clock=clock, top=10)
    made = episodes(400)
    for one in made:
        kept.write(one)
    asked = queries(60, size=400)
    poisoned = {next(iter(sorted(one.answers))) for one in asked[:30]}

    before = {id for one in asked for id in kept.recall(one.query).ids}
    for id in poisoned:
        kept.retract(id, reason="poisoned", by="ann")
    after = {id for one in asked for id in kept.recall(one.query).ids}

    assert poisoned <= before
    assert not poisoned & after


def test_a_retraction_holds_when_the_memory_is_opened_again_and_the_episode_is_written_again(tmp_path: Path) -> None:
    with memory(tmp_path) as kept:
        kept.write(episode())
        kept.retract("ep_run_one_1", reason="wrong", by="ann")

    with memory(tmp_path) as again:
        assert isinstance(again.write(episode()), Skipped)
        assert again.recall(Query(ASKED)).ids == ()


def test_what_was_retracted_is_not_written_again_under_another_id(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    kept.write(episode("poison", task=POISON))
    kept.retract("ep_run_poison_1", reason="poisoned", by="ann")

    again = [
        kept.write(episode("poison", id="ep_run_poison_2", task=POISON)),
        kept.write(episode("other", id="ep_run2_other_1", run_id="run2", task=f"  {POISON.upper()}. ")),
    ]

    assert [isinstance(one, Skipped) and "retracted" in one.reason for one in again] == [True, True]
    assert kept.recall(Query(ASKED)).ids == ()
    assert not isinstance(kept.write(episode("third", task=f"{POISON} again")), Skipped)


def test_a_retraction_names_who_has_used_it(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    kept.write(episode())
    for harness, task in (("alpha", "t1"), ("beta", "t2"), ("alpha", "t1")):
        kept.recall(Query(ASKED, harness=harness, run_id="r", task_id=task))
    kept.recall(Query("beekeeping", harness="gamma", run_id="r", task_id="t3"))
    kept.write(episode("t2", "Something made with the help of it", id="ep_r_t2_1", run_id="r"))

    affected = kept.retract("ep_run_one_1", reason="wrong", by="ann")

    assert affected == kept.affected_by("ep_run_one_1")
    assert [use.harness for use in affected.uses] == ["alpha", "beta", "alpha"]
    assert affected.harnesses == ("alpha", "beta")
    assert affected.tasks == (("r", "t1"), ("r", "t2"))
    assert affected.episodes == ("ep_r_t2_1",)


def test_facts_go_with_what_they_were_drawn_from(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    kept.write(episode())
    first = kept.learn(Fact(learning="Ticks are 0.5", created_at=NOW, derived_from=("ep_run_one_1",)))
    second = kept.learn(Fact(learning="So fees are halved", created_at=NOW, derived_from=(first,)))
    kept.learn("The venue closes at 22:00")

    affected = kept.retract("ep_run_one_1", reason="wrong", by="ann")

    assert set(affected.facts) == {first, second}
    assert [fact.learning for fact in kept.facts()] == ["The venue closes at 22:00"]
    assert kept.learn("Ticks are 0.5") == first
    assert "Ticks are 0.5" not in [fact.learning for fact in kept.facts()]
    with pytest.raises(HarnessMisuse, match="retracted"):
        kept.learn(Fact(learning="new", created_at=NOW, derived_from=(second,)))


def test_retracting_twice_is_retracting_once(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    kept.write(episode())

    first = kept.retract("ep_run_one_1", reason="wrong", by="ann")

    assert kept.retract("ep_run_one_1", reason="other", by="ben") == first
    assert kept.diagnostics().retracted == 1


@pytest.mark.parametrize(("id", "by"), [("ep_of_nobody", "ann"), ("ep_run_one_1", " ")])
def test_a_retraction_of_nothing_or_by_nobody_is_refused(tmp_path: Path, id: str, by: str) -> None:
    kept = memory(tmp_path)
    kept.write(episode())

    with pytest.raises(HarnessMisuse, match="retraction"):
        kept.retract(id, reason="wrong", by=by)


class Asking(BaseHarness[int, Any, Any]):
    """Tells what its agents know, step by step."""

    memory: Any = None
    queries = (ASKED, "beekeeping")
    between: Any = None

    async def execute(self):
        async def look(run):
            return dict(run.context.relevant_knowledge)

        self.know({"rules": "be kind"})
        for place, text in enumerate(self.queries):
            await recall_into(self, self.memory, Query(text, harness=self.name), key=f"recall{place}")
            yield text, await self.run_agent(Agent(look), text)
            if type(self).between is not None:
                await trio.to_thread.run_sync(type(self).between)


async def _known(harness: Asking) -> list[dict]:
    await harness.run()
    return [step.output for step in harness.step_history]


async def test_what_is_recalled_is_what_agents_know(tmp_path: Path) -> None:
    harness = Asking(0)
    harness.memory = memory(tmp_path)
    harness.memory.write(episode(work_done="Ticks come from the venue"))
    Asking.between = None

    first, second = await _known(harness)

    assert "Ticks come from the venue" in first["recall0"]
    assert (first["rules"], second) == ("be kind", first)


async def test_what_was_retracted_is_gone_at_the_next_recall_whatever_that_is_about(tmp_path: Path) -> None:
    harness = Asking(0)
    harness.memory = memory(tmp_path)
    harness.memory.write(episode("bad", POISON, work_done="Never round"))
    harness.memory.write(episode("good", work_done="Ticks come from the venue"))
    Asking.between = lambda: harness.memory.retract("ep_run_bad_1", reason="poisoned", by="ann")

    first, second = await _known(harness)

    assert "Never round" in first["recall0"]
    assert "Never round" not in second["recall0"]
    assert "Ticks come from the venue" in second["recall0"]


async def test_refreshing_takes_it_out_at_once(tmp_path: Path) -> None:
    harness = Asking(0)
    kept = memory(tmp_path)
    kept.write(episode("bad", work_done="Never round"))
    await recall_into(harness, kept, Query(ASKED))
    kept.retract("ep_run_bad_1", reason="poisoned", by="ann")

    gone = await refresh(harness)

    assert gone == ("ep_run_bad_1",)
    assert dict(harness.load_context().relevant_knowledge) == {}
    assert await refresh(harness) == ()


async def test_it_is_gone_after_a_restart(tmp_path: Path, autojump_clock: object) -> None:
    told: list[str] = []
    kept = memory(tmp_path)
    kept.write(episode("bad", work_done="Never round"))

    class Crashing(BaseHarness[int, int, int]):
        async def execute(self):
            await recall_into(self, kept, Query(ASKED, harness=self.name))
            told.append(str(self.load_context().relevant_knowledge.get("episodes", "")))
            yield 1, 1
            if self.current_step == 1:
                kept.retract("ep_run_bad_1", reason="poisoned", by="ann")
                raise OSError("crash")

    async with Orchestrator(tmp_path / "run.db") as orchestrator:
        orchestrator.start(Crashing(0), name="one")

    assert ["Never round" in text for text in told] == [True, False]


async def test_a_memory_that_fails_stops_nobody(tmp_path: Path) -> None:
    harness = Asking(0)
    harness.memory = memory(tmp_path)
    harness.memory.close()
    Asking.between = None

    assert await _known(harness) == [{"rules": "be kind"}] * 2
