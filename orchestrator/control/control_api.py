"""The control API: a table of paths, and the operations behind them.

    GET  /metrics                     metrics in Prometheus text format
    GET  /status                      the same as `orchestrator status --json`
    GET  /lives?since=VERSIONS        what its harnesses are doing, as far as that has changed; see `LiveBoard`
    POST /harnesses/NAME/pause        pause it at its next step boundary; `?hard=1` cancels the step in progress, and makes
                                      it again when the harness is resumed
    POST /harnesses/NAME/resume       let it continue
    POST /harnesses/NAME/stop         stop it; `?grace_s=2` sets its grace period
    POST /harnesses/NAME/start        start it again, if it has ended
    POST /harnesses/NAME/restart      stop it first if it is running; `?grace_s=2` as above
    POST /harnesses/NAME/limits       {"limits": {"step_timeout_s": 30}, "by": "ann", "reason": ""} in the body:
                                      `handle.set_time_limits`; without limits it tells those in force
    POST /harnesses/NAME/ask?timeout_s=30    the message as JSON in the body: `handle.ask`
    POST /harnesses/NAME/query        {"query": "position", "args": []} in the body: `handle.query`
    POST /harnesses/NAME/check        a message as JSON in the body: `handle.check`, used by `orchestrator send`

An order takes effect at once; repeating it changes nothing. The response is sent when the order is on disk or carried out,
or earlier, saying so, if that takes longer than a moment. The response to a question is {"reply": …}, null for `check`. An
error that a question raises goes into the response and never reaches the run. Errors are JSON with the message that the
command prints.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import trio
from attrs import Factory, field, frozen

from harnesses.errors import AskTimeout, HarnessError, HarnessMisuse, MailboxFull, near, one_of
from harnesses.messages.requests import ASK_TIMEOUT_S, check_timeout
from orchestrator.child_spec import check_name, check_seconds
from orchestrator.codec import decode, encode
from orchestrator.control.control_client import LIMITS
from orchestrator.control.control_server import JSON, JSON_LINES, Request, Response, answered, check_known, flag, refusal
from orchestrator.control.live_board import AT_ONCE, LiveBoard
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.handle import Handle, Order
from orchestrator.lifecycle import Status
from orchestrator.runtime.activity import Live
from orchestrator.runtime.child import Child
from orchestrator.status_lines import Lives, StatusBoard
from orchestrator.store.store_capabilities import Roster
from orchestrator.telemetry.metric_export import CONTENT_TYPE
from orchestrator.telemetry.telemetry_meter import aside
from orchestrator.text.command_hints import command

_WAIT_S = 5.0
"""Seconds that a response waits for an order to be carried out."""
_SETTLE_S = 0.3
"""Further seconds that a response waits after a start, since the harness may fail again at once."""
VERBS = ("pause", "resume", "stop", "start", "restart")
_GRACE = ("grace_s",)
_OPTIONS = {"stop": _GRACE, "restart": _GRACE, "pause": ("hard",), "ask": ("timeout_s",), "lives": ("since",)}
"""Query parameters by the last part of the path; the others have none."""


@frozen
class Api:
    """Handles requests to a running program.

    Args:
        store: read by `/status`; None if only metrics are served.
        handles: returns handles on the program's current harnesses.
        metrics: renders the metrics.
        restart: restarts a harness; see `Orchestrator.restart`. None if only metrics are served.
    """

    store: Roster | None
    handles: Callable[[], Sequence[Handle]]
    metrics: Callable[[], Awaitable[bytes]]
    restart: Callable[[str, float | None], Order[Handle]] | None = None
    children: Callable[[], Sequence[Child]] = tuple
    """Returns the harnesses themselves, for `/status`."""
    can_start: Callable[[str], bool] = lambda name: False
    """Returns whether `restart` starts a harness that was not started here."""
    threads: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(1))
    _live_board: LiveBoard = field(init=False, factory=LiveBoard)
    _board: StatusBoard | None = field(init=False, default=Factory(lambda self: self.store and StatusBoard(self.store), True))

    async def answer(self, request: Request) -> Response:
        """Return the response to a request."""
        try:
            check_known("/".join(("", *request.parts)), "option", request.options, _OPTIONS.get(request.parts[-1], ()))
        except UsageError as error:
            return refusal(400, str(error))
        match request.parts:
            case ("metrics",):
                return await self._read(request, self._metrics)
            case ("status",) if self.store is not None:
                return await self._read(request, self._status)
            case ("lives",) if self.store is not None:
                return await self._read(request, partial(self._changed_lives, request.options.get("since", "")))
            case ("harnesses", name, verb) if self.store is not None and verb in (*VERBS, LIMITS, *QUESTIONS):
                if request.method != "POST":
                    return refusal(405, f"{request.method} cannot {verb}: expected POST", Allow="POST")
                if verb == LIMITS:
                    return await self._limits(name, request)
                if verb in QUESTIONS:
                    return await self._question(name, verb, request)
                return await self._order(name, verb, request)
            case _:
                known = (
                    "/metrics"
                    if self.store is None
                    else f"/metrics, /status, /lives or /harnesses/NAME/{'|'.join((*VERBS, LIMITS, *QUESTIONS))}"
                )
                return refusal(404, f"/{'/'.join(request.parts)} does not exist: expected {known}")

    async def _read(self, request: Request, read: Callable[[], Awaitable[Response]]) -> Response:
        if request.method not in ("GET", "HEAD"):
            return refusal(405, f"{request.method} is not allowed on a read-only path: expected GET", Allow="GET, HEAD")
        return await read()

    async def _metrics(self) -> Response:
        try:
            return Response(200, await self.metrics(), CONTENT_TYPE)
        except UsageError as error:
            return refusal(501, str(error))

    async def _status(self) -> Response:
        board = self._board
        assert board is not None
        lives = await self._lives()
        # The limiter lets in one thread at a time, as the board requires.
        text = await aside(lambda: board.text(lives), self.threads)
        return Response(200, text, JSON_LINES)

    async def _changed_lives(self, since: str) -> Response:
        return Response(200, await self._live_board.changed(self.children(), since), JSON)

    async def _lives(self) -> Lives:
        """Return what the harnesses are doing; others take their turns meanwhile."""
        lives: dict[str, tuple[Live, int]] = {}
        children = self.children()
        for first in range(0, len(children), AT_ONCE):
            now = trio.current_time()
            for child in children[first : first + AT_ONCE]:
                if (live := child.doing_at(now)) is not None:
                    lives[child.name] = (live, child.record.step)
            await trio.lowlevel.checkpoint()
        return lives

    async def _order(self, name: str, verb: str, request: Request) -> Response:
        try:
            check_name(name)
            is_hard = flag(request.options, "hard")
            grace_s = 0.0 if is_hard else _grace_of(request)
        except UsageError as error:
            return refusal(400, str(error))
        handle, is_start = self._find(name), verb in ("start", "restart")
        if is_start and self.restart is not None and (handle is not None or self.can_start(name)):
            return await self._start(name, handle, verb, grace_s, self.restart)
        if handle is None:
            return self._refuse_unknown(name)
        if handle.outcome is not None and verb != "stop":
            hint = command(self._location, "start", name)
            return refusal(
                409, f"harness {name!r} has ended ({handle.status.value}): expected one that runs; `{hint}` runs it"
            )
        done, was_stopping = False, handle.is_stopping
        with trio.move_on_after(_WAIT_S):
            await _give_order(handle, verb, grace_s)
            if is_hard and self.restart is not None:
                # The next attempt begins paused.
                handle = await self.restart(name, grace_s)
            done = True
        changed = {"changed": not was_stopping} if verb == "stop" else {}
        return answered(200 if done else 202, {**_fields(handle), **changed, "done": done})

    async def _limits(self, name: str, request: Request) -> Response:
        """Set time limits of a harness, and return those in force."""
        handle = self._find(name)
        if handle is None:
            return self._refuse_unknown(name)
        is_changed, done = False, False
        try:
            wanted = msgspec.json.decode(request.body or b"{}", type=_Limits)
            if wanted.limits:
                order = handle.set_time_limits(wanted.limits, by=wanted.by, reason=wanted.reason)
                with trio.move_on_after(_WAIT_S):
                    is_changed, done = await order, True
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return refusal(400, f"limits: the body is not valid: expected JSON: {error}; correct it")
        except UsageError as error:
            return refusal(400, str(error))
        limits = {"limits": handle.time_limits, "changed": is_changed or (not done and bool(wanted.limits))}
        return answered(200, {**_fields(handle), **limits, "done": done or not wanted.limits})

    async def _question(self, name: str, verb: str, request: Request) -> Response:
        handle = self._find(name)
        return self._refuse_unknown(name) if handle is None else await answer_question(handle, verb, request)

    def _find(self, name: str) -> Handle | None:
        return next((handle for handle in self.handles() if handle.name == name), None)

    def _refuse_unknown(self, name: str) -> Response:
        return refusal(
            404, f"harness {name!r:.200} is not running here: {self._names(name)}; see `{command(self._location, 'status')}`"
        )

    async def _start(
        self,
        name: str,
        handle: Handle | None,
        verb: str,
        grace_s: float | None,
        restart: Callable[[str, float | None], Order[Handle]],
    ) -> Response:
        """Start a harness again, or restart a running one, and return its new status."""
        if handle is not None and verb == "start" and handle.outcome is None and handle.status is not Status.BACKING_OFF:
            return answered(200, {**_fields(handle), "changed": False, "done": True})
        done = False
        try:
            order = restart(name, grace_s)
            with trio.move_on_after(_WAIT_S):
                handle = await order
                done = True
        except OrchestratorError as error:
            return refusal(409, str(error))
        if (handle := handle or self._find(name)) is None:
            return self._refuse_unknown(name)
        with trio.move_on_after(_SETTLE_S):
            await handle.wait()
        return answered(200 if done else 202, {**_fields(handle), "changed": True, "done": done})

    @property
    def _location(self) -> str:
        return "" if self.store is None else self.store.location

    def _names(self, wanted: str) -> str:
        names = [handle.name for handle in self.handles()]
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        return f"{one_of(names[:10], 'none was started')}{more}{near(wanted, names)}"


def _give_order(handle: Handle, verb: str, grace_s: float | None) -> Order:
    if verb == "stop":
        return handle.stop(grace_s)
    return handle.pause() if verb == "pause" else handle.resume()


def _grace_of(request: Request) -> float | None:
    """Return the requested grace period; None if there is none."""
    text = request.options.get("grace_s")
    if text is None:
        return None
    try:
        grace_s = float(text)
    except ValueError:
        raise UsageError(f"grace_s: expected a number of seconds from 0 up, was {text!r}") from None
    check_seconds(grace_s=grace_s)
    return grace_s


def _fields(handle: Handle) -> dict[str, Any]:
    return {
        "harness": handle.name,
        "status": handle.status.value,
        "attempt": handle.attempt,
        "current_step": handle.durable_step,
        "cause": "" if handle.outcome is None else handle.outcome.cause,
    }


QUESTIONS = ("ask", "query", "check")
MOST_S = 3600.0
"""Limit on the seconds that a client may wait for a reply."""
_LAST_S = 0.1
"""Seconds to wait for a reply that was sent with the last step of a harness."""


class _Limits(msgspec.Struct, forbid_unknown_fields=True):
    """The body of an order that sets time limits."""

    limits: dict[str, float | None] = {}
    by: str = ""
    reason: str = ""


class _Query(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a query."""

    query: str
    args: list[Any] = []


