"""Orders of an operator: to the program that runs on the store, or into the store where no program is needed."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import msgspec

from harnesses.data.record_size import MAX_RECORD_BYTES
from harnesses.errors import near, one_of
from harnesses.messages.requests import ASK_TIMEOUT_S
from orchestrator.codec import encode
from orchestrator.control.control_client import LIMITS, question
from orchestrator.control.control_client import order as give_order
from orchestrator.control.control_server import Response, answered, refusal
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.history.forking import fork
from orchestrator.history.past_reader import find_harness
from orchestrator.operating.approval_answers import asker_to_reopen, respond
from orchestrator.operating.effect_outcomes import AS, settle
from orchestrator.operating.kill_switch_orders import switch_fields, turn
from orchestrator.operating.operator_messages import post
from orchestrator.operating.pool_accounts import set_limits
from orchestrator.operating.store_writing import user_name
from orchestrator.text.command_hints import run_command
from orchestrator.web.site import Site

ORDERS: Mapping[str, str] = {
    "resume": "Let it continue.",
    "stop": "Stop it at its next step boundary.",
    "start": "Start it again, if it has ended.",
    "restart": "Stop it and start it again.",
}
ANSWERS: Mapping[str, tuple[str, str]] = {
    "approve": ("approved", "Approve exactly the action that was asked for."),
    "deny": ("denied", "Deny the action."),
    "reopen": ("reopened", "Have a denied or expired request asked again."),
}
"""Verbs, each with the verdict that is recorded."""
PAUSE = "pause"
MOST_ORDERED = 40
"""Harnesses that one request may give an order to: at most 6 s each, so many at a time, within the time of an answer."""
_AT_ONCE = 10
MOST_S = 600.0
"""Limit on the seconds that a question waits for its reply."""
_NOT_RUNNING = "no program runs {name!r}, so it did not get the order to {verb}: expected one; start it with `{how}`"


def order(site: Site, name: str, verb: str, options: str = "", body: bytes = b"") -> Response:
    """Give an order to the program that runs a harness, and return what it says.

    Raises:
        UnknownHarness: there is none of that name.
        UsageError: programs run on the store, and none of them answers.
    """
    find_harness(site.reader, name)
    reply = give_order(site.path, name, verb, options, body, by=user_name())
    if reply is None or reply.status == 404:
        return refusal(
            409,
            _NOT_RUNNING.format(name=name, verb="set limits" if verb == LIMITS else verb, how=run_command(site.path)),
        )
    return answered(reply.status, reply.fields)


def order_all(site: Site, body: Mapping[str, Any]) -> dict[str, Any]:
    """Give an order to some harnesses at once, and return the answer of each, in their order; one that fails stops no other.

    Raises:
        UsageError: the body is not as expected.
    """
    verb, names = _text(body, "order"), cast(object, body.get("harnesses"))
    if verb not in (*ORDERS, PAUSE):
        raise UsageError(f"order: {one_of((PAUSE, *ORDERS), '')}, got {verb!r:.100}{near(verb, (PAUSE, *ORDERS))}")
    if not isinstance(names, list) or not 0 < len(cast(list[object], names)) <= MOST_ORDERED:
        raise UsageError(f"harnesses: expected a list of 1 to {MOST_ORDERED} names, got {names!r:.100}")
    if "hard" in body and verb != PAUSE:
        raise UsageError(f"hard: expected only with the order pause, got it with {verb!r}; remove it")
    options = "?hard=1" if _flag(body, "hard") else ""
    wanted = [str(name) for name in dict.fromkeys(cast(list[object], names))]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = [*pool.map(partial(_answer_of, site, verb, options), wanted)]
    return {"order": verb, "failed": sum("error" in one for one in answers), "answers": answers}


def _answer_of(site: Site, verb: str, options: str, name: str) -> dict[str, Any]:
    try:
        response = order(site, name, verb, options)
    except OrchestratorError as error:
        return {"harness": name, "error": str(error)}
    return {"harness": name, **msgspec.json.decode(response.body, type=dict[str, Any])}


def pause(site: Site, name: str, body: Mapping[str, Any]) -> Response:
    """Pause a harness; `hard` cancels the step in progress, which is made again when it goes on."""
    return order(site, name, PAUSE, "?hard=1" if _flag(body, "hard") else "")


def set_limits_of(site: Site, name: str, body: Mapping[str, Any]) -> Response:
    """Set time limits of a harness that runs, and return those in force; without limits only return them.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: the body is not as expected, or no program answers.
    """
    limits = body.get("limits", {})
    if not isinstance(limits, dict):
        raise UsageError(f"limits: expected an object of limits, got {limits!r:.100}")
    said: dict[str, Any] = {"limits": limits, "by": _text(body, "by") or user_name(), "reason": _text(body, "reason")}
    return order(site, name, LIMITS, body=encode(said).encode())


def ask(site: Site, name: str, body: Mapping[str, Any]) -> dict[str, Any] | Response:
    """Ask a harness that runs, and return its reply.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: there is no message, or no program answers.
    """
    timeout_s = body.get("timeout_s", ASK_TIMEOUT_S)
    if "message" not in body or not isinstance(timeout_s, int | float) or not 0 < timeout_s <= MOST_S:
        raise UsageError(f"ask: expected a field `message`, and timeout_s up to {MOST_S:g}, got {timeout_s!r:.100}")
    find_harness(site.reader, name)
    reply = question(site.path, name, f"ask?timeout_s={timeout_s}", encode(body["message"]), timeout_s, by=user_name())
    if reply is None or reply.status == 404:
        return refusal(409, _NOT_RUNNING.format(name=name, verb="answer", how=run_command(site.path)))
    return answered(reply.status, reply.fields)


def make_fork(site: Site, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Make a new harness from another one, up to a step.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it has no such step, or the new name is taken or cannot be one.
    """
    step, to = body.get("step"), _text(body, "as")
    if type(step) is not int or step < 0 or not to:
        raise UsageError(f"fork: expected `step`, a whole number, and `as`, a name, got {step!r:.100} and {to!r:.100}")
    made = fork(str(site.path), name, step, to=to, model=_text(body, "model"))
    return {"harness": made.name, "origin": made.origin, "step_number": made.step, "seq": made.seq}


