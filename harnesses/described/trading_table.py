"""A trading harness that is described by a table, as in a run file, without any Python.

    [[harness]]
    name = "eurusd"

    [harness.trading]
    feed = { files = { AAPL = "data/aapl.csv" }, splits = "data/splits.csv" }
    strategy = { name = "cross", fast = 20, slow = 50, stake = "0.1" }
    broker = { paper = true, cash = 100_000, fees = { rate = "0.001" } }
    limits = { max_drawdown = "0.2" }
    period_s = 60.0

The other keys are the arguments of `TradingHarness`. Numbers that stand for money or a part may be text, so that nothing is
rounded. Paths are relative to the run file. All mistakes are told at once.

    feed        files = { SYMBOL = "bars.csv" }        and the arguments of `ReplayFeed.read`
                request = "https://…/{symbol}"         and the arguments of `PollingFeed`
                exchange = "binance"                   and the arguments of `CcxtFeed`; `options` those of `CcxtOptions`
    broker      "paper", or paper = true               and the arguments of `PaperBroker`; its books lie beside the store
                exchange = "binance"                   and the arguments of `CcxtBroker`; `options` those of `CcxtOptions`
    strategy    "rsi", "cross", "portfolio"            or a table with `name` and the arguments of that
    each        function = "module:name"               what only code can say

`${NAME}` in `headers` and in the keys of an account is what the environment has under that name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import cast

from harnesses.coding.sources.problems import Problems, meant
from harnesses.described.table_arguments import Reader, arguments_from, by_key, called, keys_of, made_from, path_beside, typed
from harnesses.described.table_reading import placed, tried
from harnesses.errors import HarnessMisuse
from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtOptions
from harnesses.trading.exchange.ccxt_feed import CcxtFeed
from harnesses.trading.feeds.polling_feed import PollingFeed
from harnesses.trading.feeds.replay_feed import ReplayFeed
from harnesses.trading.market.instruments import Instrument
from harnesses.trading.paper.paper_books import Fees
from harnesses.trading.paper.paper_broker import PaperBroker, PaperBrokerLater
from harnesses.trading.risk import Limits
from harnesses.trading.strategies import cross_strategy, portfolio_strategy, rsi_strategy
from harnesses.trading.trading_harness import TradingHarness

SUBJECT = "trading harness"
STRATEGIES: Mapping[str, Callable[..., object]] = {
    "rsi": rsi_strategy,
    "cross": cross_strategy,
    "portfolio": portfolio_strategy,
}
_WITHOUT = ("initial_state",)
_ENVIRONMENT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET = ("api_key", "secret", "password")


def described(
    *, beside: Path | str = ".", store: Path | str = "run.db", name: str = "trading", **table: object
) -> TradingHarness:
    """Return the harness that a table describes.

    Args:
        beside: the directory that paths are relative to.
        store: where the run is recorded; the books of a paper broker without a path lie beside it.
        name: of the harness.
        table: the keys of the table.

    Raises:
        InvalidRequest: it describes none; with all mistakes.
    """
    problems = Problems(SUBJECT)
    broker = partial(_broker, beside=Path(beside), books=Path(f"{store}-{name}-venue"), owner=name)
    readers: Mapping[str, Reader] = {
        "feed": partial(_feed, beside=Path(beside)),
        "broker": broker,
        "strategy": _strategy,
        "limits": lambda value, where, problems: made_from(value, Limits, where, problems),
    }
    if "broker" not in table:
        cash = {"cash": table.pop("cash")} if "cash" in table else {}
        table["broker"] = {"paper": True, **cash}
    elif "cash" in table:
        problems.add("cash", "expected none, for the broker has what there is at first; write it into `broker`")
    made = made_from(table, TradingHarness, "", problems, readers=readers, without=_WITHOUT)
    problems.check()
    assert made is not None
    return made


KEYS: Mapping[str, tuple[str, ...]] = {
    "trading": keys_of(TradingHarness, _WITHOUT),
    "trading.feed with files": keys_of(ReplayFeed.read),
    "trading.feed with request": keys_of(PollingFeed, ("parse", "clock")),
    "trading.feed with exchange": keys_of(CcxtFeed),
    "trading.broker with paper": ("paper", *keys_of(PaperBroker)),
    "trading.broker with exchange": keys_of(CcxtBroker),
    "trading.limits": keys_of(Limits),
    **{f"trading.strategy {name}": ("name", *keys_of(make)) for name, make in STRATEGIES.items()},
}
"""What may be said where: for documentation."""


# feeds


def _feed(value: object, where: str, problems: Problems, *, beside: Path) -> object:
    return by_key(value, where, problems, {key: partial(read, beside=beside) for key, read in _FEEDS.items()})


def _replay(value: object, where: str, problems: Problems, *, beside: Path) -> object:
    def files(value: object, where: str, problems: Problems) -> object:
        found = typed(dict[str, str])(value, where, problems)
        return None if found is None else {key: placed(path, beside) for key, path in cast(dict[str, str], found).items()}

    return made_from(value, ReplayFeed.read, where, problems, readers={"files": files, "splits": path_beside(beside)})


def _polling(value: object, where: str, problems: Problems, *, beside: Path) -> object:
    readers: Mapping[str, Reader] = {"request": typed(str), "headers": _headers}
    return made_from(value, PollingFeed, where, problems, readers=readers, without=("parse", "clock"))


def _ccxt_feed(value: object, where: str, problems: Problems, *, beside: Path) -> object:
    return made_from(value, CcxtFeed, where, problems, readers={"options": _account})


def _function(value: object, where: str, problems: Problems, *, beside: Path) -> object:
    return made_from(value, called, where, problems)


_FEEDS = {"files": _replay, "request": _polling, "exchange": _ccxt_feed, "function": _function}


# brokers


def _broker(value: object, where: str, problems: Problems, *, beside: Path, books: Path, owner: str) -> object:
    if value == "paper":
        value = {"paper": True}
    kinds: Mapping[str, Reader] = {
        "paper": partial(_paper, beside=beside, books=books, owner=owner),
        "exchange": _ccxt_broker,
        "function": partial(_function, beside=beside),
    }
    return by_key(value, where, problems, kinds, or_text="'paper'")


def _paper(value: object, where: str, problems: Problems, *, beside: Path, books: Path, owner: str) -> object:
    table = dict(cast(Mapping[str, object], value))
    if table.pop("paper") is not True:
        problems.add(where, "paper: expected true; for a venue of another kind, leave it out")
        return None
    readers: Mapping[str, Reader] = {
        "path": path_beside(beside),
        "instruments": _instruments,
        "fees": lambda value, where, problems: made_from(value, Fees, where, problems),
    }
    arguments = arguments_from(table, PaperBroker, where, problems, readers=readers)
    if arguments is None:
        return None
    path = arguments.pop("path", books)
    return tried(lambda: PaperBrokerLater(path, owner=owner, **arguments), where, problems)


def _ccxt_broker(value: object, where: str, problems: Problems) -> object:
    return made_from(value, CcxtBroker, where, problems, readers={"options": _account})


def _instruments(value: object, where: str, problems: Problems) -> object:
    if not isinstance(value, Mapping):
        problems.add(where, f"expected a table of tables, by symbol, got {value!r:.100}; write one")
        return None
    tables = cast(Mapping[str, object], value)
    return {
        symbol: made_from(one, Instrument, f"{where}: {symbol}", problems, also={"symbol": symbol})
        for symbol, one in tables.items()
    }


def _account(value: object, where: str, problems: Problems) -> object:
    return made_from(value, CcxtOptions, where, problems, readers=dict.fromkeys(_SECRET, _secret))


# strategies


def _strategy(value: object, where: str, problems: Problems) -> object:
    table = {"name": value} if isinstance(value, str) else value
    if isinstance(table, Mapping) and "function" in table:
        return made_from(cast(object, table), called, where, problems)
    name = cast(Mapping[str, object], table).get("name") if isinstance(table, Mapping) else None
    if not isinstance(name, str) or name not in STRATEGIES:
        way_out = meant(str(name), STRATEGIES, {"sma_cross": "cross", "ema_cross": "cross"}) or "; choose one"
        known = ", ".join(STRATEGIES)
        problems.add(
            where, f"expected the name of one ({known}), or a table with name or function, got {value!r:.100}{way_out}"
        )
        return None
    rest = {key: one for key, one in cast(Mapping[str, object], table).items() if key != "name"}
    return made_from(rest, STRATEGIES[name], where, problems)


# what comes from the environment


def _headers(value: object, where: str, problems: Problems) -> object:
    found = typed(dict[str, str])(value, where, problems)
    texts = cast(dict[str, str], found or {})
    return {name: _secret(text, f"{where}: {name}", problems) for name, text in texts.items()}


def _secret(value: object, where: str, problems: Problems) -> object:
    found = typed(str)(value, where, problems)
    return None if found is None else tried(lambda: from_environment(str(found)), where, problems)


def from_environment(text: str) -> str:
    """Return a text with each `${NAME}` replaced by what the environment has under that name.

    Raises:
        HarnessMisuse: it has nothing under one of them.
    """
    for name in _ENVIRONMENT.findall(text):
        if name not in os.environ:
            raise HarnessMisuse(f"expected {name} in the environment, got nothing; set it")
    return _ENVIRONMENT.sub(lambda match: os.environ[match[1]], text)
