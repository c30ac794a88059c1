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

from collections.abc import Callable, Iterable
from math import inf
from typing import Any

import msgspec
import trio
from attrs import evolve

from harnesses.approval import Action
from harnesses.choices import one_of
from harnesses.effects import OPEN, Confirmed, Effect, EffectOutcome, Journal, NotDone, Reconcile, Undecided
from harnesses.entries import (
    MAX_REASON,
    WAY_OUT,
    Entry,
    arguments_of,
    bound_of,
    check_function,
    check_key,
    check_same,
    check_timeout,
    check_unchanged,
    entries_of,
    intent_body,
    outcome_body,
    refusal_of,
    text_of,
    words_of,
)
from harnesses.errors import HarnessMisuse, Refused, UnknownOutcome, Unstorable, Waiting
from harnesses.record_size import CEILING_BYTES, check_size
from harnesses.returned import Decode, as_plain_data, result_decoder
from harnesses.secrets import redact_text

MAX_EFFECTS = 100_000
"""Of one step: they are all in memory until it is recorded, and again when it is resumed."""
_decode = msgspec.json.Decoder().decode


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
        return tuple(
            Effect(
                key=entry.key,
                arguments=_decode(entry.arguments),
                outcome=entry.outcome,
                result=None if entry.result is None else _decode(entry.result),
                reason=entry.reason,
                idempotent=entry.idempotent,
            )
            for entry in self._entries.values()
        )

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
        entry = self._entries.get(key)
        if entry is not None:
            check_same(entry, arguments)
            # What is said now counts: who has learnt that doing it again does harm is not to be held to an older word.
            entry.busy, entry.idempotent = True, idempotent
            try:
                done = await self._resume(journal, entry, reconcile, args, decode)
            finally:
                entry.busy = False
            if done:
                await trio.lowlevel.checkpoint()
                return decode(entry.key, entry.result)
        journal.check_latch()
        is_new = entry is None
        if entry is None:
            if len(self._entries) >= MAX_EFFECTS:
                raise HarnessMisuse(f"once: expected at most {MAX_EFFECTS:,} effects in one step; yield in between")
            entry = self._entries[key] = Entry(key, arguments)
        entry.busy, entry.idempotent = True, idempotent
        try:
            if approval is not None:
                await self._approve(journal, entry, approval, function, is_new=is_new)
                check_unchanged(entry, args)
            await self._begin(journal, entry, is_new=is_new)
            if approval is not None and arguments_of(key, args) != entry.arguments:
                await _note(journal, entry, EffectOutcome.NOT_DONE, "its arguments were changed before it began")
                check_unchanged(entry, args)
            return await self._call(journal, entry, function, args, reconcile, decode, inf if timeout_s is None else timeout_s)
        finally:
            entry.busy = False

    async def _approve(
        self, journal: Journal, entry: Entry, action: Action, function: Callable[..., Any], *, is_new: bool
    ) -> None:
        """Have a person approve the effect with these very arguments."""
        was = entry.outcome
        # Nothing of it is on record yet: whoever gives up waiting leaves nothing open.
        entry.outcome = EffectOutcome.NOT_DONE if is_new else was
        await journal.approve(entry.key, evolve(action, arguments=_exactly(entry, action, function)))
        entry.outcome = was
        journal.check_latch()

    async def settle(self, journal: Journal, key: str, reconcile: Reconcile) -> EffectOutcome:
        """Find out what became of an effect of unknown outcome, without doing it; see `BaseHarness.settle`."""
        entry = self._entries.get(key)
        if entry is None:
            known = one_of(self._entries, "none was begun; call `once` first")
            raise HarnessMisuse(f"effect {key!r} is not on record for the step being made: {known}")
        if entry.outcome in OPEN and not entry.busy:
            entry.busy = True
            try:
                await self._ask(journal, entry, reconcile, tuple(_decode(entry.arguments)), as_plain_data)
            except Refused:
                if entry.outcome in OPEN:
                    raise
            finally:
                entry.busy = False
        return entry.outcome

    async def _resume(
        self, journal: Journal, entry: Entry, reconcile: Reconcile | None, args: tuple[Any, ...], decode: Decode
    ) -> bool:
        """Return whether the effect is done; False if it may be done now."""
        if entry.is_open:
            await self._ask(journal, entry, reconcile, args, decode)
        if entry.outcome is EffectOutcome.REFUSED:
            raise Refused(entry.reason)
        return entry.outcome is EffectOutcome.CONFIRMED

    async def _begin(self, journal: Journal, entry: Entry, *, is_new: bool) -> None:
        """Write the intent down; then look at the latch again, and for a cancellation, for writing took its time."""
        # An earlier call of what may be done again may have happened: that this one did not begin does not undo it.
        unbegun = EffectOutcome.UNKNOWN if entry.outcome in OPEN and not is_new else EffectOutcome.NOT_DONE
        entry.outcome, entry.result, entry.reason = EffectOutcome.BEGUN, None, ""
        await journal.note("intent", intent_body(entry))
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            journal.check_latch()
        except BaseException as error:
            await _note(journal, entry, unbegun, f"{type(error).__name__} before it began")
            raise

    async def _call(
        self,
        journal: Journal,
        entry: Entry,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        reconcile: Reconcile | None,
        decode: Decode,
        timeout_s: float,
    ) -> Any:
        """Call the function and write the outcome down; return what is on record of the result."""
        try:
            if timeout_s == inf:
                result = await _called(function, args)
            else:
                with trio.fail_after(timeout_s):
                    result = await _called(function, args)
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is not None:
                await _note(journal, entry, EffectOutcome.REFUSED, words_of(refusal))
                if refusal is error:
                    raise
                raise refusal from None
            await _note(journal, entry, EffectOutcome.UNKNOWN, f"{type(error).__name__}: {words_of(error)}")
            if entry.idempotent:
                raise
            await self._ask(journal, entry, reconcile, args, decode, error)
            if entry.outcome is not EffectOutcome.CONFIRMED:
                raise
            return decode(entry.key, entry.result)
        except BaseException as error:
            entry.outcome, entry.reason = EffectOutcome.UNKNOWN, f"{type(error).__name__} while it was under way"
            journal.note_soon("outcome", outcome_body(entry))
            raise
        else:
            return await _confirm(journal, entry, result, decode, self._most)

    async def _ask(
        self,
        journal: Journal,
        entry: Entry,
        reconcile: Reconcile | None,
        args: tuple[Any, ...],
        decode: Decode,
        error: Exception | None = None,
    ) -> None:
        """Settle an effect of unknown outcome by asking `reconcile`; on return it is confirmed or not done.

        Raises:
            Refused: the answer is a certain no.
            UnknownOutcome: there is nobody to ask, or no answer.
        """
        was = entry.reason or "it was cut off"
        if reconcile is None:
            raise UnknownOutcome(
                f"effect {entry.key!r} is of unknown outcome ({was}), and nobody to ask; {WAY_OUT}"
            ) from error
        try:
            answer = await _called(reconcile, (entry.key, *args))
        except Exception as trouble:
            refusal = refusal_of(trouble)
            if refusal is None:
                raise
            await _note(journal, entry, EffectOutcome.REFUSED, words_of(refusal))
            raise refusal from None
        match answer:
            case Confirmed(result):
                _check_answer(entry, result, decode)
                await _confirm(journal, entry, result, decode, self._most)
            case NotDone():
                await _note(journal, entry, EffectOutcome.NOT_DONE, was)
            case Undecided(reason):
                raise UnknownOutcome(f"effect {entry.key!r} is of unknown outcome ({reason or was}); {WAY_OUT}") from error
            case _:
                raise HarnessMisuse(
                    f"effect {entry.key!r}: `reconcile` returned {answer!r:.200}: "
                    "expected Confirmed(…), NotDone() or Undecided(…)"
                )


