"""A program as the agent: what it is told, what becomes of what it says, and that nothing of it is left. Real processes."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest
import trio

from harnesses.agents import AgentFailed, AgentMissing, AgentTimedOut, CommandAgent
from harnesses.errors import HarnessMisuse
from tests.harnesses.agents.turns import assigned, marked, take_turn

SHOW = "import sys, os; print(sys.stdin.read() + '|' + os.getcwd() + '|' + '|'.join(sys.argv[1:]))"
PYTHON = [sys.executable, "-S", "-c"]


def python(program: str, *arguments: str) -> list[str]:
    return [*PYTHON, program, *arguments]


async def test_the_prompt_is_read_and_the_directory_is_where_it_works(tmp_path):
    agent = CommandAgent(python(SHOW, "{directory}", "{unknown}"))

    result = await take_turn(agent, assigned(tmp_path, "do {session} ü\n"))

    assert result.message == f"do {{session}} ü\n|{tmp_path}|{tmp_path}|{{unknown}}"


@pytest.mark.parametrize("command", [python(SHOW, "--task={prompt}"), python(SHOW)])
async def test_a_prompt_goes_as_an_argument_where_it_has_a_place_or_last(tmp_path, command):
    agent = CommandAgent(command, prompt="argument")

    result = await take_turn(agent, assigned(tmp_path, "do {directory}"))

    assert result.message.removeprefix(f"|{tmp_path}|").removeprefix("--task=") == "do {directory}"


async def test_a_prompt_goes_as_a_file_that_is_not_in_the_directory_and_is_gone_after_the_turn(tmp_path):
    agent = CommandAgent(python("import sys; print(sys.argv[1]); print(open(sys.argv[1]).read())"), prompt="file")

    result = await take_turn(agent, assigned(tmp_path, "do it"))

    path, _, prompt = result.message.partition("\n")
    assert prompt == "do it"
    assert not path.startswith(str(tmp_path))
    assert not await trio.Path(path).exists()


async def test_a_prompt_that_is_too_long_for_an_argument_is_told_another_way(tmp_path):
    with pytest.raises(AgentFailed, match='use prompt="stdin" or prompt="file"'):
        await take_turn(CommandAgent(["true"], prompt="argument"), assigned(tmp_path, "x" * 200_000))


async def test_a_prompt_of_any_length_and_kind_can_be_read_or_be_left_unread(tmp_path):
    prompt = "\udc80\0" + "x" * 2_000_000
    counting = CommandAgent(python("import sys; print(len(sys.stdin.read()))"))

    assert (await take_turn(counting, assigned(tmp_path, prompt))).message == "2000006"
    assert (await take_turn(CommandAgent(["true"]), assigned(tmp_path, prompt))).message == ""


class Log(list[str]):
    """Says when it has two lines."""

    def __init__(self) -> None:
        super().__init__()
        self.full = trio.Event()

    def append(self, line: str) -> None:
        super().append(line)
        if len(self) == 2:
            self.full.set()


async def test_output_goes_to_the_log_line_by_line_while_it_runs_and_is_harmless(tmp_path):
    agent, log = CommandAgent(["sh", "-c", r"printf 'a\033[2Jb\n'; echo err >&2; sleep 300"]), Log()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turn, agent, assigned(tmp_path), log)
        with trio.fail_after(20):
            await log.full.wait()
        nursery.cancel_scope.cancel()

    assert sorted(log) == ["a\\x1b[2Jb", "err"]


async def test_a_command_that_fails_is_an_error_with_its_last_words(tmp_path):
    agent = CommandAgent(["sh", "-c", "echo so far; echo broken >&2; exit 3"], name="mine")

    with pytest.raises(AgentFailed, match=r"(?s)agent 'mine', feature 'sign-in', try 1, failed: .* was 3.*broken"):
        await take_turn(agent, assigned(tmp_path))


@pytest.mark.parametrize("command", ["no-such-agent", "./missing", "/etc/hostname"])
async def test_a_program_that_is_not_there_or_can_not_be_run_is_named(tmp_path, command):
    with pytest.raises(AgentMissing, match=command):
        await take_turn(CommandAgent([command]), assigned(tmp_path))


async def test_past_its_limit_a_turn_fails_and_nothing_is_left(tmp_path):
    agent = CommandAgent(["sh", "-c", "setsid sleep 300 & sleep 300"], limit_s=0.5, env={"MARK": str(tmp_path)})

    with pytest.raises(AgentTimedOut, match=r"expected it to end within 0\.5 s"):
        await take_turn(agent, assigned(tmp_path))

    assert marked(f"MARK={tmp_path}") == []


async def test_a_turn_that_is_cancelled_leaves_nothing(tmp_path):
    agent = CommandAgent(["sh", "-c", "setsid sleep 300 & echo $! > up; trap '' TERM; sleep 300"], env={"MARK": str(tmp_path)})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_turn, agent, assigned(tmp_path))
        await trio.to_thread.run_sync(wait_for, tmp_path / "up")
        assert len(marked(f"MARK={tmp_path}")) >= 3

        nursery.cancel_scope.cancel()

    assert marked(f"MARK={tmp_path}") == []


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)


async def test_the_environment_is_inherited_but_for_git_or_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("MINE", "inherited")
    show = ["sh", "-c", "echo $GIT_DIR,$MINE,$GIVEN,$PWD,${PATH:+path}"]

    inheriting = CommandAgent(show, env={"GIVEN": "given"})
    given = CommandAgent(show, env={"GIVEN": "given"}, inherit_env=False)

    assert (await take_turn(inheriting, assigned(tmp_path))).message == f",inherited,given,{tmp_path},path"
    assert (await take_turn(given, assigned(tmp_path))).message == f",,given,{tmp_path},path"


async def test_a_directory_is_needed_and_has_to_be_there(tmp_path):
    with pytest.raises(HarnessMisuse, match="expected an assignment with a directory"):
        await take_turn(CommandAgent(["true"]), assigned(None))
    with pytest.raises(NotADirectoryError, match="expected a directory to run it in"):
        await take_turn(CommandAgent(["true"]), assigned(tmp_path / "gone"))


async def test_what_a_program_says_is_kept_in_bounds(tmp_path):
    agent = CommandAgent(python("for i in range(50_000): print(i, 'x' * 200)"))
    log: list[str] = []

    result = await take_turn(agent, assigned(tmp_path), log)

    assert len(log) == 50_000
    assert len(result.message) == 4_000
    assert result.message.endswith(f"49999 {'x' * 200}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"command": "claude -p"}, "expected a list of the program and its arguments"),
        ({"command": []}, "expected a command or a dialect"),
        ({"command": ["true"], "limit_s": 0}, "limit_s"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(arguments, says):
    with pytest.raises(HarnessMisuse, match=says):
        CommandAgent(**arguments)


async def test_the_program_does_not_see_the_terminal_or_the_input_of_this_one(tmp_path):
    leads_a_session = "import os, sys; print(os.getsid(0) == os.getpid(), sys.stdin.read() == '')"

    result = await take_turn(CommandAgent(python(leads_a_session)), assigned(tmp_path))

    assert result.message == "True True"


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("dialect", "claude", "expected one such as claude_code()"),
        ("sandbox", "bwarp", "expected 'bwrap', a Sandbox or None"),
    ],
)
def test_a_word_that_is_none_of_those_expected_is_told(argument, value, said):
    with pytest.raises(HarnessMisuse, match=re.escape(said)):
        CommandAgent(["true"], **{argument: value})
