"""Lists the executions at an exchange since a known one, page by page, in the way that its dialect allows.

Invariant: either all executions since the known one are returned, oldest first, or an error: never only some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from harnesses.trading.exchange.ccxt_client import CcxtClient, Raw
from harnesses.trading.exchange.ccxt_translation import CallFailed
from harnesses.trading.exchange.exchange_dialects import DAY_MS, Pages
from harnesses.trading.market.broker import BrokerUnavailable

_MOST_PAGES = 1000
_LATE_MS = 1.0 * DAY_MS
"""How late an execution may be listed."""


class Executions:
    """The executions of one account.

    It remembers up to when there was none after the last known one of each symbol, so that an account that trades seldom is
    not read back to its last execution again and again.

    Args:
        name: of the broker, for errors.
    """

    def __init__(self, client: CcxtClient, name: str) -> None:
        self._client = client
        self._name = name
        self._quiet: dict[str, tuple[str | None, float]] = {}
        """By symbol: a fill id, and a time of the venue in ms before which there is no execution after it."""

    async def after(self, symbol: str, after: str | None, *, page: int) -> Sequence[Raw]:
        """Return ccxt's executions of a symbol after a fill id, oldest first; without an id, all that the exchange lists.

        Args:
            page: maximum executions in a page, where the exchange allows that many.

        Raises:
            BrokerUnavailable: they cannot be listed, or not as far back as the known one.
        """
        dialect = self._client.dialect
        try:
            if dialect.pages is Pages.FROM_ID:
                return await self._from_id(symbol, after, page)
            now_ms = self._client.now_ms()
            trades = await self._backwards(symbol, after, min(page, dialect.page), now_ms)
        except CallFailed as error:
            raise BrokerUnavailable(f"{self._name} does not report the fills: {error.text}") from error
        if dialect.pages is not Pages.LAST:
            last = f"{dialect.mark}{trades[-1]['id']}" if trades else after
            self._quiet[symbol] = (last, now_ms - _LATE_MS)
        return trades

    async def _from_id(self, symbol: str, after: str | None, size: int) -> Sequence[Raw]:
        trades: list[Raw] = []
        first = 0 if after is None else int(after) + 1
        while True:
            page = await self._ask(symbol, size, {"fromId": first})
            trades += sorted(page, key=lambda raw: int(raw["id"]))
            if len(page) < size:
                return trades
            first = int(trades[-1]["id"]) + 1

    async def _backwards(self, symbol: str, after: str | None, size: int, now_ms: float) -> Sequence[Raw]:
        """Read from the latest execution backwards: until the known one, a time before which there is none, or the first."""
        dialect = self._client.dialect
        known = None if after is None else after.removeprefix(dialect.mark)
        quiet_after, quiet_ms = self._quiet.get(symbol, (None, 0.0))
        since_ms = quiet_ms if quiet_after == after else 0.0
        found: dict[str, Raw] = {}
        for window in dialect.windows(now_ms, since_ms):
            found |= await self._read(symbol, size, window, known, since_ms)
            if known in found:
                break
        trades = sorted((raw for raw in found.values() if raw.get("symbol") == symbol), key=_moment)
        ids = [str(raw["id"]) for raw in trades]
        if known in ids:
            return trades[ids.index(str(known)) + 1 :]
        if since_ms:
            return [raw for raw in trades if raw["timestamp"] >= since_ms]
        if known is None and (dialect.pages is not Pages.LAST or len(trades) < size // 20):
            return trades
        limit = f", all that it lists of the past {dialect.history_days} days" if dialect.history_days else ""
        raise BrokerUnavailable(
            f"{self._name} does not report all fills of {symbol}: expected that of {after or 'the beginning'} among the last "
            f"{len(trades)}{limit}; look them up at the venue, and adopt its account"
        )

    async def _read(self, symbol: str, size: int, window: Raw, known: str | None, since_ms: float) -> dict[str, Raw]:
        """Return the executions of one window by id, at least back to the known one or to a time."""
        pages = self._client.dialect.pages
        found: dict[str, Raw] = {}
        params = window
        for number in range(1, _MOST_PAGES + 1):
            page = await self._ask(None if pages is Pages.OFFSET else symbol, size, params)
            found |= {str(raw["id"]): raw for raw in page}
            following = _next(pages, page, size, number)
            if following is None or known in found or any(raw["timestamp"] < since_ms for raw in page):
                return found
            params = {**window, **following}
        raise BrokerUnavailable(
            f"{self._name} does not report all fills of {symbol}: expected at most {_MOST_PAGES} pages, got more; look them "
            "up at the venue, and adopt its account"
        )

    async def _ask(self, symbol: str | None, size: int, params: Raw) -> Sequence[Raw]:
        page: Sequence[Raw] = await self._client.ask("fetch_my_trades", symbol, None, size, private=True, params=params)
        return page


def _next(pages: Pages, page: Sequence[Raw], size: int, number: int) -> Raw | None:
    """Return the parameters of the page before the `number`-th; None if there is none."""
    match pages:
        case Pages.OFFSET:
            return {"ofs": number * size} if len(page) >= size else None
        case Pages.BILL:
            return {"after": min((str(raw["info"]["billId"]) for raw in page), key=int)} if len(page) >= size else None
        case Pages.CURSOR:
            infos: list[Any] = [raw["info"] for raw in page]
            cursor = next((one for info in infos if (one := info.get("nextPageCursor") or info.get("cursor"))), None)
            return {"cursor": cursor} if cursor else None
        case _:
            return None


def _moment(raw: Raw) -> tuple[Decimal, int, str]:
    """Return where an execution stands: by the venue's time, as exact as it tells it, then by its id."""
    info: Raw = raw.get("info") or {}
    time, id = str(info.get("time")), str(raw["id"])
    exact_ms = Decimal(time) * 1000 if time.replace(".", "", 1).isdecimal() else Decimal(raw["timestamp"])
    return exact_ms, int(id) if id.isdecimal() else 0, id
