"""The program that is killed in the midst of agents' turns: rounds of one model call and three tool calls side by side.

The tools' errors are kept: one of three raises when it has acted. Nobody can be asked what became of a tool call.

python -m tests.kill.agent_turns STORE WORLD --steps 3
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import trio

from harnesses import Agent, AgentRun, BaseHarness, EffectFailed, EffectInterrupted
from orchestrator import Backoff, Orchestrator, SqliteStore, Store
from orchestrator.testing import FaultyStore, kill_this_process

from .effects import options_of_a_life
from .effects_world import World

ROUNDS = 2
TOOLS = ("a", "b", "c")
NAMES = ("one", "two")


class Turns(BaseHarness[int, int, dict[str, str]]):
    """Calls an agent twice in each step, up to a last one."""

    def __init__(self, last: int, world: World) -> None:
        super().__init__(0)
        self.last, self.world = last, world

    def is_complete(self) -> bool:
        return self.current_step == self.last

    async def execute(self) -> AsyncIterator[tuple[int, dict[str, str]]]:
        agent: Agent[int, int, dict[str, str]] = Agent(self._turn, name="coder")
        while True:
            step = self.current_step + 1
            told = await self.run_agent(agent, step) | await self.run_agent(agent, step, key="again")
            self.update_state(lambda total: total + step)  # noqa: B023  (called at once)
            yield step, told

    async def _turn(self, run: AgentRun[int, int]) -> dict[str, str]:
        told: dict[str, str] = {}
        for number in range(ROUNDS):
            model = f"model{number}"
            told[self._ticket(run, model)] = await run.once(model, self.world.act, self._ticket(run, model), idempotent=True)
            async with trio.open_nursery() as nursery:
                for tool in TOOLS:
                    nursery.start_soon(self._call, run, f"{tool}{number}", told)
        return told

    async def _call(self, run: AgentRun[int, int], key: str, told: dict[str, str]) -> None:
        ticket = self._ticket(run, key)
        act = partial(self._fail, ticket) if key.startswith("b") else partial(self.world.act, ticket)
        try:
            told[ticket] = await run.once(key, act, errors="keep")
        except EffectInterrupted:
            told[ticket] = "interrupted"
        except EffectFailed as error:
            told[ticket] = error.reason

    async def _fail(self, ticket: str) -> str:
        raise ValueError(await self.world.act(ticket))

    def _ticket(self, run: AgentRun[Any, Any], key: str) -> str:
        return f"{self.name}/{run.step_number}/{run.scope}{key}"


async def run_all(options: argparse.Namespace) -> None:
    """Run every harness to its last step."""
    store: Store = SqliteStore(options.store)
    if options.fault is not None:
        moment, number = options.fault.split(":")
        store = FaultyStore(store, kill_this_process, at=int(number), after=moment == "after")
    world = World(options.world, pace_s=options.pace, die=options.die)
    async with Orchestrator(store, backoff=Backoff(base_s=0.001, cap_s=0.01)) as orchestrator:
        for name in NAMES:
            orchestrator.start(Turns(options.steps, world), name=name)
    store.close()


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = options_of_a_life(steps=3)
    parser.add_argument("--pace", type=float, default=0.0, metavar="S", help="seconds to the world, and back")
    parser.add_argument("--die", metavar="before:N|after:N", help="the act at which the program kills itself")
    return parser.parse_args()


if __name__ == "__main__":
    trio.run(run_all, parse())
