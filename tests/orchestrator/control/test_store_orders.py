"""Orders that come through the store are carried out once, and none of them can end the run."""

from __future__ import annotations

from collections.abc import Collection

import pytest
import trio

from orchestrator.control.control_server import Request, Response, Server, answered
from orchestrator.control.store_orders import StoreOrders
from orchestrator.store.run_orders import TakenOrder


class Orders:
    """A store that remembers answers."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, int]] = []

    def take_orders(self, startable: Collection[str] = ()) -> list[TakenOrder]:
        return []

    def answer_order(self, id: str, status: int, text: str) -> None:
        self.answers.append((id, status))


@pytest.mark.parametrize(
    ("verb", "options", "status"),
    [("pause", "", 200), ("pause", "?" + "&".join(f"{number}=1" for number in range(11)), 400), ("%ff", "", 400)],
)
async def test_an_order_is_answered_once_however_it_is_written(verb: str, options: str, status: int) -> None:
    store, asked = Orders(), list[Request]()

    async def answer(request: Request) -> Response:
        asked.append(request)
        return answered(200, {})

    async with trio.open_nursery() as services:
        orders = StoreOrders(store, Server(answer), services)
        for _ in range(2):
            orders.carry_out([TakenOrder("1", "one", verb, options, "")])
        with trio.fail_after(5):
            await orders.wait_answered()

    assert store.answers == [("1", status)]
    assert len(asked) == (status == 200)
