"""Listens to the bars of an exchange through ccxt's WebSocket classes: learns when a bar is over, never what is in it.

    venue ══ socket ══► asyncio in one daemon thread ── newest start of a bar of each symbol ──► Trio, which asks by REST

ccxt's WebSocket classes run under asyncio only. Invariants:

    * nothing but the starts of bars leaves the thread: the newest of each symbol replaces the one before, so that there is no
      queue that could grow, and no price of a socket in a record
    * a connection that breaks, falls silent or talks rubbish is closed and made anew, after longer and longer pauses
    * the thread never keeps a program from ending: nobody joins it, and name servers are asked in daemon threads too
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import Any, cast

import trio
from attrs import field, frozen

from harnesses.data.frozen_dict import freeze

_PAUSES_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before each further attempt to connect."""
_STEADY_S = 60.0
"""Seconds after which a connection counts as steady: the next pause is the first one again."""
_CLOSE_S = 1.0
"""Maximum seconds for which the venue may take to close a connection in good order."""
_CHECK_S = 0.25
"""Seconds between two checks of a connection that says nothing."""
_LARGEST_BYTES = 1_000_000
"""Maximum size of a message, decompressed."""
_MOST_KEPT = 500
"""Maximum number of symbols of which ccxt keeps something for a connection, beside those that are asked for."""
_MOST_TASKS = 1000
"""Maximum number of asyncio tasks, beside four for each symbol: ccxt makes one for each message that it sends."""
_BARS_KEPT = 4
"""Number of bars of a symbol that ccxt keeps; only the newest start is read."""
_LINES_KEPT = 10
"""Maximum number of lines that wait to be logged."""
_CACHES = ("ohlcvs", "trades", "orderbooks", "tickers", "bidsasks", "liquidations", "fundingRates")
"""What ccxt keeps of a connection, by symbol."""
_NONE_BEGUN: Mapping[str, int] = {}
_NOTHING: Mapping[str, Any] = {}


class StreamBroken(Exception):
    """A connection is of no use any more."""


@frozen
class Heard:
    """What a stream has said so far."""

    begun: Mapping[str, int] = field(default=_NONE_BEGUN)
    """Start of the newest bar of each symbol, in ms, as this connection has said. Empty while there is no connection."""
    losses: int = 0
    """How often a connection was lost, or could not be made."""
    lost: bool = False
    """Whether it was said that the stream is lost, and not yet that it is back."""
    line: str = ""
    """What is to be said about the last change; mostly nothing."""

    def __attrs_post_init__(self) -> None:
        freeze(self, "begun")

    @property
    def is_live(self) -> bool:
        """Whether the venue has spoken of a bar on the present connection."""
        return bool(self.begun)

    def after_start(self, symbol: str, start_ms: int, where: str) -> Heard:
        """Return what has been heard after the newest start of a symbol's bars."""
        line = f"stream of {where} is back" if self.lost else ""
        return Heard({**self.begun, symbol: start_ms}, self.losses, line=line)

    def after_loss(self, why: str, where: str) -> Heard:
        """Return what has been heard after a connection was lost, or could not be made; said once until it is back."""
        line = f"stream of {where} is lost: {why:.300}; bars are polled until it is back"
        return Heard(losses=self.losses + 1, lost=True, line="" if self.lost else line)


def newest_start(rows: Iterable[Any]) -> int | None:
    """Return the latest start of a bar in rows as ccxt keeps them; None if there is none.

    What a venue says is data: a row may be anything.
    """
    found: list[Any] = [cast(Any, row)[0] for row in rows if isinstance(row, list) and row]
    return max((start for start in found if type(start) is int), default=None)


