"""Lists the executions at an exchange since a known one, page by page, in the way that its dialect allows.

Invariant: either all executions since the known one are returned, oldest first, or an error: never only some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from harnesses.trading.exchange.ccxt_client import CcxtClient, Raw
from harnesses.trading.exchange.ccxt_translation import CallFailed
from harnesses.trading.exchange.exchange_dialects import Pages
from harnesses.trading.market.broker import BrokerUnavailable

_MOST_PAGES = 1000


async def executions_after(client: CcxtClient, symbol: str, after: str | None, *, page: int, name: str) -> Sequence[Raw]:
    """Return ccxt's executions of a symbol after a fill id, oldest first; all of them without an id.

    Args:
        page: maximum executions in a page, where the exchange allows that many.
        name: of the broker, for errors.

    Raises:
        BrokerUnavailable: they cannot be listed, or not as far back as the known one.
    """
    try:
        if client.dialect.pages is Pages.FROM_ID:
            return await _from_id(client, symbol, after, page)
        size = min(page, client.dialect.page)
        return await _backwards(client, symbol, after, size, name)
    except CallFailed as error:
        raise BrokerUnavailable(f"{name} does not report the fills: {error.text}") from error


async def _from_id(client: CcxtClient, symbol: str, after: str | None, size: int) -> Sequence[Raw]:
    trades: list[Raw] = []
    first = 0 if after is None else int(after) + 1
    while True:
        page = await _ask(client, symbol, size, {"fromId": first})
        trades += sorted(page, key=lambda raw: int(raw["id"]))
        if len(page) < size:
            return trades
        first = int(trades[-1]["id"]) + 1


async def _backwards(client: CcxtClient, symbol: str, after: str | None, size: int, name: str) -> Sequence[Raw]:
    """Read from the latest execution backwards, until the known one, or the first of all."""
    dialect = client.dialect
    known = None if after is None else after.removeprefix(dialect.mark)
    found: dict[str, Raw] = {}
    params: Raw = {}
    for number in range(1, _MOST_PAGES + 1):
        page = await _ask(client, None if dialect.pages is Pages.OFFSET else symbol, size, params)
        found |= {str(raw["id"]): raw for raw in page}
        following = _next(dialect.pages, page, size, number)
        if known in found or following is None:
            break
        params = following
    trades = sorted((raw for raw in found.values() if raw.get("symbol") == symbol), key=_moment)
    ids = [str(raw["id"]) for raw in trades]
    if known in ids:
        return trades[ids.index(str(known)) + 1 :]
    if known is None and (dialect.pages is not Pages.LAST or len(trades) < size // 20):
        return trades
    raise BrokerUnavailable(
        f"{name} does not report all fills of {symbol}: expected that of {after or 'the beginning'} among the last "
        f"{len(trades)}; look them up at the venue"
    )


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


async def _ask(client: CcxtClient, symbol: str | None, size: int, params: Raw) -> Sequence[Raw]:
    page: Sequence[Raw] = await client.ask("fetch_my_trades", symbol, None, size, private=True, params=params)
    return page
