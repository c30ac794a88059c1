"""Reads a trading harness from a table of a run file, without Python code.

    [[harness]]
    name = "eurusd"

    [harness.trading]
    feed = { files = { AAPL = "data/aapl.csv" }, splits = "data/splits.csv" }
    strategy = { name = "cross", fast = 20, slow = 50, stake = "0.1" }
    broker = { paper = true, cash = 100_000, fees = { rate = "0.001" } }
    account = { name = "main", cash = 40_000 }
    limits = { max_drawdown = "0.2" }
    period_s = 60.0

The other keys are the arguments of `TradingHarness`. Amounts of money and fractions may be strings, to avoid rounding. Paths
are relative to the run file. All mistakes are reported together.

    feed        files = { SYMBOL = "bars.csv" }        and the arguments of `ReplayFeed.read`
                request = "https://…/{symbol}"         and the arguments of `PollingFeed`
                exchange = "binance"                   and the arguments of `CcxtFeed`; `options` those of `CcxtOptions`
    broker      "paper", or paper = true               and the arguments of `PaperBroker`; its books are next to the store
                exchange = "binance"                   and the arguments of `CcxtBroker`; `options` those of `CcxtOptions`
    account     name and cash                          several harnesses with the same broker share one account
    strategy    "rsi", "cross", "portfolio"            or a table with `name` and the arguments of that strategy
    each        function = "module:name"               Python code

`${NAME}` in `headers` and in the keys of an account is replaced by that environment variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import cast

from attrs import frozen

from harnesses.data.environment_variables import from_environment
from harnesses.diagnostics.object_reference import load_object
from harnesses.errors import HarnessMisuse, near
from harnesses.run_file_harnesses.table_arguments import (
    FUNCTION,
    Kind,
    Reader,
    TableProblems,
    attempt,
    check_arguments,
    keys_of,
    make_from,
    read_arguments,
    read_kind,
    read_path,
    reader_of,
)
from harnesses.trading.exchange.ccxt_broker import CcxtBroker
from harnesses.trading.exchange.ccxt_client import CcxtOptions
from harnesses.trading.exchange.ccxt_feed import CcxtFeed
from harnesses.trading.feeds.polling_feed import PollingFeed
from harnesses.trading.feeds.replay_feed import ReplayFeed
from harnesses.trading.market.broker import Broker
from harnesses.trading.market.instruments import Instrument, Margin
from harnesses.trading.paper.paper_books import Fees
from harnesses.trading.paper.paper_broker import PaperBroker, PaperBrokerLater
from harnesses.trading.risk import Limits
from harnesses.trading.sharing.paper_share import PaperShare
from harnesses.trading.sharing.shared_account import Share, SharedAccount
from harnesses.trading.strategies import Strategy, cross_strategy, portfolio_strategy, rsi_strategy
from harnesses.trading.trading_harness import TradingHarness

SUBJECT = "trading harness"
STRATEGIES: Mapping[str, Callable[..., object]] = {
    "rsi": rsi_strategy,
    "cross": cross_strategy,
    "portfolio": portfolio_strategy,
}
_WITHOUT = ("initial_state",)
_OF_INSTRUMENT = ("symbol", "charges", "margin")
"""Fields of an instrument that a table does not set: its key is the symbol, and the venue knows its charges and margin."""


def read_harness(
    *, beside: Path | str = ".", store: Path | str = "run.db", name: str = "trading", **table: object
) -> TradingHarness:
    """Return the harness that a table describes.

    Args:
        beside: the directory that paths are relative to.
        store: where the run is recorded; the books of a paper broker without a path are kept next to it.
        name: the name of the harness.
        table: the keys of the table. Its parts may be made already, as by a backtest.

    Raises:
        InvalidRequest: the table is invalid; lists all mistakes.
    """
    problems = TableProblems(SUBJECT, beside=Path(beside))
    allotment = make_from(Allotment, table.pop("account"), "account", problems) if "account" in table else None
    owner = allotment.name if allotment else name
    read_broker: Reader = partial(_read_broker, by=partial(PaperBrokerLater, path=Path(f"{store}-{owner}-venue"), owner=owner))
    if allotment is not None:
        read_broker = partial(_read_share, of=allotment, member=name, path=Path(f"{store}-{owner}-account"), read=read_broker)
    readers: Mapping[str, Reader] = {
        "feed": _read_feed,
        "broker": read_broker,
        "strategy": _read_strategy,
        "limits": partial(make_from, Limits),
    }
    if "broker" not in table:
        cash = {"cash": table.pop("cash")} if "cash" in table else {}
        table["broker"] = {"paper": True, **cash}
    elif "cash" in table:
        problems.add("cash", "expected none, because the broker knows the initial cash; write it into `broker`")
    made = make_from(TradingHarness, table, "", problems, readers=readers, without=_WITHOUT, own=("account",))
    problems.check()
    assert made is not None
    return made


@frozen
class Allotment:
    """A harness's share of an account."""

    name: str
    """Name of the account, the same for all harnesses that share it."""
    cash: Decimal
    """Cash of the account that is the harness's own."""


