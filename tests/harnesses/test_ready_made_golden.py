"""G10: what the ready-made harnesses of an earlier version have stored half-way is gone on with by today's.

How the files were made: `golden/README.md`.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trio

from harnesses import BaseHarness
from harnesses.coding import CodingHarness
from harnesses.pipeline import PipelineHarness
from harnesses.trading import Bar, PaperBroker, ReplayFeed, TradingHarness, rsi_strategy
from orchestrator import Orchestrator
from orchestrator.codec import decode, encode
from orchestrator.history import state_at
from orchestrator.history.state_at_step import types_of
from orchestrator.states.state_migration import ready
from orchestrator.store import SqliteReader, SqliteStore
from tests.harnesses.features.worked import Judge, Worker, harness, passing

GOLDEN = Path(__file__).with_name("golden")


def unpacked(name: str) -> bytes:
    return gzip.decompress((GOLDEN / name).read_bytes())


def features() -> BaseHarness[Any, Any, Any]:
    return harness(Worker(seconds=0), Judge(seconds=0))


def trading() -> BaseHarness[Any, Any, Any]:
    # The feed of `tests.harnesses.trading.test_trading_harness`, which the store was made with.
    closes = [Decimal(100 + (day * 37) % 23 - (day // 9)) for day in range(60)]
    first = datetime(2000, 3, 1, tzinfo=UTC)
    bars = {first + timedelta(day): Bar(close, close, close, close, Decimal(10_000)) for day, close in enumerate(closes)}
    return TradingHarness(ReplayFeed({"A": bars}), PaperBroker(), rsi_strategy())


async def end_of(store: Any, kind: str, harness: BaseHarness[Any, Any, Any]) -> str:
    async with Orchestrator(store, handle_signals=False) as orchestrator:
        with trio.fail_after(3600):
            return str((await orchestrator.start(harness, name=kind).wait()).kind)


@pytest.mark.parametrize("make", [trading, features])
async def test_a_store_of_an_earlier_version_is_gone_on_with_to_the_end_of_an_uninterrupted_one(
    tmp_path: Path, autojump_clock: object, make: Callable[[], BaseHarness[Any, Any, Any]]
) -> None:
    kind, path = make.__name__, tmp_path / "run.db"
    path.write_bytes(unpacked(f"{kind}.db.gz"))
    with closing(SqliteStore(path)) as store:
        before = store.harnesses()[0].current_step
        states = [store.state_at(kind, step) for step in range(before + 1)]

    whole, resumed = make(), make()
    with closing(SqliteStore(tmp_path / "whole.db")) as store:
        wanted = await end_of(store, kind, whole)
    with closing(SqliteStore(path)) as store:
        assert await end_of(store, kind, resumed) == wanted == "completed"

    assert 0 < before < whole.current_step <= resumed.current_step  # features are checked again by whoever goes on
    assert resumed.state.salt if kind == "trading" else passing(resumed.state) == "abc"
    with closing(SqliteReader(path)) as reader:
        assert [reader.state_at(kind, step) for step in range(before + 1)] == states
    for step in range(before + 1):
        assert state_at(path, kind, step, like=make()) is not None


@pytest.mark.parametrize(("kind", "cls"), [("pipeline", PipelineHarness), ("coding", CodingHarness)])
def test_a_state_of_an_earlier_version_fits_its_class_with_nothing_lost(
    kind: str, cls: type[BaseHarness[Any, Any, Any]]
) -> None:
    text = unpacked(f"{kind}.json.gz").decode()

    state = ready(types_of(cls), text, 1).state

    assert _is_within(decode(text), decode(encode(state)))


def _is_within(stored: Any, now: Any) -> bool:
    """Return whether all that was stored is there; what is new may be more."""
    if isinstance(stored, dict):
        return isinstance(now, dict) and all(name in now and _is_within(value, now[name]) for name, value in stored.items())
    if isinstance(stored, list):
        return isinstance(now, list) and len(stored) == len(now) and all(map(_is_within, stored, now))
    return bool(stored == now)
