"""Tool calls are made as the model wrote them, also after a restart, although what is shown of them has no secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.chat.own_secrets import PROBLEM
from harnesses.agents.model.messages import Message, ModelResponse, Role, Thinking
from harnesses.agents.model.transcript import Transcript, carried_on
from harnesses.agents.tools.coding_tools import coding_tools
from harnesses.agents.tools.function_tool import tool
from harnesses.agents.tools.tool import ToolEffect
from harnesses.errors import NotReady
from harnesses.redaction import known_secrets
from harnesses.redaction.known_secrets import conceal_secret
from orchestrator import MemoryStore, SqliteStore
from tests.harnesses.agents.chat.scripted_model import calls, says, scripted
from tests.harnesses.agents.chat.test_turns_in_harnesses import Asking, run

CONTENT = (
    'DB = {"password": "hunter2hunter2"}\nAWS = "AKIAIOSFODNN7EXAMPLE"\nurl = "postgres://user:passw0rd99@localhost/db"\n'
)
OWN = "qwrtpsdfghjklzxcvbnm0192837465QWRTPS"


@pytest.fixture
def own_secret(monkeypatch: pytest.MonkeyPatch) -> str:
    for name, empty in (("_values", {}), ("_forms", ()), ("_finder", None)):
        monkeypatch.setattr(known_secrets, name, empty)
    conceal_secret(OWN)
    return OWN


def thinks(response: ModelResponse, text: str, proof: str) -> ModelResponse:
    message = response.message
    said = Message(role=Role.ASSISTANT, text=message.text, thinking=(Thinking(text=text, proof=proof),), calls=message.calls)
    return ModelResponse(provider="scripted", model="script-1", message=said, stop_reason=response.stop_reason)


async def test_files_get_the_text_that_the_model_wrote_also_where_it_looks_like_a_secret(
    tmp_path: Path, autojump_clock: object
) -> None:
    (tmp_path / "work").mkdir()
    provider = scripted(
        says("", calls("write", json.dumps({"path": "a.py", "content": CONTENT}))),
        says("", calls("edit", json.dumps({"path": "a.py", "old": '"hunter2hunter2"}\nAWS', "new": '"x"}\nAMAZON'}), "c2")),
        says("done"),
    )
    agent = ModelAgent(provider.client(), tools=coding_tools(), directory=tmp_path / "work")

    assert str(await run(Asking(agent, "q"), SqliteStore(tmp_path / "run.db"))) == "finished"

    assert (tmp_path / "work" / "a.py").read_text() == CONTENT.replace("hunter2hunter2", "x").replace("AWS", "AMAZON")
    asked = [call.arguments for message in provider.requests[-1].messages for call in message.calls]
    assert json.loads(asked[0])["content"] == CONTENT


async def test_a_turn_that_is_taken_up_again_makes_the_same_calls_and_shows_the_same_reasoning(autojump_clock: object) -> None:
    got: list[str] = []

    @tool(effect=ToolEffect.CHANGES_FILES)
    async def keep(content: str) -> str:
        """Keep."""
        got.append(content)
        if len(got) == 1:
            raise NotReady("the disk is not there")
        return "kept"

    thought = 'it is password = "hunter2hunter2"'
    answer = thinks(says("", calls("keep", json.dumps({"content": CONTENT}))), thought, "anthropic:c2ln")
    provider, store = scripted(answer, says("done")), MemoryStore()
    harness = Asking(ModelAgent(provider.client(), tools=[keep]), "q")

    assert "blocked" in str(await run(harness, store))
    assert str(await run(harness, store)) == "finished"

    assert got == [CONTENT, CONTENT]
    assert len(provider.requests) == 2
    assert provider.requests[-1].messages[2].thinking == (Thinking(text=thought, proof="anthropic:c2ln"),)


@pytest.mark.parametrize("written", [OWN, "\\u0071" + OWN[1:]])
async def test_a_call_with_a_secret_of_the_program_is_neither_made_nor_recorded(
    written: str, tmp_path: Path, own_secret: str, autojump_clock: object
) -> None:
    got: list[str] = []

    @tool(effect=ToolEffect.ACTS)
    async def send(text: str) -> str:
        """Send."""
        got.append(text)
        return "sent"

    bad = says("", calls("send", f'{{"text": "key {written}"}}'), calls("send", '{"text": "x"}', "c2"))
    provider = scripted(thinks(bad, f"the key is {OWN}", "anthropic:c2ln"), says("done"))
    path = tmp_path / "run.db"

    assert str(await run(Asking(ModelAgent(provider.client(), tools=[send]), "q"), SqliteStore(path))) == "finished"

    assert got == ["x"]
    results = [result for message in provider.requests[-1].messages for result in message.results]
    assert (results[0].text, results[0].is_error, results[1].text) == (PROBLEM, True, "sent")
    files = b"".join(file.read_bytes() for file in (path, path.with_name("run.db-wal")) if file.exists())
    assert OWN.encode() not in files
    assert written.encode() not in files


async def test_a_typed_answer_with_a_secret_of_the_program_is_asked_for_again(own_secret: str, autojump_clock: object) -> None:
    provider = scripted(
        says("", calls("give_answer", f'{{"answer": "{OWN}"}}')), says("", calls("give_answer", '{"answer": "y"}'))
    )

    assert str(await run(Asking(ModelAgent(provider.client(), answer=list[str] | str), "q"), MemoryStore())) == "finished"
    assert PROBLEM in str(provider.requests[-1].messages)


def test_reasoning_of_which_a_secret_was_removed_is_not_sent_in_later_turns() -> None:
    said: Any = [
        Message(
            role=Role.ASSISTANT, text="a", thinking=(Thinking(text="[REDACTED]", proof="p"), Thinking(text="b", proof="q"))
        )
    ]

    assert carried_on([Transcript(agent="a", model="m", messages=said)])[0].thinking == (Thinking(text="b", proof="q"),)
