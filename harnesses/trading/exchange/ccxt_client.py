"""A client that calls an exchange through ccxt in threads, and keeps time by the exchange's clock.

Invariants:

    * one call sends one request: neither this module nor ccxt retries, except `ask`, for requests without side effects
    * a signed request carries the time at which it was made, so that the venue refuses it `recv_window_s` later, however long
      a thread, a cancelled call or the network has delayed it
    * each request uses its own connection, so that a late response is never read as the response to the next request

ccxt is synchronous: each exchange object is used by one thread at a time. A cancelled call is abandoned to its thread, which
returns the object when the call has ended.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast
from urllib.parse import unquote

import trio
from attrs import field, frozen
from attrs.validators import ge, gt

from harnesses.diagnostics.extras import load_extra
from harnesses.errors import HarnessMisuse, one_of
from harnesses.timing.clock import now_s
from harnesses.trading.exchange.ccxt_translation import CallFailed, Verdict, judge, parse_retry_after
from harnesses.trading.exchange.exchange_dialects import Expiry, dialect_of

_RESYNC_S = 60.0
_REHEARSED = 5
_KEEP_ALIVE_MS = 10_000
_PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)

Raw = Mapping[str, Any]


@frozen
class CcxtOptions:
    """Credentials, addresses and timeouts for an exchange."""

    api_key: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    """API passphrase; required by some exchanges."""
    urls: Mapping[str, Any] | None = None
    """Merged over ccxt's `urls`: other addresses, such as those of a test net."""
    options: Mapping[str, Any] = field(factory=dict[str, Any])
    """Merged over ccxt's `options`."""
    timeout_s: float = field(default=10.0, validator=gt(0.0))
    """Maximum seconds to connect, and to wait for each further part of a response."""
    recv_window_s: float = field(default=5.0, validator=[gt(0.0)])
    """Seconds for which a request is valid at the venue, within what it allows: at most 60 at Binance and Bybit, 55 at Kraken
    (at least 3.5), 30 at OKX and Coinbase. Do not reduce it while an order sent with a larger value has an unknown outcome."""
    margin_s: float = field(default=1.0, validator=ge(0.0))
    """Maximum seconds by which the venue's clock may go back, and until an accepted order is visible."""
    patience_s: float = field(default=60.0, validator=ge(0.0))
    """Seconds for which a request without side effects is retried before the venue counts as unavailable."""
    connections: int = field(default=1, validator=ge(1))
    """Maximum simultaneous calls."""
    keep_connections: bool = False
    """Whether to reuse a connection for several requests. Faster, but wrong if the venue ever answers a request twice."""
    paced: bool = True
    """Whether each connection respects ccxt's rate limit for the venue."""
    silence_s: float = field(default=60.0, validator=gt(0.0))
    """Seconds without a bar after which a stream is connected anew."""


