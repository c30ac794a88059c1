"""What agents and their models have said is in the store: of recorded steps, of the one in progress, and over sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel

from harnesses import Agent, AgentRun, BaseHarness
from harnesses.agents import ModelAgent, ToolEffect, ToolPolicy, tool
from harnesses.agents.model.errors import RequestRejected
from harnesses.agents.model.messages import Message, ModelUsage, Role, ToolCall, ToolResult
from harnesses.agents.model.transcript import Compaction, ModelRound, Transcript, as_record
from harnesses.errors import EffectFailed
from orchestrator import Orchestrator, SqliteStore, Store, UsageError
from orchestrator.errors import StoreCorrupt, UnknownHarness
from orchestrator.history import RecordedTurn, transcripts
from orchestrator.history.turn_transcripts import WITHHELD
from orchestrator.store import MemoryStore, SqliteReader
from orchestrator.store.file.value_files import files_folder
from tests.harnesses.agents.chat.scripted_model import calls, says, scripted
from tests.tampering.proof import judge

USAGE = ModelUsage(input_tokens=100, output_tokens=7)
TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


def said(*texts: str, **more: Any) -> Transcript:
    """Return a transcript in which a user and the model take turns to speak."""
    roles = (Role.USER, Role.ASSISTANT)
    messages = [Message(role=roles[place % 2], text=text) for place, text in enumerate(texts)]
    return Transcript(agent="coder", model="local:small", messages=messages, **more)


class Saying(BaseHarness[int, int, int]):
    """Attaches what each of its steps is told to."""

    def __init__(self, *steps: list[Transcript]) -> None:
        super().__init__(0)
        self.steps = steps
        self.found: list[tuple[Mapping[str, object], ...]] = []

    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for step in self.steps[self.current_step :]:
            for transcript in step:
                self.attach("transcript", as_record(transcript))
                self.found.append(self._runtime.session("s"))  # type: ignore[union-attr]
            yield 0, 0


@pytest.fixture(params=["file", "encrypted", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    with closing(SqliteStore(tmp_path / "run.db", key=bytes(32) if request.param == "encrypted" else None)) as opened:
        yield opened


async def run(store: Store, harness: BaseHarness[Any, Any, Any]) -> None:
    async with Orchestrator(store) as orchestrator:
        orchestrator.start(harness, name="one")


def texts(turns: list[RecordedTurn]) -> list[tuple[int, str]]:
    return [(turn.step_number, turn.transcript.messages[0].text) for turn in turns]


async def test_a_transcript_is_read_back_as_it_was_said(store: Store) -> None:
    rounds = [ModelRound(model="local:small", message=1, usage=USAGE, cost=Decimal("0.01"))]
    compactions = [Compaction(message=1, reason="too long", summary="so far", tokens_before=6_400, tokens_after=90)]
    small = said("hello", "good day", session="s", rounds=rounds, compactions=compactions, stop_reason="end_turn")
    large = said("x" * 100_000, "y")

    await run(store, Saying([small], [large]))

    assert [turn.transcript for turn in transcripts(store, "one")] == [small, large]
    assert [turn.is_recorded for turn in transcripts(store, "one")] == [True, True]


async def test_transcripts_are_found_by_step_and_by_session_newest_last(store: Store) -> None:
    await run(store, Saying([said("1", session="s"), said("2")], [], [said("3", session="s")]))

    assert texts(transcripts(store, "one")) == [(1, "1"), (1, "2"), (3, "3")]
    assert texts(transcripts(store, "one", 1)) == [(1, "1"), (1, "2")]
    assert texts(transcripts(store, "one", session="s")) == [(1, "1"), (3, "3")]
    assert texts(transcripts(store, "one", limit=2)) == [(1, "2"), (3, "3")]
    assert transcripts(store, "one", 2) == []


async def test_a_step_or_a_harness_that_does_not_exist_is_told(store: Store) -> None:
    await run(store, Saying([said("1")]))

    with pytest.raises(UsageError, match="expected a number from 1 to 2, the one in progress"):
        transcripts(store, "one", 3)
    with pytest.raises(UnknownHarness):
        transcripts(store, "two")


async def test_an_agent_finds_the_turns_of_its_session_from_the_last_compaction_on(store: Store) -> None:
    compacted = said("2", session="s", compactions=[Compaction(message=0, reason="long", summary="first")])
    first = Saying([said("1", session="s")], [compacted, said("other")])
    await run(store, first)
    second = Saying(*first.steps, [said("x" * 100_000, session="s")], [said("4", session="s")])

    await run(store, second)

    found = [[str(turn["messages"])[:40] for turn in turns] for turns in first.found + second.found]
    assert [len(turns) for turns in found] == [1, 2, 2, 2, 3]  # those of the step in progress are not left out
    assert "'2'" in found[-1][0]


async def test_a_transcript_with_large_messages_is_in_a_file_that_verify_checks(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    await run(SqliteStore(path), Saying([said("x" * 5_000_000, "y")]))

    (file,) = files_folder(path).iterdir()
    assert path.stat().st_size < 200_000
    assert judge(path)[1] == []
    file.unlink()
    assert [what for _, what, _ in judge(path)[1]] == ["dropped"]
    with pytest.raises(StoreCorrupt, match="is missing"):
        transcripts(path, "one")


async def test_secrets_are_removed_from_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "run.db"

    await run(SqliteStore(path), Saying([said(f"use {TOKEN}")], [said(f"use {TOKEN} {'x' * 100_000}")]))

    assert all(TOKEN not in turn.transcript.messages[0].text for turn in transcripts(path, "one"))
    assert all(TOKEN.encode() not in file.read_bytes() for file in [path, *files_folder(path).iterdir()])


async def test_a_record_that_was_withheld_is_told(store: Store) -> None:
    harness = Saying([said("1")])
    harness.attach = lambda kind, value: BaseHarness.attach(harness, kind, {"messages": "withheld"})  # type: ignore[method-assign]

    await run(store, harness)

    assert [turn.transcript.error for turn in transcripts(store, "one")] == [WITHHELD]


# turns in progress


class Asking(BaseHarness[int, str, str]):
    """Has an agent answer in each step."""

    def __init__(self, agent: Agent[Any, Any, Any]) -> None:
        super().__init__(0)
        self.agent = agent

    async def execute(self) -> AsyncIterator[tuple[str, str]]:
        yield "ask", str(await self.run_agent(self.agent, "ask"))


async def test_a_denied_call_is_shown_and_counted_before_and_after_the_turn_has_ended(autojump_clock: object) -> None:
    @tool(effect=ToolEffect.ACTS)
    async def push(branch: str) -> str:
        """Push."""
        raise AssertionError("it was denied")

    asked = says("", calls("push", '{"branch": "main"}'))
    store, provider = MemoryStore(), scripted(asked, RequestRejected("no", status=400), says("done"))
    harness = Asking(ModelAgent(provider.client(), tools=[push], policy=ToolPolicy(ask=["push"])))
    shown: list[Transcript] = []

    for life in range(2):
        async with Orchestrator(store) as orchestrator:
            handle = orchestrator.start(harness, name="one", restart="temporary")
            if life == 0:
                await trio.sleep(1)
                await orchestrator.deny(store.approvals()[0].id, by="ada", reason="not today")
            await handle.wait()
        shown += [turn.transcript for turn in transcripts(store, "one")]

    first, second = ([result for message in one.messages for result in message.results] for one in shown)
    assert [result.text for result in first] == ["(denied by ada: not today)"]
    assert "was denied by ada: not today" in second[0].text
    assert [(one.tool_calls, one.tool_errors) for one in shown] == [(1, 1), (1, 1)]
    assert provider.requests[1].messages == provider.requests[2].messages


async def test_a_turn_of_a_model_agent_is_shown_before_its_step_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    agent = ModelAgent(scripted(says("forty-two"), says("never")).client(), name="thinker", system="Be brief.")

    class Cut(Asking):
        async def execute(self) -> AsyncIterator[tuple[str, str]]:
            await self.run_agent(self.agent, "What is six times seven?")
            raise SystemError("the machine failed before the yield")
            yield

    with pytest.raises(ExceptionGroup):
        async with Orchestrator(path, intensity=0) as orchestrator:
            orchestrator.start(Cut(agent), name="one")

    (turn,) = transcripts(path, "one")
    system, task, answer = turn.transcript.messages
    assert (turn.is_recorded, turn.step_number, turn.transcript.agent) == (False, 1, "thinker")
    assert (system.role, system.text.split("\n")[0]) == (Role.SYSTEM, "Be brief.")
    assert task.text.endswith("What is six times seven?")
    assert (answer.text, turn.transcript.usage) == ("forty-two", ModelUsage(input_tokens=10, output_tokens=5))
    assert transcripts(path, "one", 1) == [turn]


CALLS = tuple(ToolCall(id=f"c{number}", name=name) for number, name in enumerate(("read", "break", "wait"), 1))


async def test_calls_of_tools_are_shown_with_their_results_errors_and_what_is_under_way(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    shown: list[RecordedTurn] = []

    async def work(run: AgentRun[Any, Any]) -> str:
        asked = Message(role=Role.ASSISTANT, calls=CALLS)
        response = {"provider": "local", "model": "small", "message": asked, "stop_reason": "tool_use"}
        await run.once("request", lambda: {"messages": [Message(role=Role.USER, text="x" * 70_000)]}, idempotent=True)
        await run.once("round/1", lambda: {"response": response, "model": "local:small", "usage": USAGE, "cost": "0.5"})
        await run.once("round/1/tool/1", lambda: {"text": "y" * 70_000, "is_error": False, "tree": ""})
        with pytest.raises(EffectFailed):
            await run.once("round/1/tool/2", _fail, errors="keep")
        await run.once("round/1/tool/3", _look, errors="keep")
        return "done"

    def _look() -> dict[str, Any]:
        shown.extend(transcripts(path, "one"))
        return {"text": "waited"}

    await run(SqliteStore(path), Asking(Agent(work, name="work er")))

    (turn,) = shown
    first, asked, results = turn.transcript.messages
    assert (turn.transcript.agent, turn.transcript.scope, turn.transcript.cost) == ("work er", "work er#1/", Decimal("0.5"))
    assert (len(first.text), asked.calls) == (70_000, CALLS)
    assert [result.name for result in results.results] == ["read", "break", "wait"]
    read, failed, waiting = results.results
    assert (len(read.text), read.is_error) == (70_000, False)
    assert (failed.is_error, "no such file" in failed.text) == (True, True)
    assert waiting == ToolResult(call_id="c3", name="wait", text="(no result is recorded yet)")


def _fail() -> None:
    raise OSError("no such file")


async def test_a_step_of_which_no_transcript_was_attached_is_shown_from_its_effects(tmp_path: Path) -> None:
    path = tmp_path / "run.db"

    async def work(run: AgentRun[Any, Any]) -> str:
        await run.once("request", lambda: {"messages": [Message(role=Role.USER, text="hello")]}, idempotent=True)
        return "done"

    class Twice(Asking):
        async def execute(self) -> AsyncIterator[tuple[str, str]]:
            yield "ask", str(await self.run_agent(self.agent, "ask"))
            yield "nothing", "asked"

    await run(SqliteStore(path), Twice(Agent(work, name="a")))

    assert texts(transcripts(path, "one", 1)) == [(1, "hello")]
    with closing(SqliteReader(path)) as reader:
        assert transcripts(reader, "one") == []


async def test_reading_beside_a_running_program_does_not_disturb_it(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    harness = Saying(*([said(f"{number}")] for number in range(20)))

    async with Orchestrator(path) as orchestrator:
        handle = orchestrator.start(harness, name="one")
        while handle.outcome is None:
            turns = await trio.to_thread.run_sync(transcripts, path, "one") if handle.current_step else []
            assert texts(turns) == [(number + 1, str(number)) for number in range(len(turns))]
            await trio.lowlevel.checkpoint()

    assert len(transcripts(path, "one")) == 20
