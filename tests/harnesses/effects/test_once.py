"""G5: `once` on every state of the record and every answer: a finished effect is not run again, an unknown one not blindly."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from dataclasses import field as datafield
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
import trio
from attrs import field, frozen

from harnesses import Control, Ending, HarnessMisuse, LocalRuntime, StepTimeout, Unstorable
from harnesses.effects import once
from harnesses.effects.effect import Confirmed, EffectOutcome, NotDone, Undecided
from harnesses.errors import Latched, Refused, UnknownOutcome, Waiting
from tests.harnesses.outside import ANSWERS, INTENT, MARKS, Notes, Scripted, World, only


def lives(notes: Notes) -> Iterator[Notes]:
    """Yield the same surroundings twice, and then those of the program that is started after this one was killed."""
    yield from (notes, notes)
    yield notes.next_life()


class NoMoney(Refused):
    """A refusal of the world's own."""


async def buy(notes: Notes, world: World, **options: Any) -> Any:
    """Do the effect `buy` of 7; return what came of it, an error too."""
    try:
        return await notes.effects.once(notes, "buy", world.act, (7,), **options)
    except Exception as error:
        return type(error)


# the table: what is on record, what whoever is asked says, what `once` does


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("state", ["nothing", "not_done"])
async def test_what_is_not_done_is_done_and_nobody_asked(state: str, answer: str, autojump_clock: Any) -> None:
    world, notes = World(), Notes(MARKS[state])
    world.answer = ANSWERS[answer]

    assert await buy(notes, world, reconcile=world.ask) == 70

    assert (world.done, world.asked) == ([7], [])
    assert notes.said()[len(MARKS[state]) :] == [[7], "confirmed"]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize(("state", "result"), [("confirmed", 70), ("refused", Refused)])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_what_is_known_is_told_again(
    state: str, result: Any, answer: str, idempotent: bool, autojump_clock: Any
) -> None:
    world, notes = World(), Notes(MARKS[state])
    world.answer = ANSWERS[answer]

    assert await buy(notes, world, reconcile=world.ask, idempotent=idempotent) == result

    assert (world.done, world.asked) == ([], [])
    assert notes.marks == list(MARKS[state])


@pytest.mark.parametrize(
    ("answer", "result", "done", "said"),
    [
        (Confirmed(70), 70, [], ["confirmed"]),
        (NotDone(), 70, [7], ["not_done", [7], "confirmed"]),
        (Undecided("no answer"), UnknownOutcome, [], []),
        (NoMoney("no"), NoMoney, [], ["refused"]),
        (ExceptionGroup("tasks", [NoMoney("no")]), NoMoney, [], ["refused"]),
        (ConnectionError("down"), ConnectionError, [], []),
        (trio.TooSlowError(), trio.TooSlowError, [], []),
        (NotDone, HarnessMisuse, [], []),
        (None, HarnessMisuse, [], []),
        (True, HarnessMisuse, [], []),
        (Confirmed("seventy"), UnknownOutcome, [], []),
        (Confirmed(object()), UnknownOutcome, [], []),
    ],
)
@pytest.mark.parametrize("state", ["begun", "unknown"])
async def test_of_what_is_open_the_world_is_asked(
    state: str, answer: Any, result: Any, done: list[int], said: list[Any], autojump_clock: Any
) -> None:
    world, notes = World(), Notes(MARKS[state])
    world.answer = answer

    assert await buy(notes, world, reconcile=world.ask) == result

    assert (world.done, world.asked) == (done, [("buy", 7)])
    assert notes.said()[len(MARKS[state]) :] == said


@pytest.mark.parametrize("state", ["begun", "unknown"])
async def test_what_is_open_is_not_tried_again_without_anyone_to_ask(state: str, autojump_clock: Any) -> None:
    world, notes = World(), Notes(MARKS[state])

    assert [await buy(notes, world) for _ in range(3)] == [UnknownOutcome] * 3

    assert (world.done, notes.marks) == ([], list(MARKS[state]))


@pytest.mark.parametrize("state", ["begun", "unknown"])
async def test_what_is_idempotent_is_done_again_and_nobody_asked(state: str, autojump_clock: Any) -> None:
    world, notes = World(), Notes(MARKS[state])

    assert await buy(notes, world, reconcile=world.ask, idempotent=True) == 70

    assert (world.done, world.asked) == ([7], [])