class CcxtClient:
    """One account at one exchange.

    Args:
        exchange: ccxt's id of the exchange, such as "binance".
    """

    def __init__(self, exchange: str, options: CcxtOptions) -> None:
        self.exchange, self.options = exchange, options
        self.dialect = dialect_of(exchange)
        self._ccxt = load_extra("ccxt", "exchanges", "trading at an exchange")
        if exchange not in self._ccxt.exchanges:
            raise HarnessMisuse(f"exchange {exchange!r} is unknown to ccxt {self._ccxt.__version__}: see ccxt.exchanges")
        self.window_s = self.dialect.window_s(options.recv_window_s)
        """Seconds after which a request has lapsed."""
        if options.patience_s <= self.window_s + options.margin_s:
            raise HarnessMisuse(
                f"exchange {exchange!r}: patience_s: expected more than recv_window_s and margin_s together, "
                f"was {options.patience_s}; the outcome of an order is certain only after both"
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
        """Whether the exchange refuses requests that arrive too late."""
        return self.dialect.expiry is not Expiry.NONE

    @property
    def markets(self) -> Mapping[str, Any]:
        """The exchange's markets by symbol, as ccxt describes them. Empty before `get_ready`."""
        return self._first.markets or {}

    @property
    def has(self) -> Raw:
        """The methods that ccxt supports for this exchange."""
        return self._first.has or {}

    @property
    def features(self) -> Raw:
        """The order features that ccxt declares for this exchange, by type of market."""
        return self._first.features or {}

    @property
    def precision_mode(self) -> int:
        """How ccxt expresses this exchange's precision of prices and amounts."""
        return int(self._first.precisionMode)

    def length_ms(self, timeframe: str) -> int:
        """Return the length of a bar in ms.

        Raises:
            HarnessMisuse: the exchange does not have the timeframe, or its bars vary in length.
        """
        timeframes: Mapping[str, Any] = self._first.timeframes or {}
        known = [name for name in timeframes if not name.endswith(("M", "y"))]
        if timeframe not in known:
            there = one_of(known, "it has none of fixed length; choose another exchange")
            raise HarnessMisuse(f"exchange {self.exchange!r}: timeframe {timeframe!r} is unknown: {there}")
        return int(self._ccxt.Exchange.parse_timeframe(timeframe)) * 1000

    async def get_ready(self) -> None:
        """Load the markets and synchronise the clock, unless done already.

        Raises:
            CallFailed: the exchange does not answer.
        """
        if self._first.markets and self._read_at_s is not None:
            if time.monotonic() - self._read_at_s > _RESYNC_S and not self._loading.locked():
                # One caller synchronises the clock again and the others use the known offset; so does this one if there is no
                # answer.
                async with self._loading:
                    with suppress(CallFailed):
                        self._set_clock(await self.call("fetch_time") if self.has.get("fetchTime") else now_s() * 1000)
            return
        began_s = trio.current_time()
        async with self._loading:
            if self._failed is not None and self._failed[0] >= began_s:
                # Another caller tried and failed while this one waited for its turn.
                raise self._failed[1]
            try:
                if not self._first.markets:
                    await self.ask("load_markets")
                await self.read_clock()
            except CallFailed as error:
                self._failed = (trio.current_time(), error)
                raise

    async def read_clock(self) -> float:
        """Ask the venue for its time, in ms. The venue's clock has reached at least this time on return.

        A venue that does not tell its time has the time of this machine.
        """
        if not self.has.get("fetchTime"):
            return self._set_clock(now_s() * 1000)
        return self._set_clock(await self.ask("fetch_time"))

    def _set_clock(self, told_ms: object) -> float:
        self._venue_ms, self._read_at_s = float(str(told_ms)), time.monotonic()
        return self._venue_ms

    def now_ms(self) -> float:
        """Return the estimated venue time in ms; the local time if the venue has never been asked."""
        if self._read_at_s is None:
            return now_s() * 1000
        return self._venue_ms + (time.monotonic() - self._read_at_s) * 1000

    async def call(
        self, method: str, *args: Any, signed: Callable[[int], None] | None = None, params: Raw | None = None
    ) -> Any:
        """Call a method of the exchange once, in a thread.

        Args:
            signed: called before anything is sent, with the time that the request carries, in ms of the venue's clock.
                Required for requests that need an account.
            params: ccxt's `params`.

        Raises:
            CallFailed: with the verdict on whether the request took effect.
        """
        request = dict(params or {})

        stamps: list[int] = []
        """When the request was made, once it is its turn; empty if it does not lapse."""

        def stamp() -> None:
            if signed is not None and self.lapses:
                stamps.append(int(self.now_ms()))
                signed(stamps[0])
                request.update(self.dialect.request_fields(method, stamps[0], int(self.window_s * 1000)))

        limiter = cast(trio.CapacityLimiter, _Turn(self._free, stamp))
        return await trio.to_thread.run_sync(self._run, method, args, request, stamps, abandon_on_cancel=True, limiter=limiter)

    async def ask(self, method: str, *args: Any, private: bool = False, params: Raw | None = None) -> Any:
        """Call a method without side effects, retrying for up to `patience_s`.

        Raises:
            CallFailed: the venue refused, or did not answer in time.
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

    def rehearse(self, method: str, *args: Any, params: Raw) -> str:
        """Return the requests that a call would send, as text. Nothing is sent: each is answered with nothing.

        Raises:
            HarnessMisuse: ccxt makes none.
        """
        exchange, said = self._make(), list[str]()
        exchange.set_markets_from_exchange(self._first)

        def fetch(url: str, method: str = "GET", headers: object = None, body: object = None) -> Raw:
            said.append(unquote(f"{method} {url} {body or ''}"))
            if len(said) > _REHEARSED:
                raise RuntimeError(f"expected at most {_REHEARSED} requests of a call")
            return {}

        exchange.fetch = fetch
        try:
            getattr(exchange, method)(*args, params=dict(params))
        except Exception as error:
            # An answer with nothing in it is an error for ccxt: what was said before is what counts.
            if not said:
                raise HarnessMisuse(
                    f"ccxt:{self.exchange} cannot be traded at: ccxt's {method} ends before it sends anything: "
                    f"{type(error).__name__}: {error!s:.300}; set what it needs in `options`, or choose another exchange"
                ) from error
        return "\n".join(said)

    async def wait_until(self, venue_ms: float) -> bool:
        """Wait until the venue's own clock has passed a time; return False if that takes longer than `patience_s`."""
        deadline_s = trio.current_time() + self.options.patience_s
        left_s = (venue_ms - self.now_ms()) / 1000
        while True:
            if trio.current_time() + left_s > deadline_s:
                return False
            await trio.sleep(max(left_s, 0.0) + 0.002)
            left_s = (venue_ms - await self.read_clock()) / 1000
            if left_s < 0:
                return True

    def streams(self, method: str) -> bool:
        """Return whether ccxt's WebSocket class of the exchange has a method. Its import takes seconds."""
        pro = load_extra("ccxt.pro", "exchanges", "a stream of an exchange")
        return self.exchange in pro.exchanges and bool(getattr(pro, self.exchange)().has.get(method))

    def make_stream(self) -> Any:
        """Make an object of ccxt's WebSocket class of the exchange, for asyncio. It has the markets, and no credentials."""
        made = getattr(self._ccxt.pro, self.exchange)({"options": self._spot_options()})
        made.urls = made.deep_extend(made.urls, dict(self.options.urls or {}))
        # A dead connection is found after at most three of these; some exchange classes ask only every three minutes.
        made.streaming = {**made.streaming, "keepAlive": min(made.streaming["keepAlive"], _KEEP_ALIVE_MS)}
        made.set_markets_from_exchange(self._first)
        return made

    def _run(self, method: str, args: tuple[Any, ...], params: Raw, stamps: Sequence[int]) -> Any:
        """Make one call. Runs in a thread."""
        exchange = self._take()
        try:
            if exchange.markets is None and self._first.markets:
                exchange.set_markets_from_exchange(self._first)
            exchange.last_request_url = None
            for stamp_ms in stamps:
                self.dialect.stamp(exchange, stamp_ms, int(self.window_s * 1000))
            return getattr(exchange, method)(*args, **({"params": params} if params else {}))
        except Exception as error:
            raise _failure(error, sent=exchange.last_request_url is not None) from error
        finally:
            if not self.options.keep_connections:
                exchange.session.close()
            self._idle.append(exchange)

    def _take(self) -> Any:
        """Return an exchange object that no other thread uses; the most recently returned one, so that few are created."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def _spot_options(self) -> dict[str, Any]:
        ours = {"fetchCurrencies": False, "fetchMargins": False, "fetchMarkets": {"types": ["spot"]}, "defaultType": "spot"}
        return ours | dict(self.dialect.options) | dict(self.options.options)

    def _make(self) -> Any:
        options = self.options
        config = {
            "apiKey": options.api_key,
            "secret": options.secret,
            "password": options.password,
            "timeout": int(options.timeout_s * 1000),
            "enableRateLimit": options.paced,
            # Keep numbers as the venue's text: a float would not represent money exactly.
            "number": str,
            "options": self._spot_options() | {"maxRetriesOnFailure": 0},
        }
        exchange = getattr(self._ccxt, self.exchange)(config)
        exchange.urls = exchange.deep_extend(exchange.urls, dict(options.urls or {}))
        if not self.dialect.asks_currencies:
            exchange.has = {**exchange.has, "fetchCurrencies": False}
        # Following a redirect would send an order twice.
        exchange.session.max_redirects = 0
        return exchange


class _Turn:
    """A limiter for `to_thread.run_sync` that calls a function once acquired, before the thread starts.

    An abandoned thread keeps its slot until it ends.
    """

    def __init__(self, limiter: trio.CapacityLimiter, begin: Callable[[], None]) -> None:
        self._limiter, self._begin = limiter, begin

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._limiter.acquire_on_behalf_of(borrower)
        self._begin()

    def release_on_behalf_of(self, borrower: object) -> None:
        self._limiter.release_on_behalf_of(borrower)


def _failure(error: Exception, *, sent: bool) -> CallFailed:
    """Return the `CallFailed` for an error raised in a call."""
    response = getattr(_cause(error), "response", None)
    status = getattr(response, "status_code", None)
    kinds = [kind.__name__ for kind in type(error).__mro__]
    # ccxt puts the whole URL into some messages, including the signature.
    text = f"{type(error).__name__}: {str(error).partition('?')[0]:.500}"
    verdict = judge(kinds, str(error), status=status, sent=sent)
    headers: Mapping[str, str] = getattr(response, "headers", {})
    return CallFailed(verdict, text, parse_retry_after(headers.get("Retry-After")))


def _cause(error: BaseException) -> BaseException | None:
    """Return the `requests` error that caused one of ccxt's."""
    found = error.__cause__ or error.__context__
    while found is not None and not hasattr(found, "response"):
        found = found.__cause__ or found.__context__
    return found


def _forget(stamp_ms: int) -> None:
    """Ignore the time of a request that has no side effects."""