async def answer_question(handle: Handle, verb: str, request: Request) -> Response:
    """Return the response to a question, including errors in it."""
    try:
        if verb == "query":
            asked = msgspec.json.decode(request.body, type=_Query)
            return _reply(handle.query(asked.query, *asked.args))
        timeout_s = timeout_of(request)
        message = decode(request.body.decode())
        if verb == "check":
            handle.check(message)
            return _reply(None)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return refusal(400, f"{verb}: the body is not valid: expected JSON: {error}; correct it")
    except (OrchestratorError, HarnessMisuse) as error:
        return refusal(400, str(error))
    except Exception as error:
        return refusal(422, f"query of {handle.name!r} failed: {type(error).__name__}: {error}")
    if handle.outcome is not None:
        return _refuse_ended(handle)
    return await _ask(handle, message, timeout_s)


async def _ask(handle: Handle, message: object, timeout_s: float) -> Response:
    """Ask a harness; give up if it ends."""
    response = None
    async with trio.open_nursery() as nursery:

        async def give_up() -> None:
            nonlocal response
            await handle.wait()
            await trio.sleep(_LAST_S)
            response = _refuse_ended(handle)
            nursery.cancel_scope.cancel()

        nursery.start_soon(give_up)
        response = await _asked(handle, message, timeout_s)
        nursery.cancel_scope.cancel()
    assert response is not None
    return response