_ACCOUNTS: dict[Path, tuple[object, SharedAccount]] = {}
"""The shared accounts of this process, by the file of their sub-books, each with the table of its broker."""


def _read_share(
    value: object, where: str, problems: TableProblems, *, of: Allotment, member: str, path: Path, read: Reader
) -> Share | PaperShare | None:
    """Return a harness's share of an account; the harnesses of this process use one broker for it."""
    table, known = _ACCOUNTS.get(path.absolute(), (value, None))
    if known is not None and table != value:
        problems.add(where, f"expected that of the other harnesses of account {of.name!r}, {table!r:.100}, got {value!r:.100}")
        return None
    if known is None:
        broker = read(value, where, problems)
        if broker is None:
            return None
        made = attempt(lambda: SharedAccount(of.name, cast(Broker, broker), path=path), "account", problems)
        if made is None:
            return None
        known = made
        _ACCOUNTS[path.absolute()] = value, known
    return attempt(lambda: known.share(member, of.cash), "account", problems)


described = read_harness
"""Former name of `read_harness`."""


KEYS: Mapping[str, tuple[str, ...]] = {
    "trading": (*keys_of(TradingHarness, _WITHOUT), "account"),
    "trading.account": keys_of(Allotment),
    "trading.feed with files": keys_of(ReplayFeed.read),
    "trading.feed with request": keys_of(PollingFeed, ("parse", "clock")),
    "trading.feed with exchange": keys_of(CcxtFeed),
    "trading.broker with paper": ("paper", *keys_of(PaperBroker)),
    "trading fees": keys_of(Fees),
    "trading margin": keys_of(Margin),
    "trading instruments.SYMBOL": keys_of(Instrument, _OF_INSTRUMENT),
    "trading.broker with exchange": keys_of(CcxtBroker),
    "trading exchange options": keys_of(CcxtOptions),
    "trading.limits": keys_of(Limits),
    **{f"trading.strategy {name}": ("name", *keys_of(make)) for name, make in STRATEGIES.items()},
}
"""Allowed keys by table, for the documentation."""


# environment variables


def _read_secret(value: object, where: str, problems: TableProblems) -> str | None:
    found: str | None = reader_of(str)(value, where, problems)
    return None if found is None else attempt(lambda: from_environment(found), where, problems)


def _read_headers(value: object, where: str, problems: TableProblems) -> dict[str, str | None]:
    texts: dict[str, str] = reader_of(dict[str, str])(value, where, problems) or {}
    return {name: _read_secret(text, f"{where}: {name}", problems) for name, text in texts.items()}


# feeds and brokers

_TEXT = reader_of(str)


def _read_files(value: object, where: str, problems: TableProblems) -> dict[str, Path]:
    found: dict[str, str] = reader_of(dict[str, str])(value, where, problems) or {}
    return {key: problems.place(path) for key, path in found.items()}


_ACCOUNT: Mapping[str, Reader] = {
    "options": partial(make_from, CcxtOptions, readers=dict.fromkeys(("api_key", "secret", "password"), _read_secret))
}
_FEEDS: Mapping[str, Kind] = {
    "files": Kind(ReplayFeed.read, "files", _read_files, {"splits": read_path}),
    "request": Kind(PollingFeed, "request", _TEXT, {"headers": _read_headers}, ("parse", "clock")),
    "exchange": Kind(CcxtFeed, "exchange", _TEXT, _ACCOUNT),
    "function": FUNCTION,
}


def _read_feed(value: object, where: str, problems: TableProblems) -> object:
    return value if isinstance(value, ReplayFeed) else read_kind(_FEEDS, value, where, problems)


def read_recording(table: object, beside: Path | str = ".") -> ReplayFeed:
    """Return the recording that the table of a feed describes.

    Raises:
        InvalidRequest: the table is invalid.
        HarnessMisuse: it describes a feed that is no recording.
    """
    problems = TableProblems(SUBJECT, beside=Path(beside))
    feed = _read_feed(table, "feed", problems)
    problems.check()
    if not isinstance(feed, ReplayFeed):
        raise HarnessMisuse(
            f'feed: expected a recording, got {table!r:.100}; write feed = {{ files = {{ SYMBOL = "bars.csv" }} }}'
        )
    return feed


