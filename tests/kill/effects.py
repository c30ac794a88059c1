"""The program that is killed in the midst of effects: five kinds of harnesses act on a world outside, in one of three ways.

    once        as effects
    retry       plainly: what is not in a recorded step is done again
    remember    plainly, but remembering each act as soon as it is done

python -m tests.kill.effects STORE WORLD --steps 100 --way once
"""

from __future__ import annotations

import argparse
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import trio

from harnesses import BaseHarness, Refused
from orchestrator import Backoff, Orchestrator, SqliteStore, Store
from orchestrator.testing import FaultyStore, kill_this_process

from .effects_world import Memory, World

WAYS = ("once", "retry", "remember")


class Acting(BaseHarness[int, int, list[str]]):
    """Acts in each step, up to a last one; the state is the sum of the steps, and the output the receipts."""

    def __init__(self, last: int, world: World, way: str, memory: Memory | None) -> None:
        super().__init__(0)
        self.last, self.world, self.way, self.memory = last, world, way, memory

    def is_complete(self) -> bool:
        return self.current_step == self.last

    async def execute(self) -> AsyncIterator[tuple[int, list[str]]]:
        while True:
            step = self.current_step + 1
            done = await self.act(step)
            self.update_state(lambda total: total + step)  # noqa: B023  (called at once)
            yield step, done

    @abstractmethod
    async def act(self, step: int) -> list[str]:
        """Do what belongs to a step; return the receipts."""

    async def do(self, key: str, step: int) -> str:
        """Do one thing in the chosen way."""
        ticket = f"{self.name}/{step}/{key}"
        if self.way == "once":
            return await self.do_once(key, ticket)
        known = self.memory.get(ticket) if self.memory is not None else None
        if known is not None:
            return known
        receipt = await self.world.act(ticket)
        if self.memory is not None:
            self.memory.note(ticket, receipt)
        return receipt

    async def do_once(self, key: str, ticket: str) -> str:
        return await self.once(key, self.world.act, ticket, reconcile=self.world.ask)


class Plain(Acting):
    """One effect in each step."""

    async def act(self, step: int) -> list[str]:
        return [await self.do("only", step)]


class Several(Acting):
    """One effect, and then three at the same time."""

    async def act(self, step: int) -> list[str]:
        receipts = {"first": await self.do("first", step)}

        async def one(key: str) -> None:
            receipts[key] = await self.do(key, step)

        async with trio.open_nursery() as nursery:
            for key in "abc":
                nursery.start_soon(one, key)
        return [receipts[key] for key in sorted(receipts)]


class Losing(Acting):
    """The answer to every third effect is lost on its way back, and every fifth is refused."""

    async def act(self, step: int) -> list[str]:
        try:
            return [await self.do("only", step)]
        except Refused as refusal:
            return [str(refusal)]

    async def do_once(self, key: str, ticket: str) -> str:
        return await self.once(key, self.try_to_act, ticket, reconcile=self.world.ask)

    async def try_to_act(self, ticket: str) -> str:
        step = self.current_step + 1
        if step % 5 == 0:
            raise Refused(f"no {step}")
        receipt = await self.world.act(ticket)
        if step % 3 == 0:
            raise ConnectionError("the answer was lost")
        return receipt


class Halting(Plain):
    """Has nobody to ask: what it does not know, a person must settle."""

    async def do_once(self, key: str, ticket: str) -> str:
        return await self.once(key, self.world.act, ticket)


class Harmless(Plain):
    """May do again what it does."""

    async def do_once(self, key: str, ticket: str) -> str:
        return await self.once(key, self.world.act, ticket, idempotent=True)


KINDS: Mapping[str, type[Acting]] = {
    "plain": Plain,
    "several": Several,
    "losing": Losing,
    "halting": Halting,
    "harmless": Harmless,
}


async def run_all(options: argparse.Namespace) -> None:
    """Run every harness to its last step, or until it is blocked."""
    store: Store = SqliteStore(options.store)
    if options.fault is not None:
        moment, number = options.fault.split(":")
        store = FaultyStore(store, kill_this_process, at=int(number), after=moment == "after")
    world = World(options.world, pace_s=options.pace, die=options.die)
    memory = Memory(options.world.with_suffix(".memory")) if options.way == "remember" else None
    async with Orchestrator(store, backoff=Backoff(base_s=0.001, cap_s=0.01), intensity=10**6) as orchestrator:
        for name in KINDS:
            harness = KINDS[name](options.steps, world, options.way, memory)
            orchestrator.start(harness, name=name, durability="group" if options.group else "step")
    store.close()


def options_of_a_life(*, steps: int) -> argparse.ArgumentParser:
    """Return a parser of what each program that acts is told."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("world", type=Path)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--fault", metavar="before:N|after:N", help="the commit at which the program kills itself")
    return parser


def parse() -> argparse.Namespace:
    """Return the options."""
    parser = options_of_a_life(steps=100)
    parser.add_argument("--way", choices=WAYS, default="once")
    parser.add_argument("--group", action="store_true", help="go on before steps are stored")
    parser.add_argument("--pace", type=float, default=0.0, metavar="S", help="seconds to the world, and back")
    parser.add_argument("--die", metavar="before:N|after:N", help="the act at which the program kills itself")
    return parser.parse_args()


if __name__ == "__main__":
    trio.run(run_all, parse())
