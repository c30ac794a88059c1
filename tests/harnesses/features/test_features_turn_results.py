"""What comes of asking, as values that can be stored; and what an earlier attempt at a step has left on record."""

from __future__ import annotations

import attrs
import pytest

from harnesses import Agent, BudgetExhausted, Effect, EffectOutcome, HarnessMisuse, Latched, Waiting
from harnesses.features import RunPolicy, TurnResult, Verdict, accept_all
from harnesses.features import turn_results as turn
from harnesses.features.feature_record import MAX_TEXT
from harnesses.features.turn_results import (
    Try,
    check_result,
    check_verdict,
    describe_error,
    effect_key,
    find_order,
    find_session,
    find_try,
    unwrap_group,
)
from orchestrator.testing import run_to_end
from tests.harnesses.features.worked import Judge, Worker, features, harness


def effect(key: str, outcome: str) -> Effect:
    return Effect(key, ["a", 2], EffectOutcome(outcome), idempotent=True)


@pytest.mark.parametrize(
    ("effects", "found"),
    [
        ((), None),
        ((effect("merge a 2", "confirmed"),), None),
        ((effect("work a 2", "not_done"),), None),
        ((effect("work a 2", "begun"),), Try("a", 2, done=False)),
        ((effect("work a 2", "unknown"),), Try("a", 2, done=False)),
        ((effect("work a 2", "confirmed"),), Try("a", 2, done=True)),
        ((effect("work a 2", "confirmed"), effect("judge a 2", "begun")), Try("a", 2, done=True)),
        ((effect("work a 2", "begun"), effect("order 7", "confirmed")), Try("a", 2, done=True)),
        ((effect("work b 2", "not_done"), effect("work a 2", "begun")), Try("a", 2, done=False)),
    ],
)
def test_a_try_on_record_is_found_and_one_that_has_acted_counts_as_done(effects, found):
    assert find_try(effects) == found


@pytest.mark.parametrize("id", ["a", "x" * 500, "tests/x.py::test[é ]", "\ud800" * 200])
def test_a_key_is_short_enough_and_tells_features_and_tries_apart(id):
    keys = {effect_key(verb, one, turn) for verb in ("work", "judge") for one in (id, f"{id}2") for turn in (1, 2)}

    assert len(keys) == 8
    assert max(map(len, keys)) <= 200


def test_what_is_handed_in_is_kept_as_it_can_be_stored():
    kept = check_result(TurnResult(message="x" * 9_000, artifact="print('\ud800')"))

    assert len(kept.message) == MAX_TEXT
    assert kept.artifact == "print('\\ud800')"


def test_what_a_validator_says_is_kept_as_it_can_be_stored():
    assert len(check_verdict(Verdict(passed=True, evidence="\ud800" * 9_000)).evidence) == MAX_TEXT


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (TurnResult(session="\ud800"), TurnResult()),
        (TurnResult(session="a\0b"), TurnResult()),
        (TurnResult(session="x" * 2_000), TurnResult()),
        (TurnResult(stop_reason="\udfff"), TurnResult(stop_reason="\\udfff")),
        (TurnResult(touched=("a", "\udcff")), TurnResult(touched=("a", "\\udcff"))),
        (TurnResult(branch="\ud800"), TurnResult(branch="\\ud800")),
    ],
)
def test_a_text_that_can_not_be_stored_is_written_out_or_left_out_where_it_stands_for_something(given, kept):
    assert check_result(given) == kept


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": None},
        {"artifact": b"x"},
        {"session": 123},
        {"stop_reason": None},
        {"tokens": "5"},
        {"tokens": True},
        {"tokens": 1.0},
        {"tokens": -1},
        {"tokens": 2**70},
        {"branch": 5},
        {"touched": (b"x",)},
    ],
)
def test_a_result_with_a_field_of_another_type_is_refused_by_its_name(wrong):
    with pytest.raises(HarnessMisuse, match=f"the agent returned an invalid {next(iter(wrong))}: expected"):
        check_result(TurnResult(**wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"passed": "no"},
        {"passed": None},
        {"passed": 0},
        {"evidence": None},
        {"validator": 5},
        {"commit": 5},
        {"duration_s": float("nan")},
        {"duration_s": float("inf")},
        {"duration_s": "1"},
    ],
)
def test_a_verdict_with_a_field_of_another_type_is_refused_by_its_name(wrong):
    with pytest.raises(HarnessMisuse, match=f"the validator returned an invalid {next(iter(wrong))}: expected"):
        check_verdict(Verdict(**{"passed": True, "evidence": "x", **wrong}))


