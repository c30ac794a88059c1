"""`once`: runs an effect, an act on the world that must not happen twice.

Invariant: the intent is on disk before the function is called, and the outcome afterwards, both as part of the step in
progress. A finished effect never runs again; one of unknown outcome is never retried blindly.

    stored status              what `once` does
    none, not_done             stores the intent, calls the function, stores the outcome
    confirmed                  returns the stored result
    refused                    raises `Refused` again
    failed, interrupted        raises `EffectFailed`, `EffectInterrupted` again
    begun, unknown             calls `reconcile`: Confirmed → as above · NotDone → as if nothing were stored
                               Undecided, or no `reconcile` → `UnknownOutcome`; with `errors="keep"` → interrupted

An effect that is `begun` when an attempt resumes it was cut off by a crash, so its outcome is unknown. A result is always
decoded from its stored form, so that a resumed harness gets the same value as the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from math import inf
from typing import Any

import trio

from harnesses.data.large_values import ReadFile, cannot_read
from harnesses.data.record_size import CEILING_BYTES, check_size
from harnesses.effects.approval import Action
from harnesses.effects.effect import (
    OPEN,
    WAY_OUT,
    Effect,
    EffectOutcome,
    Entry,
    Errors,
    Journal,
    Reconcile,
    arguments_of,
    check_errors,
    check_function,
    check_key,
    check_timeout,
    entries_of,
)
from harnesses.effects.effect_call import EffectCall, as_plain_data, result_decoder
from harnesses.errors import HarnessMisuse, Refused, UnknownOutcome, one_of

MAX_EFFECTS = 100_000
"""Effects of one step; all are held in memory until the step is recorded, and after a resume."""


class Effects:
    """The effects of the step in progress. It outlives attempts.

    Args:
        most: size limit of the arguments or the result of one effect, in bytes.
    """

    __slots__ = ("_calls", "_entries", "_most", "_recording", "closed")

    def __init__(self, most: int = CEILING_BYTES) -> None:
        self._most = most
        self._entries: dict[str, Entry] = {}
        self._calls: dict[str, int] | None = None
        """Calls of each agent within the step in progress."""
        self.closed = False
        """Whether the step is being recorded: an effect that begins now belongs to the next step."""
        self._recording: trio.Event | None = None

    def restore(self, marks: Iterable[tuple[str, str]], read: ReadFile = cannot_read) -> None:
        """Restore effects from their records, oldest first: kind (`intent` or `outcome`) and body of each.

        Args:
            read: reads a large result from its file.
        """
        self._entries = entries_of(marks, read)

    def known(self) -> tuple[Effect, ...]:
        """Return the stored effects of the step in progress, in the order in which they first began."""
        return tuple(entry.effect for entry in self._entries.values())

    def recorded(self, key: str) -> Effect | None:
        """Return one stored effect of the step in progress; None if there is none with that key."""
        entry = self._entries.get(key)
        return None if entry is None else entry.effect

    def number_of_call(self, agent: str) -> int:
        """Count a call of an agent within the step in progress, anew in each attempt; return its number, from 1."""
        if self._calls is None:
            self._calls = {}
        number = self._calls[agent] = self._calls.get(agent, 0) + 1
        return number

    def close(self) -> None:
        """Close the step's effects before it is recorded.

        Raises:
            HarnessMisuse: an effect is in progress.
            UnknownOutcome: the outcome of an effect is unknown.
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
        """End the recording of the step; if it was recorded, its effects are forgotten."""
        self.closed = False
        if recorded:
            self._entries.clear()
            self._calls = None
        if self._recording is not None:
            self._recording.set()
            self._recording = None

    def end_attempt(self) -> None:
        """Clear the in-progress marks: the attempt is over."""
        self.end_recording(recorded=False)
        self._calls = None
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
        errors: Errors = "raise",
        dangerous: bool = False,
    ) -> Any:
        """Run an effect unless it is done; see `BaseHarness.once`."""
        check_key(key)
        check_timeout(key, timeout_s)
        check_errors(key, errors)
        check_function(key, function)
        decode = result_decoder(function)
        arguments = arguments_of(key, args)
        check_size(f"effect {key!r}: its arguments", arguments, self._most)
        while self.closed:
            self._recording = self._recording or trio.Event()
            await self._recording.wait()
        known = self._entries.get(key)
        entry = known or Entry(key, arguments)
        keeps = errors == "keep"
        flags = {"idempotent": idempotent, "keep": keeps and not dangerous}
        call = EffectCall(journal, entry, args, reconcile, decode, self._most, keeps)
        if known is not None:
            entry.check_same(arguments)
            with _at_work(entry, **flags):
                done = await call.resume()
            if done:
                await trio.lowlevel.checkpoint()
                return decode(key, entry.result_text)
        journal.check_latch()
        if known is None:
            if len(self._entries) >= MAX_EFFECTS:
                raise HarnessMisuse(f"once: expected at most {MAX_EFFECTS:,} effects in one step; yield in between")
            self._entries[key] = entry
        with _at_work(entry, **flags):
            return await call.act(function, approval, inf if timeout_s is None else timeout_s, is_new=known is None)

    async def settle(self, journal: Journal, key: str, reconcile: Reconcile) -> EffectOutcome:
        """Find out the outcome of an effect without running it; see `BaseHarness.settle`."""
        entry = self._entries.get(key)
        if entry is None:
            known = one_of(self._entries, "none was begun; call `once` first")
            raise HarnessMisuse(f"effect {key!r} is not on record for the step being made: {known}")
        if entry.outcome in OPEN and not entry.busy:
            args = tuple(entry.effect.arguments)
            with _at_work(entry, idempotent=entry.idempotent, keep=entry.keep):
                try:
                    await EffectCall(journal, entry, args, reconcile, as_plain_data, self._most).ask()
                except Refused:
                    if entry.outcome in OPEN:
                        raise
        return entry.outcome


@contextmanager
def _at_work(entry: Entry, *, idempotent: bool, keep: bool) -> Generator[None]:
    """Mark an effect as in progress, so that other calls are refused."""
    # The latest flags count: a caller may have learnt that repeating does harm.
    entry.busy, entry.idempotent, entry.keep = True, idempotent, keep
    try:
        yield
    finally:
        entry.busy = False
