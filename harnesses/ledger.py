"""Where a yielded pair becomes a step: checked, numbered, recorded by the runtime, and only then shown."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from harnesses.attachments import attachment
from harnesses.budgets.step_meter import Meter
from harnesses.data.delta import Delta
from harnesses.data.values import ATOMS, detach, explain
from harnesses.diagnostics.unawaited_calls import Calls
from harnesses.errors import HarnessError, HarnessMisuse, RecordTooLarge, Unstorable, located
from harnesses.runtime import Runtime
from harnesses.state import PersistentState
from harnesses.step import Step
from harnesses.timing.clock import utc_now


def place(name: str, steps: int) -> str:
    """Say where: in which harness, in the making of which step."""
    return f"harness {name!r}, step {steps + 1}"


_PAIRS: Any = (tuple, list)


class Completable(Protocol):
    """The part of a harness that the ledger needs."""

    unawaited_calls: Calls
    """The calls of its own methods that were not awaited."""

    def is_complete(self) -> bool:
        """Return whether the work is done."""
        ...


class StepLedger:
    """Takes the steps of one attempt from the loop to the runtime and back."""

    __slots__ = ("_control", "_effects", "_governor", "_harness", "_meter", "_runtime", "_state")

    def __init__(self, harness: Completable, state: PersistentState[Any, Any, Any], runtime: Runtime) -> None:
        self._harness = harness
        self._state = state
        self._runtime = runtime
        self._effects = runtime.effects
        self._meter: Meter | None = runtime.meter
        self._governor = runtime.governor
        self._control = runtime.control

    def make(self, pair: Any) -> tuple[Step[Any, Any], Delta]:
        if not isinstance(pair, _PAIRS) or len(pair) != 2:
            raise HarnessMisuse(
                f"{self._where()}: execute() yielded {pair!r:.200}: expected StepYield(input=…, output=…) or a pair"
            )
        self._harness.unawaited_calls.check()
        if self._control.is_parked:
            raise HarnessMisuse(
                f"{self._where()}: an approval is waited for at the yield of its step: expected it answered; await it before"
            )
        given, made = pair
        if given.__class__ not in ATOMS:
            given = self._private("input", given)
        if made.__class__ not in ATOMS:
            made = self._private("output", made)
        try:
            self._effects.close()
        except HarnessError as error:
            raise located(error, self._where()) from None
        state = self._state
        state_delta, delta = state.take_delta()
        return Step(state.steps + 1, utc_now(), given, made, state_delta), delta

    def commit(self, step: Step[Any, Any], delta: Delta) -> Awaitable[None]:
        if self._meter is not None:
            self._meter.charge()
        if self._governor is not None:
            for finding in self._governor.look(step, delta, self._state.snapshot):
                self._runtime.attach(attachment("guardrail", finding))
        return self._runtime.commit(step, delta, self._state.snapshot)

    def accept(self, step: Step[Any, Any]) -> None:
        self._state.append(step)
        self._effects.end_recording(recorded=True)

    def is_complete(self) -> bool:
        if self._harness.is_complete():
            return True
        if self._governor is not None:
            self._governor.check()
        return False

    def take_back(self) -> None:
        self._state.untake_delta()
        self._effects.end_recording(recorded=False)

    def _private(self, role: str, value: Any) -> Any:
        try:
            return detach(value)
        except RecordTooLarge as error:
            raise located(error, f"{self._where()}: {role}") from None
        except Unstorable as error:
            raise Unstorable(f"{self._where()}: {explain(value, role)}") from error

    def _where(self) -> str:
        return place(self._runtime.name, self._state.steps)
