"""One call of `once` or `settle`: takes an effect from its stored status to an outcome.

A function's result is decoded to its annotated return type. The type is checked before the effect begins, so that a type that
cannot be decoded is refused while nothing has happened.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import islice
from math import inf
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import msgspec
import msgspec.inspect
import trio
from attrs import evolve, frozen

from harnesses.data.record_size import check_size
from harnesses.diagnostics.error_groups import leaves
from harnesses.effects.approval import Action
from harnesses.effects.effect import (
    KEPT,
    MAX_REASON,
    OPEN,
    WAY_OUT,
    Confirmed,
    EffectOutcome,
    Entry,
    Journal,
    NotDone,
    Reconcile,
    Undecided,
    arguments_of,
    bound_of,
    refusal_of,
    text_of,
    words_of,
)
from harnesses.effects.verbatim_parts import with_verbatim
from harnesses.errors import (
    BudgetExhausted,
    HarnessError,
    HarnessMisuse,
    Latched,
    NoRestart,
    NotReady,
    Refused,
    UnknownOutcome,
    Unstorable,
    Waiting,
)
from harnesses.redaction.redactor import redact_text

_decode = msgspec.json.Decoder().decode
_CUT_OFF = "it was cut off"
_TOO_SLOW = "it took too long"
"""What is said of an error without words, such as `trio.TooSlowError`."""
_OF_HARNESS = (Waiting, BudgetExhausted, NoRestart)
"""Errors that end or block the harness; they are not results, even with `errors="keep"`."""

Decode: TypeAlias = Callable[[str, str | None], Any]


def result_decoder(function: Callable[..., Any]) -> Decode:
    """Return a decoder for the result of a function: to its annotated return type, else to plain data."""
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    inner = getattr(inner, "__func__", inner)
    if isinstance(inner, type):
        return _typed(inner)
    if not hasattr(inner, "__qualname__"):
        inner = type(inner).__call__
    if "return" not in getattr(inner, "__annotations__", ()):
        return as_plain_data
    if getattr(inner, "__closure__", None):
        return _make_typed(inner)  # Not cached: a cache would keep the function's closure alive, and never be hit.
    try:
        return _typed(inner)
    except TypeError:
        return _make_typed(inner)


def _make_typed(function: Any) -> Decode:
    name = getattr(function, "__qualname__", repr(function))
    returns: Any = function if isinstance(function, type) else _declared(function, name)
    origin = typing.get_origin(returns)
    if origin is not None and getattr(origin, "__name__", "") in ("Awaitable", "Coroutine"):
        returns = typing.get_args(returns)[-1]
    if returns in (Any, object) or isinstance(returns, typing.TypeVar):
        return as_plain_data
    try:
        return _reading(returns)
    except TypeError as error:
        raise HarnessMisuse(
            f"effect: the return type {returns} of {name} cannot be decoded: {error}; return plain data or an attrs class"
        ) from error


def _declared(function: Any, name: str) -> Any:
    """Return the annotated return type; annotations of parameters need not be resolvable at run time."""
    said = function.__annotations__["return"]
    inner = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    alone = SimpleNamespace(__annotations__={"return": said}, __type_params__=getattr(function, "__type_params__", ()))
    try:
        return typing.get_type_hints(alone, getattr(inner, "__globals__", {}))["return"]
    except (NameError, AttributeError) as error:
        raise HarnessMisuse(
            f"effect: the return type {said!r} of {name} cannot be found: {error}; "
            "define it at the top of its module, or leave the annotation out to get plain data"
        ) from error


_typed = lru_cache(maxsize=512)(_make_typed)


@lru_cache(maxsize=512)
def _reading(returns: Any) -> Decode:
    """Return a decoder for values of a type.

    Raises:
        TypeError: the type cannot be decoded.
    """
    decoder = msgspec.json.Decoder(returns, strict=True)
    _check(msgspec.inspect.type_info(returns), set())
    return partial(_decode_as, decoder)


def _check(info: Any, seen: set[int]) -> None:
    """Find classes that msgspec accepts in a type but cannot decode by itself."""
    if isinstance(info, tuple | list):
        for part in cast(Sequence[Any], info):
            _check(part, seen)
    elif isinstance(info, msgspec.inspect.CustomType):
        raise TypeError(f"{info.cls.__module__}.{info.cls.__qualname__} is not a type that JSON can represent")
    elif isinstance(info, msgspec.inspect.Type | msgspec.inspect.Field) and id(info) not in seen:
        seen.add(id(info))
        for field in info.__struct_fields__:
            _check(getattr(info, field), seen)


def as_plain_data(key: str, text: str | None) -> Any:
    """Decode a result to plain data: numbers, text, lists and dicts."""
    return _decode(_present(key, text))


def _decode_as(decoder: Any, key: str, text: str | None) -> Any:
    try:
        return decoder.decode(_present(key, text))
    except msgspec.ValidationError as error:
        raise Waiting(
            f"effect {key!r} has happened, but its stored result does not match the return type of its function: "
            f"{error}; correct the annotation, or give the result with `orchestrator effects settle … --as done --result JSON`"
        ) from error


def _present(key: str, text: str | None) -> str:
    if text is None:
        raise Waiting(
            f"effect {key!r} has happened, but its stored result is not usable; give the result with "
            "`orchestrator effects settle … --as done --result JSON`, and correct what the function returns"
        )
    return text


@frozen(eq=False)
class EffectCall:
    """The work of one call on one effect.

    Args:
        journal: stores intents and outcomes.
        reconcile: called for the outcome if it is unknown.
        decode: decodes a stored result.
        most: size limit of the result, in bytes.
        keeps: whether an error of the function is its result.
        of_agent: whether an agent asks for it; see `Effects.once`.
        verbatim: parts of the result that are not redacted; see `AgentRun.once`.
    """

    _journal: Journal
    _entry: Entry
    _args: tuple[Any, ...]
    _reconcile: Reconcile | None
    _decode: Decode
    _most: int
    _keeps: bool = False
    _of_agent: bool = False
    _verbatim: Sequence[str] = ()

    async def resume(self) -> bool:
        """Return whether the effect is done; False if it may be done now.

        Raises:
            EffectFailed: it has failed or was cut off, and that is its result.
        """
        entry = self._entry
        if entry.is_open:
            await self.ask()
        elif entry.outcome in OPEN and not entry.idempotent:
            await self._ask_or_keep(EffectOutcome.INTERRUPTED, entry.reason or _CUT_OFF)
        if entry.outcome is EffectOutcome.REFUSED:
            raise Refused(entry.reason)
        if entry.outcome in KEPT:
            raise entry.kept_error()
        return entry.outcome is EffectOutcome.CONFIRMED

    async def act(
        self, function: Callable[..., Any], approval: Action | None, timeout_s: float, *, is_new: bool, waits: bool = True
    ) -> Any:
        """Run the effect; return its stored result.

        Args:
            waits: whether the function is called only once the intent is on disk.
        """
        entry = self._entry
        if approval is not None:
            await self._approve(approval, function, is_new=is_new)
            entry.check_unchanged(self._args)
        await self._begin(is_new=is_new, waits=waits)
        if approval is not None and arguments_of(entry.key, self._args) != entry.arguments:
            await self._note(EffectOutcome.NOT_DONE, "its arguments were changed before it began")
            entry.check_unchanged(self._args)
        return await self._call(function, timeout_s)

    async def _approve(self, action: Action, function: Callable[..., Any], *, is_new: bool) -> None:
        """Wait for human approval of the effect with exactly these arguments."""
        entry, was = self._entry, self._entry.outcome
        # Nothing is stored yet, so giving up the wait leaves no open effect.
        entry.outcome = EffectOutcome.NOT_DONE if is_new else was
        await self._journal.approve(entry.key, evolve(action, arguments=_exactly(entry, action, function)))
        entry.outcome = was
        self._journal.check_latch()

    async def _begin(self, *, is_new: bool, waits: bool) -> None:
        """Store the intent; then check again for the kill switch and for cancellation, since storing takes time."""
        # An earlier call of an idempotent effect may have happened; not starting this one does not undo that.
        unbegun = EffectOutcome.UNKNOWN if self._entry.outcome in OPEN and not is_new else EffectOutcome.NOT_DONE
        outcome, result, reason = self._entry.outcome, self._entry.result, self._entry.reason
        intent = self._entry.intent()
        if waits:
            try:
                await self._journal.note("intent", intent)
            except Latched:  # from the commit itself: the intent is not on record
                self._entry.restore(EffectOutcome.NOT_DONE if is_new else outcome, result, reason)
                raise
        else:
            # Should it be lost, the effect is run again, which does no harm.
            self._journal.note_soon("intent", intent)
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            self._journal.check_latch()
        except BaseException as error:
            await self._note(unbegun, f"{type(error).__name__} before it began")
            raise

    async def _call(self, function: Callable[..., Any], timeout_s: float) -> Any:
        """Call the function and store the outcome; return the stored result."""
        entry = self._entry
        try:
            if timeout_s == inf:
                result = await _called(function, self._args)
            else:
                with trio.fail_after(timeout_s):
                    result = await _called(function, self._args)
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is not None:
                await self._note(EffectOutcome.REFUSED, words_of(refusal))
                if refusal is error:
                    raise
                raise refusal from None
            if self._keeps:
                return await self._fail(error)
            await self._note(EffectOutcome.UNKNOWN, f"{type(error).__name__}: {words_of(error)}")
            if entry.idempotent:
                raise
            await self.ask(error)
            if entry.outcome is not EffectOutcome.CONFIRMED:
                raise
            return self._decode(entry.key, entry.result_text)
        except BaseException as error:
            reason = f"{type(error).__name__} while it was under way"
            is_result = entry.keep and not entry.idempotent and self._reconcile is None
            outcome = EffectOutcome.INTERRUPTED if is_result else EffectOutcome.UNKNOWN
            self._journal.note_soon("outcome", entry.concluded(outcome, reason))
            raise
        else:
            return await self._confirm(result)

    async def _fail(self, error: Exception) -> Any:
        """Store the error of the function as the result of the effect, and raise it; return a result that `reconcile` knows.

        An error that ends or blocks the harness is raised as it is: it is no answer to whoever asked for the effect.
        """
        reason = "; ".join(f"{type(leaf).__name__}: {words_of(leaf) or _TOO_SLOW}" for leaf in islice(leaves(error), 3))
        if any(isinstance(leaf, _OF_HARNESS) for leaf in leaves(error)):
            is_undone = all(isinstance(leaf, NotReady) for leaf in leaves(error))
            await self._note(EffectOutcome.NOT_DONE if is_undone else EffectOutcome.INTERRUPTED, reason)
            raise error
        if self._reconcile is not None:
            await self._note(EffectOutcome.UNKNOWN, reason)
        await self._ask_or_keep(EffectOutcome.FAILED, reason, error)
        if self._entry.outcome is EffectOutcome.CONFIRMED:
            return self._decode(self._entry.key, self._entry.result_text)
        if self._entry.outcome is EffectOutcome.NOT_DONE:
            await self._note(EffectOutcome.FAILED, reason)
        raise self._entry.kept_error() from error

    async def _ask_or_keep(self, outcome: EffectOutcome, reason: str, error: Exception | None = None) -> None:
        """Settle an effect through `reconcile`; without an answer of that, `outcome` is its result."""
        try:
            await self.ask(error)
        except (UnknownOutcome, Exception) as trouble:
            if isinstance(trouble, HarnessError) and not isinstance(trouble, UnknownOutcome):
                raise
            await self._note(outcome, reason)

    async def ask(self, error: Exception | None = None) -> None:
        """Settle an effect of unknown outcome through `reconcile`; on return it is confirmed or not done.

        Raises:
            Refused: the effect was certainly refused.
            UnknownOutcome: there is no `reconcile`, or it does not know.
        """
        key, was = self._entry.key, self._entry.reason or _CUT_OFF
        if self._reconcile is None:
            raise UnknownOutcome(f"effect {key!r} is of unknown outcome ({was}), and has no `reconcile`; {WAY_OUT}") from error
        try:
            answer = await _called(self._reconcile, (key, *self._args))
        except Exception as trouble:
            refusal = refusal_of(trouble)
            if refusal is None:
                raise
            await self._note(EffectOutcome.REFUSED, words_of(refusal))
            raise refusal from None
        match answer:
            case Confirmed(result):
                self._check_answer(result)
                await self._confirm(result)
            case NotDone():
                await self._note(EffectOutcome.NOT_DONE, was)
            case Undecided(reason):
                raise UnknownOutcome(f"effect {key!r} is of unknown outcome ({reason or was}); {WAY_OUT}") from error
            case _:
                raise HarnessMisuse(
                    f"effect {key!r}: `reconcile` returned {answer!r:.200}: expected Confirmed(…), NotDone() or Undecided(…)"
                )

    def _check_answer(self, result: Any) -> None:
        """Check that a result given by `reconcile` is one that the effect's function could have returned.

        Raises:
            UnknownOutcome: it is not. Nothing is stored, so another answer may settle the effect.
        """
        key, problem = self._entry.key, "the result given by `reconcile` cannot be stored"
        try:
            self._decode(key, "null" if result is None else text_of(result, problem))
        except (Unstorable, Waiting) as error:
            raise UnknownOutcome(
                f"effect {key!r} is of unknown outcome: `reconcile` returned Confirmed({result!r:.200}), which does not match "
                f"the return type of its function: {error.__cause__ or error}; correct `reconcile`"
            ) from error

    async def _confirm(self, result: Any) -> Any:
        """Record that the effect has happened, even if its result cannot be stored; return the stored result."""
        problem = f"effect {self._entry.key!r} has happened, but its result cannot be stored"
        try:
            text = "null" if result is None else text_of(result, problem)
            check_size(f"{problem}: it", text, self._most)
            if self._of_agent:
                text = with_verbatim(await self._journal.redact(text), text, self._verbatim)
            value = self._decode(self._entry.key, text)
        except (Unstorable, Waiting) as error:
            if self._keeps:
                await self._note(EffectOutcome.FAILED, str(error))
                raise self._entry.kept_error() from error
            await self._note(EffectOutcome.CONFIRMED, str(error))
            raise Waiting(str(error)) from error
        stored = await self._journal.note("outcome", self._entry.concluded(EffectOutcome.CONFIRMED, result=text))
        if stored is not None:
            self._entry.result = stored
        return value

    async def _note(self, outcome: EffectOutcome, reason: str) -> None:
        await self._journal.note("outcome", self._entry.concluded(outcome, redact_text(reason)[:MAX_REASON]))


def _exactly(entry: Entry, action: Action, function: Callable[..., Any]) -> Any:
    """Return everything that determines the effect, so that what is approved is exactly what is done."""
    arguments = _decode(entry.arguments)
    bound = bound_of(function)
    if action.arguments is None and not bound:
        return arguments
    given = {} if action.arguments is None else {"action": action.arguments}
    return {**given, "arguments": arguments, **bound}


async def _called(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    result = function(*args)
    return await result if hasattr(result, "__await__") else result
