"""`once`: runs an effect, an act on the world that must not happen twice.

Invariant: the intent is on disk before the function is called, and the outcome afterwards, both as part of the step in
progress; those of an effect in memory, which ends with the program, are in the commit of the step. A finished effect never
runs again; one of unknown outcome is never retried blindly.

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

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, NamedTuple

import trio

from harnesses.data.large_values import ReadFile, StoredText, cannot_read
from harnesses.data.record_size import CEILING_BYTES, check_size
from harnesses.effects.approval import Action
from harnesses.effects.charged_intent import ChargedJournal, IntentCharge
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
from harnesses.effects.effect_scopes import scope_of
from harnesses.errors import HarnessMisuse, Refused, UnknownOutcome, one_of
from harnesses.timing.clock import now_us

_TRY_AGAIN = "the attempt has failed with this: the next one tries again"
MAX_EFFECTS = 100_000
"""Effects of one step; all are held in memory until the step is recorded, and after a resume."""


class Effects:
    """The effects of the step in progress. It outlives attempts.

    Args:
        most: size limit of the arguments or the result of one effect, in bytes.
    """

    __slots__ = ("_calls", "_entries", "_live", "_most", "_recording", "closed", "given_up", "late", "noted")

    def __init__(self, most: int = CEILING_BYTES) -> None:
        self._most = most
        self._entries: dict[str, Entry] = {}
        self._calls: dict[str, int] | None = None
        """Calls of each agent within the step in progress."""
        self._live: dict[str, int] | None = None
        """Scopes of the agent calls that are running: prefixes of the keys of their effects."""
        self.given_up: set[str] | None = None
        """Keys of the failures with which agent calls of this attempt have ended; see `AgentRun.give_up`."""
        self.late: list[tuple[Journal, str, str]] | None = None
        """Notes to be made when the step is recorded: a journal, and the kind and body of a record."""
        self.noted: list[Noted] = []
        """Records of effects in memory, which are committed with the step in progress."""
        self.closed = False
        """Whether the step is being recorded: an effect that begins now belongs to the next step."""
        self._recording: trio.Event | None = None

    def give_up(self, key: str) -> None:
        """Note that an agent call has ended with the failure under this key."""
        self.given_up = self.given_up or set()
        self.given_up.add(key)

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

    def beside(self, scope: str, key: str) -> dict[str, Effect | None]:
        """Return the effects of one key in other calls of an agent in the step in progress, by their scopes.

        Calls that were given a key of their own are left out, and so is everything if `scope` is of such a call.

        Returns:
            None for a call that is running and has no such effect.
        """
        stem, sign, number = scope.rstrip("/").rpartition("#")
        if not sign or not number.isdecimal():
            return {}
        known = [name.removesuffix(key) for name in self._entries if name.endswith(f"/{key}")]
        numbered = re.compile(re.escape(f"{stem}#") + r"\d+/")
        scopes = dict.fromkeys(
            other for other in (*(self._live or ()), *known) if other != scope and numbered.fullmatch(other)
        )
        return {other: self.recorded(f"{other}{key}") for other in scopes}

    def is_running(self, scope: str) -> bool:
        """Return whether an agent call of this scope is running."""
        return scope in (self._live or ())

    def begin_call(self, agent: str, key: str) -> str:
        """Note that an agent call has begun; return its scope, the prefix of the keys of its effects.

        Args:
            key: identity of the call within the step. Without one the calls of an agent are numbered within the step, anew in
                each attempt; numbers of calls that are still running are not used again.
        """
        calls = self._calls = {} if self._calls is None else self._calls
        live = self._live = {} if self._live is None else self._live
        scope = scope_of(agent, key) if key else ""
        while not scope or (not key and scope in live):
            number = calls[agent] = calls.get(agent, 0) + 1
            scope = scope_of(agent, number)
        live[scope] = live.get(scope, 0) + 1
        return scope

    def end_call(self, scope: str) -> None:
        """Note that an agent call has ended."""
        live = self._live or {}
        live[scope] = live.get(scope, 1) - 1
        if not live[scope]:
            del live[scope]

    @property
    def has_calls(self) -> bool:
        """Whether an agent call is running."""
        return bool(self._live)

    def _is_live(self, key: str) -> bool:
        """Whether an effect belongs to an agent call that is running: it may go on while steps are recorded."""
        return key.startswith(tuple(self._live or ()))

    def close(self) -> None:
        """Close the step's effects before it is recorded.

        Raises:
            HarnessMisuse: an effect is in progress, other than those of an agent that is called in the background.
            UnknownOutcome: the outcome of an effect is unknown.
        """
        for entry in self._entries.values():
            if entry.busy and self._is_live(entry.key):
                continue
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
        """End the recording of the step; if it was recorded, its effects are forgotten, except those of running agents."""
        self.closed = False
        if recorded:
            self._calls = None
            self.given_up = None
            self.noted.clear()
            if not self._live:
                self._entries.clear()
            elif self._entries:
                self._carry()
        if self.late:
            for journal, kind, body in self.late:
                journal.note_soon(kind, body)
            self.late = None
        if self._recording is not None:
            self._recording.set()
            self._recording = None

    def _carry(self) -> None:
        """Keep the effects of running agent calls; one in progress is begun in the next step as well, where it will end."""
        self._entries = {key: entry for key, entry in self._entries.items() if self._is_live(key)}
        for entry in self._entries.values():
            # Its outcome may be known already, and wait to be noted.
            if entry.journal is not None and entry.outcome is not EffectOutcome.NOT_DONE:
                entry.journal.note_soon("intent", entry.intent_text())

    def fail_attempt(self, journal: Journal) -> None:
        """Note that the attempt has failed: failures with which its agent calls have ended are not raised again."""
        for entry in map(self._entries.get, sorted(self.given_up or ())):
            if entry is not None and entry.outcome is EffectOutcome.CONFIRMED:
                journal.note_soon("outcome", entry.concluded(EffectOutcome.NOT_DONE, _TRY_AGAIN))

    def end_attempt(self) -> None:
        """Clear the in-progress marks: the attempt is over."""
        self.end_recording(recorded=False)
        self.given_up = None
        self.noted.clear()
        self._calls = None
        self._live = None
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
        in_memory: bool = False,
        of_agent: bool = False,
        verbatim: Sequence[str] = (),
        charge: IntentCharge | None = None,
    ) -> Any:
        """Run an effect unless it is done; see `BaseHarness.once`.

        Args:
            of_agent: whether an agent asks for it. Its result is then stored, and returned, without secrets; and the function
                of an idempotent effect is called without waiting until the intent is stored.
            verbatim: parts of such a result that are stored as they are; see `AgentRun.once`.
            charge: charged in the commit of the intent, if none is on record.
        """
        check_key(key)
        check_timeout(key, timeout_s)
        check_errors(key, errors)
        check_function(key, function)
        decode = result_decoder(function)
        arguments = arguments_of(key, args)
        check_size(f"effect {key!r}: its arguments", arguments, self._most)
        await self.wait_recorded()
        known = self._entries.get(key)
        entry = known or Entry(key, arguments)
        keeps = errors == "keep"
        flags = {"idempotent": idempotent, "keep": keeps and not dangerous}
        if charge is not None and known is None:
            journal = ChargedJournal(journal, charge)
        journal = self._journal_of(entry, journal, in_memory=in_memory)
        call = EffectCall(journal, entry, args, reconcile, decode, self._most, keeps, of_agent, verbatim)
        waits = not (idempotent and of_agent) or (charge is not None and charge.is_limited)
        if known is not None:
            entry.check_same(arguments, args)
            with _at_work(entry, journal, **flags):
                done = await call.resume()
            if done:
                await trio.lowlevel.checkpoint()
                return decode(key, entry.result_text)
        journal.check_latch()
        if known is None:
            if len(self._entries) >= MAX_EFFECTS:
                raise HarnessMisuse(f"once: expected at most {MAX_EFFECTS:,} effects in one step; yield in between")
            self._entries[key] = entry
        with _at_work(entry, journal, **flags):
            timeout_s = inf if timeout_s is None else timeout_s
            return await call.act(function, approval, timeout_s, is_new=known is None, waits=waits)

    def _journal_of(self, entry: Entry, journal: Journal, *, in_memory: bool) -> Journal:
        """Return the journal of an effect."""
        if in_memory:
            journal = _StepJournal(journal, self.noted)
        elif entry.in_memory:
            # The order of an effect's records is what tells its outcome.
            for one in self.noted:
                journal.note_soon(one.kind, one.body)
            self.noted.clear()
        entry.in_memory = in_memory
        return _BackgroundJournal(journal, self) if self._is_live(entry.key) else journal

    async def wait_recorded(self) -> None:
        """Wait while the step is being recorded."""
        while self.closed:
            if self._recording is None:
                self._recording = trio.Event()
            await self._recording.wait()

    async def settle(self, journal: Journal, key: str, reconcile: Reconcile) -> EffectOutcome:
        """Find out the outcome of an effect without running it; see `BaseHarness.settle`."""
        entry = self._entries.get(key)
        if entry is None:
            known = one_of(self._entries, "none was begun; call `once` first")
            raise HarnessMisuse(f"effect {key!r} is not on record for the step being made: {known}")
        if entry.outcome in OPEN and not entry.busy:
            args = tuple(entry.effect.arguments)
            if entry.in_memory:
                journal = _StepJournal(journal, self.noted)
            with _at_work(entry, journal, idempotent=entry.idempotent, keep=entry.keep):
                try:
                    await EffectCall(journal, entry, args, reconcile, as_plain_data, self._most).ask()
                except Refused:
                    if entry.outcome in OPEN:
                        raise
        return entry.outcome


@contextmanager
def _at_work(entry: Entry, journal: Journal, *, idempotent: bool, keep: bool) -> Generator[None]:
    """Mark an effect as in progress, so that other calls are refused."""
    # The latest flags count: a caller may have learnt that repeating does harm.
    entry.busy, entry.journal, entry.idempotent, entry.keep = True, journal, idempotent, keep
    try:
        yield
    finally:
        entry.busy, entry.journal = False, None


class Noted(NamedTuple):
    """A record of an effect that is committed with the step in progress."""

    kind: str
    body: str
    time_us: int


class _StepJournal:
    """The journal of an effect in memory: what is noted is committed with the step."""

    def __init__(self, journal: Journal, noted: list[Noted]) -> None:
        self._noted = noted
        self.redact, self.approve, self.check_latch = journal.redact, journal.approve, journal.check_latch

    async def note(self, kind: str, body: str) -> None:
        self.note_soon(kind, body)

    def note_soon(self, kind: str, body: str) -> None:
        self._noted.append(Noted(kind, body, now_us()))


class _BackgroundJournal:
    """The journal of an agent call that may go on while steps are recorded: what is noted meanwhile is of the next step."""

    def __init__(self, journal: Journal, effects: Effects) -> None:
        self._journal = journal
        self._effects = effects
        self.redact, self.approve, self.check_latch = journal.redact, journal.approve, journal.check_latch

    async def note(self, kind: str, body: str) -> StoredText | None:
        if self._effects.closed:
            with trio.CancelScope(shield=True):
                await self._effects.wait_recorded()
        return await self._journal.note(kind, body)

    def note_soon(self, kind: str, body: str) -> None:
        if self._effects.closed:
            self._effects.late = [*(self._effects.late or ()), (self._journal, kind, body)]
        else:
            self._journal.note_soon(kind, body)