def read_paper_broker(table: object, beside: Path | str = ".") -> PaperBroker:
    """Return the venue that the table of a broker on paper describes, with its books in memory unless it has a path.

    Raises:
        InvalidRequest: the table is invalid.
        HarnessMisuse: it describes another broker.
    """
    problems = TableProblems(SUBJECT, beside=Path(beside))
    broker = _read_broker(table, "broker", problems)
    problems.check()
    if not isinstance(broker, PaperBroker):
        raise HarnessMisuse(f'broker: expected one on paper, got {table!r:.100}; write broker = "paper"')
    return broker


def _read_broker(
    value: object, where: str, problems: TableProblems, *, by: Callable[..., PaperBroker] = PaperBroker
) -> object:
    if isinstance(value, PaperBroker):
        return value
    if _has_keys(value, "exchange", "margin"):
        problems.add(
            where,
            "margin: expected none at an exchange, because only its spot accounts are traded on, which lend nothing; leave it "
            "out, or trade on paper",
        )
        return None
    readers: dict[str, Reader] = {
        "path": read_path,
        "instruments": _read_instruments,
        "fees": partial(make_from, Fees),
        "margin": partial(make_from, Margin),
    }
    kinds = {
        "paper": Kind(PaperBroker, readers=readers, by=by),
        "exchange": Kind(CcxtBroker, "exchange", _TEXT, _ACCOUNT),
        "function": FUNCTION,
    }
    return read_kind(kinds, {"paper": True} if value == "paper" else value, where, problems, or_text="'paper'")


def _has_keys(value: object, *keys: str) -> bool:
    return isinstance(value, Mapping) and all(key in value for key in keys)


def _read_instruments(value: object, where: str, problems: TableProblems) -> object:
    if not isinstance(value, Mapping):
        problems.add(where, f"expected a table of tables, by symbol, got {value!r:.100}; write one")
        return None
    tables = cast(Mapping[str, object], value)
    return {symbol: _read_instrument(symbol, one, f"{where}: {symbol}", problems) for symbol, one in tables.items()}


def _read_instrument(symbol: str, value: object, where: str, problems: TableProblems) -> Instrument | None:
    given = read_arguments(Instrument, value, where, problems, without=_OF_INSTRUMENT)
    return None if given is None else attempt(lambda: Instrument(symbol, **given), where, problems)


# strategies


def strategy_options(value: object) -> tuple[str, ...] | None:
    """Return the names of the options of the strategy that a table describes; None if it is not known which there are."""
    table = _strategy_table(value)
    if isinstance(function := table.get("function"), str):
        return keys_of(load_object(function))
    name = table.get("name")
    return keys_of(STRATEGIES[name]) if isinstance(name, str) and name in STRATEGIES else None


def check_option_types(value: object, options: Mapping[str, object]) -> None:
    """Check the options of a strategy that a function of one's own makes by the types that it says.

    Raises:
        InvalidRequest: a value is of another type.
    """
    if isinstance(function := _strategy_table(value).get("function"), str) and callable(found := load_object(function)):
        problems = TableProblems(SUBJECT)
        check_arguments(found, options, "", problems)
        problems.check()


def read_strategy(value: object) -> Strategy:
    """Return the strategy that a table describes.

    Raises:
        InvalidRequest: the table is invalid, or the strategy refuses its options.
    """
    problems = TableProblems(SUBJECT)
    made = _read_strategy(value, "strategy", problems)
    problems.check()
    if not isinstance(made, Strategy):
        raise HarnessMisuse(f"strategy: expected a Strategy, was {made!r:.120}; have the function return one")
    return made


def with_options(value: object, options: Mapping[str, object]) -> dict[str, object]:
    """Return the table of a strategy with these options instead of its own."""
    table = _strategy_table(value)
    if "function" not in table:
        return {**table, **options}
    given = table.get("arguments")
    return {**table, "arguments": {**(cast(Mapping[str, object], given) if isinstance(given, Mapping) else {}), **options}}


def _strategy_table(value: object) -> Mapping[str, object]:
    return cast(Mapping[str, object], value) if isinstance(value, Mapping) else {"name": value}


def _read_strategy(value: object, where: str, problems: TableProblems) -> object:
    if isinstance(value, Strategy):
        return value
    table = _strategy_table(value)
    if "function" in table:
        return read_kind({"function": FUNCTION}, table, where, problems)
    name = table.get("name")
    if not isinstance(name, str) or name not in STRATEGIES:
        way_out = near(str(name), STRATEGIES, {"sma_cross": "cross", "ema_cross": "cross"}) or "; choose one"
        known = ", ".join(STRATEGIES)
        problems.add(
            where, f"expected the name of one ({known}), or a table with name or function, got {value!r:.100}{way_out}"
        )
        return None
    rest = {key: one for key, one in table.items() if key != "name"}
    return make_from(STRATEGIES[name], rest, where, problems)
