"""The work with this package: a harness for each, durable step by step."""

from collections.abc import AsyncIterator
from typing import Any

import trio
from attrs import define, evolve
from given_work import FIRST_STATE, change, given, tell

from harnesses import BaseHarness
from orchestrator import Orchestrator, SqliteStore


@define(frozen=True)
class Position:
    count: int
    price: str
    cash: str
    note: str
    symbol: str
    venue: str
    tokens: int
    limit: int
    is_open: bool
    label: str


class Stepping(BaseHarness[Position, dict[str, Any], dict[str, Any]]):
    def __init__(self, turns: list[list[Any]]) -> None:
        super().__init__(Position(**FIRST_STATE))
        self._turns = turns

    async def execute(self) -> AsyncIterator[tuple[dict[str, Any], dict[str, Any]]]:
        while self.current_step < len(self._turns):
            now = {"count": self.state.count, "tokens": self.state.tokens}
            changed, taken, put = change(self._turns[self.current_step], now)
            self.update_state(lambda state, changed=changed: evolve(state, **changed))
            yield taken, put


async def main(work: list[list[list[Any]]]) -> None:
    async with Orchestrator(SqliteStore("run.db"), control=False) as orchestrator:
        for number, turns in enumerate(work):
            orchestrator.start(Stepping(turns), name=f"h{number}")


WORK = given()
tell(lambda: trio.run(main, WORK))