def set_budget(site: Site, body: Mapping[str, Any]) -> dict[str, Any]:
    """Set limits of a budget.

    Raises:
        UsageError: there is no such budget, or no such limit.
    """
    limits = body.get("limits")
    if not isinstance(limits, dict):
        raise UsageError(f"budget: expected an object of limits, got {limits!r:.100}")
    named = {str(name): limit for name, limit in cast(dict[object, object], limits).items()}
    pool, by, reason = (_text(body, field) for field in ("pool", "by", "reason"))
    return set_limits(str(site.path), pool, named, by=by or None, reason=reason).fields


def answer(site: Site, id: str, verdict: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Record an answer to a request for approval.

    Raises:
        UsageError: there is no such request, or it cannot be answered so any more.
    """
    if verdict == "reopened":
        asker_to_reopen(str(site.path), id)
    changed = respond(str(site.path), id, verdict, by=_text(body, "by") or None, reason=_text(body, "reason"))
    return {"id": id, "verdict": verdict, "changed": changed}


def settle_effect(site: Site, body: Mapping[str, Any]) -> dict[str, Any]:
    """Record the outcome of an effect.

    Raises:
        UsageError: there is no such effect, or nothing to settle.
        OwnedElsewhere: a living process runs its harness.
    """
    name, key, said = (_text(body, field) for field in ("harness", "key", "as"))
    if said not in AS:
        raise UsageError(f"as: expected {' or '.join(AS)}, got {said!r:.100}")
    find_harness(site.reader, name)
    result = encode(body["result"]) if body.get("result") is not None else None
    changed = settle(str(site.path), name, key, said, reason=_text(body, "reason"), result=result)
    return {"harness": name, "key": key, "outcome": AS[said].value, "changed": changed}


def send(site: Site, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Put a message into the mailbox of a harness.

    Raises:
        UnknownHarness: there is no such harness.
        UsageError: it does not accept such a message, or there is none.
    """
    if "message" not in body or len(encode(body["message"])) > MAX_RECORD_BYTES:
        raise UsageError(f"send: expected a field `message` of at most {MAX_RECORD_BYTES:,} bytes; correct the body")
    find_harness(site.reader, name)
    return post(str(site.path), name, body["message"]).fields


def turn_switch(site: Site, body: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a kill switch on or off.

    Raises:
        UsageError: the body does not say so, or it cannot be done.
    """
    if not isinstance(body.get("on"), bool):
        raise UsageError(f"kill-switch: expected a field `on`, true or false, got {body.get('on')!r:.100}")
    name, by, reason = (_text(body, field) for field in ("harness", "by", "reason"))
    return switch_fields(turn(str(site.path), name or None, on=body["on"], reason=reason, by=by or None))


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise UsageError(f"{name}: expected true or false, got {value!r:.100}")
    return value


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise UsageError(f"{name}: expected text, got {value!r:.100}")
    return value
