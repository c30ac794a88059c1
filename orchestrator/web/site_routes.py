"""The paths of the API: a table, from which requests are answered and the OpenAPI document is made.

    GET   what is told of a store: read in a thread, so that one slow answer holds up no other
    POST  orders: to the program that runs on the store, or, where that needs none, into the store

An error is an object with the message that the command prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from orchestrator.control.control_server import JSON, Request, Response, answered, refusal
from orchestrator.errors import OrchestratorError, OwnedElsewhere, StoreError, UnknownHarness, UsageError
from orchestrator.web import site_orders as orders
from orchestrator.web.api_route import MOST_NAMES, Asked, Route
from orchestrator.web.ready_routes import READY_ROUTES
from orchestrator.web.record_events import follow
from orchestrator.web.record_search import search
from orchestrator.web.store_folder import StoreFolder

PREFIX = "api"


def _steps(asked: Asked) -> Any:
    limit = asked.number("limit", 50) or 50
    return asked.site.steps(asked.names["name"], before=asked.number("before"), limit=limit)


def _step(asked: Asked) -> Any:
    return asked.site.step(asked.names["name"], asked.number("step") or 0)


def _order(verb: str, asked: Asked) -> Any:
    return orders.order(asked.site, asked.names["name"], verb)


def _answer(verdict: str, asked: Asked) -> Any:
    return orders.answer(asked.site, asked.names["id"], verdict, asked.body)


def _search(asked: Asked) -> Any:
    text = asked.options.get("text", "")
    if not text.strip():
        raise UsageError("search: expected a text to find as ?text=, got none")
    return search(asked.site.reader, text, harness=asked.options.get("harness", ""), before=asked.number("before"))


_REASON = {"reason": "why; kept with it"}
_SIGNED = {"by": "who (default: the user who serves)", **_REASON}
ROUTES = (
    Route(
        "GET",
        "/stores",
        "The stores of the folder, with the runs on each.",
        lambda asked: asked.stores.stores(),
        is_of_store=False,
    ),
    Route(
        "GET",
        "/events",
        "Records as server-sent events, in order of `seq`: first what is stored, then what is recorded.",
        follow,
        {
            "after": "only records with a larger `seq`",
            "harness": "only records of this one",
            "kinds": "only records of these kinds, separated by commas",
            "behind": "how many records the client may be behind before some are left out, and named by an event `missed`",
        },
    ),
    Route("GET", "/run", "The store, its newest record, and whether a program runs on it.", lambda asked: asked.site.run()),
    Route("GET", "/needs", "What needs human action, with the orders that help.", lambda asked: asked.site.needs()),
    Route(
        "GET",
        "/fleet",
        "A row for each harness that has changed since a version.",
        lambda asked: asked.site.fleet.changed(asked.number("since", 0) or 0),
        {"since": "a `version` of an earlier answer"},
    ),
    Route(
        "GET",
        "/supervisors",
        "The supervisors, with strategy, restarts used of the limit, and the worst activity below.",
        lambda asked: asked.site.supervisors(),
    ),
    Route(
        "GET",
        "/paces",
        "Pace and last step of some harnesses.",
        lambda asked: asked.site.paces(asked.harnesses()),
        {"names": f"at most {MOST_NAMES} names, separated by commas"},
    ),
    Route("GET", "/harnesses/{name}", "What is known of one harness.", lambda asked: asked.site.harness(asked.names["name"])),
    Route(
        "GET",
        "/harnesses/{name}/history",
        "Its lifecycle events, newest first: how it came to where it is.",
        lambda asked: asked.site.history(asked.names["name"]),
    ),
    Route(
        "GET",
        "/harnesses/{name}/steps",
        "Its steps, newest first.",
        _steps,
        {"before": "only steps with smaller numbers", "limit": "at most so many (default: 50)"},
    ),
    Route("GET", "/harnesses/{name}/steps/{step}", "One step, the state after it and what changed in the state.", _step),
    Route(
        "GET",
        "/harnesses/{name}/state",
        "Its state after a step.",
        lambda asked: asked.site.state_after(asked.names["name"], asked.number("step")),
        {"step": "the number of the step; 0 is the initial state (default: the last one)"},
    ),
    Route(
        "GET",
        "/harnesses/{name}/why",
        "Why it is where it is, or how a step came about: the chain of causes.",
        lambda asked: asked.site.histories.why(asked.names["name"], asked.number("step")),
        {"step": "how this step came about"},
    ),
    Route(
        "GET",
        "/harnesses/{name}/waits",
        "What it waits for, with the time that is left.",
        lambda asked: asked.site.waits(asked.names["name"]),
    ),
    Route(
        "GET",
        "/harnesses/{name}/messages",
        "The messages to it, newest first, and which of them wait.",
        lambda asked: asked.site.messages(asked.names["name"]),
    ),
    Route(
        "GET",
        "/harnesses/{name}/transcripts",
        "What its agents and models said.",
        lambda asked: asked.site.transcripts(asked.names["name"], asked.number("step")),
        {"step": "only turns of this step"},
    ),
    Route(
        "GET", "/harnesses/{name}/output", "The newest lines of output.", lambda asked: asked.site.output(asked.names["name"])
    ),
    Route(
        "GET",
        "/harnesses/{name}/effects",
        "Its effects.",
        lambda asked: asked.site.effects(every=True, name=asked.names["name"])[-500:],
    ),
    Route(
        "GET",
        "/approvals",
        "Requests for approval that wait for an answer.",
        lambda asked: asked.site.approvals(every=asked.is_all),
        {"all": "1: also those that are answered"},
    ),
    Route(
        "GET",
        "/effects",
        "Effects of unknown outcome.",
        lambda asked: asked.site.effects(every=asked.is_all),
        {"all": "1: every effect"},
    ),
    *READY_ROUTES,
    Route(
        "GET",
        "/timeline",
        "What harnesses were doing when: spans of time.",
        lambda asked: asked.site.histories.timeline(asked.harnesses()),
        {"names": f"at most {MOST_NAMES} names, separated by commas (default: all)"},
    ),
    Route("GET", "/failures", "Failures, grouped by cause.", lambda asked: asked.site.histories.failures()),
    Route(
        "GET",
        "/search",
        "The newest records that have a text.",
        _search,
        {"text": "what to find", "harness": "only records of this one", "before": "only records with a smaller `seq`"},
    ),
    Route(
        "POST",
        "/budgets",
        "Raise or lower limits of a budget; limits that are not named stay as they are.",
        lambda asked: orders.set_budget(asked.site, asked.body),
        body={
            "pool": "its name",
            "limits": "by name; null is no limit",
            **_SIGNED,
        },
    ),
    Route("GET", "/budgets", "Limits, what is spent and what is left.", lambda asked: asked.site.budgets()),
    Route(
        "POST",
        "/orders",
        "Give an order to several harnesses; each has its own answer, and one that fails stops no other.",
        lambda asked: orders.order_all(asked.site, asked.body),
        body={
            "order": f"one of {orders.PAUSE}, {', '.join(orders.ORDERS)}",
            "harnesses": f"their names, at most {orders.MOST_ORDERED}",
            "hard": "of a pause, true: cancel the steps in progress",
        },
    ),
    Route(
        "POST",
        "/harnesses/{name}/pause",
        "Hold it at its next step boundary.",
        lambda asked: orders.pause(asked.site, asked.names["name"], asked.body),
        body={"hard": "true: cancel the step in progress; it is made again when the harness goes on"},
    ),
    *(
        Route(
            "POST",
            f"/harnesses/{{name}}/{verb}",
            summary,
            partial(_order, verb),
        )
        for verb, summary in orders.ORDERS.items()
    ),
    Route(
        "POST",
        "/harnesses/{name}/limits",
        "Set its time limits while it runs, and tell those in force; those that are not named stay as they are.",
        lambda asked: orders.set_limits_of(asked.site, asked.names["name"], asked.body),
        body={
            "limits": "seconds by name, step_timeout_s, deadline_s or period_s; null is no limit",
            **_SIGNED,
        },
    ),
    Route(
        "POST",
        "/harnesses/{name}/send",
        "Put a message into its mailbox.",
        lambda asked: orders.send(asked.site, asked.names["name"], asked.body),
        body={"message": "any JSON value"},
    ),
    Route(
        "POST",
        "/harnesses/{name}/ask",
        "Ask it, and wait for its reply.",
        lambda asked: orders.ask(asked.site, asked.names["name"], asked.body),
        body={"message": "any JSON value", "timeout_s": "seconds to wait (default: 30)"},
    ),
    Route(
        "POST",
        "/harnesses/{name}/fork",
        "Make a new harness from it, up to a step.",
        lambda asked: orders.make_fork(asked.site, asked.names["name"], asked.body),
        body={
            "step": "the last step that the new one has",
            "as": "its name",
            "model": "another model for its agents",
        },
    ),
    *(
        Route(
            "POST",
            f"/approvals/{{id}}/{verb}",
            summary,
            partial(_answer, verdict),
            body=_SIGNED,
        )
        for verb, (verdict, summary) in orders.ANSWERS.items()
    ),
    Route(
        "POST",
        "/effects/settle",
        "Record the outcome of an effect of unknown outcome.",
        lambda asked: orders.settle_effect(asked.site, asked.body),
        body={
            "harness": "its name",
            "key": "of the effect",
            "as": "done or not-done",
            "result": "what it returned, if it is done: any JSON value",
            "reason": "how you know",
        },
    ),
    Route(
        "POST",
        "/kill-switch",
        "Stop all effects, or let them begin again.",
        lambda asked: orders.turn_switch(asked.site, asked.body),
        body={
            "on": "true or false",
            "harness": "only this one (default: all)",
            **_SIGNED,
        },
    ),
)


def find(method: str, parts: tuple[str, ...]) -> tuple[Route, dict[str, str]] | Response:
    """Return the route of a request with the named parts of its path, or the answer that there is none."""
    allowed: list[str] = []
    for route in ROUTES:
        names = route.match(parts)
        if names is not None and route.method == method:
            return route, names
        if names is not None:
            allowed.append(route.method)
    path = "/".join(parts)
    if allowed:
        return refusal(405, f"{method} is not allowed on /{path}: expected {allowed[0]}", Allow=", ".join(allowed))
    return refusal(404, f"/{path} does not exist: expected a path of /{PREFIX}/openapi.json")


def respond_to(stores: StoreFolder, request: Request, route: Route, names: Mapping[str, str]) -> Response:
    """Return the answer to a request; called in a thread."""

    def answer() -> Any:
        body = msgspec.json.decode(request.body, type=dict[str, Any]) if request.body else {}
        route.check(request.options, body)
        asked = Asked(stores, names, request.options, body, request.headers)
        if wanted := [name for name in (names.get("name"), request.options.get("harness")) if name]:
            asked.site.check_known(wanted)
        return route.answer(asked)

    return answer_to(answer)


def answer_to(answer: Callable[[], Any]) -> Response:
    """Return a value as a response, and an error as one that says what the command says."""
    try:
        value = answer()
    except msgspec.MsgspecError as error:
        return refusal(400, f"the body is not valid: expected a JSON object: {error}; correct it")
    except UnknownHarness as error:
        return refusal(404, str(error))
    except OwnedElsewhere as error:
        return refusal(409, str(error))
    except UsageError as error:
        return refusal(400, str(error))
    except (StoreError, OrchestratorError) as error:
        return refusal(503, str(error))
    if isinstance(value, Response):
        return value
    return Response(200, value, JSON) if isinstance(value, bytes) else answered(200, value)
