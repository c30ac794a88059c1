"""What a trading harness cannot be made of, and what a strategy cannot answer: said at once, with what to do."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from harnesses import Agent, HarnessMisuse
from harnesses.trading import Bar, Order, ReplayFeed, Side, Strategy, TradingHarness, rsi_strategy

FEED = ReplayFeed({"A": {datetime(2000, 3, 1, tzinfo=UTC): Bar(*[Decimal(100)] * 4, 10_000)}})
ORDER = Order("A", Side.BUY, Decimal(1))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"feed": ReplayFeed}, "feed: expected a feed, such as .*, was <class .*; create one"),
        ({"feed": None}, "feed: expected a feed, such as .*, was None; add the method next_slice"),
        ({"broker": "paper"}, "broker: expected a broker, such as PaperBroker.*, was 'paper'"),
        ({"strategy": "x"}, "strategy: expected a Strategy or None, was 'x'"),
        ({"strategy": rsi_strategy}, "strategy: expected a Strategy or None, was <function"),
        ({"limits": {"max_drawdown": 0.1}}, "limits: expected Limits or None, was {'max_drawdown': 0.1}; write Limits"),
        ({"period_s": -1}, "period_s: expected seconds from 0 up, was -1"),
        ({"period_s": "1m"}, "period_s: expected seconds from 0 up, was '1m'"),
        ({"patience_s": -1}, "patience_s: expected seconds from 0 up, was -1"),
        ({"cash": 0.5}, "cash: expected a Decimal, was the float 0.5"),
    ],
)
def test_what_a_harness_can_not_be_made_of_is_said_when_it_is_made(given: dict[str, object], said: str) -> None:
    with pytest.raises(HarnessMisuse, match=said):
        TradingHarness(**{"feed": FEED, **given})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "was None; return \\[\\] for none"),
        (ORDER, "was Order.*; return \\[order\\]"),
        ("buy", "was 'buy'"),
        (["buy"], "was one with 'buy'"),
        ([ORDER, None], "was one with None"),
    ],
)
async def test_an_answer_that_is_no_list_of_orders_is_refused(autojump_clock, answer: object, said: str) -> None:
    async def run(run: object) -> object:
        return answer

    harness = TradingHarness(FEED.another(), strategy=Strategy(Agent(run, name="odd")))

    with pytest.raises(HarnessMisuse, match=f"strategy 'odd': expected a list of Order, {said}"):
        await harness.run()


def test_a_strategy_is_made_of_an_agent() -> None:
    with pytest.raises(HarnessMisuse, match=r"Strategy: agent: expected an Agent, .*; write Strategy\(Agent\(function\)\)"):
        Strategy(lambda run: [])