async def test_what_is_said_of_idempotence_now_counts_more_than_what_is_on_record(autojump_clock: Any) -> None:
    world, notes = World(), Notes((("intent", '{"key":"buy","arguments":[7],"idempotent":true}'),))

    assert await buy(notes, world) is UnknownOutcome

    assert world.done == []
    with pytest.raises(UnknownOutcome):
        notes.effects.close()


async def test_the_words_of_a_refusal_are_told_again(autojump_clock: Any) -> None:
    notes = Notes(MARKS["refused"])

    with pytest.raises(Refused, match=r"^no money$"):
        await notes.effects.once(notes, "buy", World().act, (7,))


async def test_an_answer_stands_over_later_lives(autojump_clock: Any) -> None:
    world, notes = World(), Notes(MARKS["begun"])
    world.answer = Confirmed(70)

    answers = [await buy(life, world, reconcile=world.ask) for life in lives(notes)]

    assert answers == [70, 70, 70]
    assert (world.done, len(world.asked)) == ([], 1)


# what a function may do


def failing(error: BaseException) -> Any:
    async def fail(*args: Any):
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [Refused("no"), NoMoney("no"), ExceptionGroup("a", [ExceptionGroup("b", [NoMoney("no")]), Refused("nor this")])]
)
async def test_a_refusal_is_a_certain_no_also_out_of_a_nursery(error: Exception, autojump_clock: Any) -> None:
    world, notes = World(), Notes()
    world.answer = AssertionError("nobody is asked")

    for surroundings in lives(notes):
        with pytest.raises(Refused, match=r"^no$"):
            await surroundings.effects.once(surroundings, "buy", failing(error), (7,), reconcile=world.ask)

    assert notes.said() == [[7], "refused"]


@pytest.mark.parametrize(
    "error", [OSError("cut"), ExceptionGroup("a", [Refused("no"), OSError("cut")]), StopAsyncIteration(), UnknownOutcome()]
)
async def test_any_other_error_leaves_it_open(error: Exception, autojump_clock: Any) -> None:
    notes = Notes()

    with pytest.raises(UnknownOutcome, match="and has no `reconcile`"):
        await notes.effects.once(notes, "buy", failing(error), (7,))

    assert notes.said() == [[7], "unknown"]


@pytest.mark.parametrize(
    ("answer", "result", "said"),
    [
        (Confirmed(70), 70, "confirmed"),
        (NotDone(), OSError, "not_done"),
        (Undecided(), UnknownOutcome, "unknown"),
        (NoMoney("no"), NoMoney, "refused"),
        (ConnectionError("down"), ConnectionError, "unknown"),
    ],
)
async def test_after_an_error_the_world_is_asked_at_once(answer: Any, result: Any, said: str, autojump_clock: Any) -> None:
    world, notes = World(), Notes()
    world.answer = answer

    async def act(amount: int) -> int:
        await World.act(world, amount)
        raise OSError("the answer was lost")

    world.act = act  # type: ignore[method-assign]

    assert await buy(notes, world, reconcile=world.ask) == result
    assert (world.done, world.asked, notes.said()[-1]) == ([7], [("buy", 7)], said)


async def test_what_has_not_happened_after_all_may_be_tried_in_the_same_attempt(autojump_clock: Any) -> None:
    world, notes = World(), Notes()
    world.answer = NotDone()
    with pytest.raises(OSError, match="cut"):
        await notes.effects.once(notes, "buy", failing(OSError("cut")), (7,), reconcile=world.ask)

    assert await buy(notes, world) == 70

    assert notes.said() == [[7], "unknown", "not_done", [7], "confirmed"]


async def test_an_idempotent_effect_that_fails_raises_its_error_and_is_done_again(autojump_clock: Any) -> None:
    world, notes = World(), Notes()
    with pytest.raises(OSError, match="cut"):
        await notes.effects.once(notes, "buy", failing(OSError("cut")), (7,), idempotent=True)

    assert await buy(notes.next_life(), world, idempotent=True) == 70


async def test_a_timeout_leaves_it_open(autojump_clock: Any) -> None:
    world, notes = World(), Notes()

    async def slow(amount: int) -> None:
        await world.act(amount)
        await trio.sleep(60)

    with pytest.raises(UnknownOutcome, match="TooSlowError"):
        await notes.effects.once(notes, "buy", slow, (7,), timeout_s=5)

    assert trio.current_time() == pytest.approx(5)
    assert (world.done, notes.said()) == ([7], [[7], "unknown"])


