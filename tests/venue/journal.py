"""The books on disk, in SQLite: every order is there before it is answered for.

It waits for the operating system, not for the disk: the venue is killed in tests, not the machine.
"""

from __future__ import annotations

import json
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

from .books import Books, Order, Part, Trade
from .market import SYMBOLS

SCHEMA = """
CREATE TABLE IF NOT EXISTS deposits (asset TEXT PRIMARY KEY, amount TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY, client_id TEXT NOT NULL, symbol TEXT NOT NULL, side TEXT NOT NULL, type TEXT NOT NULL,
    units TEXT NOT NULL, price TEXT NOT NULL, stop TEXT NOT NULL, time_ms INTEGER NOT NULL, parts INTEGER NOT NULL,
    pace_ms INTEGER NOT NULL, status TEXT NOT NULL, filled TEXT NOT NULL, paid TEXT NOT NULL, locked TEXT NOT NULL,
    updated_ms INTEGER NOT NULL, plan TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS trades (
    id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, symbol TEXT NOT NULL, is_buyer INTEGER NOT NULL, units TEXT NOT NULL,
    price TEXT NOT NULL, fee TEXT NOT NULL, fee_asset TEXT NOT NULL, time_ms INTEGER NOT NULL
) STRICT;
"""


class Journal:
    """Keeps books in a file.

    Args:
        deposits: what is paid in, if the file is new.
    """

    def __init__(self, path: Path | str, deposits: dict[str, Decimal]) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.executescript(SCHEMA)
        paid_in = [(asset, str(amount)) for asset, amount in deposits.items()]
        if not self._connection.execute("SELECT count(*) FROM deposits").fetchone()[0]:
            self._connection.executemany("INSERT INTO deposits VALUES (?, ?)", paid_in)
        self._last_trade = 0

    def load(self) -> Books:
        """Return the books as they were when the last request was answered."""
        rows = self._connection.execute("SELECT asset, amount FROM deposits")
        books = Books({asset: Decimal(amount) for asset, amount in rows})
        trades: dict[int, list[Trade]] = {}
        for row in self._connection.execute("SELECT * FROM trades ORDER BY id"):
            trade = _trade(row)
            trades.setdefault(trade.order_id, []).append(trade)
            self._last_trade = trade.id
        books.restore(
            _order(row, trades.get(row[0], [])) for row in self._connection.execute("SELECT * FROM orders ORDER BY id")
        )
        return books

    def keep(self, books: Books) -> None:
        """Write down what has changed, in one transaction."""
        if not books.changed:
            return
        changed = {order.id: order for order in books.changed}
        books.changed.clear()
        trades = [trade for order in changed.values() for trade in order.trades if trade.id > self._last_trade]
        execute = self._connection.execute
        execute("BEGIN")
        for order in changed.values():
            execute("INSERT OR REPLACE INTO orders VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", _order_row(order))
        if trades:
            self._connection.executemany("INSERT INTO trades VALUES (?,?,?,?,?,?,?,?,?)", map(_trade_row, trades))
            self._last_trade = max(trade.id for trade in trades)
        execute("COMMIT")

    def forget(self, deposits: dict[str, Decimal]) -> None:
        """Begin anew, with other deposits."""
        self._connection.executescript("DELETE FROM orders; DELETE FROM trades; DELETE FROM deposits")
        paid_in = [(asset, str(amount)) for asset, amount in deposits.items()]
        self._connection.executemany("INSERT INTO deposits VALUES (?, ?)", paid_in)
        self._last_trade = 0

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def _order_row(order: Order) -> tuple[object, ...]:
    return (
        order.id,
        order.client_id,
        order.symbol.name,
        order.side,
        order.type,
        str(order.units),
        str(order.limit),
        str(order.stop),
        order.time_ms,
        order.parts,
        order.pace_ms,
        order.status,
        str(order.filled),
        str(order.paid),
        str(order.locked),
        order.updated_ms,
        json.dumps([[part.due_ms, str(part.units), str(part.price)] for part in order.plan]) if order.plan else "[]",
    )


def _trade_row(trade: Trade) -> tuple[object, ...]:
    return (
        trade.id,
        trade.order_id,
        trade.symbol,
        trade.is_buyer,
        str(trade.units),
        str(trade.price),
        str(trade.fee),
        trade.fee_asset,
        trade.time_ms,
    )


def _trade(row: tuple[Any, ...]) -> Trade:
    id, order_id, symbol, is_buyer, units, price, fee, fee_asset, time_ms = row
    return Trade(id, order_id, symbol, bool(is_buyer), Decimal(units), Decimal(price), Decimal(fee), fee_asset, time_ms)


def _order(row: tuple[Any, ...], trades: list[Trade]) -> Order:
    id, client_id, symbol, side, type, units, limit, stop, time_ms, parts, pace_ms, status, filled, paid, locked, at, plan = (
        row
    )
    return Order(
        id=id,
        client_id=client_id,
        symbol=SYMBOLS[symbol],
        side=side,
        type=type,
        units=Decimal(units),
        limit=Decimal(limit),
        stop=Decimal(stop),
        time_ms=time_ms,
        parts=parts,
        pace_ms=pace_ms,
        status=status,
        filled=Decimal(filled),
        paid=Decimal(paid),
        locked=Decimal(locked),
        updated_ms=at,
        plan=[Part(due, Decimal(units), Decimal(price)) for due, units, price in json.loads(plan)],
        trades=trades,
    )
