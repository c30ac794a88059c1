"""Questions to a harness of a running program, over its control socket.

    POST /harnesses/NAME/ask?timeout_s=30    the message as JSON in the body: `handle.ask`
    POST /harnesses/NAME/query               {"query": "position", "args": []} in the body: `handle.query`
    POST /harnesses/NAME/check               a message as JSON in the body: `handle.check`, asked by `orchestrator send`

The answer is {"reply": …}, of `check` null. What a question raises is an answer; it never reaches the run.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import trio

from harnesses.errors import AskTimeout, HarnessError, HarnessMisuse, MailboxFull
from harnesses.messages.requests import ASK_TIMEOUT_S, check_timeout
from orchestrator.codec import decode, encode
from orchestrator.control.control_messages import Request, Response, answered, refusal
from orchestrator.errors import OrchestratorError
from orchestrator.handle import Handle

QUESTIONS = ("ask", "query", "check")
MOST_S = 3600.0
"""How long an asker may wait for a reply."""
_LAST_S = 0.1
"""How long a reply that went with the last step of a harness may take to get here."""


class _Query(msgspec.Struct, forbid_unknown_fields=True):
    """What is queried."""

    query: str
    args: list[Any] = []


async def answer_question(handle: Handle, verb: str, request: Request) -> Response:
    """Return the answer to a question; what is wrong with it is an answer too."""
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
        return refusal(400, f"{verb}: the body is not understood: expected JSON: {error}; correct it")
    except (OrchestratorError, HarnessMisuse) as error:
        return refusal(400, str(error))
    except Exception as error:
        return refusal(422, f"query of {handle.name!r} failed: {type(error).__name__}: {error}")
    if handle.outcome is not None:
        return _refuse_ended(handle)
    return await _ask(handle, message, timeout_s)


async def _ask(handle: Handle, message: object, timeout_s: float) -> Response:
    """Ask a harness, unless it ends."""
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
    """Return how long an asker waits.

    Raises:
        HarnessMisuse: it is no number of seconds up to `MOST_S`.
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
    """Return the seconds that an answer may take because somebody is asked."""
    if request.parts[-1] != "ask":
        return 0.0
    with suppress(HarnessMisuse):
        return timeout_of(request)
    return 0.0


def _reply(value: object) -> Response:
    return answered(200, {"reply": decode(encode(value))})


def _refuse_ended(handle: Handle) -> Response:
    return refusal(409, f"harness {handle.name!r} has ended ({handle.status.value}): expected one that runs to answer")
