"""Talks to an exchange through ccxt, from threads, and keeps the time by the exchange's clock.

The laws:

    one call sends one request: nothing here and nothing in ccxt tries again, except `ask`, which is for what does no harm
    a signed request carries the time at which it was made, so that the venue refuses it `recv_window_s` later, however long
    a thread, a cancelled call or the network has held it back
    each request has a connection of its own, so that an answer that comes late is never taken for the next one's

ccxt is synchronous: each exchange object is used by one thread at a time, and a call that is cancelled is abandoned to its
thread, which gives the object back when the call has ended.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

import trio
from attrs import field, frozen
from attrs.validators import ge, gt

from harnesses.diagnostics.extras import load_extra
from harnesses.errors import HarnessMisuse, one_of
from harnesses.timing.clock import now_s
from harnesses.trading.exchange.ccxt_translation import CallFailed, Verdict, judge, parse_retry_after

LAPSING = frozenset({"binance", "binanceus"})
"""Exchanges whose requests say how long they are valid (`timestamp` and `recvWindow`, in ms), and that refuse them later."""
_RESYNC_S = 60.0
_PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)

Raw = Mapping[str, Any]


@frozen
class CcxtOptions:
    """How an exchange is reached."""

    api_key: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    """Some exchanges want one."""
    urls: Mapping[str, Any] | None = None
    """Put over ccxt's `urls`: other addresses, such as those of a test net."""
    options: Mapping[str, Any] = field(factory=dict[str, Any])
    """Put over ccxt's `options`."""
    timeout_s: float = field(default=10.0, validator=gt(0.0))
    """For connecting, and for each wait for more of an answer."""
    recv_window_s: float = field(default=5.0, validator=[gt(0.0)])
    """How long a request may take to the venue; Binance allows 60. Do not make it less while an order that was sent with
    more is of unknown outcome."""
    margin_s: float = field(default=1.0, validator=ge(0.0))
    """How far the venue's clock may jump back, and how long an order that was taken may take to be seen."""
    patience_s: float = field(default=60.0, validator=ge(0.0))
    """For how long what does no harm is asked again before it counts as unavailable."""
    connections: int = field(default=1, validator=ge(1))
    """How many calls may be under way at once."""
    keep_connections: bool = False
    """Whether to use a connection for more than one request. Quicker, and wrong if the venue ever answers one twice."""
    paced: bool = True
    """Whether each connection keeps to ccxt's idea of the venue's rate limit."""


