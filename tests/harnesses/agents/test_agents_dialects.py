"""Claude Code, Codex CLI and aider, each played by a program that speaks its dialect: real processes, no model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harnesses.agents import AgentFailed, AgentTimedOut, CommandAgent, Dialect, aider, claude_code, codex
from tests.harnesses.agents.turns import assigned, install, marked, take_turn

NAMES = ("claude", "codex", "aider")
TOKENS = {"claude": 22, "codex": 26, "aider": 2_423}


def dialect_of(name: str, folder: Path) -> Dialect:
    program = install(folder, name)
    if name == "aider":
        return aider(program=program, histories=folder / "histories")
    return claude_code(program=program) if name == "claude" else codex(program=program)


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


@pytest.fixture
def agent(name, tmp_path) -> CommandAgent:
    env = {"STAND_IN_STATE": str(tmp_path / "state"), "MARK": str(tmp_path)}
    return CommandAgent(dialect=dialect_of(name, tmp_path), env=env)


@pytest.fixture
def work(tmp_path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    return place


async def test_the_work_is_done_in_the_directory_and_the_reply_understood(agent, name, work):
    result = await take_turn(agent, assigned(work, "write app.py x\nsay it is done"))

    assert [path.name for path in work.iterdir()] == ["app.py"]
    assert result.message.splitlines()[0] == "it is done"
    assert result.session
    assert result.tokens == TOKENS[name]


async def test_a_conversation_is_resumed_by_its_id(agent, work):
    first = await take_turn(agent, assigned(work, "say one"))
    second = await take_turn(agent, assigned(work, "recall", turn=2, session=first.session))

    assert second.message.splitlines()[0] == "1 before"
    assert second.session == first.session


async def test_every_conversation_is_its_own(agent, work):
    first = await take_turn(agent, assigned(work, "say one"))
    other = await take_turn(agent, assigned(work, "recall"))

    assert other.message.splitlines()[0] == "0 before"
    assert other.session != first.session


async def test_a_conversation_that_is_lost_is_begun_anew_and_the_log_says_so(agent, name, work):
    log: list[str] = []

    result = await take_turn(agent, assigned(work, "recall", turn=2, session=str(work.parent / "lost")), log)

    assert result.message.splitlines()[0] == "0 before"
    assert any("could not be resumed; starting a new one" in line for line in log) == (name != "aider")


async def test_what_is_not_of_the_format_changes_nothing(agent, work):
    log: list[str] = []

    result = await take_turn(agent, assigned(work, "noise\nhuge\nsay well"), log)

    assert "well" in result.message
    assert "\\x1b[31mred" in log
    assert "a word on standard error" in log
    assert max(map(len, log)) <= 2_000


@pytest.mark.parametrize("session", ["a\0b", "\ud800", "--help", "x" * 2_000, ""])
async def test_what_can_not_be_a_conversation_is_none(agent, work, session):
    result = await take_turn(agent, assigned(work, "recall", session=session))

    assert result.message.splitlines()[0] == "0 before"
    assert result.session not in (session, None)


def saying(*events: dict[str, str], then: str = "true") -> list[str]:
    """Return a command that says events in the words of Codex CLI."""
    return ["sh", "-c", f"cat <<'END'\n{chr(10).join(map(json.dumps, events))}\nEND\n{then}"]


@pytest.mark.parametrize("session", ["a\0b", "\ud800", "--help", "x" * 2_000])
async def test_what_a_program_calls_its_conversation_is_not_trusted(work, session):
    command = saying({"type": "thread.started", "thread_id": session}, {"type": "turn.completed"})

    result = await take_turn(CommandAgent(command, dialect=codex()), assigned(work))

    assert result.session is None


@pytest.mark.parametrize("end", ["fail", "die 3"])
async def test_a_turn_that_fails_names_its_conversation_and_the_next_goes_on_with_it(agent, work, end):
    with pytest.raises(AgentFailed) as caught:
        await take_turn(agent, assigned(work, f"say half\n{end}"))

    result = await take_turn(agent, assigned(work, "recall", turn=2, session=caught.value.session))

    assert result.message.splitlines()[0] == "1 before"


async def test_a_turn_that_is_killed_names_its_conversation(work):
    command = saying({"type": "thread.started", "thread_id": "abc"}, then="sleep 300")

    with pytest.raises(AgentTimedOut) as caught:
        await take_turn(CommandAgent(command, dialect=codex(), limit_s=2), assigned(work))

    assert caught.value.session == "abc"


async def test_an_error_that_it_reports_is_an_error(agent, name, work):
    why = {"claude": "no permission to go on", "codex": "the sandbox denied it", "aider": "litellm.AuthenticationError"}[name]

    with pytest.raises(AgentFailed, match=why):
        await take_turn(agent, assigned(work, "fail"))


@pytest.mark.parametrize("code", [0, 3])
async def test_an_end_in_the_middle_is_an_error(agent, name, work, code):
    if name == "aider" and code == 0:
        pytest.skip("aider says in words alone that it has come to its end")

    with pytest.raises(AgentFailed, match=r"something broke|ended"):
        await take_turn(agent, assigned(work, f"say half\ndie {code}"))


async def test_nothing_of_it_is_left(agent, work, tmp_path):
    await take_turn(agent, assigned(work, "daemon"))

    assert marked(f"MARK={tmp_path}") == []


async def test_only_its_own_files_are_cleared_away(name, agent, work):
    (work / ".aider.chat.history.md").write_text("somebody's")

    await take_turn(agent, assigned(work, "write .aider.conf.yml x"))

    assert sorted(path.name for path in work.iterdir()) == [".aider.chat.history.md", ".aider.conf.yml"]
