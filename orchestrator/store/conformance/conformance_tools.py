"""Helpers of the conformance laws, usable in tests of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import wraps
from typing import Any, TypeAlias, TypeVar

from attrs import field, frozen

from harnesses.data.delta import Delta
from harnesses.effects.effect import EffectOutcome
from orchestrator import events
from orchestrator.codec import encode
from orchestrator.lifecycle import Status
from orchestrator.store.store_protocol import Append, Claim, Claimed, EffectRow, Operation, StepRow, Store

Open: TypeAlias = Callable[[], Store]
Law: TypeAlias = Callable[[Open], None]
RowT = TypeVar("RowT")

TIME_US = 1_700_000_000_000_000
"""Wall time of all rows here, microseconds since 1970: a moment in November 2023."""


@frozen
class Laws:
    """The laws of one module, in source order."""

    opening_one: list[Law] = field(factory=list[Law])
    opening_two: list[Law] = field(factory=list[Law])

    def of_a_store(self, keep: Callable[[Store], None]) -> Law:
        """Register a law on one open store: it is opened before, and closed after."""

        @wraps(keep)
        def law(open_store: Open) -> None:
            with closing(open_store()) as store:
                keep(store)

        self.opening_one.append(law)
        return law

    def between_runs(self, law: Law) -> Law:
        """Register a law that opens stores itself, one for each run."""
        self.opening_two.append(law)
        return law


def claim(store: Store, name: str, *, state: str = '{"total":0}', take_over: bool = False, reopen: bool = False) -> Claimed:
    """Claim a harness and return the claim."""
    result = do(store, Claim(name, state, harness_class="example:Harness", take_over=take_over, reopen=reopen))
    assert isinstance(result, Claimed), f"expected the claim on {name!r} to be granted, was {result!r}"
    return result


def do(store: Store, operation: Operation) -> Any:
    """Commit one operation and return its result."""
    (result,) = store.commit([], [operation]).results
    return result


def step_row(
    claimed: Claimed, number: int, delta: Delta | None = None, *, input: object = None, state: str | None = None
) -> StepRow:
    """Return a step row. By default its input is its number, and it sets the state's `total` to that."""
    given = number if input is None else input
    body = encode({"input": given, "output": [given], "delta": {"set": {"total": number}} if delta is None else delta})
    return StepRow(claimed.harness, claimed.epoch, claimed.attempt + 1, number, TIME_US + number, body, state)


def event_row(claimed: Claimed, event: events.Event, status: Status, *, step: int = 0, release: bool = False) -> Append:
    """Return a row of a lifecycle event."""
    return Append(claimed.harness, claimed.epoch, claimed.attempt + 1, step, TIME_US, event, status, release)


def intent_row(
    claimed: Claimed, step: int, key: str, *arguments: object, idempotent: bool = False, keep: bool = False
) -> EffectRow:
    """Return a row of the intent of an effect, for a step in progress."""
    flags = {name: True for name, is_set in (("idempotent", idempotent), ("keep", keep)) if is_set}
    said: dict[str, object] = {"key": key, "arguments": arguments, **flags}
    return _effect_row(claimed, step, "intent", said)


def outcome_row(claimed: Claimed, step: int, key: str, outcome: EffectOutcome, **said: object) -> EffectRow:
    """Return a row of the outcome of an effect, with its `result` or a `reason`."""
    return _effect_row(claimed, step, "outcome", {"key": key, "outcome": outcome.value, **said})


def output_row(claimed: Claimed, step: int, line: str) -> EffectRow:
    """Return a row of a line of output, for a step in progress."""
    return _effect_row(claimed, step, "output", {"line": line})


def attached_row(claimed: Claimed, step: int, kind: str) -> EffectRow:
    """Return a row of an attachment to a step."""
    return _effect_row(claimed, step, kind, {"of": step})


def child_row(claimed: Claimed, step: int, name: str) -> EffectRow:
    """Return a row of a harness that is started with a step."""
    return _effect_row(claimed, step, "child", {"child": name, "factory": "example:Harness"})


def _effect_row(claimed: Claimed, step: int, kind: str, said: dict[str, object]) -> EffectRow:
    return EffectRow(claimed.harness, claimed.epoch, claimed.attempt + 1, step, TIME_US + step, encode(said), kind)


def give_back(store: Store, claimed: Claimed, step: int = 0) -> None:
    """Release a harness as blocked."""
    do(store, event_row(claimed, events.Blocked(), Status.BLOCKED, step=step, release=True))


def numbers(store: Store, name: str) -> list[int]:
    """Return the numbers of all steps of one harness, as they are read."""
    return [record.step_number for record in store.steps(name, limit=1_000_000)]


def numbers_after(store: Store, rows: Sequence[StepRow]) -> dict[str, list[int]]:
    """Commit steps and return the numbers of all steps of every harness."""
    store.commit(rows)
    return {harness.name: numbers(store, harness.name) for harness in store.harnesses()}


def assert_raises(error: type[Exception], words: str, call: Callable[[], object]) -> None:
    """Assert that `call` raises `error` with `words` in its message."""
    raised: Exception | None = None
    try:
        call()
    except error as found:
        raised = found
    assert raised is not None, f"expected {error.__name__}, nothing was raised"
    assert words in str(raised)


class Trap(list[RowT]):
    """Rows of which only the first may be read: reading further, in the middle of a commit, springs the trap."""

    def __init__(self, rows: Iterable[RowT], spring: Callable[[], None]) -> None:
        super().__init__(rows)
        self._spring = spring

    def __iter__(self) -> Iterator[RowT]:
        for row in super().__iter__():
            yield row
            self._spring()
