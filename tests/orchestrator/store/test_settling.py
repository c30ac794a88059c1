"""What a person may say of an effect: what became of one that nobody knows, once, and again to correct a word of theirs."""

from __future__ import annotations

import pytest

from harnesses.effects.effect import EffectOutcome
from harnesses.effects.once import Effects
from orchestrator.codec import decode
from orchestrator.errors import StoreCorrupt, UsageError
from orchestrator.store.rules.effect_rules import Mark, effects_of, settling
from orchestrator.store.store_protocol import Settle

Marks = tuple[tuple[str, str], ...]

INTENT = ("intent", '{"key":"buy","arguments":[7]}')
OPEN: dict[str, Marks] = {
    "begun": (INTENT,),
    "unknown": (INTENT, ("outcome", '{"key":"buy","outcome":"unknown"}')),
    "begun again": (INTENT, ("outcome", '{"key":"buy","outcome":"not_done"}'), INTENT),
    "begun and harmless": (("intent", '{"key":"buy","arguments":[7],"idempotent":true}'),),
}
KNOWN: dict[str, Marks] = {
    outcome: (INTENT, ("outcome", f'{{"key":"buy","outcome":"{outcome}","result":null}}'))
    for outcome in ("confirmed", "refused", "not_done")
}


def say(*, done: bool, key: str = "buy", result: str = "null") -> Settle:
    return Settle("eurusd", key, done=done, result=result, reason="I looked", time_us=0)


def after(marks: Marks, settle: Settle) -> tuple[EffectOutcome, object]:
    """Return what is known of the effect, and its result, after a person has spoken."""
    effects = Effects()
    effects.restore((*marks, ("outcome", settling(settle, 3, marks))))
    (effect,) = effects.known()
    return effect.outcome, effect.result


@pytest.mark.parametrize("state", OPEN)
def test_what_nobody_knows_is_done_with_the_result_that_is_given(state: str) -> None:
    outcome = after(OPEN[state], say(done=True, result='{"price":"1.10"}'))

    assert outcome == (EffectOutcome.CONFIRMED, {"price": "1.10"})


@pytest.mark.parametrize("state", OPEN)
def test_what_nobody_knows_is_not_done_and_may_be_tried(state: str) -> None:
    assert after(OPEN[state], say(done=False)) == (EffectOutcome.NOT_DONE, None)


def test_it_is_on_record_who_said_it_and_why() -> None:
    body = decode(settling(say(done=True), 3, OPEN["begun"]))

    assert body == {"key": "buy", "outcome": "confirmed", "result": None, "reason": "I looked", "by": "operator"}


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("outcome", KNOWN)
def test_what_is_known_needs_no_settling(outcome: str, done: bool) -> None:
    with pytest.raises(UsageError, match=f"'eurusd', step 3: effect 'buy' needs no settling: .* it is {outcome}"):
        settling(say(done=done), 3, KNOWN[outcome])


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_a_person_may_correct_what_a_person_has_said(first: bool, second: bool) -> None:
    marks = (*OPEN["begun"], ("outcome", settling(say(done=first, result="1"), 3, OPEN["begun"])))

    outcome = after(marks, say(done=second, result="2"))

    assert outcome == ((EffectOutcome.CONFIRMED, 2) if second else (EffectOutcome.NOT_DONE, None))


def test_what_the_harness_has_found_out_after_a_person_spoke_is_not_corrected() -> None:
    said = ("outcome", settling(say(done=False), 3, OPEN["begun"]))
    marks = (INTENT, said, INTENT, ("outcome", '{"key":"buy","outcome":"confirmed","result":70}'))

    with pytest.raises(UsageError, match="needs no settling"):
        settling(say(done=False), 3, marks)


def test_a_result_that_could_not_be_stored_may_be_given_but_not_taken_for_undone() -> None:
    marks = (INTENT, ("outcome", '{"key":"buy","outcome":"confirmed","reason":"its result cannot be stored"}'))

    assert after(marks, say(done=True, result="70")) == (EffectOutcome.CONFIRMED, 70)
    with pytest.raises(UsageError, match="needs no settling"):
        settling(say(done=False), 3, marks)


def test_an_effect_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="'eurusd', step 3 has no effect 'sell': expected one of 'buy'"):
        settling(say(done=True, key="sell"), 3, OPEN["begun"])
    with pytest.raises(UsageError, match=r"has no effect .*: no effect was begun in it"):
        settling(say(done=True), 3, ())


@pytest.mark.parametrize("result", ["", "seventy", "{", "NaN", "1 2", "\ud800"])
def test_a_result_that_is_not_json_is_refused(result: str) -> None:
    with pytest.raises(UsageError, match="'buy': its result is not JSON"):
        settling(say(done=True, result=result), 3, OPEN["begun"])


def test_an_outcome_whose_intent_was_deleted_hides_no_other_effect() -> None:
    intent, outcome = '{"key":"%s","arguments":[]}', '{"key":"%s","outcome":"confirmed","result":1}'
    marks = [
        Mark(2, 1, 1, 0, "outcome", outcome % "gone"),
        Mark(3, 1, 1, 0, "intent", intent % "here"),
        Mark(4, 1, 1, 0, "outcome", outcome % "here"),
    ]

    assert [(effect.key, effect.outcome) for effect in effects_of("h", marks)] == [("here", EffectOutcome.CONFIRMED)]


@pytest.mark.parametrize("body", ["{", "7", '{"key":"k","outcome":"perhaps"}'])
def test_an_outcome_that_can_not_be_read_is_named_with_its_record(body: str) -> None:
    marks = [Mark(2, 1, 5, 0, "intent", '{"key":"k","arguments":[]}'), Mark(3, 1, 5, 0, "outcome", body)]

    with pytest.raises(StoreCorrupt, match="harness 'h', step 5: the outcome of an effect, record 3, cannot be read"):
        list(effects_of("h", marks))