def _exactly(entry: Entry, action: Action, function: Callable[..., Any]) -> Any:
    """Return all that the effect is done with: what a person approves, and nothing else, is what is done."""
    arguments = _decode(entry.arguments)
    bound = bound_of(function)
    if action.arguments is None and not bound:
        return arguments
    given = {} if action.arguments is None else {"action": action.arguments}
    return {**given, "arguments": arguments, **bound}


async def _called(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    result = function(*args)
    return await result if hasattr(result, "__await__") else result


def _check_answer(entry: Entry, result: Any, decode: Decode) -> None:
    """Make sure that what a `reconcile` says has come of an effect is what its function could have returned.

    Raises:
        UnknownOutcome: it is not. Nothing is written down, so that another answer may settle it.
    """
    try:
        decode(entry.key, "null" if result is None else text_of(result, "the result given by `reconcile` can not be stored"))
    except (Unstorable, Waiting) as error:
        raise UnknownOutcome(
            f"effect {entry.key!r} is of unknown outcome: `reconcile` returned Confirmed({result!r:.200}), which is not what "
            f"its function declares to return: {error.__cause__ or error}; correct `reconcile`"
        ) from error


async def _confirm(journal: Journal, entry: Entry, result: Any, decode: Decode, most: int) -> Any:
    """Write down that the effect has happened, even if what it returned is of no use; return what is on record."""
    problem = f"effect {entry.key!r} has happened, but its result can not be stored"
    try:
        entry.result = "null" if result is None else text_of(result, problem)
        check_size(f"{problem}: it", entry.result, most)
        value = decode(entry.key, entry.result)
    except (Unstorable, Waiting) as error:
        await _note(journal, entry, EffectOutcome.CONFIRMED, str(error))
        raise Waiting(str(error)) from error
    entry.outcome, entry.reason = EffectOutcome.CONFIRMED, ""
    await journal.note("outcome", outcome_body(entry))
    return value


async def _note(journal: Journal, entry: Entry, outcome: EffectOutcome, reason: str) -> None:
    entry.outcome, entry.result, entry.reason = outcome, None, redact_text(reason)[:MAX_REASON]
    await journal.note("outcome", outcome_body(entry))
