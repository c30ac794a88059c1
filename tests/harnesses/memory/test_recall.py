"""What is found, in which order, and what is not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from harnesses.memory import Query, Retrieval, Skipped, Written
from tests.memory_corpus import episodes, queries
from tests.remembering import NOW, Clock, episode, memory

ASKED = "prices are rounded wrongly to ticks"


def test_nine_of_ten_are_found_among_two_thousand(tmp_path: Path) -> None:
    kept = memory(tmp_path, clock=Clock())
    for one in episodes():
        kept.write(one)

    asked = queries(count=100)
    found = sum(len(set(kept.recall(one.query).ids) & one.answers) for one in asked)
    known = sum(min(3, len(one.answers)) for one in asked)

    assert found / known >= 0.9


def test_what_the_memory_knows_nothing_about_finds_nothing(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    for number, task in enumerate(("Round prices to ticks", "Send mail when a job has failed", "Cancel orders at shutdown")):
        kept.write(episode(str(number), task))

    assert kept.recall(Query("translate the handbook about beekeeping into Finnish for a job")).episodes == ()
    assert kept.recall(Query("")).episodes == ()
    assert kept.recall(Query('"" OR * NEAR( ')).episodes == ()


def test_importance_and_youth_let_nothing_irrelevant_pass(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    kept.write(episode("other", "Send mail when a job has failed", importance=1.0, agents=("builder",), stages=("07-code",)))
    kept.write(episode("old", "Round prices to ticks", importance=0.0, created_at=NOW - timedelta(days=20)))

    recall = kept.recall(Query(ASKED, agents=("builder",), stages=("07-code",)))

    assert recall.ids == ("ep_run_old_1",)


def test_the_same_agent_and_stage_come_first_among_what_is_relevant(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    for name, agent, stage in (("a", "writer", "03-docs"), ("b", "builder", "07-code"), ("c", "builder", "03-docs")):
        kept.write(episode(name, agents=(agent,), stages=(stage,)))

    assert kept.recall(Query(ASKED, agents=("builder",), stages=("07-code",))).ids[:2] == ("ep_run_b_1", "ep_run_c_1")


def test_scope_is_no_word_of_what_is_searched(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    kept.write(episode("a", "Send mail", agents=("price-rounder",), stages=("round-prices-to-ticks",)))

    assert kept.recall(Query(ASKED, agents=("price-rounder",), stages=("round-prices-to-ticks",))).episodes == ()


def test_an_importance_of_nothing_stays_nothing(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    kept.write(episode("a", importance=0.0))

    assert kept.recall(Query(ASKED)).episodes[0].episode.importance == 0


@pytest.mark.parametrize("top", [1, 2, 3, 10])
def test_no_more_are_recalled_than_are_wanted(tmp_path: Path, top: int) -> None:
    kept = memory(tmp_path, top=top)
    for number in range(12):
        kept.write(episode(str(number)))

    assert len(kept.recall(Query(ASKED)).episodes) == top


def test_the_old_fade(tmp_path: Path) -> None:
    clock = Clock()
    kept = memory(tmp_path, clock=clock)
    kept.write(episode("a"))

    found: dict[int, int] = {}
    for age in (0, 60, 200):
        clock.now = NOW + timedelta(days=age)
        found[age] = len(kept.recall(Query(ASKED)).episodes)

    assert found == {0: 1, 60: 1, 200: 0}


def test_what_was_of_use_before_fades_more_slowly(tmp_path: Path) -> None:
    clock = Clock()
    kept = memory(tmp_path, clock=clock, top=1)
    kept.write(episode("used"))
    kept.recall(Query(ASKED))
    kept.write(episode("new"))
    clock.advance(days=60)

    assert kept.recall(Query(ASKED)).ids == ("ep_run_used_1",)


def test_nothing_fades_where_decay_is_off(tmp_path: Path) -> None:
    clock = Clock(NOW + timedelta(days=3650))
    kept = memory(tmp_path, clock=clock, decay=False)
    kept.write(episode("a"))

    assert len(kept.recall(Query(ASKED)).episodes) == 1


def test_untrusted_is_stored_and_recalled_only_for_who_asks_for_it(tmp_path: Path) -> None:
    failed = episode("bad", validator_status="FAIL", outcome="FAIL")
    strict = memory(tmp_path / "strict")
    open_ones = memory(tmp_path / "open", write_policy="validation-attempts")

    assert isinstance(strict.write(failed), Skipped)
    assert open_ones.write(failed) == Written(id=failed.id, trusted=False)
    assert open_ones.recall(Query(ASKED)).ids == ()
    assert open_ones.recall(Query(ASKED, untrusted=True)).ids == (failed.id,)


def test_each_use_is_counted(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    kept.write(episode("a"))

    counts = [kept.recall(Query(ASKED)).episodes[0].accesses for _ in range(3)]

    assert counts == [0, 1, 2]


def test_hits_are_counted_from_what_was_found(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    kept.write(episode("a"))

    for text in (ASKED, "beekeeping", ASKED, "gardening"):
        kept.recall(Query(text))

    assert (kept.diagnostics().retrievals, kept.diagnostics().hit_rate) == (4, 0.5)


def test_things_count_where_words_are_fused_with_them(tmp_path: Path) -> None:
    kept = memory(tmp_path, retrieval=Retrieval.FUSED)
    kept.write(episode("a", files=("shop/cart.py",)))
    kept.write(episode("b", files=("shop/ticks.py",)))

    assert kept.recall(Query(ASKED, things=("shop/ticks.py",))).ids[0] == "ep_run_b_1"
