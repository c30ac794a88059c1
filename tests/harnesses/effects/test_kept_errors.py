"""G5: with `errors="keep"` an error of an effect is its result: told again, never tried again, and it blocks nobody."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from harnesses import HarnessMisuse
from harnesses.effects.effect import Confirmed, EffectOutcome, NotDone, Undecided
from harnesses.errors import (
    BudgetExhausted,
    EffectFailed,
    EffectInterrupted,
    Latched,
    NotReady,
    Refused,
    UnknownOutcome,
    Waiting,
)
from tests.harnesses.outside import MARKS, Notes, Scripted, World, only

KEPT_INTENT = ("intent", '{"key":"buy","arguments":[7],"keep":true}')


class Failing(World):
    """A world in which the act raises."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    async def act(self, amount: int) -> int:
        await super().act(amount)
        raise self.error


async def hang() -> None:
    await trio.sleep_forever()


async def keep(notes: Notes, world: World, **options: Any) -> Any:
    """Do the effect `buy` of 7 with its errors kept; return what came of it, an error too."""
    try:
        return await notes.effects.once(notes, "buy", world.act, (7,), errors="keep", **options)
    except Exception as error:
        return error


async def test_an_error_is_told_each_time_and_the_function_is_not_called_again(autojump_clock: Any) -> None:
    notes, world = Notes(), Failing(ValueError("no such file"))

    told = [await keep(notes, world), await keep(notes, world), await keep(notes.next_life(), world)]

    assert [type(one) for one in told] == [EffectFailed] * 3
    assert {one.reason for one in told} == {"ValueError: no such file"}
    assert told[0].__cause__ is world.error
    assert (world.done, notes.said()) == ([7], [[7], "failed"])
    assert json.loads(notes.marks[0][1])["keep"] is True


async def test_neither_a_failed_nor_an_interrupted_effect_holds_up_the_step(autojump_clock: Any) -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def script(harness: Scripted):
        with pytest.raises(EffectFailed):
            await harness.once("fail", fail, errors="keep")
        with trio.move_on_after(1):
            await harness.once("cut off", hang, errors="keep")
        yield 1, [effect.outcome.value for effect in harness.effects]

    harness = Scripted(script)
    await harness.run()

    assert harness.step_history[0].output == ["failed", "interrupted"]


async def test_a_time_limit_is_such_an_error(autojump_clock: Any) -> None:
    notes = Notes()

    with pytest.raises(EffectFailed, match="TooSlowError: it took too long"):
        await notes.effects.once(notes, "buy", hang, (), errors="keep", timeout_s=5)

    assert notes.said() == [[], "failed"]


@pytest.mark.parametrize("state", ["begun", "unknown"])
async def test_what_was_cut_off_is_interrupted_and_told_so_each_time(state: str, autojump_clock: Any) -> None:
    notes, world = Notes((KEPT_INTENT, *MARKS[state][1:])), World()

    told = [await keep(notes, world), await keep(notes, world), await keep(notes.next_life(), world)]

    assert [type(one) for one in told] == [EffectInterrupted] * 3
    assert "may have happened" in str(told[0])
    assert (world.done, notes.said()[len(MARKS[state]) :]) == ([], ["interrupted"])


@pytest.mark.parametrize(
    ("answer", "result", "done", "said"),
    [
        (Confirmed(70), 70, [], ["confirmed"]),
        (NotDone(), 70, [7], ["not_done", [7], "confirmed"]),
        (Undecided("no answer"), EffectInterrupted, [], ["interrupted"]),
        (ConnectionError("down"), EffectInterrupted, [], ["interrupted"]),
        (Confirmed("seventy"), EffectInterrupted, [], ["interrupted"]),
        (Refused("no"), Refused, [], ["refused"]),
        (None, HarnessMisuse, [], []),
    ],
)
async def test_what_was_cut_off_is_asked_about_first(
    answer: Any, result: Any, done: list[int], said: list[Any], autojump_clock: Any
) -> None:
    notes, world = Notes((KEPT_INTENT,)), World()
    world.answer = answer

    told = await keep(notes, world, reconcile=world.ask)

    assert (type(told) if isinstance(told, Exception) else told) == result
    assert (world.done, notes.said()[1:]) == (done, said)


@pytest.mark.parametrize(
    ("answer", "result", "said"),
    [
        (Confirmed(70), 70, ["unknown", "confirmed"]),
        (NotDone(), EffectFailed, ["unknown", "not_done", "failed"]),
        (Undecided(), EffectFailed, ["unknown", "failed"]),
        (Refused("no"), Refused, ["unknown", "refused"]),
    ],
)
async def test_of_what_raised_the_world_is_asked_before_it_counts_as_failed(
    answer: Any, result: Any, said: list[Any], autojump_clock: Any
) -> None:
    notes, world = Notes(), Failing(OSError("cut"))
    world.answer = answer

    told = await keep(notes, world, reconcile=world.ask)

    assert (type(told) if isinstance(told, Exception) else told) == result
    assert (world.done, notes.said()[1:]) == ([7], said)


async def test_a_refusal_is_one_with_kept_errors_too(autojump_clock: Any) -> None:
    notes, world = Notes(), Failing(Refused("no money"))

    told = [await keep(notes, world), await keep(notes.next_life(), world)]

    assert [type(one) for one in told] == [Refused] * 2
    assert (world.done, notes.said()) == ([7], [[7], "refused"])


