"""A venue in memory, brought to where it was from what its harness has recorded.

    each step     the slice is observed, then its orders are sent and cancelled, in the order in which they were recorded
    the step in progress, if anything was recorded of it: the same with the slice after the last one

A simulated venue depends on nothing else, so it comes to the same books to the last digit. An order that was begun and has no
recorded outcome is left out: the harness asks the venue for it, learns that it is not there, and sends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

import msgspec
from attrs import frozen

from harnesses.effects.effect import EffectOutcome
from harnesses.trading.feeds.replay_feed import ReplayFeed
from harnesses.trading.market.bars import MarketSlice, SliceRun
from harnesses.trading.market.orders import PlacedOrder
from harnesses.trading.paper.paper_broker import PaperBroker
from orchestrator.records import EffectRecord
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

_PAGE = 1_000
_SENT = "order-"
_CANCELLED = "cancel-"


@frozen
class _Given:
    """The input of a step, as it is stored."""

    input: SliceRun | None


_read_step = msgspec.json.Decoder(_Given).decode


async def restore(broker: PaperBroker, feed: ReplayFeed, reader: SqliteReader, name: str) -> None:
    """Bring a new venue to where that of a harness was when its last record was made.

    Args:
        feed: that of the harness.
    """
    broker.derive(await feed.instruments())
    effects = {step: [*found] for step, found in groupby(_effects(reader.effects(name)), attrgetter("step_number"))}
    last, time = 0, None
    for last, market in _slices(reader, name):
        time = market.time if market is not None else time
        for earlier in market.earlier if market is not None else ():
            await broker.observe(earlier)
        await _repeat(broker, market, effects.get(last, ()))
    if last + 1 in effects:
        await _repeat(broker, await feed.next_slice(time), effects[last + 1])


def _slices(reader: SqliteReader, name: str) -> Iterator[tuple[int, SliceRun | None]]:
    after = 0
    while rows := reader.step_rows(name, after=after, limit=_PAGE):
        yield from ((row.step, _read_step(row.body).input) for row in rows)
        after = rows[-1].step


def _effects(records: Iterable[EffectRecord]) -> list[EffectRecord]:
    """Return the requests that have reached the venue, step by step, in the order in which they were made."""
    kept = (one for one in records if one.outcome in (EffectOutcome.CONFIRMED, EffectOutcome.REFUSED))
    return sorted(kept, key=lambda one: (one.step_number, one.seq))


async def _repeat(broker: PaperBroker, market: MarketSlice | None, effects: Iterable[EffectRecord]) -> None:
    if market is not None:
        await broker.observe(market)
    for one in effects:
        if one.key.startswith(_CANCELLED):
            await broker.cancel(*one.arguments)
        elif one.key.startswith(_SENT):
            await broker.submit(msgspec.convert(one.arguments[0], PlacedOrder))
