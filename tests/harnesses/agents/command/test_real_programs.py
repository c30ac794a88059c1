"""Claude Code, Codex CLI, Gemini CLI, OpenCode and aider themselves, with only the model on loopback; see `real_programs`."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Generator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import evolve

from harnesses.agents import (
    AgentFailed,
    AgentMissing,
    Bubblewrap,
    CommandAgent,
    Sandbox,
    aider,
    claude_code,
    codex,
    gemini,
    opencode,
)
from harnesses.features.feature import TurnResult
from harnesses.features.feature_record import Assignment, FeatureState
from harnesses.features.streaming import observe
from harnesses.step import LoadedContext
from harnesses.turn_events import TurnEvent, TurnEventKind
from tests.harnesses.agents.command.real_programs import (
    PROGRAMS,
    WANTED,
    Program,
    agent_of,
    home_for_test,
    prepare,
    program_path,
)
from tests.harnesses.agents.turns import assigned, take_turn

KIND = TurnEventKind


@pytest.fixture(params=PROGRAMS)
def program(request) -> Program:
    found = PROGRAMS[request.param]
    program_path(found)
    return found


@pytest.fixture(params=["plain", "auto", "bwrap", "landlock"])
def sandbox(request) -> str | Sandbox | None:
    if request.param == "plain":
        return None
    if request.param == "landlock":
        sandbox = Sandbox(level="landlock", program="no-bubblewrap")
        if not sandbox.works():
            pytest.skip("landlock does not work on this machine")
        return sandbox
    if request.param == "bwrap" and not WANTED:
        pytest.skip("auto is bubblewrap, too: TEST_PROGRAMS=claude tests this")
    if not Bubblewrap().works():
        pytest.skip("bubblewrap does not work on this machine")
    return cast(str, request.param)


@pytest.fixture
def folder() -> Generator[Path]:
    place = home_for_test()
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def work(folder) -> Path:
    """Return a worktree of a repository beside it, as a coding harness makes them."""
    repository = folder / "repository"
    repository.mkdir()
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    begin, commit = ("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "begin")
    for command in (begin, commit, ("worktree", "add", "-q", "../work")):
        subprocess.run(["git", *command], cwd=repository, check=True, capture_output=True)
    return folder / "work"


def told(work: Path, prompt: str, **more: Any) -> Assignment:
    """Return an assignment as a coding harness makes them."""
    return evolve(assigned(work, prompt, **more), writable=(str(work.parent / "repository"),), base="a" * 40)


async def watched(agent: CommandAgent, assignment: Assignment) -> tuple[TurnResult, list[TurnEvent[Any]]]:
    """Ask an agent as a harness with observers does; return the events too."""
    events: list[TurnEvent[Any]] = []
    context = LoadedContext(state=FeatureState())
    result = await observe(agent, events.append).run(input=assignment, context=context, step_number=1)
    return result, events


async def test_it_works_with_its_own_tools_reports_what_it_used_and_resumes(program, sandbox, folder, work, model_server):
    if isinstance(sandbox, Sandbox) and program.name == "claude" and program.name not in WANTED:
        pytest.skip("codex is tested at this level; TEST_PROGRAMS=claude tests Claude Code too")
    file = work / "greeting.txt"
    prepare(model_server, program, file)
    agent = agent_of(program, model_server, folder, sandbox=sandbox)

    first, events = await watched(agent, told(work, "greet-now"))
    second = await take_turn(agent, told(work, "again-now", turn=2, session=first.session))

    assert file.read_text().strip() == "hello"
    assert sandbox != "auto" or first.sandbox == "bubblewrap, network"
    assert not isinstance(sandbox, Sandbox) or first.sandbox.startswith("landlock")
    assert second.session == first.session
    assert second.message.startswith("seen before")
    assert any("again-now" in sent and "greet-now" in sent for sent in map(json.dumps, model_server.requests()))
    assert first.usage.tool_calls == 1
    assert (first.usage.input_tokens, first.usage.output_tokens) == program.used
    assert float(first.usage.money) == pytest.approx(float(Decimal(program.money)))
    _check_events(events, first)


def _check_events(events: list[TurnEvent[Any]], result: TurnResult) -> None:
    kinds = [event.kind for event in events]
    started, finished = (
        next(event for event in events if event.kind is kind) for kind in (KIND.TOOL_STARTED, KIND.TOOL_FINISHED)
    )
    text = "".join(event.text for event in events if event.kind is KIND.TEXT_DELTA)
    messages = [event.text for event in events if event.kind is KIND.MESSAGE_COMPLETE]

    assert (kinds.count(KIND.TOOL_STARTED), kinds.count(KIND.TOOL_FINISHED), kinds.count(KIND.TURN_COMPLETE)) == (1, 1, 1)
    assert kinds.index(KIND.TOOL_STARTED) < kinds.index(KIND.TOOL_FINISHED)
    assert started.tool == finished.tool != ""
    assert started.call_id == finished.call_id
    assert "greeting.txt" in started.text
    assert finished.error == ""
    assert "I write it." in messages[0]
    assert "".join(messages).split() == text.split()
    assert (events[-1].kind, events[-1].result) == (KIND.TURN_COMPLETE, result)


async def test_a_model_that_fails_is_an_error_and_the_conversation_goes_on(program, folder, work, model_server):
    prepare(model_server, program, work / "greeting.txt")
    agent = agent_of(program, model_server, folder)

    first = await take_turn(agent, told(work, "greet-now"))
    with pytest.raises(AgentFailed, match="no such model") as caught:
        await take_turn(agent, told(work, "break-now", turn=2, session=first.session))
    third = await take_turn(agent, told(work, "again-now", turn=3, session=caught.value.session))

    assert third.session == caught.value.session == first.session
    assert third.message.startswith("seen before")


@pytest.mark.parametrize("make", [claude_code, codex, gemini, opencode, aider])
async def test_a_program_that_is_missing_blocks_the_harness(make, sandbox, tmp_path):
    histories = {"histories": tmp_path / "histories"} if make is aider else {}
    agent = CommandAgent(dialect=make(program="no-such-agent", **histories), sandbox=sandbox, env={"HOME": str(tmp_path)})

    with pytest.raises(AgentMissing, match="expected an installed program"):
        await take_turn(agent, assigned(tmp_path))
