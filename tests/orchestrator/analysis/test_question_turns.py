"""`turns`: models, costs and ends of the turns of agents, and what was said last, from a store and from its log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
import trio

from harnesses import BaseHarness
from harnesses.agents.model.messages import Message, ModelUsage, Role, ToolCall, ToolResult
from harnesses.agents.model.transcript import ModelRound, Transcript, as_record
from orchestrator import Orchestrator, analysis
from orchestrator.analysis.analysis_report import html
from orchestrator.analysis.questions import turns_question as turns
from orchestrator.history import fork
from tests.orchestrator.analysis.asked import by_name
from tests.orchestrator.history.test_counterfactual import STEP, Working, scripted, work

USAGE = ModelUsage(input_tokens=1000, cached_tokens=400, output_tokens=50)
CALL = ToolCall(id="c", name="read", arguments='{"path": "<b>a.py"}')


def said(model: str, cost: str, *texts: str, error: str = "") -> Transcript:
    messages = [Message(role=Role.USER, text=text) for text in texts]
    messages.append(Message(role=Role.ASSISTANT, text="I look.", calls=(CALL,)))
    messages.append(Message(role=Role.TOOL, results=(ToolResult(call_id="c", name="read", text="none", is_error=True),)))
    round = ModelRound(model=model, message=len(texts), usage=USAGE, cost=Decimal(cost))
    return Transcript(agent="coder", model=model, messages=messages, rounds=[round], error=error, session="s")


class Talking(BaseHarness[int, int, int]):
    async def execute(self) -> AsyncIterator[tuple[int, int]]:
        for transcript in (
            said("local:a", "0.25", "\x1b[2Jfirst"),
            said("local:b", "1", "second", error="TurnFailed: refused"),
            said("local:a", "0.5", "x" * 100_000),
        ):
            self.attach("transcript", as_record(transcript))
            yield 0, 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("turns")

    async def main() -> None:
        async with Orchestrator(folder / "run.db", log=folder / "run.jsonl") as orchestrator:
            orchestrator.start(Talking(0), name="builder")

    trio.run(main)
    return [folder / "run.db", folder / "run.jsonl"]


@pytest.mark.parametrize("kind", [0, 1])
def test_turns_are_summed_by_agent_and_model_and_told(runs: list[Path], kind: int) -> None:
    with analysis.open(runs[kind]) as run:
        told = turns.answer(run)

    models, every, messages = (table.dicts() for table in told.tables)
    assert [(row["model"], row["turns"], row["without_answer"], row["tool_errors"], row["cost"]) for row in models] == [
        ("local:b", 1, 1, 1, "1"),
        ("local:a", 2, 0, 2, "0.75"),
    ]
    assert [(row["step"], row["cost"], row["error"]) for row in every] == [
        (2, "1", "TurnFailed: refused"),
        (3, "0.5", ""),
        (1, "0.25", ""),
    ]
    assert [row["role"] for row in messages] == ["user", "assistant", "tool"] * 2 + [""]
    assert messages[0]["text"] == r"\x1b[2Jfirst"
    assert messages[1]["text"] == 'I look. -> read {"path": "<b>a.py"}'
    assert messages[2]["text"] == "read failed: none"
    assert messages[-1]["text"] == "its messages are in a file beside the store, or encrypted"
    assert told.sentences[0] == (
        "builder: coder took 1 turn, 1 of them without an answer, with 1 call of local:b and 1 tool call (1 failed): "
        "1,000 tokens read, 50 written, 1 US dollars."
    )
    assert told.sentences[-1] == "Turns without an answer: step 2 of builder (TurnFailed: refused)."


def test_turns_that_a_fork_has_copied_are_those_of_its_origin(runs: list[Path], tmp_path: Path) -> None:
    copied = tmp_path / "run.db"
    fork(runs[0], "builder", 3, to="other", into=copied)

    with analysis.open(copied) as run:
        assert turns.answer(run).tables[0].rows == ()


def test_what_was_said_is_text_in_the_report(runs: list[Path]) -> None:
    with analysis.open(runs[0]) as run:
        page = html([turns.answer(run)])

    assert "&lt;b&gt;a.py" in page
    assert "<b>a.py" not in page
    assert "\x1b" not in page


def test_a_run_without_agents_says_so(tmp_path: Path) -> None:
    class Quiet(BaseHarness[int, int, int]):
        async def execute(self) -> AsyncIterator[tuple[int, int]]:
            yield 0, 0

    async def main() -> None:
        async with Orchestrator(tmp_path / "run.db") as orchestrator:
            orchestrator.start(Quiet(0), name="quiet")

    trio.run(main)
    with analysis.open(tmp_path / "run.db") as run:
        assert turns.answer(run).sentences == ("No turn of an agent is recorded.",)


async def test_a_turn_that_failed_is_told_and_a_copied_model_call_is_of_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    provider, looked = scripted(STEP[0], STEP[1], SystemError("the machine failed")), list[str]()
    with pytest.raises(ExceptionGroup):
        async with Orchestrator(path, intensity=0) as orchestrator:
            orchestrator.start(Working(1, provider=provider, looked=looked), name="one")
    with analysis.open(path) as run:
        failed = by_name(turns.answer(run), "turns")["one"]

    fork(path, "one", 0, to="two", rounds=2, model="other")
    await work(path, "two", 1, 2)

    assert (failed["model"], failed["model_calls"]) == ("scripted:script-1", 2)
    assert "not recorded" in failed["error"]
    with analysis.open(path) as run:
        told = turns.answer(run)
    assert by_name(told, "models")["two"]["model"] == "scripted:other"
    assert (by_name(told, "models")["two"]["turns"], by_name(told, "models")["two"]["model_calls"]) == (1, 1)
