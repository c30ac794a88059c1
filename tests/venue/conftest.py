"""One venue for each file of tests, wiped before each test, and a broker that is quick to give up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtOptions

from .running import KEY, SECRET, RunningVenue

pytest.importorskip("ccxt")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningVenue]:
    with RunningVenue(Path(tmp_path_factory.mktemp("venue")) / "books.db") as venue:
        yield venue


@pytest.fixture
def venue(running: RunningVenue) -> RunningVenue:
    running.control("reset")
    return running


@pytest.fixture
def options(venue: RunningVenue) -> CcxtOptions:
    return CcxtOptions(
        api_key=KEY,
        secret=SECRET,
        urls=venue.urls,
        timeout_s=0.3,
        recv_window_s=0.5,
        margin_s=0.05,
        patience_s=5.0,
        connections=4,
        paced=False,
    )


@pytest.fixture
def broker(options: CcxtOptions) -> CcxtBroker:
    return CcxtBroker("binance", options)
