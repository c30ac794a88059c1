"""The strategy in backtesting.py."""

from __future__ import annotations

import pandas
from backtesting import Backtest, Strategy

from tests.benchmarks.trading_peers.given_bars import CASH, UNITS, Averages, bars, measure


def prepare(count, every):
    given = list(bars(count))
    frame = pandas.DataFrame(
        {name.title(): [getattr(bar, name) / 100 for bar in given] for name in ("open", "high", "low", "close", "volume")},
        index=[bar.time.replace(tzinfo=None) for bar in given],
    )

    class Ordering(Strategy):
        def init(self):
            self.averages = Averages()

        def next(self):
            self.averages.add(self.data.Close[-1])
            if every and len(self.data) % every == 0:
                if self.position:
                    self.position.close()
                else:
                    self.buy(size=UNITS)

    backtest = Backtest(frame, Ordering, cash=CASH, trade_on_close=True)
    found = []

    def result():
        stats = found[0]
        trades = len(stats["_trades"])
        return f"{stats['_equity_curve']['Equity'].iloc[-1]:.2f}", 2 * trades + len(stats["_strategy"].trades)

    return lambda: found.append(backtest.run()), result


measure(prepare)