async def test_what_ends_in_time_is_confirmed(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    assert await buy(notes, world, timeout_s=0.0) == 70


@pytest.mark.parametrize("timeout_s", [-1, float("nan"), "5", True])
async def test_a_timeout_that_is_none_is_refused_while_nothing_has_happened(timeout_s: Any, autojump_clock: Any) -> None:
    world, notes = World(), Notes()

    result = await buy(notes, world, timeout_s=timeout_s)

    assert result is (70 if timeout_s is True else HarnessMisuse)
    assert len(world.done) == (timeout_s is True)


@pytest.mark.parametrize("error", [OSError("bad \udcff"), type("Mute", (Exception,), {"__str__": lambda self: 1 / 0})()])
async def test_an_error_whose_words_can_not_be_stored_is_an_error_like_any_other(
    error: Exception, autojump_clock: Any
) -> None:
    world, notes = World(), Notes()
    world.answer = NotDone()

    with pytest.raises(type(error)):
        await notes.effects.once(notes, "buy", failing(error), (7,), reconcile=world.ask)

    assert notes.said() == [[7], "unknown", "not_done"]


async def test_a_result_that_can_not_be_stored_has_happened_nevertheless(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    async def act(amount: int):
        await world.act(amount)
        return object()

    for surroundings in lives(notes):
        with pytest.raises(Waiting, match="'buy' has happened, but"):
            await surroundings.effects.once(surroundings, "buy", act, (7,))

    assert (world.done, notes.said()) == ([7], [[7], "confirmed"])


@frozen
class Fill:
    price: Decimal


class Venue:
    def sync(self, price: Decimal) -> Fill:
        return Fill(price)

    async def method(self, price: Decimal) -> Fill:
        return Fill(price)

    async def __call__(self, price: Decimal) -> Fill:
        return Fill(price)


def starts(price: Decimal) -> Any:
    return Venue().method(price)


@pytest.mark.parametrize(
    "function",
    [Venue().sync, Venue().method, Venue(), partial(Venue().method), lambda price: Venue().method(price), Fill, starts],
    ids=["sync", "method", "object", "partial", "lambda", "class", "returns an awaitable"],
)
async def test_anything_that_can_be_called_is_an_effect_and_both_times_returns_the_same(
    function: Any, autojump_clock: Any
) -> None:
    notes = Notes()

    first = await notes.effects.once(notes, "buy", function, (Decimal("1.10"),))
    again = await notes.next_life().effects.once(notes, "buy", failing(AssertionError()), (Decimal("1.10"),))

    declared = function is not starts and getattr(function, "__name__", "") != "<lambda>"
    assert first == (Fill(Decimal("1.10")) if declared else {"price": "1.10"})
    assert again == {"price": "1.10"}


async def test_a_type_that_could_not_be_read_back_is_refused_while_nothing_has_happened(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    async def act(amount: int) -> World:
        world.done.append(amount)
        return world

    with pytest.raises(HarnessMisuse, match="World is not a type that JSON can represent"):
        await notes.effects.once(notes, "buy", act, (7,))

    assert (world.done, notes.marks) == ([], [])
    notes.effects.close()


# keys and arguments


@pytest.mark.parametrize("key", ["", "x" * 201, "\ud800", 7, None, b"buy"], ids=repr)
async def test_what_is_not_a_key_is_refused_while_nothing_has_happened(key: Any, autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    with pytest.raises(HarnessMisuse, match="expected a key of 1 to 200 characters"):
        await notes.effects.once(notes, key, world.act, (7,))

    assert (world.done, notes.marks) == ([], [])
    notes.effects.close()


@pytest.mark.parametrize("key", ["x" * 200, 'ünï\u2028 🙂 \\ " \x00', "$.key", "123"])
async def test_any_text_is_a_key(key: str, autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    for surroundings in (notes, notes.next_life()):
        await surroundings.effects.once(surroundings, key, world.act, (7,))
        notes = surroundings.next_life()

    assert len(world.done) == 2
    assert only(notes.effects.known()).key == key


async def test_what_can_not_be_stored_is_refused_while_nothing_has_happened(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    for wrong in (object(), float("nan"), {1: "a", "1": "b"}, [world], "\ud800"):
        with pytest.raises(Unstorable, match="effect 'buy': its arguments cannot be stored"):
            await notes.effects.once(notes, "buy", world.act, (wrong,))

    assert (world.done, notes.marks) == ([], [])
    notes.effects.close()


@pytest.mark.parametrize(
    ("state", "error"),
    [("confirmed", HarnessMisuse), ("refused", HarnessMisuse), ("begun", UnknownOutcome), ("unknown", UnknownOutcome)],
)
async def test_other_arguments_under_the_same_key_are_an_error(state: str, error: Any, autojump_clock: Any) -> None:
    world, notes = World(), Notes(MARKS[state])

    with pytest.raises(error, match=r"'buy' was begun in this step with other arguments: expected \[7\], got \[8\]"):
        await notes.effects.once(notes, "buy", world.act, (8,), reconcile=world.ask, idempotent=True)

    assert (world.done, world.asked, notes.marks) == ([], [], list(MARKS[state]))


async def test_what_was_not_done_may_be_done_with_other_arguments(autojump_clock: Any) -> None:
    world, notes = World(), Notes(MARKS["not_done"])

    assert await notes.effects.once(notes, "buy", world.act, (8,)) == 80

    assert notes.said()[len(MARKS["not_done"]) :] == [[8], "confirmed"]


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Fill(Decimal("1.1")), {"price": "1.1"}),
        ((1, 2), [1, 2]),
        (frozenset(map(str, range(50))), set(map(str, reversed(range(50))))),
    ],
)
async def test_arguments_that_are_the_same_on_disk_are_the_same(first: Any, again: Any, autojump_clock: Any) -> None:
    notes = Notes()
    await notes.effects.once(notes, "buy", lambda given: 1, (first,))

    life = notes.next_life()

    assert await life.effects.once(life, "buy", failing(AssertionError()), (again,)) == 1


@frozen
class Bought:
    """An argument's class, as an earlier version of a program had it."""

    units: int
    fill: Fill


@frozen
class BoughtNow:
    """The same with fields that came later."""

    units: int
    fill: FillNow
    at: str = "once"
    notes: tuple[str, ...] = field(factory=tuple[str, ...])


@frozen
class UnitsAlone:
    """The same without a field that it had."""

    units: int


@dataclass(frozen=True)
class FillNow:
    price: Decimal
    fee: Decimal | None = None
    tags: list[str] = datafield(default_factory=list[str])


@pytest.mark.parametrize(
    ("now", "is_same"),
    [
        (BoughtNow(7, FillNow(Decimal("1.1"))), True),
        (BoughtNow(8, FillNow(Decimal("1.1"))), False),
        (BoughtNow(7, FillNow(Decimal("1.2"))), False),
        (BoughtNow(7, FillNow(Decimal("1.1")), at="any time"), False),
        (BoughtNow(7, FillNow(Decimal("1.1"), fee=Decimal(0))), False),
        (BoughtNow(7, FillNow(Decimal("1.1"), tags=["a"])), False),
        (BoughtNow(7, FillNow(Decimal("1.1")), notes=("a",)), False),
        (Fill(Decimal("1.1")), False),
        (UnitsAlone(7), False),
    ],
)
async def test_a_field_that_the_class_of_an_argument_has_got_since_counts_as_its_default(
    now: Any, is_same: bool, autojump_clock: Any
) -> None:
    """G5, G10: a program that was upgraded goes on with an effect that the earlier one had begun."""
    notes = Notes()
    await notes.effects.once(notes, "buy", lambda *given: 1, (7, Bought(7, Fill(Decimal("1.1")))))
    life = notes.next_life()

    with nullcontext() if is_same else pytest.raises(HarnessMisuse, match="begun in this step with other arguments"):
        assert await life.effects.once(life, "buy", failing(AssertionError()), (7, now)) == 1


async def test_sets_are_written_in_the_same_order_in_every_process(autojump_clock: Any) -> None:
    notes = Notes()

    await notes.effects.once(notes, "buy", lambda given: 1, ({str(n) for n in range(50)},))

    [(_, body), _] = notes.marks
    assert json.loads(body)["arguments"] == [sorted(str(n) for n in range(50))]


async def test_the_same_key_at_the_same_time_is_an_error(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    async def slow(amount: int) -> int:
        await trio.sleep(1)
        return await World.act(world, amount)

    world.act = slow  # type: ignore[method-assign]
    results: list[Any] = []

    async def one() -> None:
        results.append(await buy(notes, world))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one)
        nursery.start_soon(one)

    assert results == [HarnessMisuse, 70]
    assert world.done == [7]


async def test_many_effects_at_the_same_time_are_each_done_once(autojump_clock: Any) -> None:
    world = World()

    async def script(harness: Scripted) -> Any:
        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(harness.once, f"buy {number}", world.act, number)
        yield None, None

    await Scripted(script).run()

    assert sorted(world.done) == list(range(100))


async def test_the_same_key_is_another_effect_in_another_step(autojump_clock: Any) -> None:
    world = World()

    async def script(harness: Scripted) -> Any:
        for number in range(3):
            yield number, await harness.once("buy", world.act, number)

    harness = Scripted(script)
    await harness.run()

    assert world.done == [0, 1, 2]
    assert [step.output for step in harness.step_history] == [0, 10, 20]


# the intent comes first


async def test_the_intent_is_on_record_before_the_call_and_the_outcome_after_it(autojump_clock: Any) -> None:
    notes = Notes()
    seen = []

    await notes.effects.once(notes, "buy", lambda amount: seen.extend(notes.marks), (7,))

    assert seen == [INTENT]
    assert notes.said() == [[7], "confirmed"]


async def test_an_effect_whose_intent_can_not_be_recorded_does_not_begin(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    async def fail(kind: str, body: str) -> None:
        raise OSError("the disk is gone")

    notes.note = fail  # type: ignore[method-assign]

    assert await buy(notes, world) is OSError
    assert world.done == []


async def test_under_the_latch_nothing_begins_and_nothing_is_written_down(autojump_clock: Any) -> None:
    notes, world = Notes(), World()
    notes.latched = True

    assert await buy(notes, world) is Latched

    assert (world.done, notes.marks) == ([], [])
    notes.effects.close()


async def test_a_latch_put_on_while_the_intent_is_written_down_counts(autojump_clock: Any) -> None:
    class Latching(Notes):
        async def note(self, kind: str, body: str) -> None:
            await super().note(kind, body)
            self.latched = True

    notes, world = Latching(), World()

    assert await buy(notes, world) is Latched

    assert (world.done, notes.said()) == ([], [[7], "not_done"])
    notes.effects.close()


@pytest.mark.parametrize("state", ["begun", "unknown"])
async def test_under_the_latch_what_became_of_an_effect_can_still_be_found_out(state: str, autojump_clock: Any) -> None:
    notes, world = Notes(MARKS[state]), World()
    notes.latched, world.answer = True, Confirmed(70)

    assert await buy(notes, world, reconcile=world.ask) == 70


# cancellation


async def test_an_effect_cancelled_under_way_is_of_unknown_outcome(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    async def slow(amount: int) -> None:
        await world.act(amount)
        await trio.sleep(60)

    with trio.move_on_after(1) as scope:
        await notes.effects.once(notes, "buy", slow, (7,))

    assert scope.cancelled_caught
    assert (world.done, notes.said()) == ([7], [[7], "unknown"])
    assert only(notes.effects.known()).reason == "Cancelled while it was under way"


async def test_an_effect_cancelled_before_it_began_has_not_happened(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    with trio.CancelScope() as scope:
        scope.cancel()
        await notes.effects.once(notes, "buy", world.act, (7,))

    assert scope.cancelled_caught
    assert (world.done, notes.said()) == ([], [[7], "not_done"])
    notes.effects.close()


async def test_an_effect_that_ends_although_it_is_cancelled_is_confirmed(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    async def shielded(amount: int) -> int:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)
        return await world.act(amount)

    with trio.move_on_after(1):
        await notes.effects.once(notes, "buy", shielded, (7,))

    assert (world.done, notes.said()) == ([7], [[7], "confirmed"])


async def test_a_cancellation_while_the_world_is_asked_leaves_it_open_and_free(autojump_clock: Any) -> None:
    notes, world = Notes(MARKS["begun"]), World()

    async def ask(key: str, amount: int) -> Any:
        await trio.sleep(60)

    with trio.move_on_after(1):
        await notes.effects.once(notes, "buy", world.act, (7,), reconcile=ask)
    world.answer = Confirmed(70)

    assert await buy(notes, world, reconcile=world.ask) == 70
    assert world.done == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), GeneratorExit()], ids=repr)
async def test_whatever_tears_it_off_leaves_it_open(error: BaseException, autojump_clock: Any) -> None:
    notes = Notes()

    with pytest.raises(type(error)):
        await notes.effects.once(notes, "buy", failing(error), (7,))

    assert notes.said() == [[7], "unknown"]


# in a harness that runs alone


async def slow_buy(harness: Scripted, world: World, seconds: float = 60) -> None:
    """Do the effect `buy`, which takes its time."""

    async def act() -> None:
        await world.act(7)
        await trio.sleep(seconds)

    await harness.once("buy", act)


async def test_a_limit_of_the_harnesss_own_does_not_get_past_the_yield(autojump_clock: Any) -> None:
    world = World()

    async def script(harness: Scripted) -> Any:
        with trio.move_on_after(1):
            await slow_buy(harness, world)
        yield 1, None

    harness = Scripted(script)
    with pytest.raises(UnknownOutcome, match="harness 'Scripted', step 1: effect 'buy' is of unknown outcome at the yield"):
        await harness.run()

    assert (world.done, harness.current_step) == ([7], 0)


@pytest.mark.parametrize("kind", [Exception, UnknownOutcome])
async def test_who_catches_an_unknown_outcome_and_goes_on_does_not_get_past_the_yield(
    kind: type[Exception], autojump_clock: Any
) -> None:
    async def script(harness: Scripted) -> Any:
        with suppress(kind):
            await harness.once("buy", failing(OSError("cut")))
        yield 1, None

    harness = Scripted(script)
    with pytest.raises(UnknownOutcome):
        await harness.run()

    assert harness.current_step == 0


async def test_who_catches_the_latch_and_goes_on_makes_steps_without_effects(autojump_clock: Any) -> None:
    notes, world = Notes(), World()
    notes.latched = True

    async def script(harness: Scripted) -> Any:
        for number in range(3):
            with pytest.raises(Latched):
                await harness.once("buy", world.act, number)
            yield number, None

    harness = Scripted(script)
    assert await harness.run(notes) is Ending.FINISHED

    assert (world.done, harness.current_step) == ([], 3)


async def test_an_effect_under_way_at_the_yield_is_an_error(autojump_clock: Any) -> None:
    world = World()

    async def script(harness: Scripted) -> Any:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow_buy, harness, world)
            await trio.sleep(1)
            yield 1, None

    harness = Scripted(script)
    with pytest.raises(HarnessMisuse, match=r"step 1 \(.*py:\d+\): effect 'buy' is under way at the yield of its step"):
        await harness.run()

    assert harness.current_step == 0


async def test_an_effect_begun_while_a_step_is_recorded_belongs_to_the_next(autojump_clock: Any) -> None:
    world = World()
    seen: list[Any] = []

    class Slow(Notes):
        async def commit(self, step: Any, delta: Any, state: Any) -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)

    async def background(harness: Scripted) -> None:
        await trio.sleep(0.5)
        await harness.once("buy", world.act, 7)
        seen.append((trio.current_time(), harness.current_step))

    async def script(harness: Scripted) -> Any:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(background, harness)
            yield 1, None
            await trio.sleep(1)
            seen.append([effect.key for effect in harness.effects])
            yield 2, None

    await Scripted(script).run(Slow())

    assert seen == [(pytest.approx(1), 1), ["buy"]]


async def test_a_step_that_takes_too_long_leaves_its_effect_open(autojump_clock: Any) -> None:
    world = World()

    async def script(harness: Scripted) -> Any:
        await slow_buy(harness, world)
        yield 1, None

    runtime = LocalRuntime("poller", Control(step_timeout_s=5))
    with pytest.raises(StepTimeout):
        await Scripted(script).run(runtime)

    assert only(runtime.effects.known()).outcome is EffectOutcome.UNKNOWN


@pytest.mark.parametrize(("grace_s", "outcome", "steps"), [(2, EffectOutcome.UNKNOWN, 0), (20, None, 1)])
async def test_a_stop_waits_for_an_effect_as_long_as_its_grace(
    grace_s: float, outcome: EffectOutcome | None, steps: int, autojump_clock: Any
) -> None:
    world, control = World(), Control(grace_s=grace_s)

    async def script(harness: Scripted) -> Any:
        await slow_buy(harness, world, 10)
        yield 1, None
        await trio.sleep_forever()

    harness, runtime = Scripted(script), LocalRuntime("poller", control)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.run, runtime)
        await trio.sleep(1)
        control.stop()

    assert world.done == [7]
    assert harness.current_step == steps
    assert [effect.outcome for effect in runtime.effects.known()] == ([] if outcome is None else [outcome])


