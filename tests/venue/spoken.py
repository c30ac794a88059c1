"""How the venue is reached in each of its dialects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from harnesses.trading.exchange.ccxt_client import CcxtOptions

from .tongues import kraken

SPOKEN = ("binance", "kraken", "okx", "bybit", "coinbase")


def in_dialect(options: CcxtOptions, exchange: str, url: str) -> CcxtOptions:
    """Return options for Binance's dialect as those of another exchange, at the same venue."""
    socket = url.replace("http", "ws", 1)
    addresses: Mapping[str, Mapping[str, Any]] = {
        "binance": {"public": f"{url}/api/v3", "private": f"{url}/api/v3", "ws": {"spot": f"{socket}/stream/ws"}},
        "kraken": {"public": url, "private": url, "ws": {"publicV2": f"{socket}/v2"}},
        "okx": {"rest": url, "ws": f"{socket}/ws/v5"},
        "bybit": {"public": url, "private": url},
        "coinbase": {"rest": url},
    }
    secret = kraken.SECRET if exchange == "kraken" else options.secret
    return evolve(options, secret=secret, password="phrase", urls={"api": addresses[exchange]})
