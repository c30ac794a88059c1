"""The wire, the clock, and the doing of what hostility says."""

from __future__ import annotations

import asyncio
import json
import math
import time
from bisect import bisect_left
from collections import Counter as Counts
from collections import deque
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl

from attrs import evolve

from . import dialect
from .books import Order, VenueError
from .hostility import CALM, Fate, Hostility, Lot, draw, draw_query, parse_lot
from .journal import Journal
from .market import INTERVALS_MS, MINUTE_MS, SYMBOLS, Candle, Symbol, candle, price_at
from .streams import Listener, Streams, handshake
from .tongues import tongue_of
from .tongues.speaking import Counter, Request, Tongue

DEPOSITS = {"USDT": Decimal(1_000_000_000), "BTC": Decimal(10_000), "ETH": Decimal(100_000), "SOL": Decimal(1_000_000)}
_TICK_S = 0.01
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests", 504: "Timeout"}
_LIMITED = VenueError(-1003, "Too much request weight used; please use WebSocket Streams to avoid bans.", 429)
_NOBODY_KNOWS = VenueError(-1007, "Timeout waiting for response from backend server. Execution status unknown.", 504)

Fields = Mapping[str, str]
Answer = Callable[[], object]


class Venue:
    """One exchange with one account.

    Args:
        path: where its books are kept; it takes up what is there.
    """

    def __init__(self, path: Path | str, keys: dialect.Keys, hostility: Hostility, seed: int) -> None:
        self.keys, self.hostility, self.seed = keys, hostility, seed
        self._journal = Journal(path, DEPOSITS)
        self.books = self._journal.load()
        self.streams = Streams()
        self._wires: set[Wire] = set()
        self._late: set[asyncio.TimerHandle] = set()
        self._server: asyncio.Server | None = None
        self._port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancels = 0
        self._forget_conditions()

    def _forget_conditions(self) -> None:
        self.offset_ms = 0.0
        self.prices: dict[str, Decimal] = {}
        self.arrivals: Counts[str] = Counts()
        self.fates: Counts[str] = Counts()
        self._queries = 0
        self.silent_ms: dict[str, int] = {}
        self.lag_ms = 0
        """How far the bars that are asked for are behind those of the stream."""
        self._held: dict[str, Answer] = {}
        self._next: deque[Lot] = deque()
        self._next_queries: deque[Lot] = deque()

    async def listen(self, port: int) -> int:
        """Open the door; return its port."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Wire(self), "127.0.0.1", port, backlog=1024, reuse_port=True
        )
        self._port = cast("tuple[str, int]", self._server.sockets[0].getsockname())[1]
        return self._port

    async def run(self) -> None:
        """Let time pass, for ever."""
        while True:
            await asyncio.sleep(_TICK_S)
            self.books.advance(int(self.now_ms()), self.price)
            self.streams.advance(int(self.now_ms()))
            self._journal.keep(self.books)

    def now_ms(self) -> float:
        """Return the time by the venue's own clock."""
        now_s = time.time()
        swing = self.hostility.swing_s
        ahead_s = swing * math.sin(2 * math.pi * now_s / self.hostility.swing_period_s) if swing else 0.0
        return (now_s + ahead_s) * 1000 + self.offset_ms

    def price(self, symbol: Symbol) -> Decimal:
        """Return what the market asks."""
        return self.prices.get(symbol.name) or price_at(self.seed, symbol, int(self.now_ms()) // MINUTE_MS)

    def receive(self, wire: Wire, request: Request) -> None:
        """Do what a request asks for, or what is to go wrong with it."""
        method, path, query, body = request.method, request.path, request.query, request.body
        key = request.headers.get("x-mbx-apikey", "")
        if path.startswith("/control/"):
            wire.answer(lambda: self._control(path.removeprefix("/control/"), dict(parse_qsl(query.decode())), body))
            return
        if (tongue := tongue_of(path)) is not None:
            self._hear(wire, tongue, request)
            return
        payload = query + body
        fields = dict(parse_qsl(payload.decode()))
        if (method, path) == ("POST", "/api/v3/order"):
            self._order(wire, fields, key, payload)
            return
        self._ask(wire, f"{method} {path.removeprefix('/api/v3/')}", fields, key, payload)

    def _order(self, wire: Wire, fields: Fields, key: str, payload: bytes) -> None:
        client_id = fields.get("newClientOrderId", "")
        lot = draw(self.hostility, self.seed, client_id, self.arrivals[client_id])
        if self._next:
            chosen = self._next.popleft()
            lot = evolve(lot, fate=chosen.fate, delay_s=chosen.delay_s)
        self.arrivals[client_id] += 1
        self.fates[lot.fate] += 1

        def take() -> object:
            dialect.check_signature(self.keys, key, payload)
            dialect.check_time(fields, self.now_ms())
            return self._place(fields, lot)

        if (held := self._held.pop(client_id, None)) is not None:
            attempt(held)
        if lot.fate is Fate.HELD:
            self._held[client_id] = take
        self._carry_out(wire, take, lot)

    def _hear(self, wire: Wire, tongue: Tongue, request: Request) -> None:
        """Do what a request in another dialect than Binance's asks for, or what is to go wrong with it."""
        wire.failure = tongue.failure
        if (client_id := tongue.client_id(request)) is not None:
            lot = self._next.popleft() if self._next else draw(self.hostility, self.seed, client_id, self.arrivals[client_id])
            self.arrivals[client_id] += 1
        else:
            self._queries += 1
            lot = Lot(draw_query(self.hostility, self.seed, self._queries))
            if self._next_queries:
                lot = self._next_queries.popleft()
        self.fates[lot.fate] += 1
        self.books.fees_in_quote = tongue.fees_in_quote

        def act() -> object:
            try:
                made = tongue.answer(Counter(self, lot), request)
            except KeyError as error:
                raise VenueError(-1, f"{request.method} {request.path}: no such thing: {error}", 404) from error
            self._journal.keep(self.books)
            return made

        self._carry_out(wire, act, lot)

    def _ask(self, wire: Wire, what: str, fields: Fields, key: str, payload: bytes) -> None:
        self._queries += 1
        lot = Lot(draw_query(self.hostility, self.seed, self._queries))
        if self._next_queries:
            lot = self._next_queries.popleft()
        if lot.fate is not Fate.CALM:
            self.fates[f"query {lot.fate}"] += 1

        def tell() -> object:
            if what in _PUBLIC:
                return _PUBLIC[what](self, fields)
            if what not in _PRIVATE:
                raise VenueError(-1, f"no such thing: {what}", 404)
            dialect.check_signature(self.keys, key, payload)
            dialect.check_time(fields, self.now_ms())
            return _PRIVATE[what](self, fields)

        self._carry_out(wire, tell, lot)

    def _carry_out(self, wire: Wire, act: Answer, lot: Lot) -> None:
        match lot.fate:
            case Fate.CALM:
                wire.answer(act)
            case Fate.LOST:
                wire.attempt(act)
            case Fate.IGNORED | Fate.HELD:
                pass
            case Fate.LATE:
                self._later(lot.delay_s, lambda: wire.answer(act))
            case Fate.TWICE:
                response = wire.attempt(act)
                wire.write(*response, close=False)
                self._later(lot.delay_s / 4, lambda: wire.write(*response, close=True))
            case Fate.DROPPED:
                wire.attempt(act)
                wire.drop()
            case Fate.BROKEN_TAKEN:
                wire.attempt(act)
                wire.write(*failure(_NOBODY_KNOWS))
            case Fate.BROKEN:
                wire.write(*failure(_NOBODY_KNOWS))
            case Fate.MOVED:
                wire.write(307, b"", headers="Location: /api/v3/order\r\n")
            case Fate.LIMITED:
                wire.write(*failure(_LIMITED), headers=f"Retry-After: {self.hostility.retry_after_s}\r\n")
            case Fate.RESTART:
                self.restart(self.hostility.down_s)

    def _place(self, fields: Fields, lot: Lot) -> object:
        now_ms = int(self.now_ms())
        price = self.price(dialect.parse_symbol(fields))
        order = dialect.parse_order(fields, price, now_ms, lot.parts, lot.pace_ms)
        self.books.place(order, price)
        self._journal.keep(self.books)
        return dialect.placed_json(order)

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        def run() -> None:
            self._late.discard(handle)
            act()

        handle = asyncio.get_running_loop().call_later(delay_s, run)
        self._late.add(handle)

    def restart(self, down_s: float) -> None:
        """Drop all connections and what was to be done later, and come back after a while."""
        if self._server is None:
            return
        self.fates["restarts"] += 1
        self._server.close()
        self._server = None
        self._forget_late()
        for wire in list(self._wires):
            wire.drop()
        task = asyncio.get_running_loop().create_task(self._come_back(down_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _forget_late(self) -> None:
        for handle in self._late:
            handle.cancel()
        self._late.clear()

    async def _come_back(self, down_s: float) -> None:
        await asyncio.sleep(down_s)
        await self.listen(self._port)

    def _control(self, verb: str, options: dict[str, str], body: bytes) -> object:
        match verb:
            case "books":
                return self._summary()
            case "progress":
                orders = self.books.orders.values()
                return {"orders": len(orders), "open": sum(order.is_open for order in orders)}
            case "orders":
                return [[order.client_id, order.status, order.side, str(order.filled)] for order in self.books.orders.values()]
            case "hostility":
                self.hostility = Hostility(**json.loads(body))
            case "calm":
                self.hostility = CALM
                self._next.clear()
                self._next_queries.clear()
            case "next":
                self._next.extend(map(parse_lot, options["fates"].split(",")))
            case "next_queries":
                self._next_queries.extend(map(parse_lot, options["fates"].split(",")))
            case "stream":
                return self.streams.order(options, body, int(self.now_ms()))
            case "lag":
                self.lag_ms = int(options["ms"])
            case "silence":
                self.silent_ms[options["symbol"]] = int(options["from_ms"])
            case "clock":
                self.offset_ms += float(options["jump_s"]) * 1000
            case "price":
                self.prices[options["symbol"]] = Decimal(options["price"])
            case "restart":
                asyncio.get_running_loop().call_later(0.01, self.restart, float(options.get("down_s", "0.2")))
            case "reset":
                self.hostility = CALM
                self.streams.order({"do": "calm"}, b"", 0)
                self._forget_conditions()
                self._forget_late()
                self._journal.forget(DEPOSITS)
                self.books = self._journal.load()
            case _:
                raise VenueError(-1, f"no such control: {verb}", 404)
        return {}

    def _summary(self) -> dict[str, Any]:
        books = self.books
        balances = {asset: str(balance.free + balance.locked) for asset, balance in books.balances.items()}
        again = self._journal.load()
        return {
            "balances": balances,
            "locked": {asset: str(balance.locked) for asset, balance in books.balances.items() if balance.locked},
            "deposits": {asset: str(amount) for asset, amount in books.deposits.items()},
            "orders": len(books.orders),
            "client_ids": len(books.by_client),
            "trades": sum(map(len, books.trades.values())),
            "open": sum(order.is_open for order in books.orders.values()),
            "arrivals": sum(self.arrivals.values()),
            "fates": dict(self.fates),
            "on_disk_the_same": again.balances == books.balances and len(again.orders) == len(books.orders),
            "now_ms": self.now_ms(),
        }

    def add(self, wire: Wire) -> None:
        """Take in a connection."""
        self._wires.add(wire)

    def discard(self, wire: Wire) -> None:
        """Let go of a connection."""
        self._wires.discard(wire)

    def query_order(self, fields: Fields) -> object:
        """Answer for one order."""
        return dialect.order_json(dialect.find_order(self.books, fields))

    def cancel_order(self, fields: Fields) -> object:
        """Cancel one order."""
        try:
            order = dialect.find_order(self.books, fields)
        except VenueError as error:
            raise VenueError(-2011, "Unknown order sent.") from error
        self.books.cancel(order, int(self.now_ms()))
        self._journal.keep(self.books)
        self._cancels += 1
        return dialect.cancelled_json(order, self._cancels)

    def query_open(self, fields: Fields) -> object:
        """Answer for all open orders."""
        symbol = dialect.parse_symbol(fields) if "symbol" in fields else None
        return [dialect.order_json(order) for order in self._orders(symbol) if order.is_open]

    def query_orders(self, fields: Fields) -> object:
        """Answer for all orders from `orderId` on."""
        first, limit = int(fields.get("orderId", "0")), int(fields.get("limit", "500"))
        orders = [order for order in self._orders(dialect.parse_symbol(fields)) if order.id >= first]
        return [dialect.order_json(order) for order in orders[:limit]]

    def _orders(self, symbol: Symbol | None) -> list[Order]:
        return [order for order in self.books.orders.values() if symbol in (None, order.symbol)]

    def query_trades(self, fields: Fields) -> object:
        """Answer for the executions from `fromId` on."""
        trades, limit = self.books.trades[dialect.parse_symbol(fields).name], int(fields.get("limit", "500"))
        if "fromId" not in fields:
            return [dialect.trade_json(trade) for trade in trades[-limit:]]
        first = bisect_left(trades, int(fields["fromId"]), key=lambda trade: trade.id)
        return [dialect.trade_json(trade) for trade in trades[first : first + limit]]

    def query_account(self, fields: Fields) -> object:
        """Answer for what there is."""
        return dialect.account_json(self.books, int(self.now_ms()))

    def query_candles(self, fields: Fields) -> object:
        """Answer for bars, the one that is not over included."""
        symbol, length_ms = dialect.parse_symbol(fields), INTERVALS_MS[fields["interval"]]
        limit = min(int(fields.get("limit", "500")), 1000)
        first_ms = int(fields["startTime"]) if "startTime" in fields else None
        return [dialect.candle_json(one, length_ms) for one in self.candles(symbol, length_ms, first_ms, limit)]

    def candles(self, symbol: Symbol, length_ms: int, first_ms: int | None, limit: int) -> list[Candle]:
        """Return bars from a time on, the one that is not over included; without a time the last ones."""
        now_ms = int(self.now_ms()) - self.lag_ms
        last = now_ms // length_ms
        first = last - limit + 1 if first_ms is None else -(-first_ms // length_ms)
        silent = self.silent_ms.get(symbol.name, now_ms + 1)
        starts = (start for start in range(first, min(first + limit, last + 1)) if start * length_ms < silent)
        return [candle(self.seed, symbol, start * length_ms, length_ms) for start in starts]


_PUBLIC: dict[str, Callable[[Venue, Fields], object]] = {
    "GET ping": lambda venue, fields: {},
    "GET time": lambda venue, fields: {"serverTime": int(venue.now_ms())},
    "GET exchangeInfo": lambda venue, fields: dialect.exchange_json(int(venue.now_ms())),
    "GET klines": Venue.query_candles,
    "GET ticker/price": lambda venue, fields: {
        "symbol": fields["symbol"],
        "price": f"{venue.price(SYMBOLS[fields['symbol']]):.8f}",
    },
}
_PRIVATE: dict[str, Callable[[Venue, Fields], object]] = {
    "GET order": Venue.query_order,
    "DELETE order": Venue.cancel_order,
    "GET openOrders": Venue.query_open,
    "GET allOrders": Venue.query_orders,
    "GET myTrades": Venue.query_trades,
    "GET account": Venue.query_account,
}


def attempt(act: Answer, failed: Callable[[VenueError], tuple[int, bytes]] | None = None) -> tuple[int, bytes]:
    """Do it; return the status and the body that say what came of it."""
    try:
        return 200, json.dumps(act(), separators=(",", ":")).encode()
    except VenueError as error:
        return (failed or failure)(error)


def failure(error: VenueError) -> tuple[int, bytes]:
    """Return the status and the body that say no."""
    return error.status, json.dumps({"code": error.code, "msg": error.message}).encode()


class Wire(asyncio.Protocol):
    """One connection: requests one after the other."""

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._buffer = b""
        self._close = False
        self.failure: Callable[[VenueError], tuple[int, bytes]] | None = None
        """How the dialect of the request says no; None for Binance's."""
        self._transport: asyncio.Transport | None = None
        self._listener: Listener | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._venue.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._venue.discard(self)
        if self._listener is not None:
            self._venue.streams.discard(self._listener)

    def data_received(self, data: bytes) -> None:
        if self._listener is not None:
            self._venue.streams.hear(self._listener, data)
            return
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].split(b"\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in head[1:])}
            length = int(headers.get(b"content-length", b"0"))
            if len(self._buffer) < end + 4 + length:
                return
            body, self._buffer = self._buffer[end + 4 : end + 4 + length], self._buffer[end + 4 + length :]
            method, target, _ = head[0].split(b" ")
            path, _, query = target.partition(b"?")
            self._close = headers.get(b"connection", b"").lower() == b"close"
            texts = {name.decode(): value.decode() for name, value in headers.items()}
            if "upgrade" in texts:
                self._upgrade(path.decode(), texts)
                return
            self._venue.receive(self, Request(method.decode(), path.decode(), query, body, texts))

    def _upgrade(self, path: str, headers: Fields) -> None:
        if self._transport is None or "refuse" in self._venue.streams.faults:
            self.write(*failure(_LIMITED), close=True)
            return
        self._transport.write(handshake(headers))
        self._listener = self._venue.streams.add(path, self._transport.write, self.drop)

    def answer(self, act: Answer) -> None:
        """Do it and say what came of it."""
        self.write(*self.attempt(act))

    def attempt(self, act: Answer) -> tuple[int, bytes]:
        """Do it; return the status and the body that say what came of it."""
        return attempt(act, self.failure)

    def write(self, status: int, body: bytes, *, headers: str = "", close: bool | None = None) -> None:
        """Send one answer, if there is still somebody to hear it."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        head = f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\nContent-Type: application/json\r\n{headers}"
        transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        if self._close if close is None else close:
            transport.close()

    def drop(self) -> None:
        """Break the connection off."""
        if self._transport is not None:
            self._transport.abort()
