"""A store in which every text that others may write is hostile: of steps, effects, approvals, messages, errors, features."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any

import trio
from attrs import evolve, frozen

from harnesses import Agent, BaseHarness, StepYield
from harnesses.agent import AgentRun
from harnesses.agents.chat.model_agent import ModelAgent
from harnesses.agents.tools.function_tool import tool
from harnesses.agents.tools.tool import ToolEffect
from harnesses.effects.approval import Action
from harnesses.errors import HarnessMisuse, NotReady
from harnesses.features import FeatureHarness, NoHealthCheck, RunPolicy
from harnesses.features.feature import Feature, TurnResult, Verdict
from harnesses.trading import Order, PaperBroker, ReplayFeed, Side, Strategy, TradingHarness
from orchestrator import Orchestrator
from orchestrator.store import SqliteReader
from tests import ROOT
from tests.harnesses.agents.chat.scripted_model import calls, says, scripted

GROUP = 50
"""Payloads of one talking harness: what the page and the screen show of a harness at once."""
_SHORT = 190
_DATA = ROOT / "examples" / "data"


def key(text: str) -> str:
    """Return a text for where only short ones are allowed."""
    return text[:_SHORT]


@frozen
class Said:
    """A state whose names are payloads as well."""

    texts: dict[str, str]
    last: str = ""


class Talking(BaseHarness[Said, Any, Any]):
    """Says one payload a step: as input, output, change of its state, line of output, effect and message to itself."""

    def __init__(self, texts: Sequence[str], to: str) -> None:
        super().__init__(Said({}))
        self.texts, self.to = texts, to

    async def execute(self) -> AsyncIterator[Any]:
        for text in self.texts[self.current_step :]:
            self.update_state(lambda said, text=text: Said({text: text}, text), summary=text)
            self.log(text, source=text)
            await self.once(key(text), _echo, {text: text})
            await self.send(self.to, text)
            self.attach("evidence", {"what": text, text: text})
            yield StepYield(text, text if self.current_step % 2 else {"said": text, text: [text]})


class Failing(BaseHarness[int, str, str]):
    """Makes a step and fails; the cause is a payload."""

    def __init__(self, text: str, error: type[Exception]) -> None:
        super().__init__(0)
        self.text, self.error = text, error

    async def execute(self) -> AsyncIterator[Any]:
        if not self.current_step:
            yield StepYield("begin", self.text)
        raise self.error(self.text)


class Asking(BaseHarness[int, str, str]):
    """Asks for approval of what a payload describes."""

    def __init__(self, text: str) -> None:
        super().__init__(0)
        self.text = text

    async def execute(self) -> AsyncIterator[Any]:
        await self.approval(key(self.text), Action(key(self.text), key(self.text), {self.text: self.text}))
        yield StepYield("asked", self.text)


class Losing(BaseHarness[int, str, str]):
    """Does not know whether its effect, which a payload names, happened."""

    def __init__(self, text: str) -> None:
        super().__init__(0)
        self.text = text

    async def execute(self) -> AsyncIterator[Any]:
        await self.once(key(self.text), _lose, self.text)
        yield StepYield("never", self.text)


class Chatting(BaseHarness[int, str, str]):
    """Has a model that says payloads, calls a tool with them and gets them as an answer."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__(0)
        self.texts = texts
        script = [
            answer
            for text in texts
            for answer in (says(text, calls("echo", json.dumps({"text": text}), f"c{text[-6:]}")), says(text))
        ]
        self.agent = ModelAgent(scripted(*script).client(), tools=[echo])

    async def execute(self) -> AsyncIterator[Any]:
        for text in self.texts[self.current_step :]:
            yield StepYield(text, await self.run_agent(self.agent, text))


@tool(effect=ToolEffect.READS)
async def echo(text: str) -> str:
    """Say it again."""
    return text


def _echo(value: Any) -> Any:
    return value


def _lose(text: str) -> None:
    raise OSError(text)


class _Judge:
    """Passes every feature but the last; what it saw is a payload."""

    proves = True

    async def validate(self, feature: Feature, work: Any) -> Verdict:
        return Verdict(passed=feature.priority > 0, evidence=feature.description, validator=feature.description)


