"""Lines of output: recorded one by one with the step being made, shown in the log, and never a reason to wait."""

from __future__ import annotations

import io
import json

import pytest
import trio

from harnesses import Agent, BaseHarness, HarnessMisuse
from orchestrator import Orchestrator
from orchestrator.recording.row_redaction import MAX_LINE, MAX_LINES, Output
from tests.orchestrator.scripted import to_the_end


class Talking(BaseHarness[int, int, int]):
    """Asks an agent that says so many lines in each step."""

    lines = 3

    async def execute(self):
        async def talk(run):
            for number in range(self.lines):
                run.log(f"step {run.step_number}, line {number}\x1b[31m")
            await trio.sleep(1)
            return run.input

        for number in range(self.current_step + 1, 3):
            yield number, await self.run_agent(Agent(talk, name="talker"), number)


async def logged(harness: BaseHarness) -> list[dict]:
    log = io.StringIO()
    async with Orchestrator(log=log) as orchestrator:
        orchestrator.start(harness, name="one")
    return [json.loads(line) for line in log.getvalue().splitlines()]


async def test_each_line_of_an_agent_is_a_line_of_the_log_before_its_step(autojump_clock):
    lines = await logged(Talking(0))

    said = [(line["step"], line.get("line"), line.get("source")) for line in lines if line["event"] == "harness.output"]
    order = [(line["event"], line["step"]) for line in lines if line["event"] in ("harness.output", "harness.step")]
    assert said == [(step, f"step {step}, line {n}\x1b[31m", "talker") for step in (1, 2) for n in range(3)]
    assert order == [(kind, step) for step in (1, 2) for kind in (*["harness.output"] * 3, "harness.step")]


async def test_a_flood_of_lines_is_cut_and_counted(autojump_clock):
    harness = Talking(0)
    harness.lines = MAX_LINES + 7

    lines = [line for line in await logged(harness) if line["event"] == "harness.output" and line["step"] == 1]

    assert len(lines) == MAX_LINES + 1
    assert lines[-1]["line"] == "… and 7 more lines, which are not recorded"


def test_a_long_line_is_cut_and_what_is_no_text_is_escaped():
    sent: list[str] = []
    output = Output(lambda body, lines: sent.append(body), redacted=False)

    output.write("x" * (MAX_LINE + 5), "")
    output.write("half a pair: \ud800", "agent")

    assert json.loads(sent[0]) == {"line": "x" * (MAX_LINE - 1) + "…"}
    assert json.loads(sent[1]) == {"line": "half a pair: \\ud800", "source": "agent"}


def test_what_is_written_while_a_step_is_recorded_belongs_to_the_next_one():
    sent: list[str] = []
    output = Output(lambda body, lines: sent.append(body))

    output.begin_recording()
    output.write("late", "")

    assert sent == []
    assert [json.loads(body) for body, _ in output.end_recording()] == [{"line": "late"}]


@pytest.mark.parametrize("store", [None, "run.db"])
async def test_output_is_no_effect(store, tmp_path, autojump_clock):
    path = None if store is None else tmp_path / store
    async with Orchestrator(path) as orchestrator:
        orchestrator.start(Talking(0), name="one")

    async with Orchestrator(path) as orchestrator:
        harness = Talking(0)
        orchestrator.start(harness, name="one")

    assert harness.current_step == 2


async def test_a_harness_alone_may_talk_as_well(autojump_clock):
    harness = Talking(0)

    await harness.run()

    assert harness.current_step == 2


class Saying(BaseHarness[None, int, int]):
    """Says one thing, which may be no text."""

    def __init__(self, *said, **more):
        super().__init__(None)
        self.said, self.more = said, more

    async def execute(self):
        self.log(*self.said, **self.more)
        yield 1, 1


@pytest.mark.parametrize("line", [{"a": 1}, None, b"x", 7, ["x"]])
async def test_what_is_no_text_is_a_misuse_with_the_remedy_alone_as_in_a_program(line, autojump_clock):
    with pytest.raises(HarnessMisuse, match=r"log: expected text, got .*; use str\(\) or json.dumps\(\), or `attach` data"):
        await Saying(line).run()
    async with to_the_end() as (orchestrator, _):
        one = orchestrator.start(Saying(line), name="one", restart="temporary")
        two = orchestrator.start(Saying("line", source=line), name="two", restart="temporary")

    assert "log: expected text, got" in one.outcome.cause
    assert "log: expected text, got" in two.outcome.cause
