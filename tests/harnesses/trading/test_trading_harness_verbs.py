"""What operators say: every verb on every state, and whatever else they send."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from harnesses.trading import Command, RiskState, Source, Verb
from harnesses.trading.market_turn import command_from, obey
from harnesses.trading.risk import Risk, flatten, stop_entries

NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)
A, R, H = RiskState.ACTIVE, RiskState.REDUCING, RiskState.HALTED
AFTER = {
    Verb.STOP: {A: A, R: R, H: H},
    Verb.STOP_ENTRIES: {A: R, R: R, H: H},
    Verb.FLATTEN: {A: H, R: H, H: H},
    Verb.RESUME_ENTRIES: {A: A, R: A, H: H},
    Verb.RESET: {A: A, R: R, H: A},
    Verb.ADOPT: {A: A, R: R, H: H},
}
NOTHING_TO_DO = {(Verb.STOP_ENTRIES, R), (Verb.RESUME_ENTRIES, A), (Verb.RESUME_ENTRIES, H), (Verb.RESET, A), (Verb.RESET, R)}


def risk(state: RiskState) -> Risk:
    risk = Risk(Decimal(1000), Decimal(1000))
    begin = {A: lambda: risk, R: lambda: stop_entries(risk, "before", NOON), H: lambda: flatten(risk, "before", NOON)}
    return begin[state]()


@pytest.mark.parametrize("state", RiskState)
@pytest.mark.parametrize("verb", Verb)
def test_every_verb_leads_from_every_state_where_the_table_says(verb, state):
    after, command = obey(risk(state), Command(verb, "because"), NOON)

    assert after.state is AFTER[verb][state]
    assert bool(command.refused) is ((verb, state) in NOTHING_TO_DO)


def test_the_reason_is_kept():
    after, command = obey(risk(A), Command("flatten", "news"), NOON)

    assert (after.why, command.source) == ("flattened: news", Source.OPERATOR)


@pytest.mark.parametrize("verb", Verb)
def test_a_message_becomes_its_command(verb):
    assert command_from({"do": str(verb), "reason": "so"}) == Command(str(verb), "so")


@pytest.mark.parametrize(
    "message", [None, 7, [], {}, {"do": 3}, {"do": None}, {"do": ["stop"]}, {"reason": "x"}, "stop", {"do": "x" * 9999}]
)
def test_whatever_else_is_sent_comes_back_refused_and_short(message):
    command = command_from(message)

    assert command.refused
    assert len(command.do) <= 500
