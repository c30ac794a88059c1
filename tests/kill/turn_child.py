"""The program that is killed, or stopped by a signal, while a model agent takes a turn with three tool calls.

python -m tests.kill.turn_child FOLDER --url http://127.0.0.1:1234/v1 --kill commit-after:7
python -m tests.kill.turn_child FOLDER --url http://127.0.0.1:1234/v1 --stop commit-after:7 --features
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from harnesses import BaseHarness, Budget
from harnesses.agents import ModelAgent, ModelClient, ToolEffect, tool
from harnesses.agents.model.messages import ModelRequest, ModelResponse, StreamEvent
from harnesses.agents.model.provider import ModelProvider
from harnesses.agents.model.providers.model_names import provider_for
from harnesses.agents.tools.tool import ToolSetting
from harnesses.features import Feature, FeatureHarness, NoHealthCheck, accept_all
from orchestrator import Orchestrator, SqliteStore, Store
from orchestrator.testing import FaultyStore, kill_this_process

TASK = "Note it, and write the file."
BUDGET = Budget(turns=1, tool_calls=3, tokens=100_000, money=Decimal(1))
_FOREVER = 1_000_000


@define
class Killer:
    """Counts the moments of each kind, and kills or stops this program at one of them."""

    kind: str
    number: int
    end: Callable[[], None]
    counts: Counter[str] = field(factory=Counter[str])

    def pass_by(self, kind: str) -> None:
        self.counts[kind] += 1
        if kind == self.kind and self.counts[kind] == self.number:
            self.end()


def stop_this_process() -> None:
    """Have the program stop in order, as `kill` does."""
    os.kill(os.getpid(), signal.SIGTERM)


@define
class WatchedProvider:
    """A provider whose program may be killed before a request is sent, in mid-stream, and once the answer is there."""

    provider: ModelProvider
    killer: Killer

    @property
    def id(self) -> str:
        return self.provider.id

    @property
    def account(self) -> str:
        return self.provider.account

    async def complete(self, request: ModelRequest) -> ModelResponse:
        raise NotImplementedError

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[StreamEvent]]:
        self.killer.pass_by("request")
        async with self.provider.stream(request) as events:
            yield self._watched(events)

    async def _watched(self, events: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
        async for event in events:
            self.killer.pass_by("answer" if isinstance(event, ModelResponse) else "piece")
            yield event


class Acting(BaseHarness[str, str, dict[str, Any]]):
    """Has its agent act once."""

    def __init__(self, agent: ModelAgent) -> None:
        super().__init__("")
        self.agent = agent

    def is_complete(self) -> bool:
        return self.current_step == 1

    async def execute(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        text = await self.run_agent(self.agent, TASK)
        yield TASK, {"text": text}


def as_feature(agent: ModelAgent) -> FeatureHarness:
    """Return a harness whose only feature is the task."""
    wanted = [Feature("task", TASK, steps="it is done")]
    return FeatureHarness(agent, accept_all(), objective="Do it.", features=wanted, health_check=NoHealthCheck())


def make_agent(options: argparse.Namespace, killer: Killer) -> ModelAgent:
    """Return an agent with a tool that acts and one that changes a file; both leave a line each time."""
    acts, work = options.folder / "acts", options.folder / "work"

    @tool(effect=ToolEffect.ACTS)
    async def note(text: str) -> str:
        """Note a text."""
        killer.pass_by("tool")
        with acts.open("a") as file:
            file.write(f"{text}\n")
        killer.pass_by("acted")
        return f"noted {text}"

    @tool(effect=ToolEffect.CHANGES_FILES)
    async def append(text: str, setting: ToolSetting) -> str:
        """Append a line to the file."""
        killer.pass_by("tool")
        path = work / "file.txt"
        before = path.read_text() if path.exists() else ""
        path.write_text(f"{before}{text}\n")
        killer.pass_by("acted")
        return f"appended {text}"

    provider, model = provider_for("openai-chat:mock", base_url=options.url)
    prices = {f"{provider.id}:{model}": {"input": 1, "output": 2}}
    client = ModelClient([(WatchedProvider(provider, killer), model)], prices=prices)
    return ModelAgent(client, tools=[note, append], directory=work)


async def run(options: argparse.Namespace) -> None:
    """Take the turn; write down what was passed by."""
    kind, _, number = (options.kill or options.stop).partition(":")

    def end() -> None:
        killer.counts["ended"] += 1
        (stop_this_process if options.stop else kill_this_process)()

    killer = Killer(kind, int(number or _FOREVER), end)
    moment, at = kind.removeprefix("commit-"), int(number or _FOREVER) if kind.startswith("commit-") else _FOREVER
    store: Store = FaultyStore(SqliteStore(options.folder / "run.db"), end, at=at, after=moment == "after")
    async with Orchestrator(store) as orchestrator:
        agent = make_agent(options, killer)
        if options.features:
            orchestrator.start(as_feature(agent), name="acting", budget=BUDGET)
        else:
            orchestrator.start(Acting(agent), name="acting", budget=BUDGET)
    assert isinstance(store, FaultyStore)
    counts = {**killer.counts, "commit-before": store.commits, "commit-after": store.commits}
    (options.folder / "counts.json").write_text(json.dumps(counts))
    store.close()


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", required=True, help="base URL of the model server")
    parser.add_argument("--kill", default="", metavar="MOMENT:N", help="commit-before, commit-after, request, piece, …")
    parser.add_argument("--stop", default="", metavar="MOMENT:N", help="stop there by a signal instead")
    parser.add_argument("--features", action="store_true", help="take the turn in a feature harness")
    return parser.parse_args()


if __name__ == "__main__":
    trio.run(run, parse())
