"""Trading tools: what an agent sees of a market, and that its orders go through the harness and its limits alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from harnesses import Agent, AgentRun, HarnessMisuse
from harnesses.agents import coding_tools
from harnesses.agents.tools.tool import ToolEffect
from harnesses.trading import Bar, Limits, PaperBroker, ReplayFeed, TradingHarness
from harnesses.trading.indicators import Ema
from harnesses.trading.trading_tools import Venue, agent_strategy, trading_tools
from tests import ROOT
from tests.harnesses.agents.tools.turn_tools import Caller, opened

FIRST = datetime(2026, 1, 5, tzinfo=UTC)


def feed(*closes: int) -> ReplayFeed:
    prices = closes or (100, 101, 102, 103, 104)
    return ReplayFeed(
        {"A": {FIRST + timedelta(day): Bar(*[Decimal(close)] * 4, Decimal(10_000)) for day, close in enumerate(prices)}}
    )


def agent(decide: Any) -> Agent[Any, Any, Any]:
    """Return an agent that decides with the tools for trading, as a model does."""

    async def work(run: AgentRun[Any, Any]) -> str:
        async with opened(*trading_tools(orders=True), run=run) as call:
            await decide(call)
        return "done"

    return Agent(work, name="trader")


def test_the_page_of_tools_names_the_effect_and_the_arguments_of_each() -> None:
    rows = []
    for each in (*coding_tools(), *trading_tools(orders=True)):
        schema = json.loads(each.definition.input_schema)
        arguments = ", ".join(f"`{name}`" + "?" * (name not in schema["required"]) for name in schema["properties"])
        rows.append(f"| `{each.definition.name}` | `{each.effect.name}` | {arguments or 'none'} |")

    page = (ROOT / "docs" / "how-to" / "tools.md").read_text(encoding="utf-8").splitlines()
    assert [row for row in rows if row not in page] == []


async def trade(decide: Any, *, limits: Limits | None = None) -> TradingHarness:
    harness = TradingHarness(
        feed(), PaperBroker(Decimal(10_000)), agent_strategy(agent(decide), {"ema2": Ema(2)}), limits=limits
    )
    await harness.run()
    return harness


def test_by_default_tools_only_read():
    assert {tool.effect for tool in trading_tools()} == {ToolEffect.READS}
    assert [tool.definition.name for tool in trading_tools()] == ["quotes", "account", "positions", "indicators"]


async def test_an_agent_sees_the_market_that_the_harness_asks_about(autojump_clock):
    seen: list[Any] = []

    async def look(call: Caller) -> None:
        for name in ("quotes", "account", "positions", "indicators"):
            result = await call(name)
            assert not result.is_error, result.text
            seen.append(json.loads(result.text))

    await trade(look)

    quotes, account, positions, indicators = seen[-4:]
    assert quotes["quotes"] == {"A": {"close": "104", "lot": "1"}}
    assert (account["cash"], account["equity"], positions) == ("10000", "10000", {})
    assert indicators["A"]["ema2"] == pytest.approx(103.5, abs=0.1)


async def test_wanted_orders_are_placed_by_the_harness_once_each(autojump_clock):
    async def buy(call: Caller) -> None:
        first = await call("order", symbol="A", side="buy", units="3", reason="cheap")
        again = await call("order", symbol="A", side="buy", units=3, reason="cheap")
        assert first.text.startswith("order 1 is wanted")
        assert again.text == "this order is wanted already"
        assert len(json.loads((await call("wanted_orders")).text)) == 1

    harness = await trade(buy)

    book = harness.state.book
    assert book is not None
    assert book.positions["A"].units == 3 * 5  # one order in each of five slices


async def test_an_order_beyond_the_limits_is_refused_by_the_harness(autojump_clock):
    async def buy(call: Caller) -> None:
        await call("order", symbol="A", side="buy", units="90")

    harness = await trade(buy, limits=Limits(max_position=Decimal("0.1")))

    book = harness.state.book
    assert book is not None
    assert book.positions.get("A") is None or book.positions["A"].units * 100 <= 1_000


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"symbol": "B", "side": "buy", "units": "1"}, "symbol 'B' is not traded now: expected some of A"),
        ({"symbol": "A", "side": "buy", "units": "0"}, "expected a multiple of the lot 1 above 0"),
        ({"symbol": "A", "side": "buy", "units": "1.5"}, "expected a multiple of the lot 1 above 0"),
        ({"symbol": "A", "side": "hold", "units": "1"}, "argument `side`"),
        *(
            ({"symbol": "A", "side": "buy", "units": units}, "units: expected a multiple of the lot 1 above 0, at most")
            for units in ("NaN", "sNaN", "Infinity", "-Infinity", "1e30", 10**25, "-0", -5)
        ),
        *(
            (
                {"symbol": "A", "side": "buy", "units": 1, "kind": kind, f"{kind}_price": price},
                f"{kind}_price: expected a price",
            )
            for kind, price in product(("limit", "stop"), (None, "NaN", "Infinity", -1, 0, "1e-400", "1e30"))
        ),
        ({"symbol": "A", "side": "buy", "units": 1, "limit_price": 5}, "limit_price: expected none for a market order, got 5"),
        (
            {"symbol": "A", "side": "buy", "units": 1, "kind": "limit", "limit_price": 5, "stop_price": 4},
            "stop_price: expected none",
        ),
    ],
)
async def test_an_order_that_is_none_is_told(order, told, autojump_clock):
    async def want(call: Caller) -> None:
        result = await call("order", **order)
        assert result.is_error
        assert told in result.text
        assert (await call("wanted_orders")).text == "[]"

    harness = await trade(want)

    assert harness.state.book is not None
    assert harness.state.book.positions == {}


async def test_a_venue_is_looked_at_from_outside_of_a_strategy(autojump_clock):
    venue = Venue(feed(100, 110), PaperBroker(Decimal(500)), {"ema2": Ema(2)})
    async with opened(*trading_tools(venue=venue)) as call:
        quotes, account = [json.loads((await call(name)).text) for name in ("quotes", "account")]
        wrong = await call("quotes", symbols=["B"])

    assert quotes["quotes"]["A"]["close"] == "110"
    assert account["equity"] == "500"
    assert wrong.is_error


def test_orders_at_a_venue_without_a_harness_are_refused():
    with pytest.raises(HarnessMisuse, match="agent_strategy"):
        trading_tools(venue=Venue(feed(), PaperBroker(Decimal(1))), orders=True)


async def test_tools_outside_of_a_strategy_need_a_venue(autojump_clock):
    with pytest.raises(HarnessMisuse, match="give the tools a `venue`"):
        async with opened(*trading_tools()) as call:
            await call("quotes")
