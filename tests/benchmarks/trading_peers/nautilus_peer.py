"""The strategy in NautilusTrader."""

from __future__ import annotations

from decimal import Decimal

from nautilus_trader.backtest.config import BacktestEngineConfig
from nautilus_trader.backtest.engine import BacktestEngine
from nautilus_trader.config import LoggingConfig
from nautilus_trader.model.currencies import USD
from nautilus_trader.model.data import Bar, BarType
from nautilus_trader.model.enums import AccountType, OmsType, OrderSide
from nautilus_trader.model.identifiers import Venue
from nautilus_trader.model.objects import Money, Price, Quantity
from nautilus_trader.test_kit.providers import TestInstrumentProvider
from nautilus_trader.trading.strategy import Strategy

from tests.benchmarks.trading_peers.given_bars import CASH, UNITS, Averages, bars, measure


class Ordering(Strategy):
    def __init__(self, instrument, bar_type, every):
        super().__init__()
        self.traded, self.kind, self.every = instrument, bar_type, every
        self.averages, self.seen, self.side = Averages(), 0, OrderSide.BUY

    def on_start(self):
        self.subscribe_bars(self.kind)

    def on_bar(self, bar):
        self.averages.add(bar.close.as_double())
        self.seen += 1
        if self.every and self.seen % self.every == 0:
            units = self.traded.make_qty(UNITS)
            self.submit_order(self.order_factory.market(self.traded.id, self.side, units))
            self.side = OrderSide.SELL if self.side is OrderSide.BUY else OrderSide.BUY


def prepare(count, every):
    engine = BacktestEngine(BacktestEngineConfig(logging=LoggingConfig(bypass_logging=True)))
    instrument = TestInstrumentProvider.equity("ABC", "XNAS")
    engine.add_venue(Venue("XNAS"), OmsType.NETTING, AccountType.CASH, starting_balances=[Money(CASH, USD)], base_currency=USD)
    engine.add_instrument(instrument)
    kind = BarType.from_str(f"{instrument.id}-1-MINUTE-LAST-EXTERNAL")
    made = []
    for bar in bars(count):
        prices = [Price(Decimal(cents) / 100, 2) for cents in (bar.open, bar.high, bar.low, bar.close)]
        at = int(bar.time.timestamp()) * 10**9
        made.append(Bar(kind, *prices, Quantity.from_int(bar.volume), at, at))
    engine.add_data(made)
    engine.add_strategy(Ordering(instrument, kind, every))

    def result():
        cash = engine.cache.accounts()[0].balance_total(USD).as_decimal()
        held = engine.portfolio.net_position(instrument.id)
        fills = sum(order.is_closed for order in engine.cache.orders())
        return f"{cash + held * made[-1].close.as_decimal():.2f}", fills

    return engine.run, result


measure(prepare)