class CcxtClient:
    """One account at one exchange.

    Args:
        exchange: ccxt's name of it, such as "binance".
    """

    def __init__(self, exchange: str, options: CcxtOptions) -> None:
        self.exchange, self.options = exchange, options
        self._ccxt = load_extra("ccxt", "exchanges", "trading at an exchange")
        if exchange not in self._ccxt.exchanges:
            raise HarnessMisuse(f"exchange {exchange!r} is unknown to ccxt {self._ccxt.__version__}: see ccxt.exchanges")
        if options.patience_s <= options.recv_window_s + options.margin_s:
            raise HarnessMisuse(
                f"exchange {exchange!r}: patience_s: expected more than recv_window_s and margin_s together, "
                f"was {options.patience_s}; what became of an order is certain only after those"
            )
        self._first: Any = self._make()
        self._idle: deque[Any] = deque([self._first])
        self._free = trio.CapacityLimiter(options.connections)
        self._loading = trio.Lock()
        self._venue_ms = 0.0
        self._read_at_s: float | None = None
        self._failed: tuple[float, CallFailed] | None = None

    @property
    def lapses(self) -> bool:
        """Whether the exchange refuses requests that come too late."""
        return self.exchange in LAPSING

    @property
    def markets(self) -> Mapping[str, Any]:
        """What is traded there, by symbol, as ccxt tells it. Empty before `get_ready`."""
        return self._first.markets or {}

    @property
    def has(self) -> Raw:
        """What ccxt says that it can ask of this exchange."""
        return self._first.has or {}

    @property
    def features(self) -> Raw:
        """What ccxt says that this exchange heeds, by type of market."""
        return self._first.features or {}

    @property
    def precision_mode(self) -> int:
        """How ccxt tells this exchange's grains."""
        return int(self._first.precisionMode)

    def length_ms(self, timeframe: str) -> int:
        """Return how long a bar is.

        Raises:
            HarnessMisuse: the exchange does not have it, or it is not always the same.
        """
        timeframes: Mapping[str, Any] = self._first.timeframes or {}
        known = [name for name in timeframes if not name.endswith(("M", "y"))]
        if timeframe not in known:
            there = one_of(known, "it has none of a fixed length; choose another exchange")
            raise HarnessMisuse(f"exchange {self.exchange!r}: timeframe {timeframe!r} is not known: {there}")
        return int(self._ccxt.Exchange.parse_timeframe(timeframe)) * 1000

    async def get_ready(self) -> None:
        """Load what is traded, and the time, if that has not been done yet.

        Raises:
            CallFailed: it cannot be had now.
        """
        if self._first.markets and self._read_at_s is not None:
            if time.monotonic() - self._read_at_s > _RESYNC_S and not self._loading.locked():
                # One looks at the clock again, the others go by what is known; so does this one if there is no answer.
                async with self._loading:
                    with suppress(CallFailed):
                        self._set_clock(await self.call("fetch_time"))
            return
        began_s = trio.current_time()
        async with self._loading:
            if self._failed is not None and self._failed[0] >= began_s:
                # Somebody has waited for it in vain while this one waited for its turn.
                raise self._failed[1]
            try:
                if not self._first.markets:
                    await self.ask("load_markets")
                await self.read_clock()
            except CallFailed as error:
                self._failed = (trio.current_time(), error)
                raise

    async def read_clock(self) -> float:
        """Ask the venue for its time; return it in ms. It was at least that when this returns."""
        return self._set_clock(await self.ask("fetch_time"))

    def _set_clock(self, told_ms: object) -> float:
        self._venue_ms, self._read_at_s = float(str(told_ms)), time.monotonic()
        return self._venue_ms

    def now_ms(self) -> float:
        """Return what the venue's clock should say; by ours as long as it has never been asked."""
        if self._read_at_s is None:
            return now_s() * 1000
        return self._venue_ms + (time.monotonic() - self._read_at_s) * 1000

    async def call(
        self, method: str, *args: Any, signed: Callable[[int], None] | None = None, params: Raw | None = None
    ) -> Any:
        """Call a method of the exchange once, in a thread.

        Args:
            signed: told the time, in ms of the venue's clock, that the request carries, before anything is sent. Give one
                for what needs an account.
            params: ccxt's `params`.

        Raises:
            CallFailed: says what it means.
        """
        request = dict(params or {})

        def stamp() -> None:
            if signed is not None and self.lapses:
                stamp_ms = int(self.now_ms())
                signed(stamp_ms)
                request.update(timestamp=stamp_ms, recvWindow=int(self.options.recv_window_s * 1000))

        limiter = cast(trio.CapacityLimiter, _Turn(self._free, stamp))
        return await trio.to_thread.run_sync(self._run, method, args, request, abandon_on_cancel=True, limiter=limiter)

    async def ask(self, method: str, *args: Any, private: bool = False, params: Raw | None = None) -> Any:
        """Call what does no harm, again and again if need be, for `patience_s`.

        Raises:
            CallFailed: the venue has said no, or it has not answered in time.
        """
        deadline_s = trio.current_time() + self.options.patience_s
        for attempt in range(1_000_000):
            try:
                return await self.call(method, *args, signed=_forget if private else None, params=params)
            except CallFailed as error:
                if error.verdict in (Verdict.REFUSED, Verdict.NOT_FOUND):
                    raise
                pause_s = error.retry_after_s or _PAUSES_S[min(attempt, len(_PAUSES_S) - 1)]
                if trio.current_time() + pause_s > deadline_s:
                    raise
                await trio.sleep(pause_s)
                if error.verdict is Verdict.WRONG_TIME and private:
                    await self.read_clock()
        raise AssertionError("unreachable")

    async def wait_until(self, venue_ms: float) -> bool:
        """Wait until the venue's own clock is past a time; return False if that takes longer than `patience_s`."""
        deadline_s = trio.current_time() + self.options.patience_s
        left_s = (venue_ms - self.now_ms()) / 1000
        while True:
            if trio.current_time() + left_s > deadline_s:
                return False
            await trio.sleep(max(left_s, 0.0) + 0.002)
            left_s = (venue_ms - await self.read_clock()) / 1000
            if left_s < 0:
                return True

    def _run(self, method: str, args: tuple[Any, ...], params: Raw) -> Any:
        """Make one call. In a thread."""
        exchange = self._take()
        try:
            if exchange.markets is None and self._first.markets:
                exchange.set_markets_from_exchange(self._first)
            exchange.last_request_url = None
            return getattr(exchange, method)(*args, **({"params": params} if params else {}))
        except Exception as error:
            raise _failure(error, sent=exchange.last_request_url is not None) from error
        finally:
            if not self.options.keep_connections:
                exchange.session.close()
            self._idle.append(exchange)

    def _take(self) -> Any:
        """Return an exchange object that no other thread has; the one given back last, so that few are made."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def _make(self) -> Any:
        options = self.options
        ours = {"fetchCurrencies": False, "fetchMargins": False, "fetchMarkets": {"types": ["spot"]}, "defaultType": "spot"}
        config = {
            "apiKey": options.api_key,
            "secret": options.secret,
            "password": options.password,
            "timeout": int(options.timeout_s * 1000),
            "enableRateLimit": options.paced,
            # Numbers stay the text that the venue sent: a float would not keep money exact.
            "number": str,
            "options": ours | dict(options.options) | {"maxRetriesOnFailure": 0},
        }
        exchange = getattr(self._ccxt, self.exchange)(config)
        exchange.urls = exchange.deep_extend(exchange.urls, dict(options.urls or {}))
        # A redirected order would be sent twice.
        exchange.session.max_redirects = 0
        return exchange


class _Turn:
    """A limiter for `to_thread.run_sync` that does something when a turn has come, before the thread starts.

    An abandoned thread keeps its turn until it ends.
    """

    def __init__(self, limiter: trio.CapacityLimiter, begin: Callable[[], None]) -> None:
        self._limiter, self._begin = limiter, begin

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._limiter.acquire_on_behalf_of(borrower)
        self._begin()

    def release_on_behalf_of(self, borrower: object) -> None:
        self._limiter.release_on_behalf_of(borrower)


def _failure(error: Exception, *, sent: bool) -> CallFailed:
    """Return what an error in a call means."""
    response = getattr(_cause(error), "response", None)
    status = getattr(response, "status_code", None)
    kinds = [kind.__name__ for kind in type(error).__mro__]
    # ccxt puts the whole address in some messages, the signature with it.
    text = f"{type(error).__name__}: {str(error).partition('?')[0]:.500}"
    verdict = judge(kinds, str(error), status=status, sent=sent)
    headers: Mapping[str, str] = getattr(response, "headers", {})
    return CallFailed(verdict, text, parse_retry_after(headers.get("Retry-After")))


def _cause(error: BaseException) -> BaseException | None:
    """Return the error of `requests` beneath one of ccxt's."""
    found = error.__cause__ or error.__context__
    while found is not None and not hasattr(found, "response"):
        found = found.__cause__ or found.__context__
    return found


def _forget(stamp_ms: int) -> None:
    """Take no notice of when a request was made: it does no harm whenever it arrives."""
