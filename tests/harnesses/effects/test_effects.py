"""What is known of the effects of a step: read back from what is on record, and settled before the step is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from harnesses import HarnessMisuse
from harnesses.effects.effect import OPEN, EffectOutcome
from harnesses.effects.once import Effects
from harnesses.errors import Refused, UnknownOutcome
from tests.harnesses.outside import ANSWERS, INTENT, MARKS, Notes, Scripted, World, only

SETTLED = ("nothing", "not_done", "confirmed", "refused")


def restored(marks: tuple[tuple[str, str], ...]) -> Effects:
    effects = Effects()
    effects.restore(marks)
    return effects


@pytest.mark.parametrize(
    ("state", "outcome", "result", "reason"),
    [
        ("not_done", EffectOutcome.NOT_DONE, None, ""),
        ("confirmed", EffectOutcome.CONFIRMED, 70, ""),
        ("refused", EffectOutcome.REFUSED, None, "no money"),
        ("begun", EffectOutcome.BEGUN, None, ""),
        ("unknown", EffectOutcome.UNKNOWN, None, "OSError: cut"),
    ],
)
def test_what_is_on_record_is_known_again(state: str, outcome: EffectOutcome, result: Any, reason: str) -> None:
    effect = only(restored(MARKS[state]).known())

    assert (effect.key, effect.arguments) == ("buy", [7])
    assert (effect.outcome, effect.result, effect.reason, effect.idempotent) == (outcome, result, reason, False)


def test_a_later_intent_puts_an_effect_under_way_again() -> None:
    effect = only(restored((*MARKS["not_done"], INTENT)).known())

    assert effect.outcome is EffectOutcome.BEGUN


def test_effects_are_known_in_the_order_in_which_they_were_begun_first() -> None:
    keys = ("c", "a", "b", "a")

    effects = restored(tuple(("intent", f'{{"key":"{key}","arguments":[],"idempotent":true}}') for key in keys))

    assert [effect.key for effect in effects.known()] == ["c", "a", "b"]
    assert all(effect.idempotent for effect in effects.known())


@pytest.mark.parametrize("state", SETTLED)
def test_a_step_whose_effects_are_settled_may_be_recorded(state: str) -> None:
    effects = restored(MARKS[state])

    effects.close()

    assert effects.closed


@pytest.mark.parametrize("state", [state for state in MARKS if state not in SETTLED])
def test_a_step_with_an_effect_of_unknown_outcome_is_not_recorded(state: str) -> None:
    effects = restored(MARKS[state])

    with pytest.raises(UnknownOutcome, match="'buy' is of unknown outcome at the yield"):
        effects.close()

    assert not effects.closed


def test_a_step_with_an_idempotent_effect_of_unknown_outcome_may_be_recorded() -> None:
    effects = restored((("intent", '{"key":"buy","arguments":[7],"idempotent":true}'),))

    effects.close()

    assert only(effects.known()).outcome in OPEN


def test_what_is_recorded_is_behind_us() -> None:
    effects = restored(MARKS["confirmed"])
    effects.close()

    effects.end_recording(recorded=True)

    assert effects.known() == ()
    assert not effects.closed


def test_an_attempt_that_ends_leaves_its_effects_to_the_next() -> None:
    effects = restored(MARKS["unknown"])

    effects.end_attempt()

    assert only(effects.known()).outcome is EffectOutcome.UNKNOWN


# what a harness sees of it


async def test_a_harness_sees_the_effects_of_the_step_being_made(autojump_clock: Any) -> None:
    world = World()
    seen: list[Any] = []

    async def script(harness: Scripted) -> Any:
        for number in (1, 2):
            seen.append([effect.key for effect in harness.effects])
            await harness.once(f"buy {number}", world.act, number)
            seen.append([(effect.key, effect.arguments, effect.result) for effect in harness.effects])
            yield number, None

    await Scripted(script).run()

    assert seen == [[], [("buy 1", [1], 10)], [], [("buy 2", [2], 20)]]


async def test_a_harness_sees_what_was_begun_before_it_was_killed(autojump_clock: Any) -> None:
    seen: list[Any] = []

    async def script(harness: Scripted) -> Any:
        seen.extend(harness.effects)
        return
        yield

    await Scripted(script).run(Notes(MARKS["begun"]))

    assert only(tuple(seen)).outcome is EffectOutcome.BEGUN


# settling without doing


@pytest.mark.parametrize("state", ["not_done", "confirmed", "refused"])
async def test_what_is_settled_is_not_asked_for(state: str, autojump_clock: Any) -> None:
    world, notes = World(), Notes(MARKS[state])

    outcome = await notes.effects.settle(notes, "buy", world.ask)

    assert outcome == state
    assert (world.asked, notes.marks) == ([], list(MARKS[state]))


@pytest.mark.parametrize("state", ["begun", "unknown"])
@pytest.mark.parametrize("answer", ["confirmed", "not done", "refused"])
async def test_what_is_open_is_settled_as_the_world_says(state: str, answer: str, autojump_clock: Any) -> None:
    world, notes = World(), Notes(MARKS[state])
    world.answer = Refused("no money") if answer == "refused" else ANSWERS[answer]

    outcome = await notes.effects.settle(notes, "buy", world.ask)

    assert outcome == answer.replace(" ", "_")
    assert (world.asked, world.done) == ([("buy", 7)], [])
    assert notes.said()[-1] == outcome
    notes.effects.close()


@pytest.mark.parametrize("state", ["begun", "unknown"])
async def test_what_nobody_knows_stays_open(state: str, autojump_clock: Any) -> None:
    world, notes = World(), Notes(MARKS[state])

    with pytest.raises(UnknownOutcome, match="'buy' is of unknown outcome"):
        await notes.effects.settle(notes, "buy", world.ask)

    assert notes.marks == list(MARKS[state])
    assert only(notes.effects.known()).outcome in OPEN


async def test_an_error_of_whoever_is_asked_leaves_it_open(autojump_clock: Any) -> None:
    world, notes = World(), Notes(MARKS["unknown"])
    world.answer = ConnectionError("down")

    with pytest.raises(ConnectionError):
        await notes.effects.settle(notes, "buy", world.ask)

    assert only(notes.effects.known()).outcome is EffectOutcome.UNKNOWN


async def test_settling_what_was_never_begun_is_an_error_that_names_what_was(autojump_clock: Any) -> None:
    notes = Notes(MARKS["begun"])

    with pytest.raises(HarnessMisuse, match=r"'sell' is not on record .* expected one of buy"):
        await notes.effects.settle(notes, "sell", World().ask)