def test_every_field_is_looked_at():
    assert set(turn._RESULT) == {field.name for field in attrs.fields(TurnResult)}
    assert set(turn._VERDICT) == {field.name for field in attrs.fields(Verdict)}


def test_what_is_more_than_asked_for_is_left_out():
    @attrs.frozen(kw_only=True)
    class Richer(TurnResult):
        client: object = None

    class Word(str):
        pass

    kept = check_result(Richer(message=Word("done"), client=object()))

    assert (type(kept), type(kept.message), kept.message) == (TurnResult, str, "done")


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_error_that_has_no_words_is_an_error_still():
    assert describe_error(Mute()) == "Mute: it cannot say what it is"


@pytest.mark.parametrize(("session", "known"), [("abc", "abc"), (None, None), (5, None), ("\ud800", None)])
def test_an_error_may_name_the_conversation_that_it_ended(session, known):
    error = RuntimeError("overloaded")
    error.session = session

    assert find_session(ExceptionGroup("outer", [error])) == known
    assert find_session(ValueError("odd")) is None


async def test_a_try_goes_on_with_the_conversation_of_one_that_failed(autojump_clock):
    error = ConnectionError("overloaded")
    error.session = "abc"
    worker = Worker({"a1": error, "a2": ConnectionError("overloaded")})

    await run_to_end(harness(worker, Judge(a=4), list=features("a")))

    assert [asked.session for asked in worker.asked] == [None, "abc", "abc"]


@pytest.mark.parametrize(
    "result",
    [
        TurnResult(session="\ud800"),
        TurnResult(session=123),
        TurnResult(stop_reason="\udfff"),
        TurnResult(touched=("\udcff",)),
        TurnResult(tokens="5"),
        TurnResult(message=None),
        TurnResult(branch=5),
        None,
    ],
)
async def test_nothing_that_an_agent_hands_in_blocks_its_harness(autojump_clock, result):
    async def run(run):
        return result

    end = await run_to_end(harness(Agent(run), accept_all(), list=features("a"), policy=RunPolicy()))

    assert end.steps[-1].output.status in ("passed", "chat_failed")


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(passed="no", evidence="x"),
        Verdict(passed=True, evidence="x", validator="\ud800"),
        Verdict(passed=True, evidence="x", duration_s=float("nan")),
        Verdict(passed=True, evidence="x", commit=5),
        True,
    ],
)
async def test_nothing_that_a_validator_hands_in_blocks_its_harness(autojump_clock, verdict):
    class Odd:
        async def validate(self, feature, work):
            return verdict

    end = await run_to_end(harness(validator=Odd(), list=features("a")), restart="temporary")

    assert end.steps[-1].output.status in ("passed", "failed")


@pytest.mark.parametrize("seen", [Verdict(passed="yes", evidence="x"), Verdict(passed=True, evidence=None), None])
async def test_nothing_that_a_health_check_hands_in_blocks_its_harness(autojump_clock, seen):
    class Odd:
        async def check(self, plan, directory):
            return seen

    end = await run_to_end(harness(health_check=Odd(), list=features("a")), restart="temporary")

    assert end.outcome.kind == "failed"
    assert "the health check returned" in end.steps[-1].output.note


@pytest.mark.parametrize("check", [check_result, check_verdict])
def test_anything_else_is_refused(check):
    with pytest.raises(HarnessMisuse, match=r"expected a (TurnResult|Verdict)"):
        check("done")


def test_an_error_in_groups_of_one_is_named_by_itself():
    error = ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("odd")])])

    assert describe_error(error) == "ValueError: odd"
    assert describe_error(KeyError()) == "KeyError"


def test_a_group_of_several_is_left_whole():
    error = ExceptionGroup("two", [ValueError("odd"), KeyError("even")])

    assert unwrap_group(error) is error


@pytest.mark.parametrize("order", [Waiting("x"), Latched("x"), BudgetExhausted("x")])
def test_an_error_that_is_meant_for_the_harness_is_found_in_groups(order):
    assert find_order(order) is order
    assert find_order(ExceptionGroup("outer", [ValueError("odd"), ExceptionGroup("inner", [order])])) is order


def test_other_errors_are_the_trys_own():
    assert find_order(ValueError("odd")) is None
    assert find_order(ExceptionGroup("two", [ValueError("odd"), KeyError("even")])) is None
