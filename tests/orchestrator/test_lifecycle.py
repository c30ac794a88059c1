"""Laws of `lifecycle`: the table says of every state and every event whether one may follow the other."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from harnesses.control import Ending
from orchestrator import events as e
from orchestrator.errors import IllegalTransition
from orchestrator.lifecycle import ENDED, TRANSITIONS, Status, follow, may_follow, remembers_restarts
from orchestrator.outcome import OutcomeKind

EXAMPLES: tuple[e.Event, ...] = (
    e.Started(),
    e.Paused(),
    e.Resumed(),
    e.Failed("ValueError", "boom"),
    e.Restarting("boom", 0.1, 0.0),
    e.Completed(),
    e.Finished(),
    e.Stopped(),
    e.GaveUp("boom", 5, 60.0),
    e.Blocked(),
    e.BudgetSpent(),
    e.Forked("one", 3),
)

# One row for each state, one column for each of EXAMPLES; a dot where it may not follow.
TABLE = """
             started paused resumed failed restarting  completed finished stopped gave_up blocked budget_spent forked
new          running paused .       failed .           completed finished stopped .       blocked budget_spent new
running      running paused .       failed backing_off completed finished stopped .       blocked budget_spent .
paused       paused  .      running failed paused      completed finished stopped .       blocked budget_spent .
backing_off  running paused .       failed backing_off .         .         stopped gave_up .       .            .
completed    running .      .       failed .           .         .         stopped gave_up .       .            .
finished    running .      .       failed backing_off .         .         stopped gave_up .       .            .
stopped      running .      .       failed backing_off .         .         stopped gave_up .       .            .
failed       running .      .       failed backing_off .         .         stopped gave_up .       .            .
gave_up      running .      .       failed .           .         .         stopped gave_up .       .            .
blocked      running .      .       failed .           .         .         stopped gave_up .       .            .
budget_spent running .      .       failed .           .         .         stopped gave_up .       .            .
"""


def _expected() -> dict[tuple[Status, str], Status | None]:
    header, *rows = (line.split() for line in TABLE.strip("\n").splitlines())
    cells: dict[tuple[Status, str], Status | None] = {}
    for state, *words in rows:
        for kind, word in zip(header, words, strict=True):
            cells[Status(state), kind] = None if word == "." else Status(word)
    return cells


EXPECTED = _expected()
PAIRS = list(product(Status, EXAMPLES))
IDS = [f"{status}-{event.kind}" for status, event in PAIRS]


def test_the_table_has_a_cell_for_every_state_and_event() -> None:
    assert set(TRANSITIONS) == set(Status)
    assert {type(event) for event in EXAMPLES} == set(e.EVENTS)
    assert len(EXPECTED) == len(Status) * len(e.EVENTS)


@pytest.mark.parametrize(("status", "event"), PAIRS, ids=IDS)
def test_what_may_follow_leads_where_the_table_says_and_what_may_not_is_refused(status: Status, event: e.Event) -> None:
    expected = EXPECTED[status, event.kind]

    assert may_follow(status, event) is (expected is not None)
    if expected is not None:
        assert follow(status, event) is expected
    else:
        with pytest.raises(IllegalTransition, match=f"'{event.kind}' may not follow '{status.value}': expected"):
            follow(status, event)


def test_a_completed_harness_can_not_be_completed_again_before_it_is_started() -> None:
    with pytest.raises(IllegalTransition, match="'completed' may not follow 'completed': expected failed, gave_up, started"):
        follow(Status.COMPLETED, e.Completed())


@pytest.mark.parametrize("status", sorted(ENDED - {Status.COMPLETED}))
def test_every_other_end_can_be_gone_on_from(status: Status) -> None:
    assert follow(status, e.Started()) is Status.RUNNING


@pytest.mark.parametrize("status", Status)
def test_every_state_can_be_reached_from_the_first(status: Status) -> None:
    reached = {Status.NEW}
    while more := {after for before in reached for after in TRANSITIONS[before].values()} - reached:
        reached |= more

    assert status in reached


def test_every_kind_of_event_has_a_name_of_its_own() -> None:
    assert len({event.kind for event in e.EVENTS}) == len(e.EVENTS)


@pytest.mark.parametrize(
    ("event", "remembered"),
    [
        (e.Started(), True),
        (e.Failed("ValueError", "boom"), True),
        (e.Restarting("boom", 0.1, 0.0), True),
        (e.Finished(), True),
        (e.Paused(), True),
        (e.Resumed(), True),
        (e.Stopped(program_ended=True), True),
        (e.Stopped(), False),
        (e.Completed(), False),
        (e.GaveUp("boom", 5, 60.0), False),
        (e.Blocked(), False),
        (e.BudgetSpent(), False),
    ],
)
def test_restarts_count_until_the_harness_itself_has_come_to_an_end(event: e.Event, remembered: bool) -> None:
    assert remembers_restarts(event) is remembered


@pytest.mark.parametrize("kind", [Status, OutcomeKind, Ending])
def test_finished_is_found_by_its_earlier_name(kind: Any) -> None:
    assert kind("exhausted") is kind.EXHAUSTED is kind.FINISHED
    assert kind.FINISHED.value == "finished"
    with pytest.raises(ValueError, match="'other' is not a valid"):
        kind("other")
