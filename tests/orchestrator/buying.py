"""Harnesses with a past worth looking at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from harnesses import BaseHarness
from orchestrator import Orchestrator, Store
from orchestrator.history import state_hash


@frozen
class Account:
    cash: int = 100
    fills: tuple[int, ...] = ()


def bought(account: Account, price: int) -> Account:
    return evolve(account, cash=account.cash - price, fills=(*account.fills, price))


class Buying(BaseHarness[Account, int, str]):
    """Buys at each step for what the step's number is, and notes in its output what hash its state then has."""

    def __init__(self, until: int, times: int = 1) -> None:
        super().__init__(Account())
        self.until, self.times = until, times

    async def execute(self) -> AsyncIterator[tuple[int, str]]:
        while self.current_step < self.until:
            price = (self.current_step + 1) * self.times
            self.update_state(partial(bought, price=price))
            yield price, state_hash(self.state)


async def run(store: Store | Path, until: int, *, name: str = "buying", times: int = 1) -> Any:
    """Have it buy until a step; return its outcome."""
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        return await orchestrator.start(Buying(until, times), name=name).wait()