class BarStream:
    """Listens from `start` to `stop`.

    Args:
        where: the exchange, for messages.
        make: makes the exchange object of one connection; called in the thread.
        wake: called under Trio when something has changed; several changes may be one call.
        lines: takes a line for each loss and each return, at most ten at a time.
        silence_s: seconds without a bar after which a connection counts as lost.
    """

    def __init__(
        self,
        where: str,
        make: Callable[[], Any],
        symbols: Sequence[str],
        timeframe: str,
        *,
        wake: Callable[[], None],
        lines: deque[str],
        silence_s: float,
    ) -> None:
        self.heard = Heard()
        """Replaced as a whole, so that it can be read in any thread."""
        self._where, self._make, self._symbols, self._timeframe = where, make, tuple(symbols), timeframe
        self._wake, self._lines, self._silence_s = wake, lines, silence_s

        self._stopped = False
        self._exchange: Any = None
        self._listening: asyncio.Task[None] | None = None
        self._heard_s = 0.0

    def start(self) -> None:
        """Begin to listen. Call it under Trio."""
        self._trio, self._loop = trio.lowlevel.current_trio_token(), asyncio.new_event_loop()
        self._broken: asyncio.Future[str] = self._loop.create_future()
        Thread(target=self._run, name=f"stream of {self._where}", daemon=True).start()

    def stop(self) -> None:
        """Close the connection and end the thread. Does not wait for either."""
        self._stopped = True
        with suppress(RuntimeError):  # The loop has ended.
            self._loop.call_soon_threadsafe(self._cancel)

    # in the thread

    def _cancel(self) -> None:
        if self._listening is not None:
            self._listening.cancel()

    def _run(self) -> None:
        loop = self._loop
        loop.set_exception_handler(self._on_error)
        loop.set_default_executor(_Daemons())
        try:
            self._listening = loop.create_task(self._listen())
            if not self._stopped:
                with suppress(asyncio.CancelledError):
                    loop.run_until_complete(self._listening)
        finally:
            loop.run_until_complete(self._finish())
            loop.close()

    async def _finish(self) -> None:
        """Close what a cancelled attempt has left open."""
        await _close(self._exchange)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_CLOSE_S)

    async def _listen(self) -> None:
        failures = 0
        while not self._stopped:
            began_s = self._loop.time()
            try:
                await self._follow()
            except Exception as error:
                self._set(self.heard.after_loss(_text(error), self._where))
            finally:
                await _close(self._exchange)
            failures = 1 if self._loop.time() - began_s > _STEADY_S else failures + 1
            await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S)) - 1])

    async def _follow(self) -> None:
        """Listen on one connection. Raises an error when it has ended."""
        self._heard_s, self._broken = self._loop.time(), self._loop.create_future()
        exchange = self._exchange = self._make()
        self._prepare(exchange)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(self._broken))
            if exchange.has.get("watchOHLCVForSymbols"):
                pairs = [[symbol, self._timeframe] for symbol in self._symbols]
                tasks.create_task(_subscribe(exchange.watch_ohlcv_for_symbols, pairs))
            else:
                for symbol in self._symbols:
                    tasks.create_task(_subscribe(exchange.watch_ohlcv, symbol, self._timeframe))

    def _prepare(self, exchange: Any) -> None:
        exchange.timeout_on_exit = 0
        exchange.options["OHLCVLimit"] = _BARS_KEPT
        exchange.open()
        exchange.session = _Session(exchange.session)
        handle, connected = exchange.handle_message, exchange.on_connected
        fail, close = exchange.on_error, exchange.on_close

        def on_connected(client: Any, *more: object) -> None:
            self._heard_s = self._loop.time()  # ccxt limits the time for connecting itself.
            connected(client, *more)

        def handle_message(client: Any, message: object) -> None:
            handle(client, message)
            self._take(exchange)

        # ccxt would connect anew by itself, and nobody would know of the gap.
        def on_error(client: Any, error: BaseException) -> None:
            self._give_up(_text(error))
            fail(client, error)

        def on_close(client: Any, code: object) -> None:
            self._give_up(f"the venue has closed it, with code {code}")
            close(client, code)

        exchange.handle_message, exchange.on_connected = handle_message, on_connected
        exchange.on_error, exchange.on_close = on_error, on_close

    async def _watch(self, broken: asyncio.Future[str]) -> None:
        while not self._is_silent():
            await asyncio.wait([broken], timeout=_CHECK_S)
            if broken.done():
                raise StreamBroken(broken.result())
            if len(asyncio.all_tasks(self._loop)) > _MOST_TASKS + 4 * len(self._symbols):
                raise StreamBroken("the venue does not read what it asks for")
        raise StreamBroken(f"no bar for {self._silence_s:g} s")

    def _is_silent(self) -> bool:
        return self._loop.time() - self._heard_s > self._silence_s

    def _take(self, exchange: Any) -> None:
        """Take the newest starts from ccxt's caches, after each message."""
        if sum(len(getattr(exchange, name, None) or ()) for name in _CACHES) > _MOST_KEPT + len(self._symbols):
            raise StreamBroken("the venue speaks of symbols that nobody has asked for")
        for symbol in self._symbols:
            rows: Iterable[Any] = (exchange.ohlcvs.get(symbol) or _NOTHING).get(self._timeframe) or ()
            start_ms = newest_start(rows)
            if start_ms is None:
                continue
            self._heard_s = self._loop.time()
            if start_ms != self.heard.begun.get(symbol):
                self._set(self.heard.after_start(symbol, start_ms, self._where))

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Give a connection up if its messages cannot be handled: ccxt would not read on."""
        if "handle" in context and "exception" in context:
            self._give_up(_text(context["exception"]))

    def _give_up(self, why: str) -> None:
        if not self._broken.done():
            self._broken.set_result(why)

    def _set(self, heard: Heard) -> None:
        if self._stopped or heard == self.heard:
            return
        self.heard = heard
        if heard.line and len(self._lines) < _LINES_KEPT:
            self._lines.append(heard.line)
        with suppress(trio.RunFinishedError):
            self._trio.run_sync_soon(self._wake, idempotent=True)


class _Session:
    """A session of aiohttp whose WebSocket messages are limited in size: ccxt allows 10 MB."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def ws_connect(self, url: str, **options: Any) -> Any:
        return self._session.ws_connect(url, **{**options, "max_msg_size": _LARGEST_BYTES})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class _Daemons(ThreadPoolExecutor):
    """Runs each call in a daemon thread: a name server that does not answer would keep the program from ending otherwise."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call(*args, **named))
            except BaseException as error:
                future.set_exception(error)

        Thread(target=run, daemon=True).start()
        return future


async def _subscribe(watch: Callable[..., Awaitable[object]], *what: object) -> None:
    """Keep bars subscribed. What comes is taken from ccxt's caches after each message, so that nothing is missed."""
    while True:
        await watch(*what)
        await asyncio.sleep(0)


async def _close(exchange: Any) -> None:
    """Close the connections of an exchange object, whatever the venue does about it."""
    session = exchange and exchange.session
    if not session:
        return
    with suppress(Exception):
        async with asyncio.timeout(_CLOSE_S):
            await exchange.close()
    with suppress(Exception):
        await session.close()
        await exchange.close_connector()
    exchange.session = None


def _text(error: BaseException) -> str:
    """Return the first error of a group in words."""
    if isinstance(error, BaseExceptionGroup):
        return _text(cast(Any, error).exceptions[0])
    text = str(error).partition("?")[0]
    return text if isinstance(error, StreamBroken) else f"{type(error).__name__}: {text}".rstrip(": ")
