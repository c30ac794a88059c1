"""The time limits of one harness that an operator may set while it runs.

    step_timeout_s   of every step, the one in progress too
    deadline_s       counted from the start of the harness in this program
    period_s         of its ticker, `every(…)`, if it uses exactly one

Invariant: what is set holds, over restarts of the harness and of its program, until the program declares another value than it
did then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from attrs import define, field, frozen

from harnesses.errors import HarnessMisuse
from harnesses.redaction.redactor import redact
from harnesses.timing.clock import now_us
from harnesses.timing.interval import Every, SetPeriod, TickBook
from orchestrator.child_spec import ChildSpec, check_seconds
from orchestrator.codec import encode
from orchestrator.errors import UsageError
from orchestrator.recording.commit_queue import Receipt
from orchestrator.recording.recorder import Recorder
from orchestrator.records import LIMITS_SET
from orchestrator.store.store_protocol import Remark

STEP_TIMEOUT, DEADLINE, PERIOD = "step_timeout_s", "deadline_s", "period_s"
NAMES = (STEP_TIMEOUT, DEADLINE, PERIOD)


@frozen
class Held:
    """A limit that an operator has set."""

    value: float | None
    """Seconds; None for no limit."""
    declared: float | None
    """What the program declared then."""
    ticker: str = ""
    """Of a period: the name of its ticker, and whether the harness has given it that name."""
    is_named: bool = False


class Limited(Protocol):
    """Takes the limits of a harness that it enforces."""

    def set_step_timeout(self, step_timeout_s: float | None) -> None:
        """Change the step timeout, of the step in progress too."""
        ...

    def set_deadline(self, deadline_s: float | None) -> None:
        """Change the deadline, in seconds from the start of the harness."""
        ...


@define(eq=False)
class TimeLimits:
    """The limits in force, and those among them that an operator has set.

    Args:
        book: returns the harness's tickers; None while it has used none.
        redacted: whether secrets are removed from what is recorded.
    """

    _spec: ChildSpec
    _orders: Limited
    _book: Callable[[], TickBook | None]
    _recorder: Recorder
    _redacted: bool
    held: dict[str, Held] = field(factory=dict[str, Held])

    @property
    def declared(self) -> dict[str, float | None]:
        """What the program declares."""
        ticker = self._ticker()
        period_s = ticker.declared_s if ticker is not None else None
        return {STEP_TIMEOUT: self._spec.step_timeout_s, DEADLINE: self._spec.deadline_s, PERIOD: period_s}

    @property
    def now(self) -> dict[str, float | None]:
        """What is in force; no period if the harness does not use exactly one ticker."""
        return {name: self.held[name].value if name in self.held else value for name, value in self.declared.items()}

    def restore(self, recorded: Mapping[str, Any], book: Callable[[], TickBook]) -> None:
        """Apply what an operator has set in an earlier life, except for what the program now declares otherwise."""
        self.held = _read(recorded)
        changed = [name for name in (STEP_TIMEOUT, DEADLINE) if name in self.held and not self._is_declared_as_then(name)]
        before = {name: self.held.pop(name).value for name in changed}
        for name, one in self.held.items():
            if name == PERIOD and one.value is not None and one.declared is not None:
                tickers = book()
                tickers.set_period = SetPeriod(one.ticker, one.is_named, one.declared, one.value)
                tickers.on_declared = self._end_period
            elif name != PERIOD:
                self._enforce(name, one.value)
        if before:
            self._record({name: self.declared[name] for name in before}, before, change="declared")

    def set(self, wanted: Mapping[str, float | None], *, by: str, reason: str = "") -> Receipt | None:
        """Set limits, at once; return the receipt of the record, None if nothing is changed by it.

        Args:
            wanted: seconds by name; None for no limit.

        Raises:
            UsageError: something of it cannot be set; nothing is.
        """
        self._check(wanted)
        now = self.now
        changed = {name: None if value is None else float(value) for name, value in wanted.items() if value != now[name]}
        if not changed:
            return None
        if PERIOD in changed:
            self._set_period(changed[PERIOD])
        for name in (STEP_TIMEOUT, DEADLINE):
            if name in changed:
                self._keep(name, Held(changed[name], self.declared[name]))
                self._enforce(name, changed[name])
        return self._record(changed, {name: now[name] for name in changed}, by=by, reason=reason)

    def _check(self, wanted: Mapping[str, float | None]) -> None:
        subject = f"limits of harness {self._spec.name!r}"
        for name, value in wanted.items():
            if name not in NAMES:
                raise UsageError(
                    f"{subject}: expected {', '.join(NAMES[:-1])} or {NAMES[-1]}, which can be set while it runs, "
                    f"got {name!r:.100}; for others change the program and restart the harness"
                )
            check_seconds(**{name: value})
            if value == 0:
                raise UsageError(f"{subject}: {name}: expected seconds above 0, got 0; stop the harness with `stop`")
        if PERIOD in wanted and wanted[PERIOD] is None:
            raise UsageError(f"{subject}: {PERIOD}: expected seconds above 0, got none; to hold it, pause the harness")
        if PERIOD in wanted and self._ticker() is None:
            tickers = self._tickers()
            names = f"{len(tickers)}: {', '.join(one.name for one in tickers)}" if tickers else "none now"
            raise UsageError(
                f"{subject}: {PERIOD}: expected a harness that uses one ticker, `every(…)`, it uses {names}; "
                f"{STEP_TIMEOUT} and {DEADLINE} can be set"
            )

    def _set_period(self, period_s: float | None) -> None:
        book, ticker = self._book(), self._ticker()
        assert book is not None
        assert ticker is not None
        assert period_s is not None
        try:
            ticker.set_period(period_s)
        except HarnessMisuse as error:
            raise UsageError(f"limits of harness {self._spec.name!r}: {PERIOD}: {error}") from error
        book.set_period = SetPeriod(ticker.name, ticker.is_named, ticker.declared_s, period_s)
        book.on_declared = self._end_period
        self._keep(PERIOD, Held(period_s, ticker.declared_s, ticker.name, ticker.is_named))

    def _keep(self, name: str, one: Held) -> None:
        self.held.pop(name, None)
        if one.value != one.declared:
            self.held[name] = one

    def _enforce(self, name: str, value: float | None) -> None:
        if name == STEP_TIMEOUT:
            self._orders.set_step_timeout(value)
        else:
            self._orders.set_deadline(value)

    def _end_period(self) -> None:
        """Note that the harness declares another period than it did."""
        if (before := self.held.pop(PERIOD, None)) is not None:
            self._record({}, {PERIOD: before.value}, change="declared")

    def _is_declared_as_then(self, name: str) -> bool:
        return self.held[name].declared == self.declared[name]

    def _tickers(self) -> list[Every]:
        book = self._book()
        return [] if book is None else list(book.tickers())

    def _ticker(self) -> Every | None:
        tickers = self._tickers()
        return tickers[0] if len(tickers) == 1 else None

    def _record(
        self,
        limits: Mapping[str, float | None],
        before: Mapping[str, float | None],
        *,
        change: str = "set",
        by: str = "",
        reason: str = "",
    ) -> Receipt:
        body: dict[str, Any] = {"change": change, "limits": dict(limits), "limits_before": dict(before)}
        body |= {"by": by, "reason": reason, "held": {name: msgspec.to_builtins(one) for name, one in self.held.items()}}
        return self._recorder.submit(
            Remark(self._spec.name, LIMITS_SET, encode(redact(body) if self._redacted else body), now_us())
        )


def _read(recorded: Mapping[str, Any]) -> dict[str, Held]:
    """Return what a record says is set; nothing if this version cannot read it."""
    try:
        held = msgspec.convert(recorded.get("held", {}), dict[str, Held])
    except msgspec.ValidationError:
        return {}
    return {name: one for name, one in held.items() if name in NAMES}
