"""What the page tells of ready-made harnesses: trading accounts, and the progress of feature lists and pipelines.

What was read is kept, so that a look reads only what is new. A look takes a fraction of a second: where more is left to read,
the answer says how far it has come, and the next look goes on from there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, Protocol, TypeVar

from attrs import define, field

from harnesses.errors import near, one_of
from orchestrator.errors import UsageError
from orchestrator.history.past_reader import find_harness
from orchestrator.presets.list_progress import FEATURES, TASKS, ListProgress
from orchestrator.presets.list_told import told_item, told_items
from orchestrator.presets.ready_made_kinds import TRADING, Kinds
from orchestrator.presets.trading_course import TradingCourse, now_of
from orchestrator.presets.trading_told import told_account, told_now
from orchestrator.store.sqlite.sqlite_reader import SqliteReader

_LOOK_S = 0.25
"""Processor time that one look may spend on reading."""
_MOST_KEPT = 32
"""Harnesses of which what was read is kept; of others it is read again."""
_MOST_LISTED = 500


class _Kept(Protocol):
    @property
    def lock(self) -> Lock: ...


KeptT = TypeVar("KeptT", bound=_Kept)


@define(eq=False)
class ReadyViews:
    """What is told of the ready-made harnesses of a store."""

    reader: SqliteReader
    kinds: Kinds = field(init=False)
    _kept: OrderedDict[str, Any] = field(factory=OrderedDict[str, Any], init=False)
    _lock: Lock = field(factory=Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self.kinds = Kinds(self.reader)

    def accounts(self, steps: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return where the account of each trading harness stands.

        Args:
            steps: the last step of every harness, by name.
        """
        names = self.kinds.among(steps, TRADING)[:_MOST_LISTED]
        found = ((name, now_of(self.reader, name, steps[name])) for name in names)
        return [{"harness": name, **told_now(now)} for name, now in found if now is not None]

    def account(self, name: str) -> dict[str, Any]:
        """Return the account of a trading harness: where it stands, its figures, orders, fills, refusals and restrictions.

        Raises:
            UnknownHarness: there is none of that name.
            UsageError: it does not trade.
        """
        step = find_harness(self.reader, name).current_step
        self._expect(name, TRADING)
        now = now_of(self.reader, name, step)
        with self._course(name, lambda: TradingCourse(self.reader, name)) as course:
            course.advance(step, _LOOK_S)
            return {"harness": name, "steps": step, **(told_now(now) if now else {}), **told_account(course)}

    def curve(self, name: str, symbol: str, *, since: int, revision: int | None) -> dict[str, Any]:
        """Return the curve of a trading harness, from a stretch on if the earlier ones have not changed meanwhile.

        Args:
            symbol: whose prices; "" for the first.
            since: the first stretch that is wanted.
            revision: of an earlier answer; None wants all.

        Raises:
            UsageError: it does not trade, or has no prices of the symbol.
        """
        self._expect(name, TRADING)
        with self._course(name, lambda: TradingCourse(self.reader, name)) as course:
            step = find_harness(self.reader, name).current_step
            course.advance(step, _LOOK_S)
            curve = course.curve
            if symbol and symbol not in curve.symbols and course.step >= step:
                known = one_of(curve.symbols, "none is priced yet")
                raise UsageError(f"harness {name!r}: unknown symbol {symbol!r:.100}: {known}{near(symbol, curve.symbols)}")
            symbol = symbol or next(iter(curve.symbols), "")
            first = since if revision == curve.revision and since <= len(curve.stretches) else 0
            rows = [*curve.rows(symbol, first)]
            return {"symbol": symbol, "revision": curve.revision, "width": curve.width, "first": first, "rows": rows}

    def lists(self, steps: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return the harnesses that work on a feature list or a pipeline.

        Args:
            steps: the last step of every harness, by name.
        """
        names = self.kinds.among(steps, FEATURES, TASKS)[:_MOST_LISTED]
        return [{"harness": name, "what": self.kinds.of(name)} for name in names]

    def progress(self, name: str) -> dict[str, Any]:
        """Return the progress of a feature list or a pipeline, and what it has cost.

        Raises:
            UnknownHarness: there is none of that name.
            UsageError: it works on neither.
        """
        with self._progress(name) as (progress, step):
            return {"harness": name, "steps": step, **told_items(progress, step)}

    def item(self, name: str, id: str) -> dict[str, Any]:
        """Return one feature or task: its specification, its tries with their evidence, and what proves it.

        Raises:
            UnknownHarness: there is no such harness.
            UsageError: it has no such feature or task.
        """
        with self._progress(name) as (progress, step):
            return told_item(progress, step, id)

    @contextmanager
    def _progress(self, name: str) -> Generator[tuple[ListProgress, int]]:
        last = self.reader.last_seq()
        step = find_harness(self.reader, name).current_step
        kind = self._expect(name, FEATURES, TASKS)
        with self._course(name, lambda: ListProgress(self.reader, name, kind)) as progress:
            progress.advance(step, last, _LOOK_S)
            yield progress, step

    def _expect(self, name: str, *kinds: str) -> str:
        kind = self.kinds.of(name)
        if kind not in kinds:
            what = "trades" if kinds == (TRADING,) else "works on features or tasks"
            raise UsageError(f"harness {name!r}: expected one that {what} and has made a step, got another; name such a one")
        return kind

    @contextmanager
    def _course(self, name: str, make: Callable[[], KeptT]) -> Generator[KeptT]:
        """Give what was read of a harness, for exclusive use."""
        with self._lock:
            kept = self._kept.pop(name, None) or make()
            self._kept[name] = kept
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        with kept.lock:
            yield kept
