"""The SDKs' clients: one for each account and Trio run, made aside of the loop, closed at the end of the run."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio
from attrs import define, field

from harnesses.agents.model.providers.sdk_clients import sdk_client


@define
class Sdk:
    """Says by which thread it was made, and whether it was closed."""

    thread: int = field(factory=threading.get_ident)
    closed: bool = False

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()
        self.closed = True


async def borrow(account: str, made: list[Sdk]) -> Sdk:
    def make() -> Sdk:
        made.append(Sdk())
        return made[-1]

    async with sdk_client("some", account, make) as client:
        await trio.lowlevel.checkpoint()
        found: Sdk = client
        return found


async def test_harnesses_that_begin_at_once_share_one_client_made_by_another_thread() -> None:
    made: list[Sdk] = []
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(borrow, "a", made)

    assert len(made) == 1
    assert made[0].thread != threading.get_ident()
    assert await borrow("b", made) is not made[0]


def test_clients_are_closed_at_the_end_of_a_run_also_of_one_that_fails() -> None:
    made: list[Sdk] = []

    async def fail() -> None:
        await borrow("a", made)
        raise ValueError("mine")

    trio.run(borrow, "a", made)
    with pytest.raises(ValueError, match="mine"):
        trio.run(fail)

    assert [sdk.closed for sdk in made] == [True, True]


async def test_clients_of_keys_that_were_replaced_are_closed_but_none_that_is_used() -> None:
    made: list[Sdk] = []

    def make() -> Any:
        return made.append(Sdk()) or made[-1]

    async with sdk_client("some", "in use", make):
        for number in range(40):
            await borrow(f"key {number}", made)

        assert [sdk.closed for sdk in made].count(False) <= 18
        assert not made[0].closed


async def test_a_client_that_cannot_be_made_is_tried_again() -> None:
    def fail() -> Sdk:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            async with sdk_client("some", "broken", fail):
                pass
