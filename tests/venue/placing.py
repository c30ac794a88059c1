"""The program that is killed in the proof: harnesses that place an order in each step, in one of three ways.

    once        the intent of an order is on record before it is sent; what came of it is asked for if nobody said
    retry       it is sent again until there is an answer
    remember    before it is sent again the venue is asked whether it is there; the answer is remembered afterwards, as
                is done by whoever keeps the results of what has been done, and not the intents

python -m tests.venue.placing STORE --venue URL --way once --name p0 --harnesses 50 --orders 1000
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from pathlib import Path

import trio

from harnesses import BaseHarness
from harnesses.effects.effect import Answer, Confirmed, NotDone
from harnesses.errors import Refused
from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtClient, CcxtOptions
from harnesses.trading.exchange.ccxt_translation import CallFailed, parse_report
from harnesses.trading.market.broker import BrokerUnavailable
from harnesses.trading.market.orders import Order, OrderReport, PlacedOrder, Side, Source, client_id_for
from orchestrator import Backoff, Orchestrator, SqliteStore
from orchestrator.outcome import OutcomeKind

from .ordering import BTC, MOMENT
from .running import KEY, SECRET

WAYS = ("once", "retry", "remember")
HALTED = 4
"""Exit code of a program with a harness that waits for a person."""
WINDOW_S = 0.6
_TRIES = 200


class Placing(BaseHarness[int, str, OrderReport]):
    """Places an order in each step. The state is how many there are."""

    def __init__(self, broker: CcxtBroker, client: CcxtClient, way: str, orders: int) -> None:
        super().__init__(0)
        self._broker, self._client, self._way, self._orders = broker, client, way, orders

    def is_complete(self) -> bool:
        return self.state >= self._orders

    async def execute(self) -> AsyncIterator[tuple[str, OrderReport]]:
        place = {"once": self._place_once, "retry": self._place_until_answered, "remember": self._place_and_remember}[
            self._way
        ]
        while not self.is_complete():
            report = await place()
            self.update_state(lambda count: count + 1)
            yield report.client_id, report

    def placed(self, number: int = 0) -> PlacedOrder:
        """Return the order of the step being made; another one for each time that the venue has refused it."""
        step = self.current_step + 1
        client_id = client_id_for(self.name, step, f"order-{number}")
        side = Side.BUY if step % 2 else Side.SELL
        units = Decimal(int(client_id[-4:], 16) % 400 + 100) / 100_000
        return PlacedOrder(client_id, Order(BTC, side, units), Source.STRATEGY, MOMENT)

    async def _place_once(self) -> OrderReport:
        number = 0
        for _ in range(_TRIES):
            try:
                return await self.once(f"order-{number}", self._broker.submit, self.placed(number), reconcile=self._find)
            except Refused:
                number += 1
            except BrokerUnavailable:
                # It is certain that it was not placed, or `once` asks again what became of it.
                continue
        raise BrokerUnavailable(f"{self.name}: the venue has not taken an order in {_TRIES} tries")

    async def _find(self, key: str, placed: PlacedOrder) -> Answer:
        found = await self._broker.find(placed)
        return NotDone() if found is None else Confirmed(found)

    async def _place_until_answered(self) -> OrderReport:
        for _ in range(_TRIES):
            try:
                return await self._broker.submit(self.placed())
            except (Refused, BrokerUnavailable):
                continue
        raise BrokerUnavailable(f"{self.name}: the venue has not answered in {_TRIES} tries")

    async def _place_and_remember(self) -> OrderReport:
        placed = self.placed()
        for _ in range(_TRIES):
            try:
                return await self._broker.submit(placed)
            except (Refused, BrokerUnavailable):
                if (found := await self._look(placed)) is not None:
                    return found
        raise BrokerUnavailable(f"{self.name}: the venue has not answered in {_TRIES} tries")

    async def _look(self, placed: PlacedOrder) -> OrderReport | None:
        """Return an order that the venue knows now; that it does not yet is no proof of anything."""
        params = {"origClientOrderId": placed.client_id}
        try:
            raw = await self._client.ask("fetch_order", None, placed.order.symbol, private=True, params=params)
        except CallFailed:
            return None
        return parse_report(raw, placed)


async def main(options: argparse.Namespace) -> int:
    """Run all harnesses to their ends; return the exit code."""
    broker = CcxtBroker("binance", reach(options.venue, options.connections, options.window), max_wait_s=30.0)
    client = CcxtClient("binance", reach(options.venue, 8))
    await client.get_ready()
    store = SqliteStore(options.store)
    each, more = divmod(options.orders, options.harnesses)
    async with Orchestrator(store, intensity=10**6, backoff=Backoff(base_s=0.01, cap_s=0.5)) as orchestrator:
        handles = [
            orchestrator.start(Placing(broker, client, options.way, each + (number < more)), name=f"{options.name}-{number}")
            for number in range(options.harnesses)
        ]
        outcomes = [await handle.wait() for handle in handles]
    store.close()
    for outcome in outcomes:
        if outcome.kind is not OutcomeKind.COMPLETED:
            print(outcome, file=sys.stderr)
    return 0 if all(outcome.kind is OutcomeKind.COMPLETED for outcome in outcomes) else HALTED


def reach(url: str, connections: int, window_s: float = WINDOW_S) -> CcxtOptions:
    """Return how the venue is reached: with little patience for an answer, and with much for what became of an order.

    Args:
        window_s: for how long after it was sent the venue may take a request.
    """
    return CcxtOptions(
        api_key=KEY,
        secret=SECRET,
        urls={"api": {"public": f"{url}/api/v3", "private": f"{url}/api/v3"}},
        timeout_s=0.25,
        recv_window_s=window_s,
        margin_s=0.1,
        patience_s=20.0 + window_s,
        connections=connections,
        paced=False,
    )


def run(arguments: Sequence[str]) -> int:
    """Be the program; return its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--venue", required=True)
    parser.add_argument("--way", choices=WAYS, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--harnesses", type=int, required=True)
    parser.add_argument("--orders", type=int, required=True)
    parser.add_argument("--connections", type=int, default=48)
    parser.add_argument("--window", type=float, default=WINDOW_S, metavar="S")
    return trio.run(main, parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
