"""Effects: acts on the world that must not happen twice.

The law: the intent of an effect is on record before its function is called, the outcome after it, both with the step being
made; a finished effect is never run again, and one of unknown outcome never tried again blindly.

    what is on record          what `once` does with it
    nothing, not_done          records the intent, calls the function, records the outcome
    confirmed                  returns the recorded result
    refused                    raises `Refused` again
    begun, unknown             asks `reconcile`: Confirmed → as above · NotDone → as if there were nothing
                               Undecided, or nobody to ask → `UnknownOutcome`

What is `begun` when an attempt takes it up was cut off by a crash, so it is unknown. What a function returns is always read
back from what was recorded, so that a resumed harness gets nothing else than a first one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from math import inf
from typing import Any

import trio

from harnesses.data.record_size import CEILING_BYTES, check_size
from harnesses.effects.approval import Action
from harnesses.effects.effect import (
    OPEN,
    WAY_OUT,
    Effect,
    EffectOutcome,
    Entry,
    Journal,
    Reconcile,
    arguments_of,
    check_function,
    check_key,
    check_timeout,
    entries_of,
)
from harnesses.effects.effect_call import EffectCall, as_plain_data, result_decoder
from harnesses.errors import HarnessMisuse, Refused, UnknownOutcome, one_of

MAX_EFFECTS = 100_000
"""Of one step: they are all in memory until it is recorded, and again when it is resumed."""


class Effects:
    """The effects of the step that a harness is making. It outlives attempts.

    Args:
        most: bytes that the arguments or the result of one may have.
    """

    __slots__ = ("_entries", "_most", "_recording", "closed")

    def __init__(self, most: int = CEILING_BYTES) -> None:
        self._most = most
        self._entries: dict[str, Entry] = {}
        self.closed = False
        """Whether the step is being recorded: what begins now belongs to the next one."""
        self._recording: trio.Event | None = None

    def restore(self, marks: Iterable[tuple[str, str]]) -> None:
        """Take up what a store has on record, oldest first: kind (`intent` or `outcome`) and body of each record."""
        self._entries = entries_of(marks)

    def known(self) -> tuple[Effect, ...]:
        """Return what is on record for the step being made, in the order in which they were begun first."""
        return tuple(entry.effect for entry in self._entries.values())

    def close(self) -> None:
        """Begin to record the step.

        Raises:
            HarnessMisuse: one of its effects is under way.
            UnknownOutcome: of one it is not known what became of it.
        """
        for entry in self._entries.values():
            if entry.busy:
                raise HarnessMisuse(
                    f"effect {entry.key!r} is under way at the yield of its step: expected it to be finished; await it before"
                )
            if entry.is_open:
                raise UnknownOutcome(
                    f"effect {entry.key!r} is of unknown outcome at the yield of its step: expected it to be settled before; "
                    f"{WAY_OUT}"
                )
        self.closed = True

    def end_recording(self, *, recorded: bool) -> None:
        """Note whether the step was recorded; then its effects are behind us."""
        self.closed = False
        if recorded:
            self._entries.clear()
        if self._recording is not None:
            self._recording.set()
            self._recording = None

    def end_attempt(self) -> None:
        """Forget who was at what: the attempt is over."""
        self.end_recording(recorded=False)
        for entry in self._entries.values():
            entry.busy = False

    async def once(
        self,
        journal: Journal,
        key: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        *,
        reconcile: Reconcile | None = None,
        idempotent: bool = False,
        timeout_s: float | None = None,
        approval: Action | None = None,
    ) -> Any:
        """Do an effect unless it is done; see `BaseHarness.once`."""
        check_key(key)
        check_timeout(key, timeout_s)
        check_function(key, function)
        decode = result_decoder(function)
        arguments = arguments_of(key, args)
        check_size(f"effect {key!r}: its arguments", arguments, self._most)
        while self.closed:
            self._recording = self._recording or trio.Event()
            await self._recording.wait()
        known = self._entries.get(key)
        entry = known or Entry(key, arguments)
        call = EffectCall(journal, entry, args, reconcile, decode, self._most)
        if known is not None:
            entry.check_same(arguments)
            with _at_work(entry, idempotent=idempotent):
                done = await call.resume()
            if done:
                await trio.lowlevel.checkpoint()
                return decode(key, entry.result)
        journal.check_latch()
        if known is None:
            if len(self._entries) >= MAX_EFFECTS:
                raise HarnessMisuse(f"once: expected at most {MAX_EFFECTS:,} effects in one step; yield in between")
            self._entries[key] = entry
        with _at_work(entry, idempotent=idempotent):
            return await call.act(function, approval, inf if timeout_s is None else timeout_s, is_new=known is None)

    async def settle(self, journal: Journal, key: str, reconcile: Reconcile) -> EffectOutcome:
        """Find out what became of an effect of unknown outcome, without doing it; see `BaseHarness.settle`."""
        entry = self._entries.get(key)
        if entry is None:
            known = one_of(self._entries, "none was begun; call `once` first")
            raise HarnessMisuse(f"effect {key!r} is not on record for the step being made: {known}")
        if entry.outcome in OPEN and not entry.busy:
            args = tuple(entry.effect.arguments)
            with _at_work(entry, idempotent=entry.idempotent):
                try:
                    await EffectCall(journal, entry, args, reconcile, as_plain_data, self._most).ask()
                except Refused:
                    if entry.outcome in OPEN:
                        raise
        return entry.outcome


@contextmanager
def _at_work(entry: Entry, *, idempotent: bool) -> Generator[None]:
    """Keep other calls away from an effect."""
    # What is said now counts: who has learnt that doing it again does harm is not to be held to an older word.
    entry.busy, entry.idempotent = True, idempotent
    try:
        yield
    finally:
        entry.busy = False