def building(texts: Sequence[str]) -> FeatureHarness:
    """Work on features that payloads describe; the agent says payloads."""

    async def run(asked: AgentRun[Any, Any]) -> TurnResult:
        return TurnResult(message=asked.input.feature.description, tokens=10)

    wanted = [Feature(f"f{place}", text, category=text, steps=[text], priority=place) for place, text in enumerate(texts)]
    policy = evolve(RunPolicy(), mode="unlimited_batch", recheck_sample=0, recheck_all_at_end=False)
    return FeatureHarness(
        Agent(run, name="builder"), _Judge(), objective=texts[0], features=wanted, policy=policy, health_check=NoHealthCheck()
    )


def trading(texts: Sequence[str]) -> TradingHarness:
    """Give orders whose reasons are payloads; half of them are refused."""
    reasons = cycle(texts)

    async def run(asked: AgentRun[Any, Any]) -> list[Order]:
        side = Side.SELL if asked.input.time.day % 2 else Side.BUY
        return [Order("AAPL", side, Decimal(1), reason=next(reasons))]

    feed = ReplayFeed.read({"AAPL": _DATA / "aapl.csv"}, limit=min(250, len(texts)) + 2)
    return TradingHarness(feed, PaperBroker(Decimal(10**6)), Strategy(Agent(run)), period_s=0.001)


@frozen
class Hostile:
    """A store, and the names of its harnesses."""

    path: Path
    texts: Sequence[str]
    talking: Sequence[str]
    chatting: Sequence[str]
    failing: Sequence[str]
    asking: Sequence[str]
    losing: Sequence[str]

    @property
    def report(self) -> Path:
        """Where the report is written."""
        return self.path.with_name("report.html")


def harnesses(texts: Sequence[str]) -> Iterator[tuple[str, Callable[[], BaseHarness[Any, Any, Any]]]]:
    """Yield the harnesses that say them, by name."""
    for place in range(0, len(texts), GROUP):
        group, name = texts[place : place + GROUP], f"talks-{place}"
        yield name, lambda group=group, name=name: Talking(group, name)
        yield f"chats-{place}", lambda group=group: Chatting(group)
    for place, text in enumerate(texts):
        error = (RuntimeError, NotReady, HarnessMisuse)[place % 3]
        yield f"fails-{place}", lambda text=text, error=error: Failing(text, error)
        yield f"asks-{place}", lambda text=text: Asking(text)
        yield f"loses-{place}", lambda text=text: Losing(text)
    yield "builds", lambda: building(texts)
    yield "trades", lambda: trading(texts)


async def record(
    path: Path, texts: Sequence[str], watch: Callable[[Path], Callable[[Orchestrator, Hostile], Awaitable[None]]]
) -> Hostile:
    """Record texts in a store, and have it watched while the program runs.

    Args:
        watch: is called before anything happens; what it returns is awaited when everything has been said.
    """
    made = dict(harnesses(texts))
    named = {
        kind: [name for name in made if name.startswith(f"{kind}-")] for kind in ("talks", "chats", "fails", "asks", "loses")
    }
    hostile = Hostile(path, texts, *named.values())
    try:
        async with Orchestrator(path, log=path.with_name("steps.jsonl"), control=True, handle_signals=False) as orchestrator:
            look = watch(path)
            handles = {name: orchestrator.start(make(), name=name, restart="temporary") for name, make in made.items()}
            with trio.fail_after(600):
                for name, handle in handles.items():
                    if name not in hostile.asking:
                        await handle.wait()
                with closing(SqliteReader(path)) as reader:
                    while len(reader.approvals()) < len(texts):  # noqa: ASYNC110 - a store rings for nobody
                        await trio.sleep(0.02)
            await look(orchestrator, hostile)
            orchestrator.stop(grace=0)
    except* Exception as group:
        unexpected = group.subgroup(lambda error: isinstance(error, (AssertionError, trio.TooSlowError)))
        if unexpected is not None:
            raise unexpected from None
    return hostile
