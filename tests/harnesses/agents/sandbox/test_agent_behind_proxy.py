"""Claude Code itself works in a sandbox that reaches its model alone, here on loopback, at either level."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harnesses.agents.sandbox import Sandbox
from tests.harnesses.agents.command.real_programs import PROGRAMS, agent_of, home_for_test, prepare, program_path
from tests.harnesses.agents.turns import assigned, take_turn


@pytest.fixture
def folder() -> Generator[Path]:
    place = home_for_test()
    (place / "work").mkdir()
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize(("level", "bubblewrap"), [("bubblewrap", "bwrap"), ("landlock", "no-bubblewrap")])
async def test_an_agent_reaches_its_model_through_the_proxy_and_nothing_else(folder, model_server, level, bubblewrap) -> None:
    program = PROGRAMS["claude"]
    program_path(program)
    model = urlsplit(model_server.url)
    sandbox = Sandbox(level=level, program=bubblewrap, network=[f"{model.hostname}:{model.port}"])
    if not sandbox.works():
        pytest.skip(f"{level} does not hold on this machine")
    log: list[str] = []
    prepare(model_server, program, folder / "work" / "greeting.txt")

    result = await take_turn(
        agent_of(program, model_server, folder, sandbox=sandbox), assigned(folder / "work", "greet-now"), log
    )

    assert (folder / "work" / "greeting.txt").read_text().strip() == "hello"
    assert result.sandbox == f"{level}, network {model.hostname}:{model.port}"
    assert log[0] == f"[sandbox: {result.sandbox}]"
    assert {line.rpartition(" refused")[0] for line in log if " refused: " in line} <= {"[sandbox: api.anthropic.com:443"}
