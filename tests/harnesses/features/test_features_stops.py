"""G5: a stop is never worse than a kill: a turn that is stopped at any moment goes on after its last finished call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import trio
from attrs import define, field

from harnesses.agents import ModelAgent, ToolEffect, tool
from harnesses.agents.model.messages import ModelRequest, ModelResponse, Role
from harnesses.agents.tools.tool_policy import ToolPolicy
from harnesses.errors import Waiting
from harnesses.features import Feature, FeatureHarness, NoHealthCheck, Verdict
from orchestrator import Handle, MemoryStore, Orchestrator
from tests.harnesses.agents.chat.scripted_model import ScriptedProvider, calls, says

ANSWERS = (
    says("", calls("act", '{"what": "x"}', "c1"), calls("act", '{"what": "y"}', "c2")),
    says("", calls("pay", '{"amount": 5}', "c3")),
    says("done"),
)


@define
class World:
    """What happens outside, over all lives; `end` is called at one moment of the turn."""

    at: int = 0
    passed: int = 0
    acts: Counter[str] = field(factory=Counter[str])
    sent: Counter[int] = field(factory=Counter[int])
    """Requests by their round."""
    answered: Counter[int] = field(factory=Counter[int])
    asked: set[str] = field(factory=set[str])
    """Approvals that were asked for."""
    end: Callable[[], object] = lambda: None

    async def pass_by(self) -> None:
        self.passed += 1
        if self.passed == self.at:
            self.end()
        await trio.lowlevel.checkpoint()

    def harness(self) -> FeatureHarness:
        @tool(effect=ToolEffect.ACTS)
        async def act(what: str) -> str:
            """Act."""
            await self.pass_by()
            self.acts[what] += 1
            await self.pass_by()
            return f"did {what}"

        @tool(effect=ToolEffect.ACTS)
        async def pay(amount: int) -> str:
            """Pay."""
            self.acts["pay"] += 1
            await self.pass_by()
            return f"paid {amount}"

        agent = ModelAgent(WorldProvider((), world=self).client(), tools=[act, pay], policy=ToolPolicy(ask=["pay"]))
        wanted = [Feature("f", "d", steps="s")]
        return FeatureHarness(agent, Passing(), objective="o", features=wanted, health_check=NoHealthCheck())


class Passing:
    async def validate(self, feature: Feature, work: Any) -> Verdict:
        await trio.lowlevel.checkpoint()
        return Verdict(passed=True, evidence="fine")


@define
class WorldProvider(ScriptedProvider):
    world: World = field(factory=World, kw_only=True)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        number = sum(message.role is Role.ASSISTANT for message in request.messages)
        self.world.sent[number] += 1
        await self.world.pass_by()
        self.world.answered[number] += 1
        return ANSWERS[number]


async def live(world: World, store: MemoryStore, how: str, *, approves: bool = True) -> str:
    """Let a program live until its end, or until it is ended at a moment of the turn; return how the harness ended."""
    ended, again = "cancelled", list[Any]()
    async with trio.open_nursery() as nursery, Orchestrator(store, handle_signals=False) as orchestrator:
        handle = orchestrator.start(world.harness(), name="f", restart="temporary")
        world.end = ending(how, orchestrator, handle, nursery, again)
        nursery.start_soon(answer, world, store, orchestrator, approves)
        ended = str(await handle.wait())
        while again:
            ended = str(await (await again.pop()).wait())
        nursery.cancel_scope.cancel()
    return ended


def ending(
    how: str, orchestrator: Orchestrator, handle: Handle, nursery: trio.Nursery, again: list[Any]
) -> Callable[[], object]:
    """Return what ends a program, or only its harness, in this way."""

    def pause_and_stop() -> None:
        handle.pause()
        handle.stop()

    def wait() -> None:
        raise Waiting("a person decides")

    ends: dict[str, Callable[[], object]] = {
        "stop": handle.stop,
        "stop all": orchestrator.stop,
        "pause, stop": pause_and_stop,
        "restart": lambda: again.append(orchestrator.restart("f")),
        "cancel": nursery.cancel_scope.cancel,
        "waiting": wait,
    }
    return ends[how]


async def answer(world: World, store: MemoryStore, orchestrator: Orchestrator, approves: bool) -> None:
    """Approve what is asked for, a moment later."""
    seen: set[str] = set()
    while True:
        for record in store.approvals():
            if record.id not in seen:
                seen.add(record.id)
                world.asked.add(record.id)
                with suppress(Waiting):
                    await world.pass_by()
                if approves:
                    await trio.sleep(1)
                    await orchestrator.approve(record.id, by="ann")
        await trio.sleep(1)


WAYS = ("stop", "stop all", "pause, stop", "restart", "cancel", "waiting")


async def test_a_stopped_turn_goes_on_after_its_last_finished_call(autojump_clock: object) -> None:
    for how in WAYS:
        for at in range(1, 10):
            world, store = World(at), MemoryStore()
            ended = [await live(world, store, how)]
            while ended[-1] != "completed" and len(ended) < 4:
                ended.append(await live(world, store, how))
            where = f"{how} at {at}: {ended}"
            assert world.passed >= at, where
            assert ended[-1] == "completed", where
            check(world, where)
            assert [step.output["status"] for step in store.steps("f")] == ["done", "passed"], where


def check(world: World, where: str) -> None:
    assert max(world.acts.values()) == 1, f"{where}: {world.acts}"
    assert max(world.answered.values()) == 1, f"{where}: {world.answered}"
    assert len(world.asked) == 1, f"{where}: {world.asked}"
