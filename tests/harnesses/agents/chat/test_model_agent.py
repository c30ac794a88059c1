"""Laws of `ModelAgent`: how it is made from a name and options, and what it asks through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harnesses import LoadedContext
from harnesses.agents import Cassette, ModelAgent, ToolEffect, tool
from harnesses.errors import HarnessMisuse
from tests.harnesses.agents.chat.scripted_model import calls, says, scripted
from tests.model_server import ModelServer

acted: list[str] = []


@tool(effect=ToolEffect.ACTS)
async def act(what: str) -> str:
    """Act."""
    acted.append(what)
    return f"did {what}"


async def ask(agent: ModelAgent, input: Any = "Do it.") -> Any:
    return await agent.run(input=input, context=LoadedContext(None), step_number=1)


@pytest.mark.parametrize("name", ["gpt-5", "opnai:gpt-5", "openai:"])
def test_a_model_that_cannot_be_named_is_refused_at_once(name: str) -> None:
    with pytest.raises(HarnessMisuse, match="expected"):
        ModelAgent(name)


def test_options_of_a_client_are_refused_beside_a_client() -> None:
    with pytest.raises(HarnessMisuse, match="base_url"):
        ModelAgent(scripted(says()).client(), base_url="http://127.0.0.1")


async def test_a_recorded_turn_is_replayed_without_a_model_and_without_acting(tmp_path: Path) -> None:
    acted.clear()
    client, tape = scripted(says("", calls("act", '{"what": "x"}')), says("done")).client(), tmp_path / "turn.jsonl"
    assert await ask(ModelAgent(client, tools=[act], cassette=Cassette.record(tape))) == "done"

    nobody = scripted(RuntimeError("it was asked")).client()
    assert await ask(ModelAgent(nobody, tools=[act], cassette=Cassette.replay(tape))) == "done"

    assert acted == ["x"]


@pytest.mark.parametrize("provider", ["openai-chat", "openai", "anthropic"])
async def test_a_turn_with_tools_is_taken_with_each_vendors_protocol(
    provider: str, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    model_server.calls("Do it", {"act": {"what": "x"}}, text="I act.", then="All done.")
    url = model_server.anthropic_url if provider == "anthropic" else model_server.openai_url
    acted.clear()

    assert await ask(ModelAgent(f"{provider}:mock", base_url=url, tools=[act])) == "All done."

    assert acted == ["x"]
    assert len(model_server.requests()) == 2