@pytest.mark.parametrize("error", [each("x") for each in (Waiting, UnknownOutcome, Latched, BudgetExhausted, HarnessMisuse)])
@pytest.mark.parametrize("is_group", [False, True])
async def test_what_ends_or_blocks_the_harness_is_raised_as_it_is(
    error: Exception, is_group: bool, autojump_clock: Any
) -> None:
    raised = ExceptionGroup("tasks", [ValueError("too"), error]) if is_group else error
    notes, world = Notes(), Failing(raised)

    assert await keep(notes, world) is raised
    assert isinstance(await keep(notes.next_life(), world), EffectInterrupted)

    assert (world.done, notes.said()) == ([7], [[7], "interrupted"])


async def test_what_a_missing_program_prevented_is_done_once_the_program_is_there(autojump_clock: Any) -> None:
    notes = Notes()
    assert isinstance(await keep(notes, Failing(NotReady("bwrap is not installed"))), NotReady)
    world = World()

    assert await keep(notes.next_life(), world) == 70

    assert world.done == [7]


async def test_a_dangerous_effect_that_was_cut_off_blocks(autojump_clock: Any) -> None:
    notes, world = Notes(), World()
    with trio.move_on_after(1):
        await notes.effects.once(notes, "buy", hang, (), errors="keep", dangerous=True)

    for surroundings in (notes, notes.next_life()):
        with pytest.raises(UnknownOutcome):
            await surroundings.effects.once(surroundings, "buy", hang, (), errors="keep", dangerous=True)
        with pytest.raises(UnknownOutcome):
            surroundings.effects.close()

    assert (world.done, notes.said()) == ([], [[], "unknown"])


async def test_a_dangerous_effect_that_raised_has_failed(autojump_clock: Any) -> None:
    notes, world = Notes(), Failing(OSError("cut"))

    assert isinstance(await keep(notes, world, dangerous=True), EffectFailed)
    assert isinstance(await keep(notes.next_life(), world, dangerous=True), EffectFailed)

    assert (world.done, notes.said()) == ([7], [[7], "failed"])


async def test_an_idempotent_effect_that_was_cut_off_is_done_again_and_its_error_is_kept(autojump_clock: Any) -> None:
    notes = Notes((("intent", '{"key":"buy","arguments":[7],"idempotent":true,"keep":true}'),))
    world = Failing(ValueError("bad request"))

    assert isinstance(await keep(notes, world, idempotent=True), EffectFailed)
    assert isinstance(await keep(notes.next_life(), world, idempotent=True), EffectFailed)

    assert world.done == [7]


async def test_a_result_that_cannot_be_stored_is_told_as_an_error(autojump_clock: Any) -> None:
    notes = Notes()

    with pytest.raises(EffectFailed, match="has happened, but its result cannot be stored"):
        await notes.effects.once(notes, "buy", object, (), errors="keep")

    assert notes.said() == [[], "failed"]


async def test_the_text_of_an_error_is_stored_and_raised_without_secrets(autojump_clock: Any) -> None:
    secret = "sk-ant-api03-" + "Q7x" * 30
    notes, world = Notes(), Failing(ValueError(f"401 with key {secret}"))

    told = [await keep(notes, world), await keep(notes.next_life(), world)]

    assert all(secret not in f"{one} {one.reason}" for one in told)
    assert told[0].reason == told[1].reason
    assert secret not in notes.marks[-1][1]


async def test_an_error_of_many_tasks_names_each(autojump_clock: Any) -> None:
    notes, world = Notes(), Failing(ExceptionGroup("tasks", [ValueError("one"), KeyError("two")]))

    told = await keep(notes, world)

    assert told.reason == "ValueError: one; KeyError: 'two'"


async def test_other_arguments_for_a_kept_effect_are_misuse(autojump_clock: Any) -> None:
    notes = Notes((KEPT_INTENT,))

    with pytest.raises(HarnessMisuse, match="begun in this step with other arguments"):
        await notes.effects.once(notes, "buy", World().act, (8,), errors="keep")


async def test_a_wrong_word_for_errors_is_refused_before_anything_begins(autojump_clock: Any) -> None:
    notes, world = Notes(), World()

    with pytest.raises(HarnessMisuse, match="errors: expected 'raise' or 'keep', got 'kept'"):
        await notes.effects.once(notes, "buy", world.act, (7,), errors="kept")  # type: ignore[arg-type]

    assert (world.done, notes.marks) == ([], [])


async def test_without_keep_all_is_as_it_was(autojump_clock: Any) -> None:
    notes, world = Notes(), Failing(ValueError("no"))

    with pytest.raises(UnknownOutcome):
        await notes.effects.once(notes, "buy", world.act, (7,))

    assert "keep" not in json.loads(notes.marks[0][1])
    assert notes.said() == [[7], "unknown"]


async def test_what_is_on_record_is_shown(autojump_clock: Any) -> None:
    notes, world = Notes(), Failing(ValueError("no"))
    await keep(notes, world)

    shown = only(notes.next_life().effects.known())

    assert (shown.outcome, shown.reason, shown.keep, shown.result) == (EffectOutcome.FAILED, "ValueError: no", True, None)
