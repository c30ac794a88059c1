"""How episodes are weighed, how words are made, and what is kept when there are too many."""

from __future__ import annotations

from datetime import timedelta
from math import log
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harnesses.memory import MemorySettings, Query
from harnesses.memory.episode_search import Parts, freshness, is_recalled, lexical, rarity, relevance, scope
from harnesses.memory.forgetting import WeighedEpisode, select_kept
from harnesses.memory.search_words import stem, words
from tests.remembering import NOW, Clock, episode, memory


def test_what_cannot_be_said_weighs_nothing_and_the_rest_more() -> None:
    defaults = MemorySettings()

    assert relevance(Parts(lexical=0.4), defaults) == pytest.approx(0.4)
    assert relevance(Parts(lexical=0.4, entity=0.8), defaults) == pytest.approx(0.6)
    assert relevance(Parts(lexical=1.0, entity=1.0, semantic=0.0), defaults) == pytest.approx(0.7)


@given(st.floats(0, 1), st.one_of(st.none(), st.floats(0, 1)), st.one_of(st.none(), st.floats(0, 1)))
@settings(max_examples=100, deadline=None)
def test_relevance_is_from_nothing_to_one(words: float, things: float | None, meaning: float | None) -> None:
    assert 0 <= relevance(Parts(lexical=words, entity=things, semantic=meaning), MemorySettings()) <= 1 + 1e-9


def test_relevance_is_a_share_by_itself() -> None:
    asked = {"rare": 4.0, "common": 1.0}

    assert [lexical(asked, held) for held in ({"rare", "common", "x"}, {"rare"}, {"common"}, set())] == [1, 0.8, 0.2, 0]
    assert rarity(1, 1000) > rarity(500, 1000) > rarity(1000, 1000) == 1


def test_scope_counts_once_for_each_kind() -> None:
    query = Query("x", agents=("a", "b"), stages=("s",), branch="main")

    assert scope(query, episode(agents=("a", "b"), stages=("s",), branch="main")) == pytest.approx(0.5)
    assert scope(query, episode(agents=("b",))) == pytest.approx(0.2)
    assert scope(Query("x", branch="unknown"), episode(branch="unknown")) == 0


def test_half_is_left_after_a_half_life_and_use_slows_that() -> None:
    defaults = MemorySettings()
    month = NOW + timedelta(days=30)

    assert freshness(NOW, 0, NOW, defaults) == 1
    assert freshness(NOW, 0, month, defaults) == pytest.approx(0.5)
    assert freshness(NOW, 9, month, defaults) == pytest.approx(0.5 * (1 + 0.2 * log(10)))
    assert freshness(month, 0, NOW, defaults) == 1


def test_the_threshold_is_on_relevance_alone() -> None:
    strict = MemorySettings(min_relevance=0.3, min_decayed=0.05)

    assert is_recalled(0.3, 0.2, strict)
    assert not is_recalled(0.29, 1.0, strict)
    assert not is_recalled(0.3, 0.1, strict)
    assert not is_recalled(0.0, 1.0, MemorySettings(min_relevance=0, min_decayed=0))


@pytest.mark.parametrize(
    "group",
    [
        "cache caches cached caching",
        "retry retries retried retrying",
        "round rounds rounded rounding",
        "migrate migrates migrated migrating migration migrations",
        "order orders ordered",
        "validate validates validation validating validator",
        "box boxes boxed",
        "stop stops stopped stopping",
        "close closes closed closing",
        "remind reminds reminder reminders",
    ],
)
def test_the_forms_of_a_word_meet(group: str) -> None:
    assert len({stem(word) for word in group.split()}) == 1


def test_names_are_found_whole_and_by_their_parts() -> None:
    assert words("fix_rounding-v2") == ("fix", "round", "v2", "fix_rounding-v2")
    assert words("parseTickSize") == ("pars", "tick", "siz", "parseticksize")
    assert words("The is of and") == ()
    assert words("Übergrößen 價格") == ("übergrössen", "價格")


def _weighed(number: int, *, content: str = "", value: float = 1.0) -> WeighedEpisode:
    return WeighedEpisode(number, f"ep{number}", content or str(number), number, value)


def test_the_newest_and_the_best_are_kept() -> None:
    few = MemorySettings(compaction_episodes=10, keep_episodes=5, keep_recent=2)
    episodes = [_weighed(number, value=2.0 if number in (1, 3) else 1.0) for number in range(12)]

    kept = select_kept(episodes, few)

    assert [one.number for one in kept] == [11, 10, 3, 1, 9]


def test_of_those_that_say_the_same_the_newest_is_kept() -> None:
    few = MemorySettings(compaction_episodes=10, keep_episodes=5, keep_recent=2)

    kept = select_kept([_weighed(number, content=str(number % 2)) for number in range(12)], few)

    assert [one.number for one in kept] == [11, 10]


def test_a_memory_keeps_what_it_says_and_no_more(tmp_path: Path) -> None:
    kept = memory(tmp_path, compaction_episodes=10, keep_episodes=6, keep_recent=3, top=10)
    for number in range(23):
        kept.write(episode(f"{number:02}", created_at=NOW + timedelta(minutes=number)))

    found = kept.diagnostics()
    ids = {one.episode.id for one in kept.recall(Query("round prices to ticks")).episodes}

    assert found.episodes <= 10
    assert found.compactions == 3
    assert {"ep_run_22_1", "ep_run_21_1", "ep_run_20_1"} <= ids


def test_compacting_again_throws_nothing_more_away(tmp_path: Path) -> None:
    kept = memory(tmp_path, compaction_episodes=10, keep_episodes=6, keep_recent=3, clock=Clock())
    for number in range(10):
        kept.write(episode(str(number), f"Task of its own, number {number}"))

    assert [kept.compact() for _ in range(4)] == [4, 0, 0, 0]
    assert kept.diagnostics().episodes == 6
