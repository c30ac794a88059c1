"""Spans of what is recorded: one for each attempt, step, effect and approval, always the same."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from orchestrator import MemoryStore
from orchestrator.log import record_of
from orchestrator.records import Record
from orchestrator.telemetry.span import Span
from orchestrator.telemetry.spans import spans
from tests.orchestrator.telemetry.recorded import SECOND, record, run_busy

STARTED = record(1, "started")


def named(told: list[Span], name: str) -> list[Span]:
    return [span for span in told if span.name == name]


async def test_a_run_is_told_as_attempts_with_steps_and_effects_below(autojump_clock: MockClock) -> None:
    store = MemoryStore()
    await run_busy(store)

    told = list(spans(store.records()))

    first, second = named(told, "attempt a")
    steps, effects = named(told, "step"), named(told, "effect")
    assert [step.attributes["orchestrator.step"] for step in steps] == [1, 2, 3]
    assert [step.parent_id for step in steps] == [first.span_id, first.span_id, second.span_id]
    assert [effect.parent_id for effect in effects] == [step.span_id for step in steps]
    assert first.error == "ValueError: the second time is the worst"
    assert (second.error, second.attributes["orchestrator.outcome"]) == (None, "finished")
    assert first.moments[-1].attributes["exception.type"] == "ValueError"
    assert first.moments[-1].attributes["exception.message"] == "the second time is the worst"
    assert len({span.span_id for span in told}) == len(told)
    assert len({span.trace_id for span in told}) == 2


async def test_the_log_tells_the_same_spans_as_the_store(tmp_path: Path, autojump_clock: MockClock) -> None:
    store, log = MemoryStore(), tmp_path / "steps.jsonl"
    await run_busy(store, "ab", log=log)

    read = [record_of(json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]

    assert list(spans(read)) == list(spans(store.records()))


def test_a_step_begins_when_its_work_began_and_ends_when_it_was_made() -> None:
    step = record(9, "step", 1, took_us={"work": 2 * SECOND, "agent": SECOND}, summary="done")

    (told,) = spans([STARTED, step])

    assert (told.start_us, told.end_us) == (7 * SECOND, 9 * SECOND)
    assert told.attributes["orchestrator.took.agent_s"] == 1.0
    assert told.attributes["orchestrator.summary"] == "done"


def test_an_effect_that_comes_after_its_step_in_one_commit_is_below_it() -> None:
    noted = [
        record(us, kind, step, key="order", outcome="confirmed")
        for step, us in ((1, 2), (2, 5))
        for kind in ("intent", "outcome")
    ]

    told = list(spans([STARTED, record(3, "step", 1), record(6, "step", 2), *noted, record(7, "completed", 2)]))

    steps, effects = named(told, "step"), named(told, "effect")
    assert [effect.parent_id for effect in effects] == [step.span_id for step in steps]
    assert [(effect.start_us, effect.end_us) for effect in effects] == [(2 * SECOND,) * 2, (5 * SECOND,) * 2]


def test_an_older_step_begins_where_what_was_before_it_ended() -> None:
    first, second = spans([STARTED, record(3, "step", 1), record(5, "step", 2)])

    assert (first.start_us, second.start_us) == (SECOND, 3 * SECOND)


def test_a_clock_that_was_set_back_gives_no_span_that_ends_before_it_begins() -> None:
    back = Record(3, "a", 1, 1, SECOND // 2, "step", "{}", "r")

    told = list(spans([STARTED, record(2, "intent", 1, key="k"), back, record(1, "completed", 1)]))

    assert all(span.start_us <= span.end_us for span in told)


def test_an_attempt_that_was_killed_ends_with_its_last_record_whenever_that_is_found_out() -> None:
    killed = [STARTED, record(4, "step", 1)]
    again = [*killed, record(50, "started", 1, attempt=2, run="s"), record(60, "completed", 1, attempt=2, run="s")]

    before, after = list(spans(killed, is_over=True)), list(spans(again))

    assert before == after[:2]
    assert (before[1].end_us, before[1].error) == (4 * SECOND, "its program was killed")
    assert len({span.span_id for span in after}) == len(after) == 3


def test_a_step_of_an_attempt_that_is_over_closes_nothing_again() -> None:
    late = [STARTED, record(2, "completed"), record(3, "step", 1), record(4, "failed", 1), record(5, "stopped", run="other")]

    assert [span.name for span in spans(late, is_over=True)] == ["attempt a"]


def test_an_effect_that_nobody_saw_the_end_of_is_an_error_below_its_attempt() -> None:
    told = list(spans([STARTED, record(2, "intent", 1, key="order/1"), record(5, "failed", 0, error="E", cause="why")]))

    effect, attempt = told
    assert (effect.parent_id, effect.attributes["orchestrator.effect.outcome"]) == (attempt.span_id, "unknown")
    assert effect.error == "unknown: its attempt ended before it did"
    assert (effect.start_us, effect.end_us) == (2 * SECOND, 5 * SECOND)


def test_an_approval_lasts_from_the_question_to_the_answer() -> None:
    asked = record(2, "approval_requested", 1, id="x", category="order", summary="buy")
    answered = record(8, "approval_answered", 1, attempt=0, run="", id="x", verdict="approved", by="me")

    approval, step = spans([STARTED, asked, answered, record(9, "step", 1)])

    assert (approval.name, approval.parent_id) == ("approval", step.span_id)
    assert (approval.start_us, approval.end_us) == (2 * SECOND, 8 * SECOND)
    assert approval.attributes["orchestrator.approval.verdict"] == "approved"


def test_what_a_step_has_spent_is_on_its_span_and_on_no_other() -> None:
    spent = [record(seq, "budget", 1, change="settled", spent={"tokens": 100, "money": "0.25"}) for seq in (2, 3)]

    first, second = spans([STARTED, *spent, record(4, "step", 1), record(5, "step", 2)])

    assert first.attributes["orchestrator.spent.tokens"] == 200.0
    assert first.attributes["orchestrator.spent.money"] == 0.5
    assert not any(name.startswith("orchestrator.spent") for name in second.attributes)


def test_what_agents_wrote_is_inert_and_without_secrets() -> None:
    hostile = "\x1b[31m sk-ant-api03-" + "A" * 80
    failed = record(2, "failed", 0, error=hostile, cause=hostile, traceback=hostile)

    (told,) = spans([STARTED, failed])

    assert "\x1b" not in repr(told)
    assert "sk-ant-api03" not in repr(told)


KINDS = st.sampled_from(["started", "step", "intent", "outcome", "failed", "completed", "budget", "approval_requested", "odd"])
BODIES = st.sampled_from(['{"key": "k", "id": "x"}', "{}", "[]", "nonsense", '{"took_us": {"work": -1}}', '{"spent": 3}'])


@given(st.lists(st.tuples(KINDS, BODIES, st.sampled_from(["a", "b"]), st.integers(1, 3)), max_size=30), st.integers(0, 30))
def test_whatever_is_recorded_the_spans_told_in_two_parts_are_those_told_at_once(
    drawn: list[tuple[str, str, str, int]], cut: int
) -> None:
    seq = count(1)
    records = [Record(n := next(seq), name, at, n, n, kind, body, "r") for kind, body, name, at in drawn]

    whole, part = list(spans(records, is_over=True)), list(spans(records[:cut]))

    ids = [span.span_id for span in whole if not span.name.startswith("attempt")]
    assert len(set(ids)) == len(ids)
    assert part == whole[: len(part)]
    assert all(span.start_us <= span.end_us for span in whole)