async def test_within_one_effect_another_has_its_own_record(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    async def script(harness: Scripted) -> Any:
        async def outer() -> Any:
            return await harness.once("inner", world.act, 1) + await harness.once("other", world.act, 2)

        yield 1, await harness.once("outer", outer)

    await Scripted(script).run(notes)

    assert notes.said() == [[], [1], "confirmed", [2], "confirmed", "confirmed"]


async def test_an_effect_of_a_harness_that_does_not_run_is_an_error(autojump_clock: Any) -> None:
    harness = Scripted(lambda harness: iter(()))  # type: ignore[arg-type, return-value]

    with pytest.raises(HarnessMisuse, match="once: Scripted is not running; call it from execute"):
        await harness.once("buy", World().act, 7)
    with pytest.raises(HarnessMisuse, match="settle: Scripted is not running"):
        await harness.settle("buy", World().ask)


async def test_a_harness_that_is_run_alone_again_does_not_try_blindly(autojump_clock: Any) -> None:
    calls: list[int] = []

    async def fail() -> None:
        calls.append(1)
        raise ConnectionError("cut")

    async def script(harness: Scripted):
        await harness.once("a", fail)
        yield 1, 1

    harness = Scripted(script)
    for _ in range(2):
        with pytest.raises(UnknownOutcome):
            await harness.run()

    assert calls == [1]


async def test_clean_up_after_a_yield_that_can_not_be_stored_may_have_effects(autojump_clock: Any) -> None:
    world = World()

    async def script(harness: Scripted):
        try:
            yield 1, object()
        finally:
            await harness.once("close", world.act, 1)

    began = trio.current_time()
    with pytest.raises(Unstorable):
        await Scripted(script).run()

    assert (world.done, trio.current_time()) == ([1], began)


async def test_a_call_in_place_of_a_function_is_refused_before_the_intent(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    with pytest.raises(HarnessMisuse, match="pass it without calling it"):
        await notes.effects.once(notes, "buy", world.act(7), ())  # type: ignore[arg-type]

    assert (world.done, notes.marks) == ([], [])


async def test_a_result_of_another_type_blocks_until_a_person_gives_the_right_one(autojump_clock: Any) -> None:
    notes = Notes()

    async def act() -> int:
        return "seven"  # type: ignore[return-value]

    for surroundings in lives(notes):
        with pytest.raises(Waiting, match=r"does not match the return type .* --as done --result JSON|is not usable"):
            await surroundings.effects.once(surroundings, "buy", act, ())

    assert notes.said() == [[], "confirmed"]
    assert "result" not in json.loads(notes.marks[-1][1])


@pytest.mark.parametrize("state", ["begun", "unknown"])
async def test_what_may_have_happened_is_not_taken_for_undone_because_another_try_did_not_begin(
    state: str, autojump_clock: Any
) -> None:
    class Closing(Notes):
        async def note(self, kind: str, body: str) -> None:
            await super().note(kind, body)
            self.latched = kind == "intent"

    world, notes = World(), Closing(MARKS[state])
    with pytest.raises(Latched):
        await notes.effects.once(notes, "buy", world.act, (7,), idempotent=True)
    notes.latched = False

    with pytest.raises(UnknownOutcome):
        await notes.effects.once(notes, "buy", world.act, (7,))

    assert (world.done, notes.said()[-1]) == ([], "unknown")


async def test_a_step_has_so_many_effects_and_one_that_is_known_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "MAX_EFFECTS", 2)
    world, notes = World(), Notes(())
    for key in ("first", "second"):
        await notes.effects.once(notes, key, world.act, (7,))

    with pytest.raises(HarnessMisuse, match="expected at most 2 effects in one step; yield in between"):
        await notes.effects.once(notes, "third", world.act, (7,))

    assert await notes.effects.once(notes, "second", world.act, (7,)) == 70
    assert world.done == [7, 7]