async def _asked(handle: Handle, message: object, timeout_s: float) -> Response:
    try:
        return _reply(await handle.ask(message, timeout_s=timeout_s))
    except AskTimeout as error:
        return refusal(504, str(error))
    except MailboxFull as error:
        return refusal(409, str(error))
    except (HarnessError, OrchestratorError) as error:
        return refusal(400, str(error))


def timeout_of(request: Request) -> float:
    """Return how long a client waits for a reply.

    Raises:
        HarnessMisuse: it is not a number of seconds up to `MOST_S`.
    """
    text = request.options.get("timeout_s", str(ASK_TIMEOUT_S))
    try:
        timeout_s = float(text)
    except ValueError:
        raise HarnessMisuse(f"ask: expected a number of seconds as timeout_s, was {text!r:.100}") from None
    check_timeout(timeout_s)
    if timeout_s > MOST_S:
        raise HarnessMisuse(f"ask: expected a timeout_s up to {MOST_S:g}, was {timeout_s:g}")
    return timeout_s


def wait_of(request: Request) -> float:
    """Return the extra seconds that a response may take because a harness is asked."""
    if request.parts[-1] != "ask":
        return 0.0
    with suppress(HarnessMisuse):
        return timeout_of(request)
    return 0.0


def _reply(value: object) -> Response:
    return answered(200, {"reply": decode(encode(value))})


def _refuse_ended(handle: Handle) -> Response:
    return refusal(409, f"harness {handle.name!r} has ended ({handle.status.value}): expected one that runs to answer")
