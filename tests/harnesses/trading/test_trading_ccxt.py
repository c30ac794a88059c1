"""What an exchange's errors mean. How the broker and the feed fare at a venue is under `tests/venue`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harnesses.errors import HarnessMisuse
from harnesses.trading.exchange.ccxt_client import CcxtClient, CcxtOptions
from harnesses.trading.exchange.ccxt_feed import CcxtFeed
from harnesses.trading.exchange.ccxt_translation import Verdict, in_order, judge, parse_retry_after
from harnesses.trading.market.feed import FeedPoller
from harnesses.trading.market.orders import ONE, ZERO, Fill, Side

ccxt: Any = pytest.importorskip("ccxt")


@pytest.mark.parametrize(
    ("error", "status", "sent", "verdict"),
    [
        (ccxt.InvalidOrder("too small"), 400, True, Verdict.REFUSED),
        (ccxt.InsufficientFunds("poor"), 400, True, Verdict.REFUSED),
        (ccxt.InsufficientFunds("poor"), None, True, Verdict.REFUSED),
        (ccxt.BadSymbol("none"), 400, True, Verdict.REFUSED),
        (ccxt.PermissionDenied("no"), 401, True, Verdict.REFUSED),
        (ccxt.NetworkError("nothing was sent"), None, False, Verdict.REFUSED),
        (ccxt.RequestTimeout("slow"), None, True, Verdict.UNKNOWN),
        (ccxt.RequestTimeout("execution status unknown"), 504, True, Verdict.UNKNOWN),
        (ccxt.InvalidOrder("told by a broken venue"), 503, True, Verdict.UNKNOWN),
        (ccxt.InvalidOrder("Duplicate order sent."), 400, True, Verdict.UNKNOWN),
        (ccxt.DuplicateOrderId("again"), 400, True, Verdict.UNKNOWN),
        (ccxt.NetworkError("reset"), None, True, Verdict.UNKNOWN),
        (ccxt.ExchangeNotAvailable("a firewall says no"), 403, True, Verdict.UNKNOWN),
        (ccxt.ExchangeError("redirected"), None, True, Verdict.UNKNOWN),
        (ccxt.BadResponse("half an answer"), None, True, Verdict.UNKNOWN),
        (ccxt.OperationFailed("-1000"), 400, True, Verdict.UNKNOWN),
        (TypeError("ccxt has not understood it"), None, True, Verdict.UNKNOWN),
        (ccxt.DDoSProtection("429"), 429, True, Verdict.NOT_NOW),
        (ccxt.RateLimitExceeded("-1015"), 400, True, Verdict.NOT_NOW),
        (ccxt.DDoSProtection("who says so?"), None, True, Verdict.UNKNOWN),
        (ccxt.InvalidNonce("-1021"), 400, True, Verdict.WRONG_TIME),
        (ccxt.InvalidNonce("who says so?"), None, True, Verdict.UNKNOWN),
        (ccxt.OrderNotFound("-2013"), 400, True, Verdict.NOT_FOUND),
    ],
)
def test_only_what_is_certain_is_refused(error: Exception, status: int | None, sent: bool, verdict: Verdict) -> None:
    kinds = [kind.__name__ for kind in type(error).__mro__]

    assert judge(kinds, str(error), status=status, sent=sent) is verdict


@pytest.mark.parametrize(
    ("value", "seconds"), [("1", 1.0), ("0", 0.0), (None, None), ("soon", None), ("-1", None), ("inf", None), ("nan", None)]
)
def test_what_can_not_be_waited_for_is_no_time_to_wait(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value) == seconds


def test_an_exchange_that_ccxt_does_not_know_is_named() -> None:
    with pytest.raises(HarnessMisuse, match="exchange 'nasdaq' is unknown to ccxt"):
        CcxtClient("nasdaq", CcxtOptions())


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(CcxtOptions(api_key="hush", secret="hush", password="hush"))


def test_patience_outlasts_the_time_in_which_an_order_may_be_taken() -> None:
    with pytest.raises(HarnessMisuse, match="patience_s: expected more than recv_window_s and margin_s together, was 6"):
        CcxtClient("binance", CcxtOptions(recv_window_s=5.0, margin_s=1.0, patience_s=6.0))


def test_fills_keep_the_order_of_the_venue_though_its_clock_is_set_back() -> None:
    def fill(symbol: str, number: int, seconds: float) -> Fill:
        time = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        return Fill(str(number), "", symbol, Side.BUY, ONE, ONE, ZERO, time)

    back = [fill("BTC/USDT", 10, 5.0), fill("BTC/USDT", 11, 4.5)]
    other = [fill("ETH/USDT", 3, 1.0), fill("ETH/USDT", 4, 9.0)]

    merged = in_order([back, other])

    assert [(one.symbol[:3], one.fill_id) for one in merged] == [("ETH", "3"), ("BTC", "10"), ("BTC", "11"), ("ETH", "4")]


def test_the_feed_of_an_exchange_says_how_long_its_bars_are() -> None:
    assert FeedPoller(CcxtFeed("binance", ["BTC/USDT"], "15m"), 60.0, 300.0).bar_s == 900.0
