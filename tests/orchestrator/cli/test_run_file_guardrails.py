"""Guardrails of a run file are read strictly, hold for each harness, and what cannot be held is refused before the start."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from harnesses.governance import Guardrails, NoProgress
from orchestrator import MemoryStore, Orchestrator, Outcome, OutcomeKind, UsageError
from orchestrator.cli.run.harness_factory import make_all
from orchestrator.cli.run.run_file import parse_run_file
from tests.orchestrator.commanding import Command
from tests.orchestrator.governed import Tasks

PATH = Path("folder/run.toml")


def table(harness: str, *lines: str) -> str:
    state = "" if harness == "Tasks" else "initial_state = 100"
    return "\n".join(['[[harness]]\nname = "a"', f'harness = "tests.orchestrator.governed:{harness}"', state, *lines, ""])


async def outcome_of(text: str) -> Outcome:
    async with Orchestrator(MemoryStore()) as orchestrator:
        (made,) = make_all(parse_run_file(text, PATH))
        made.start(orchestrator)
        return await orchestrator.handles[0].wait()


def refused(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        make_all(parse_run_file(text, PATH))
    return str(caught.value)


def test_guardrails_are_read_as_they_are_written() -> None:
    own = 'guardrails = { max_task_attempts = 3, no_progress = { steps = 5, policy = "block" } }'

    (read,) = parse_run_file(table("Tasks", own), PATH).harnesses

    assert read.guardrails == Guardrails(max_task_attempts=3, no_progress=NoProgress(5, "block"))


def test_those_of_all_harnesses_hold_for_each_and_the_tighter_limit_wins() -> None:
    everyone = 'guardrails = { max_task_attempts = 5, max_steps = 10, max_cost = "1.10", require_evidence_for_pass = true }\n'
    own = "guardrails = { max_task_attempts = 3, max_steps = 20, require_evidence_for_pass = false }"

    one, other = parse_run_file(everyone + table("Tasks", own) + table("Idle").replace('"a"', '"b"'), PATH).harnesses

    assert one.guardrails == Guardrails(max_task_attempts=3, max_steps=10, max_cost=Decimal("1.10"))
    assert other.guardrails == Guardrails(max_task_attempts=5, max_steps=10, max_cost=Decimal("1.10"))


def test_what_all_harnesses_leave_open_does_not_hold_one_back() -> None:
    everyone, own = "guardrails = { max_steps = 10 }\n", "guardrails = { max_task_attempts = 9 }"

    assert parse_run_file(everyone + table("Tasks", own), PATH).harnesses[0].guardrails.max_task_attempts == 9


def test_a_harness_that_asks_for_its_guardrails_gets_them() -> None:
    (made,) = make_all(parse_run_file(table("Tasks", "guardrails = { max_task_attempts = 3 }"), PATH))

    assert isinstance(made.harness, Tasks)
    assert made.harness.guardrails.max_task_attempts == 3


@pytest.mark.parametrize("place", ["top", "own"])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("3", "guardrails: expected a table such as { max_task_attempts = 3 }, got 3; correct it"),
        ("{ max_task_attemps = 3 }", "guardrails: unknown key 'max_task_attemps': expected 'max_task_attempts'"),
        ("{ maxTaskAttempts = 3 }", "guardrails: unknown key 'maxTaskAttempts': expected 'max_task_attempts'"),
        (
            '{ max_task_attempts = "3" }',
            "guardrails: max_task_attempts: expected a whole number from 0 to 1000000000, got '3'",
        ),
        ("{ max_task_attempts = -1 }", "guardrails: max_task_attempts: expected a whole number"),
        ('{ require_builder_contract = "true" }', "guardrails: require_builder_contract: expected true or false, got 'true'"),
        ("{ no_progress = 5 }", "guardrails: no_progress: expected a table such as { steps = 5"),
        ("{ no_progress = { steps = 0 } }", "guardrails: no_progress: steps: expected a whole number from 1"),
        ("{ no_progress = { step = 5 } }", "guardrails: no_progress: unknown key 'step': expected 'steps'"),
        ("{ max_drawdown = 20 }", "guardrails: max_drawdown: expected a fraction above 0 and at most 1"),
        ("{ deadline_s = nan }", "guardrails: deadline_s: expected a number of seconds above 0, got nan"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(place: str, value: str, said: str) -> None:
    line = f"guardrails = {value}\n"

    told = refused(line + table("Tasks") if place == "top" else table("Tasks", line))

    assert told.startswith(f"folder/run.toml: {said}" if place == "top" else f"folder/run.toml: harness 'a': {said}")
    assert "\n" not in told


def test_limits_of_tasks_need_a_harness_that_holds_them() -> None:
    told = refused(table("Idle", "guardrails = { max_task_attempts = 3 }"))

    assert told.startswith("folder/run.toml: harness 'a': guardrails: max_task_attempts cannot be held: expected a class")


def test_limits_of_money_need_a_harness_with_figures() -> None:
    told = refused(table("Idle", "guardrails = { max_drawdown = 0.2 }"))

    assert told.startswith("folder/run.toml: harness 'a': guardrails: max_drawdown cannot be held: expected a harness with")


def test_a_field_that_there_is_not_can_not_be_ignored() -> None:
    text = table("Idle", 'guardrails = { no_progress = { steps = 5, ignore = ["cuont"] } }').replace("100", "{ count = 1 }")

    told = refused(text.replace("Idle", "Counting"))

    assert "no_progress: ignore: expected fields of the state, count, was 'cuont'" in told


async def test_no_progress_is_held(autojump_clock: object) -> None:
    outcome = await outcome_of(table("Idle", "guardrails = { no_progress = { steps = 5 } }"))

    assert (outcome.kind, outcome.step) == (OutcomeKind.BLOCKED, 6)


async def test_a_drawdown_is_held_by_the_figures_of_the_harness(autojump_clock: object) -> None:
    outcome = await outcome_of(table("Falling", "guardrails = { max_drawdown = 0.25 }"))

    assert (outcome.kind, outcome.step) == (OutcomeKind.BLOCKED, 3)
    assert "equity 70 has fallen more than 0.25 below its highest, 100" in outcome.cause


async def test_steps_are_held_beside_a_budget(autojump_clock: object) -> None:
    outcome = await outcome_of(table("Idle", "guardrails = { max_steps = 3 }", "budget = { steps = 5 }"))

    assert (outcome.kind, outcome.step) == (OutcomeKind.BUDGET_SPENT, 3)


async def test_a_deadline_is_held_beside_another(autojump_clock: object) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        await outcome_of(table("Idle", "guardrails = { deadline_s = 3.5 }", "deadline_s = 100"))

    assert "step 5: its deadline has passed" in repr(caught.value)


def test_the_command_says_that_a_person_has_to_decide(tmp_path: Path) -> None:
    with Command(tmp_path) as orchestrator:
        file = orchestrator.write("run.toml", table("Idle", "guardrails = { no_progress = { steps = 1 } }"))

        ran = orchestrator("run", file)

    assert ran.code == 4
    assert "guardrail no_progress: 1 steps have repeated the same step" in ran.err + ran.out


def test_a_kill_does_not_forget_the_high_water_mark(tmp_path: Path) -> None:
    with Command(tmp_path) as orchestrator:
        file = orchestrator.write("run.toml", table("Killed", "guardrails = { max_drawdown = 0.2 }"))
        killed = orchestrator.start("run", file, "--json")
        assert killed.stdout is not None
        next(line for line in killed.stdout if '"output":"200"' in line.replace(" ", ""))
        killed.kill()
        killed.wait()

        again = orchestrator("run", file)

    assert again.code == 4
    assert "equity 150 has fallen more than 0.2 below its highest, 200" in again.err + again.out
